//! What an application wants to have done to the session, by headers of its answer.
//!
//! | header | value | what it does |
//! |---|---|---|
//! | `Tidegate-Set` | `cart="c9", visits=3;if=seen` | gives attributes a value |
//! | `Tidegate-Del` | `cart, draft;if=seen` | takes attributes and counters away |
//! | `Tidegate-Incr` | `views=1, credit=-5` | adds to counters |
//! | `Tidegate-Rotate` | `uid=44182;tier=gold` | signs the user in, under a fresh id |
//! | `Tidegate-Destroy` | `?1` | ends the session |
//! | `Tidegate-Signout-User` | `all`, `others` or `uid=44182` | ends all sessions of a user |
//!
//! A line that is not exactly that is void as a whole; other lines stand.

use http::{HeaderName, HeaderValue};
use tidegate_core::session::{Expect, Format, Name, Op, Uid, Value, Version, json};

use crate::session::item::{Item, Malformed, Reader};

/// What an application wants to have done, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// The session is to end; what follows begins another.
    pub(crate) destroy: bool,
    /// Sessions of a user are to end.
    pub(crate) sign_out: Option<SignOut>,
    /// A user has signed in.
    pub(crate) rotate: Option<Rotate>,
    /// Changes, made together or not at all. No name is in it twice.
    pub(crate) changes: Vec<Change>,
    /// Lines that are void.
    pub(crate) malformed: u64,
}

/// Whose sessions are to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignOut {
    /// Those of this session's user, this one included.
    All,
    /// Those of this session's user but this one.
    Others,
    /// Those of somebody.
    User(Uid),
}

/// Who has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rotate {
    pub(crate) uid: Uid,
    pub(crate) tier: Option<Name>,
}

/// A change of an attribute or counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) op: Op,
    /// Whether it holds only if the attribute still is what the application was told. `op` expects
    /// nothing then.
    pub(crate) if_seen: bool,
}

/// Most changes of one answer.
pub(crate) const CHANGES_MAX: usize = 64;

/// Longest name of a tier.
const TIER_LEN_MAX: usize = 32;

impl Commands {
    /// Reads the lines that an answer had.
    pub(crate) fn parse(lines: &[(HeaderName, HeaderValue)]) -> Self {
        let mut commands = Self::default();
        for (name, value) in lines {
            let reader = Reader::new(value.as_bytes().trim_ascii());
            let read = match name.as_str() {
                "tidegate-set" => commands.add(changes(reader, set)),
                "tidegate-del" => commands.add(changes(reader, delete)),
                "tidegate-incr" => commands.add(changes(reader, increment)),
                "tidegate-rotate" => once(&mut commands.rotate, rotate(reader)),
                "tidegate-signout-user" => once(&mut commands.sign_out, sign_out(reader)),
                "tidegate-destroy" => destroy(reader).map(|wanted| commands.destroy |= wanted),
                // For other parts of Tidegate.
                _ => Ok(()),
            };
            commands.malformed += u64::from(read.is_err());
        }
        commands
    }

    /// Whether there is nothing to be done.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            destroy,
            sign_out,
            rotate,
            changes,
            malformed: _,
        } = self;
        !destroy && sign_out.is_none() && rotate.is_none() && changes.is_empty()
    }

    /// Takes in all changes of a line, or none: of two changes of one name nobody could say which
    /// is meant, as the lines have no order among them.
    fn add(&mut self, line: Result<Vec<Change>, Malformed>) -> Result<(), Malformed> {
        let line = line?;
        if self.changes.len() + line.len() > CHANGES_MAX {
            return Err(Malformed);
        }
        for (index, change) in line.iter().enumerate() {
            let mut others = self.changes.iter().chain(&line[..index]);
            if others.any(|other| other.op.name() == change.op.name()) {
                return Err(Malformed);
            }
        }
        self.changes.extend(line);
        Ok(())
    }
}

/// What may be said once.
fn once<T>(place: &mut Option<T>, read: Result<T, Malformed>) -> Result<(), Malformed> {
    match place {
        Some(_) => Err(Malformed),
        None => read.map(|value| *place = Some(value)),
    }
}

