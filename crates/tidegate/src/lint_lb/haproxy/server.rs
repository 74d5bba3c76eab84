//! What a `server` or `default-server` line says.

use std::time::Duration;

use tidegate_lab::text::shown;

use super::words::Word;

/// A place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Something that was said, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said<T> {
    pub(super) what: T,
    pub(super) at: At,
}

/// The settings of a server that matter here. What is `None` was not said, or nobody knows what was.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerSettings {
    pub(super) weight: Weight,
    pub(super) check: bool,
    pub(super) agent: bool,
    pub(super) agent_inter: Option<Said<Duration>>,
    pub(super) observe: Option<Said<String>>,
    pub(super) error_limit: Option<Said<u32>>,
    pub(super) on_error: Option<Said<String>>,
    pub(super) on_marked_down: Option<Said<String>>,
    pub(super) backup: bool,
}

/// The weight of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Weight {
    /// 1, as nothing was said.
    #[default]
    Unsaid,
    /// This.
    Is(Said<u32>),
    /// A variable of the environment.
    Open,
}

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: String,
    /// Where its name stands.
    pub(super) at: At,
    pub(super) settings: ServerSettings,
    /// How many there are of it: more than one by `server-template`.
    pub(super) count: usize,
}

/// Settings that are followed by one word. Any of these words could otherwise be taken for a setting.
const WITH_VALUE: &[&str] = &[
    "addr",
    "agent-addr",
    "agent-port",
    "agent-send",
    "alpn",
    "ca-file",
    "check-alpn",
    "check-proto",
    "check-sni",
    "ciphers",
    "ciphersuites",
    "cookie",
    "crl-file",
    "crt",
    "curves",
    "downinter",
    "error",
    "fall",
    "fastinter",
    "guid",
    "hash-key",
    "id",
    "init-addr",
    "inter",
    "interface",
    "log-bufsize",
    "log-proto",
    "max-reuse",
    "maxconn",
    "maxqueue",
    "minconn",
    "namespace",
    "npn",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "port",
    "proto",
    "proxy-v2-options",
    "redir",
    "resolve-net",
    "resolve-opts",
    "resolve-prefer",
    "resolvers",
    "rise",
    "shard",
    "sigalgs",
    "slowstart",
    "sni",
    "socks4",
    "source",
    "ssl-max-ver",
    "ssl-min-ver",
    "tcp-ut",
    "usesrc",
    "verify",
    "verifyhost",
    "ws",
];

impl ServerSettings {
    /// Takes over what `words` say, the settings of a line `line`.
    pub(super) fn take(&mut self, words: &[Word], line: usize) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().map(|value| (value, said_at(word, line)));
            match word.text.as_str() {
                "check" => self.check = true,
                "no-check" => self.check = false,
                "agent-check" => self.agent = true,
                "no-agent-check" => self.agent = false,
                "backup" => self.backup = true,
                "no-backup" => self.backup = false,
                // Its health is that of another server.
                "track" => {
                    value();
                    self.check = true;
                }
                "weight" => {
                    if let Some((value, at)) = value() {
                        self.weight = weight(value, at);
                    }
                }
                "agent-inter" => self.agent_inter = value().and_then(|it| parsed(it, span)),
                "error-limit" => self.error_limit = value().and_then(|it| parsed(it, number)),
                "observe" => self.observe = value().and_then(|it| parsed(it, owned)),
                "on-error" => self.on_error = value().and_then(|it| parsed(it, owned)),
                "on-marked-down" => self.on_marked_down = value().and_then(|it| parsed(it, owned)),
                other if WITH_VALUE.contains(&other) => drop(value()),
                _ => {}
            }
        }
    }
}

fn said_at(word: &Word, line: usize) -> At {
    At {
        line,
        column: word.column,
    }
}

fn weight(value: &Word, at: At) -> Weight {
    match value.text.parse() {
        _ if value.is_open => Weight::Open,
        Ok(what) => Weight::Is(Said { what, at }),
        // HAProxy says what is wrong with it.
        Err(_) => Weight::Open,
    }
}

