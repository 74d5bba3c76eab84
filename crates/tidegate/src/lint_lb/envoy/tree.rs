//! YAML or JSON as a tree whose nodes know where they stand.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::lint_lb::finding::Unreadable;

/// A node, and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) value: Value,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    /// A number, a switch or a text, as text.
    Scalar(String),
    List(Vec<Node>),
    /// Keys in the spelling of protobuf: `lb_policy`, also where the file has `lbPolicy`.
    Map(Vec<(String, Node)>),
}

/// Reads `text`. How deep and how large it may be is bounded by the reader.
pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    serde_saphyr::from_str(text).map_err(|error| {
        let at = error.location();
        let (line, column) = at.map_or((0, 0), |at| (at.line() as usize, at.column() as usize));
        let said = error.to_string();
        // Behind the first line it shows a part of the file.
        let first = said.lines().next().unwrap_or_default();
        let what = format!(
            "it is no YAML or JSON: {}",
            tidegate_lab::text::escaped(first)
        );
        Unreadable::at(line, column, &what)
    })
}

impl Node {
    /// What stands under `key` of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let entries = self.entries();
        let found = entries.iter().find(|(known, _)| known == key);
        found.map(|(_, node)| node)
    }

    /// The entries of a map; none of anything else.
    pub(super) fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// A number, also one that protobuf wraps: `5`, `"5"` or `{ value: 5 }`.
    pub(super) fn number(&self) -> Option<f64> {
        let bare = self.get("value").unwrap_or(self);
        bare.text()?.parse().ok()
    }

    /// Seconds: `"1.5s"`, or `{ seconds: 1, nanos: 500000000 }`.
    pub(super) fn seconds(&self) -> Option<f64> {
        if let Some(text) = self.text() {
            return text.strip_suffix('s')?.parse().ok();
        }
        let part = |key| self.get(key).map_or(Some(0.0), Self::number);
        Some(part("seconds")? + part("nanos")? / 1e9)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self {
            line: spanned.referenced.line() as usize,
            column: spanned.referenced.column() as usize,
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

/// Takes whatever comes.
struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            entries.push((snake(&key), access.next_value()?));
        }
        Ok(Value::Map(entries))
    }
}

/// `lbPolicy` as `lb_policy`. Protobuf takes both.
fn snake(key: &str) -> String {
    // What is no field, such as @type or a name with dots, stays as it is.
    if !key.bytes().all(|byte| byte.is_ascii_alphanumeric())
        || key.starts_with(|c: char| !c.is_ascii_lowercase())
    {
        return key.to_owned();
    }
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_are_the_same_tree() {
        for text in [
            "a:\n  lbPolicy: LEAST\n  list: [1, 2.5, true, null]\n",
            "{\"a\": {\"lbPolicy\": \"LEAST\", \"list\": [1, 2.5, true, null]}}",
        ] {
            let root = read(text).unwrap();
            let a = root.get("a").unwrap();
            assert_eq!(a.get("lb_policy").unwrap().text(), Some("LEAST"), "{text}");
            let items = a.get("list").unwrap().items();
            let texts: Vec<_> = items.iter().map(Node::text).collect();
            assert_eq!(texts, [Some("1"), Some("2.5"), Some("true"), None]);
        }
    }

    #[test]
    fn a_node_knows_where_it_stands() {
        let root = read("a: 1\nb:\n  - c: x\n  - d: y\n").unwrap();

        let second = &root.get("b").unwrap().items()[1];
        assert_eq!((second.line, second.column), (4, 5));
        let y = second.get("d").unwrap();
        assert_eq!((y.line, y.column), (4, 8));
    }

    #[test]
    fn numbers_and_times_come_in_several_forms() {
        let root = read(
            "a: 5\nb: \"5\"\nc: {value: 5}\nd: 1.5s\ne: {seconds: 1, nanos: 500000000}\nf: x\n",
        )
        .unwrap();
        let get = |key| root.get(key).unwrap();

        for key in ["a", "b", "c"] {
            assert_eq!(get(key).number(), Some(5.0), "{key}");
        }
        assert_eq!(get("d").seconds(), Some(1.5));
        assert_eq!(get("e").seconds(), Some(1.5));
        assert_eq!(get("f").seconds(), None);
        assert_eq!(get("f").number(), None);
    }

    #[test]
    fn hostile_files_are_refused_and_do_no_harm() {
        let deep = "[".repeat(100_000);
        let deep_yaml: String = (0..5_000)
            .map(|at| format!("{}a:\n", " ".repeat(at)))
            .collect();
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for at in 1..12 {
            let below = format!("*a{}, ", at - 1).repeat(10);
            bomb += &format!("a{at}: &a{at} [{}]\n", below.trim_end_matches(", "));
        }
        for text in [
            &deep,
            &deep_yaml,
            &bomb,
            "a: [1",
            "a: 1\na: 2\n",
            "\u{1}",
            "? [x]\n: y\n",
        ] {
            assert!(read(text).is_err(), "{}", &text[..text.len().min(40)]);
        }
    }

    #[test]
    fn a_broken_file_says_where() {
        let error = read("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();

        assert!(error.line >= 2, "{error:?}");
        assert!(!error.what.contains('\n'));
    }
}
