//! A TOML document as a tree whose every part knows where it was written.
//!
//! Command-line flags are grafted onto the same tree, so that they pass the same checks as the file
//! and an error can say which of the two it is about.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where something was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Origin {
    /// These bytes of the file.
    File(Range<usize>),
    /// This command-line flag.
    Flag(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Switch(bool),
    Date,
    List(Vec<Node>),
    Table(Table),
}

/// Entries in the order of the file.
pub(crate) type Table = Vec<Entry>;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_origin: Origin,
    pub(crate) node: Node,
}

impl Node {
    /// The tree of `document`.
    pub(crate) fn of_document(document: &Spanned<DeTable<'_>>) -> Self {
        Self {
            origin: Origin::File(document.span()),
            value: Value::Table(entries(document.get_ref())),
        }
    }

    fn of_value(value: &Spanned<DeValue<'_>>) -> Self {
        let inner = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            // Past 128 bits nothing is in range anyway.
            DeValue::Integer(number) => Value::Integer(
                i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX),
            ),
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(items) => Value::List(items.iter().map(Self::of_value).collect()),
            DeValue::Table(table) => Value::Table(entries(table)),
        };
        Self {
            origin: Origin::File(value.span()),
            value: inner,
        }
    }

    /// What the value is, for a message about a wrong type.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a decimal number",
            Value::Switch(_) => "true or false",
            Value::Date => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The entries of a table; of anything else, none.
    pub(crate) fn entries_mut(&mut self) -> Option<&mut Table> {
        match &mut self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}

/// Sets `key` in `table` as `flag` says, in place of what the file says.
pub(crate) fn graft(table: &mut Table, key: &str, flag: &'static str, value: Value) {
    let entry = Entry {
        key: key.to_owned(),
        key_origin: Origin::Flag(flag),
        node: Node {
            origin: Origin::Flag(flag),
            value,
        },
    };
    match table.iter_mut().find(|entry| entry.key == key) {
        Some(existing) => *existing = entry,
        None => table.push(entry),
    }
}

/// The table called `key` in `table`, made by `flag` where there is none.
pub(crate) fn subtable<'t>(
    table: &'t mut Table,
    key: &str,
    flag: &'static str,
) -> Option<&'t mut Table> {
    if !table.iter().any(|entry| entry.key == key) {
        graft(table, key, flag, Value::Table(Table::new()));
    }
    table
        .iter_mut()
        .find(|entry| entry.key == key)?
        .node
        .entries_mut()
}

fn entries(table: &DeTable<'_>) -> Table {
    let mut entries: Table = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_origin: Origin::File(key.span()),
            node: Node::of_value(value),
        })
        .collect();
    // The parser sorts by name; messages are to come in the order of the file.
    entries.sort_by_key(|entry| match &entry.key_origin {
        Origin::File(span) => span.start,
        Origin::Flag(_) => usize::MAX,
    });
    entries
}
