//! Reads one section of the file by its table of keys.
//!
//! A getter never fails: it notes the problem and hands back the default or the lower bound, so that
//! one run finds every problem. Whatever was made of such values is thrown away in the end.

use std::cell::RefCell;
use std::fmt::Display;
use std::time::Duration;

use bytesize::ByteSize;

use super::keys::{Key, Kind, Otherwise};
use super::problem::Problems;
use super::tree::{Entry, Node, Origin, Value};

/// One section while it is read.
pub(crate) struct Section<'t> {
    title: String,
    origin: Origin,
    table: &'t [Entry],
    keys: &'static [Key],
    /// Keys whose value was refused: cross-checks leave them out instead of blaming a stand-in.
    unsound: RefCell<Vec<&'static str>>,
    problems: &'t Problems,
}

impl<'t> Section<'t> {
    /// The section `title` in `node`. `tables` are the names of its own sections.
    pub(crate) fn new(
        title: impl Into<String>,
        node: &'t Node,
        keys: &'static [Key],
        tables: &[&'static str],
        problems: &'t Problems,
    ) -> Self {
        let title = title.into();
        let table: &[Entry] = match &node.value {
            Value::Table(table) => table,
            _ => {
                problems.add(
                    &node.origin,
                    format!("{title} is a section, not {}", node.kind()),
                    format!("write its keys below a line {title}"),
                );
                &[]
            }
        };
        let section = Self {
            title,
            origin: node.origin.clone(),
            table,
            keys,
            unsound: RefCell::default(),
            problems,
        };
        section.refuse_unknown_keys(tables);
        section
    }

    /// A section that the file does not have: every default holds.
    pub(crate) fn absent(title: &str, keys: &'static [Key], problems: &'t Problems) -> Self {
        Self {
            title: title.to_owned(),
            origin: Origin::File(0..0),
            table: &[],
            keys,
            unsound: RefCell::default(),
            problems,
        }
    }

    /// The node of `key`, if it is set.
    pub(crate) fn node(&self, key: &str) -> Option<&'t Node> {
        self.table
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// Whether `key` is set.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// Where `key` is set, else where the section stands.
    pub(crate) fn place(&self, key: &str) -> &Origin {
        self.node(key).map_or(&self.origin, |node| &node.origin)
    }

    /// Whether none of `keys` was refused, so that comparing them makes sense.
    pub(crate) fn sound(&self, keys: &[&'static str]) -> bool {
        let unsound = self.unsound.borrow();
        !keys.iter().any(|key| unsound.contains(key))
    }

    /// Notes that the value of `key` will not do.
    pub(crate) fn refuse(
        &self,
        key: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.unsound.borrow_mut().push(key);
        self.problems.add(self.place(key), message, fix);
    }

    pub(crate) fn count(&self, key: &'static str) -> u32 {
        self.count_if_set(key)
            .unwrap_or_else(|| parsed_default(self.key(key)))
    }

    /// The number at `key`; its lower bound when it was refused.
    pub(crate) fn count_if_set(&self, key: &'static str) -> Option<u32> {
        let known = self.key(key);
        let Kind::Count { min, max } = known.kind else {
            unreachable!("{key} is no count")
        };
        let node = self.node(key)?;
        let number = match &node.value {
            Value::Integer(number) => *number,
            Value::Text(text) if text.parse::<u32>().is_ok() => {
                self.wrong_type(
                    known,
                    node,
                    &format!("write it without quotes: {key} = {text}"),
                );
                return Some(min);
            }
            _ => {
                self.wrong_type(
                    known,
                    node,
                    "write digits, without quotes and without a point",
                );
                return Some(min);
            }
        };
        match u32::try_from(number)
            .ok()
            .filter(|number| (min..=max).contains(number))
        {
            Some(number) => Some(number),
            None => {
                self.out_of_range(key, &number, &min, &max);
                Some(min)
            }
        }
    }

    pub(crate) fn span(&self, key: &'static str) -> Duration {
        self.span_if_set(key)
            .unwrap_or_else(|| duration(default_text(self.key(key))))
    }

    pub(crate) fn span_if_set(&self, key: &'static str) -> Option<Duration> {
        let known = self.key(key);
        let Kind::Span { min, max } = known.kind else {
            unreachable!("{key} is no duration")
        };
        let node = self.node(key)?;
        let text = match &node.value {
            Value::Text(text) => text,
            Value::Integer(number) => {
                let fix =
                    format!("write the unit: {key} = \"{number}ms\" or {key} = \"{number}s\"");
                self.wrong_type(known, node, &fix);
                return Some(duration(min));
            }
            _ => {
                self.wrong_type(known, node, &format!("write {key} = \"{min}\", say"));
                return Some(duration(min));
            }
        };
        match humantime::parse_duration(text) {
            Ok(span) if (duration(min)..=duration(max)).contains(&span) => Some(span),
            Ok(_) => {
                self.out_of_range(key, &format!("\"{text}\""), &min, &max);
                Some(duration(min))
            }
            Err(_) => {
                self.refuse(
                    key,
                    format!("`{key} = \"{text}\"` is no duration"),
                    "write a number with its unit, such as \"200ms\", \"5s\" or \"1m 30s\"",
                );
                Some(duration(min))
            }
        }
    }

    pub(crate) fn bytes(&self, key: &'static str) -> u64 {
        let known = self.key(key);
        let Kind::Bytes { min, max } = known.kind else {
            unreachable!("{key} is no size")
        };
        let Some(node) = self.node(key) else {
            return size(default_text(known));
        };
        let text = match &node.value {
            Value::Text(text) => text,
            Value::Integer(number) => {
                self.wrong_type(
                    known,
                    node,
                    &format!("write the unit: {key} = \"{number}B\""),
                );
                return size(min);
            }
            _ => {
                self.wrong_type(known, node, &format!("write {key} = \"{min}\", say"));
                return size(min);
            }
        };
        match text.parse::<ByteSize>() {
            Ok(bytes) if (size(min)..=size(max)).contains(&bytes.as_u64()) => bytes.as_u64(),
            Ok(_) => {
                self.out_of_range(key, &format!("\"{text}\""), &min, &max);
                size(min)
            }
            Err(_) => {
                self.refuse(
                    key,
                    format!("`{key} = \"{text}\"` is no size"),
                    "write a number with its unit, such as \"64KiB\" or \"16MiB\"",
                );
                size(min)
            }
        }
    }

    pub(crate) fn share_if_set(&self, key: &'static str) -> Option<f64> {
        let known = self.key(key);
        let Kind::Share { max } = known.kind else {
            unreachable!("{key} is no share")
        };
        let node = self.node(key)?;
        let share = match node.value {
            Value::Float(share) => share,
            Value::Integer(whole) => whole as f64,
            _ => {
                self.wrong_type(known, node, &format!("write {key} = 0.2, say"));
                return Some(max);
            }
        };
        if 0.0 < share && share <= max {
            return Some(share);
        }
        self.refuse(
            key,
            format!("`{key} = {share}` is not above 0 and up to {max}"),
            format!("a share is a part of the limit: write {key} = 0.2 for a fifth"),
        );
        Some(max)
    }

    /// The number at `key`, or its default.
    pub(crate) fn number(&self, key: &'static str) -> f64 {
        let known = self.key(key);
        let Kind::Number { min, max } = known.kind else {
            unreachable!("{key} is no number")
        };
        let number = match self.node(key).map(|node| (&node.value, node)) {
            None => {
                let usual = default_text(known).parse();
                return usual.expect("defaults in the table are numbers where the kind is");
            }
            Some((Value::Float(number), _)) => *number,
            Some((Value::Integer(whole), _)) => *whole as f64,
            Some((_, node)) => {
                self.wrong_type(known, node, &format!("write {key} = {min}, say"));
                return min;
            }
        };
        if (min..=max).contains(&number) {
            return number;
        }
        self.out_of_range(key, &number, &min, &max);
        min
    }

    pub(crate) fn switch(&self, key: &'static str) -> bool {
        self.switch_if_set(key)
            .unwrap_or_else(|| default_text(self.key(key)) == "true")
    }

    pub(crate) fn switch_if_set(&self, key: &'static str) -> Option<bool> {
        let known = self.key(key);
        let node = self.node(key)?;
        match node.value {
            Value::Switch(on) => Some(on),
            _ => {
                let other = matches!(known.otherwise, Otherwise::Is("false"));
                self.wrong_type(known, node, &format!("write {key} = {other}"));
                Some(false)
            }
        }
    }

    /// The text at `key`, or its default.
    pub(crate) fn text(&self, key: &'static str) -> &'t str {
        self.text_if_set(key)
            .unwrap_or_else(|| match self.key(key).otherwise {
                Otherwise::Is(text) => text,
                _ => {
                    self.refuse(
                        key,
                        format!("{} needs `{key}`", self.title),
                        format!("add {key}: {}", self.key(key).kind),
                    );
                    ""
                }
            })
    }

    pub(crate) fn text_if_set(&self, key: &'static str) -> Option<&'t str> {
        let node = self.node(key)?;
        match &node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.wrong_type(self.key(key), node, &format!("write {key} = \"…\""));
                Some("")
            }
        }
    }

    /// One of the names that `key` may hold, or its default; `None` if it has no fixed one.
    pub(crate) fn choice(&self, key: &'static str) -> Option<&'static str> {
        let known = self.key(key);
        let Kind::Choice(names) = known.kind else {
            unreachable!("{key} is no choice")
        };
        let Some(text) = self.text_if_set(key) else {
            return match known.otherwise {
                Otherwise::Is(name) => Some(name),
                _ => None,
            };
        };
        let found = names.iter().find(|name| **name == text).copied();
        if found.is_none() && self.sound(&[key]) {
            let fix = match closest(text, names.iter().copied()) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("write one of {}", known.kind),
            };
            self.refuse(
                key,
                format!("`{key} = \"{text}\"` is not one of {}", known.kind),
                fix,
            );
        }
        found
    }

    /// The texts at `key`, each with its place, or the default.
    pub(crate) fn texts(&self, key: &'static str) -> Vec<(&'t str, &'t Origin)> {
        let Some(node) = self.node(key) else {
            return Vec::new();
        };
        let known = self.key(key);
        let Value::List(items) = &node.value else {
            let fix = match &node.value {
                Value::Text(text) => format!("write {key} = [\"{text}\"]"),
                _ => format!("write {key} = [\"…\"]"),
            };
            self.wrong_type(known, node, &fix);
            return Vec::new();
        };
        let mut texts: Vec<(&str, &Origin)> = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(text) if texts.iter().any(|(other, _)| other == text) => self
                    .refuse_item(
                        key,
                        &item.origin,
                        format!("`{key}` has \"{text}\" twice"),
                        "remove one of them",
                    ),
                Value::Text(text) => texts.push((text, &item.origin)),
                _ => self.refuse_item(
                    key,
                    &item.origin,
                    format!("`{key}` holds {}, but is a {}", item.kind(), known.kind),
                    "put it in quotes",
                ),
            }
        }
        texts
    }