/// `value` as `parse` understands it, unless it is a variable.
fn parsed<T>((value, at): (&Word, At), parse: impl Fn(&str) -> Option<T>) -> Option<Said<T>> {
    let value = Some(value).filter(|value| !value.is_open)?;
    Some(Said {
        what: parse(&value.text)?,
        at,
    })
}

fn owned(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// A time of HAProxy's: a number in milliseconds, or with a unit.
pub(super) fn span(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let micros = match unit {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(number.checked_mul(micros)?))
}

/// The server of a line `server NAME ADDRESS …`, on top of `settings`.
pub(super) fn server(words: &[Word], line: usize, settings: &ServerSettings) -> Option<Server> {
    let [_, name, _, rest @ ..] = words else {
        return None;
    };
    let mut settings = settings.clone();
    settings.take(rest, line);
    Some(Server {
        name: shown(&name.text),
        at: said_at(name, line),
        settings,
        count: 1,
    })
}

/// The servers of a line `server-template PREFIX COUNT ADDRESS …`.
pub(super) fn template(words: &[Word], line: usize, settings: &ServerSettings) -> Option<Server> {
    let [_, prefix, count, _, rest @ ..] = words else {
        return None;
    };
    let mut settings = settings.clone();
    settings.take(rest, line);
    let (first, last) = count.text.split_once('-').unwrap_or(("1", &count.text));
    let name = shown(&format!("{}{first}-{last}", prefix.text));
    let count = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => last.saturating_sub(first).saturating_add(1),
        // A variable: several, or it would be no template.
        _ => 2,
    };
    Some(Server {
        name,
        at: said_at(prefix, line),
        settings,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::super::words::words;
    use super::*;

    fn parse(line: &str) -> Server {
        server(&words(line).unwrap(), 7, &ServerSettings::default()).unwrap()
    }

    #[test]
    fn a_server_line_is_read() {
        let server = parse("  server a 127.0.0.1:1 check agent-check weight 50 agent-inter 1500us");

        assert_eq!((server.name.as_str(), server.count), ("a", 1));
        assert_eq!((server.at.line, server.at.column), (7, 10));
        let settings = server.settings;
        assert!(settings.check && settings.agent && !settings.backup);
        assert!(matches!(settings.weight, Weight::Is(Said { what: 50, .. })));
        assert_eq!(
            settings.agent_inter.unwrap().what,
            Duration::from_micros(1_500)
        );
    }

    #[test]
    fn the_value_of_a_setting_is_no_setting() {
        let server = parse("server a h:1 cookie check agent-send agent-check sni weight");

        assert!(!server.settings.check);
        assert!(!server.settings.agent);
        assert_eq!(server.settings.weight, Weight::Unsaid);
    }

    #[test]
    fn what_is_said_later_holds() {
        let server = parse("server a h:1 check weight 1 weight 60 no-check backup no-backup");

        assert!(!server.settings.check && !server.settings.backup);
        assert!(matches!(
            server.settings.weight,
            Weight::Is(Said { what: 60, .. })
        ));
    }

    #[test]
    fn a_variable_is_not_guessed() {
        let server = parse("server a h:1 weight \"$W\" agent-inter \"$I\" observe \"$O\"");

        assert_eq!(server.settings.weight, Weight::Open);
        assert_eq!(server.settings.agent_inter, None);
        assert_eq!(server.settings.observe, None);
    }

    #[test]
    fn times_have_units() {
        for (text, millis) in [("2000", 2_000), ("2s", 2_000), ("1m", 60_000), ("5ms", 5)] {
            assert_eq!(span(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "2x",
            "-1",
            "2.5s",
            "18446744073709551615d",
            "99999999999999999999",
        ] {
            assert_eq!(span(text), None, "{text}");
        }
    }

    #[test]
    fn a_template_stands_for_several() {
        let read =
            |line: &str| template(&words(line).unwrap(), 1, &ServerSettings::default()).unwrap();

        assert_eq!(read("server-template n 3 h:1 check").count, 3);
        assert_eq!(read("server-template n 2-5 h:1").count, 4);
        assert_eq!(read("server-template n 5-2 h:1").count, 1);
        assert_eq!(read("server-template n \"$N\" h:1").count, 2);
        assert!(
            template(
                &words("server-template n 3").unwrap(),
                1,
                &ServerSettings::default()
            )
            .is_none()
        );
    }
}