fn changes(
    mut reader: Reader<'_>,
    member: fn(&mut Reader<'_>) -> Result<Change, Malformed>,
) -> Result<Vec<Change>, Malformed> {
    let mut changes = Vec::new();
    loop {
        if changes.len() == CHANGES_MAX {
            return Err(Malformed);
        }
        changes.push(member(&mut reader)?);
        if !reader.next_member()? {
            return Ok(changes);
        }
    }
}

fn set(reader: &mut Reader<'_>) -> Result<Change, Malformed> {
    let name = name(reader)?;
    reader.expect(b'=')?;
    let item = reader.item()?;
    let (mut format, mut condition) = (None, Condition::default());
    while let Some((key, given)) = reader.parameter()? {
        match key {
            "as" => once(&mut format, format_of(&given))?,
            _ => condition.read(key, &given)?,
        }
    }
    let value = value(item, format)?;
    Ok(condition.of(|expect| Op::Set {
        name,
        value,
        expect,
    }))
}

fn delete(reader: &mut Reader<'_>) -> Result<Change, Malformed> {
    let name = name(reader)?;
    let mut condition = Condition::default();
    while let Some((key, given)) = reader.parameter()? {
        condition.read(key, &given)?;
    }
    Ok(condition.of(|expect| Op::Delete { name, expect }))
}

fn increment(reader: &mut Reader<'_>) -> Result<Change, Malformed> {
    let name = name(reader)?;
    reader.expect(b'=')?;
    let Item::Integer(by) = reader.item()? else {
        return Err(Malformed);
    };
    Ok(Condition::default().of(|_| Op::Increment { name, by }))
}

fn rotate(mut reader: Reader<'_>) -> Result<Rotate, Malformed> {
    let uid = uid(&mut reader)?;
    let mut tier = None;
    if reader.take(b';') {
        reader.blanks();
        if reader.name()? != "tier" {
            return Err(Malformed);
        }
        reader.expect(b'=')?;
        let text = reader.word()?;
        if text.len() > TIER_LEN_MAX {
            return Err(Malformed);
        }
        tier = Some(Name::new(&text).map_err(|_| Malformed)?);
    }
    at_end(&reader).map(|()| Rotate { uid, tier })
}

fn sign_out(mut reader: Reader<'_>) -> Result<SignOut, Malformed> {
    let mut ahead = Reader::new(reader.rest());
    let said = match ahead.name()? {
        "all" => SignOut::All,
        "others" => SignOut::Others,
        _ => {
            let uid = uid(&mut reader)?;
            return at_end(&reader).map(|()| SignOut::User(uid));
        }
    };
    at_end(&ahead).map(|()| said)
}

fn destroy(mut reader: Reader<'_>) -> Result<bool, Malformed> {
    let Item::Boolean(wanted) = reader.item()? else {
        return Err(Malformed);
    };
    at_end(&reader).map(|()| wanted)
}

/// `uid=` and a user's name: digits keep their leading zeros.
fn uid(reader: &mut Reader<'_>) -> Result<Uid, Malformed> {
    if reader.name()? != "uid" {
        return Err(Malformed);
    }
    reader.expect(b'=')?;
    if let Some(bytes) = reader.take_bytes()? {
        let text = String::from_utf8(bytes).map_err(|_| Malformed)?;
        return Uid::new(text).map_err(|_| Malformed);
    }
    Uid::new(reader.word()?).map_err(|_| Malformed)
}

fn name(reader: &mut Reader<'_>) -> Result<Name, Malformed> {
    Name::new(reader.name()?).map_err(|_| Malformed)
}

fn at_end(reader: &Reader<'_>) -> Result<(), Malformed> {
    reader.is_end().then_some(()).ok_or(Malformed)
}

/// What a change requires.
#[derive(Default)]
struct Condition {
    expect: Option<Expect>,
    if_seen: bool,
}

impl Condition {
    fn read(&mut self, key: &str, given: &Item<'_>) -> Result<(), Malformed> {
        if key != "if" || self.if_seen {
            return Err(Malformed);
        }
        let expect = match given {
            Item::Token("absent") => Expect::Absent,
            Item::Token("seen") => {
                self.if_seen = true;
                Expect::Any
            }
            Item::Integer(version) => {
                Expect::At(Version(u64::try_from(*version).map_err(|_| Malformed)?))
            }
            _ => return Err(Malformed),
        };
        once(&mut self.expect, Ok(expect))
    }

    fn of(self, op: impl FnOnce(Expect) -> Op) -> Change {
        Change {
            op: op(self.expect.unwrap_or(Expect::Any)),
            if_seen: self.if_seen,
        }
    }
}

fn format_of(given: &Item<'_>) -> Result<Format, Malformed> {
    match given {
        Item::Token("text") => Ok(Format::Text),
        Item::Token("integer") => Ok(Format::Integer),
        Item::Token("json") => Ok(Format::Json),
        Item::Token("messagepack") => Ok(Format::MessagePack),
        Item::Token("bytes") => Ok(Format::Bytes),
        _ => Err(Malformed),
    }
}

/// The value of an attribute. What is said to be text, or JSON that everybody reads, is.
fn value(item: Item<'_>, format: Option<Format>) -> Result<Value, Malformed> {
    let (usual, bytes) = match item {
        Item::Text(text) => (Format::Text, text.into_owned().into_bytes()),
        Item::Token(text) => (Format::Text, text.as_bytes().to_vec()),
        Item::Integer(number) => (Format::Integer, number.to_string().into_bytes()),
        Item::Bytes(bytes) => (Format::Bytes, bytes),
        Item::Boolean(yes) => (Format::Json, yes.to_string().into_bytes()),
    };
    let format = format.unwrap_or(usual);
    let text = || std::str::from_utf8(&bytes).map_err(|_| Malformed);
    let fits = match format {
        Format::Text => text().is_ok(),
        Format::Integer => text()?.parse::<i64>().is_ok(),
        Format::Json => json::check(&bytes).is_ok(),
        _ => true,
    };
    fits.then_some(Value { format, bytes }).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[(&'static str, &'static str)]) -> Commands {
        let lines: Vec<_> = lines
            .iter()
            .map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            })
            .collect();
        Commands::parse(&lines)
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn set(text: &str, format: Format, bytes: &[u8], expect: Expect) -> Op {
        let bytes = bytes.to_vec();
        Op::Set {
            name: name(text),
            value: Value { format, bytes },
            expect,
        }
    }

    #[test]
    fn values_have_the_format_that_they_look_like_or_the_one_that_is_said() {
        let commands = parse(&[
            (
                "tidegate-set",
                r#"cart="c 9", visits=3, raw=:AAE=:, tier=gold,flag=?1"#,
            ),
            (
                "tidegate-set",
                r#"prefs="{\"a\":1}";as=json;if=absent , last=:w6Q=:;as=text;if=1795000000000000"#,
            ),
        ]);

        let ops: Vec<Op> = commands.changes.into_iter().map(|it| it.op).collect();
        assert_eq!(commands.malformed, 0);
        assert_eq!(
            ops,
            [
                set("cart", Format::Text, b"c 9", Expect::Any),
                set("visits", Format::Integer, b"3", Expect::Any),
                set("raw", Format::Bytes, &[0, 1], Expect::Any),
                set("tier", Format::Text, b"gold", Expect::Any),
                set("flag", Format::Json, b"true", Expect::Any),
                set("prefs", Format::Json, b"{\"a\":1}", Expect::Absent),
                set(
                    "last",
                    Format::Text,
                    "\u{e4}".as_bytes(),
                    Expect::At(Version(1_795_000_000_000_000))
                ),
            ]
        );
    }

    #[test]
    fn every_command_is_read() {
        let commands = parse(&[
            ("tidegate-del", "draft;if=seen, Old"),
            ("tidegate-incr", "views=1, credit=-5"),
            ("tidegate-rotate", "uid=0042; tier=gold"),
            ("tidegate-destroy", "?1"),
            ("tidegate-signout-user", "others"),
            ("tidegate-cost", "5"),
        ]);

        assert_eq!(commands.malformed, 0);
        assert!(commands.destroy);
        assert_eq!(commands.sign_out, Some(SignOut::Others));
        let rotate = commands.rotate.unwrap();
        assert_eq!(
            (rotate.uid.as_str(), rotate.tier),
            ("0042", Some(name("gold")))
        );
        assert!(commands.changes[0].if_seen);
        assert!(!commands.changes[1].if_seen);
        let by = |text: &str, by| Op::Increment {
            name: name(text),
            by,
        };
        assert_eq!(commands.changes[2].op, by("views", 1));
        assert_eq!(commands.changes[3].op, by("credit", -5));
    }

    #[test]
    fn a_user_is_named_by_a_word_or_in_quotes_or_in_bytes() {
        let uid = |line| match parse(&[("tidegate-signout-user", line)]).sign_out {
            Some(SignOut::User(uid)) => Some(uid.as_str().to_owned()),
            _ => None,
        };

        assert_eq!(uid("uid=anna.b").as_deref(), Some("anna.b"));
        assert_eq!(
            uid(r#"uid="anna@example.com""#).as_deref(),
            Some("anna@example.com")
        );
        assert_eq!(uid("uid=:w6RubmE=:").as_deref(), Some("\u{e4}nna"));
        for bad in [
            "",
            "anna",
            "uid=",
            "uid=a b",
            "uid=\"\"",
            "uid=a;x=1",
            "everyone",
            "all, others",
        ] {
            assert_eq!(uid(bad), None, "{bad}");
            assert_eq!(
                parse(&[("tidegate-signout-user", bad)]).malformed,
                1,
                "{bad}"
            );
        }
    }

    #[test]
    fn a_line_with_anything_wrong_is_void_and_the_others_stand() {
        for (header, bad) in [
            ("tidegate-set", "cart"),
            ("tidegate-set", "cart="),
            ("tidegate-set", "a=1,"),
            ("tidegate-set", "a=1 b=2"),
            ("tidegate-set", "a=1, b"),
            ("tidegate-set", "a=1, a=2"),
            ("tidegate-set", "a=1.5"),
            ("tidegate-set", "a=b;if=never"),
            ("tidegate-set", "a=b;if=seen;if=seen"),
            ("tidegate-set", "a=b;if=-1"),
            ("tidegate-set", "a=b;as=xml"),
            ("tidegate-set", "a=b;as=integer"),
            ("tidegate-set", "a=\"{\";as=json"),
            ("tidegate-set", "a=\"[1e400]\";as=json"),
            ("tidegate-set", "a=:/w==:;as=text"),
            ("tidegate-set", "a$=1"),
            ("tidegate-del", ""),
            ("tidegate-del", "a=1"),
            ("tidegate-incr", "a=b"),
            ("tidegate-incr", "a"),
            ("tidegate-incr", "a=99999999999999999999"),
            ("tidegate-rotate", "tier=gold"),
            ("tidegate-rotate", "uid=7;rank=1"),
            ("tidegate-rotate", "uid=7;tier=\"a b\""),
            ("tidegate-rotate", "uid=7;tier=gold;x"),
            ("tidegate-destroy", "yes"),
            ("tidegate-destroy", "1"),
        ] {
            let commands = parse(&[(header, bad), ("tidegate-set", "other=1")]);
            assert_eq!(commands.malformed, 1, "{header}: {bad}");
            assert_eq!(commands.changes.len(), 1, "{header}: {bad}");
        }
    }

    #[test]
    fn a_name_is_changed_once_and_a_user_signs_in_once() {
        let commands = parse(&[
            ("tidegate-set", "a=1"),
            ("tidegate-incr", "b=1, a=1"),
            ("tidegate-rotate", "uid=1"),
            ("tidegate-rotate", "uid=2"),
        ]);

        assert_eq!(commands.malformed, 2);
        assert_eq!(commands.changes.len(), 1);
        assert_eq!(commands.rotate.unwrap().uid.as_str(), "1");
    }

    #[test]
    fn an_answer_changes_so_many_attributes_and_no_more() {
        let line = |from: usize, to: usize| {
            let members: Vec<String> = (from..to).map(|index| format!("a{index}=1")).collect();
            let name = HeaderName::from_static("tidegate-incr");
            (name, HeaderValue::try_from(members.join(",")).unwrap())
        };

        let full = Commands::parse(&[line(0, CHANGES_MAX), line(100, 101)]);
        assert_eq!((full.changes.len(), full.malformed), (CHANGES_MAX, 1));
        let over = Commands::parse(&[line(0, CHANGES_MAX + 1)]);
        assert_eq!((over.changes.len(), over.malformed), (0, 1));
    }
}