    /// What holds for a list that is not set.
    pub(crate) fn default_texts(&self, key: &'static str) -> &'static [&'static str] {
        match self.key(key).otherwise {
            Otherwise::Each(texts) => texts,
            _ => &[],
        }
    }

    /// Notes that one item of the list at `key` will not do.
    pub(crate) fn refuse_item(
        &self,
        key: &'static str,
        place: &Origin,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.unsound.borrow_mut().push(key);
        self.problems.add(place, message, fix);
    }

    /// The elements of the array of sections at `key`.
    pub(crate) fn sections(&self, key: &'static str, title: &str) -> &'t [Node] {
        match self.node(key) {
            None => &[],
            Some(Node {
                value: Value::List(items),
                ..
            }) => items,
            Some(node) => {
                self.refuse(
                    key,
                    format!("`{key}` is a list of sections, not {}", node.kind()),
                    format!("write {title}, with two brackets"),
                );
                debug_assert!(self.place(key) == &node.origin);
                &[]
            }
        }
    }

    /// The entries of the table at `key`.
    pub(crate) fn table(&self, key: &'static str) -> &'t [Entry] {
        match self.node(key) {
            None => &[],
            Some(Node {
                value: Value::Table(table),
                ..
            }) => table,
            Some(node) => {
                self.refuse(
                    key,
                    format!("`{key}` is a table, not {}", node.kind()),
                    format!("write {key} = {{ … }}"),
                );
                &[]
            }
        }
    }

    fn key(&self, name: &'static str) -> &'static Key {
        self.keys
            .iter()
            .find(|key| key.name == name)
            .expect("only keys of the table are read")
    }

    fn wrong_type(&self, key: &'static Key, node: &Node, fix: &str) {
        self.refuse(
            key.name,
            format!("`{}` is {}, but takes: {}", key.name, node.kind(), key.kind),
            fix,
        );
    }

    fn out_of_range(
        &self,
        key: &'static str,
        value: &dyn Display,
        min: &dyn Display,
        max: &dyn Display,
    ) {
        self.refuse(
            key,
            format!("`{key} = {value}` is out of range"),
            format!("write a value from {min} to {max}"),
        );
    }

    fn refuse_unknown_keys(&self, tables: &[&'static str]) {
        for entry in self.table {
            let mut names = self
                .keys
                .iter()
                .map(|key| key.name)
                .chain(tables.iter().copied());
            if names.clone().any(|name| name == entry.key) {
                continue;
            }
            let fix = match closest(&entry.key, names.clone()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => {
                    let first = names.next().unwrap_or_default().to_owned();
                    format!(
                        "known here: {}",
                        names.fold(first, |all, name| all + ", " + name)
                    )
                }
            };
            self.problems.add(
                &entry.key_origin,
                format!("unknown key `{}` in {}", entry.key, self.title),
                fix,
            );
        }
    }
}

/// The one of `names` that `text` was probably meant to be.
pub(crate) fn closest<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|name| (strsim::jaro_winkler(&text.to_lowercase(), name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

fn default_text(key: &'static Key) -> &'static str {
    match key.otherwise {
        Otherwise::Is(text) => text,
        _ => unreachable!("{} has no fixed default", key.name),
    }
}

fn parsed_default(key: &'static Key) -> u32 {
    default_text(key)
        .parse()
        .expect("defaults in the table are numbers where the kind is")
}

fn duration(text: &str) -> Duration {
    humantime::parse_duration(text).expect("spans in the table are durations")
}

fn size(text: &str) -> u64 {
    text.parse::<ByteSize>()
        .expect("sizes in the table are sizes")
        .as_u64()
}
