//! A JSON object of a request, read member by member, so that what is wrong with it is said with the
//! name of the member.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tidegate_core::session::{Name, SessionId, Uid};

use super::problem::Problem;

/// One object. Values are kept as they were written: a number that a float cannot hold stays whole.
pub(crate) struct Object<'t> {
    /// Where it stands in the request, with a point behind it; empty for all of the body.
    path: String,
    members: BTreeMap<String, &'t RawValue>,
}

/// The members of an object as they stand there.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'de: 't, 't> Deserialize<'de> for Members<'t> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<'t>(PhantomData<&'t ()>);

impl<'de: 't, 't> Visitor<'de> for MembersVisitor<'t> {
    type Value = Members<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

impl<'t> Object<'t> {
    /// The body of a request; an empty one is an object without members.
    pub(crate) fn of_body(body: &'t [u8]) -> Result<Self, Problem> {
        if body.is_empty() {
            return Ok(Self {
                path: String::new(),
                members: BTreeMap::new(),
            });
        }
        let members = serde_json::from_slice(body)
            .map_err(|error| Problem::invalid("body", format!("it is no JSON object: {error}")))?;
        Self::of(String::new(), members)
    }

    /// Languages differ in which of two members of one name they read.
    fn of(path: String, Members(listed): Members<'t>) -> Result<Self, Problem> {
        let mut object = Self {
            path,
            members: BTreeMap::new(),
        };
        for (name, value) in listed {
            if object.has(&name) {
                let detail = "it is there twice; write it once".to_owned();
                return Err(object.bad(&name, detail));
            }
            object.members.insert(name, value);
        }
        Ok(object)
    }

    /// The objects in the list at `name`, at least one and at most `most`.
    pub(crate) fn list(&self, name: &str, most: usize) -> Result<Vec<Self>, Problem> {
        let items: Vec<&'t RawValue> = self.read(name, "a list of objects")?;
        if items.is_empty() || items.len() > most {
            return Err(self.wrong(name, &format!("a list of 1 to {most} objects")));
        }
        items
            .into_iter()
            .enumerate()
            .map(|(at, item)| {
                let path = format!("{}{name}[{at}]", self.path);
                let members = serde_json::from_str(item.get())
                    .map_err(|_| Problem::invalid(path.as_str(), "it is no JSON object"))?;
                Self::of(path + ".", members)
            })
            .collect()
    }

    /// Refuses members that are not in `known`: a misspelt one would be taken for one that is not
    /// there.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        match self
            .members
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        {
            Some(name) => Err(Problem::invalid(
                self.place(name),
                format!("there is no such member; known here: {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    /// The value at `name` as it was written.
    pub(crate) fn raw(&self, name: &str) -> Option<&'t RawValue> {
        self.members.get(name).copied()
    }

    /// Whether there is a member `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The text at `name`.
    pub(crate) fn text(&self, name: &str) -> Result<String, Problem> {
        self.read(name, "a text")
    }

    /// The text at `name`, if there is one; `null` is none.
    pub(crate) fn text_if_set(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.raw(name) {
            None => Ok(None),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| self.wrong(name, "a text")),
        }
    }

    /// The whole number at `name`.
    pub(crate) fn integer(&self, name: &str) -> Result<i64, Problem> {
        self.read(name, "a whole number of 64 bits")
    }

    /// The number at `name`, if there is one; `null` is none.
    pub(crate) fn number_if_set(&self, name: &str) -> Result<Option<f64>, Problem> {
        match self.raw(name) {
            None => Ok(None),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| self.wrong(name, "a number")),
        }
    }

    /// Whether `name` is switched on, if that is said; `null` says nothing.
    pub(crate) fn switch_if_set(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.raw(name) {
            None => Ok(None),
            Some(raw) => {
                serde_json::from_str(raw.get()).map_err(|_| self.wrong(name, "true or false"))
            }
        }
    }

    /// The texts in the list at `name`, at most `most`.
    pub(crate) fn texts(&self, name: &str, most: usize) -> Result<Vec<String>, Problem> {
        let texts: Vec<String> = self.read(name, "a list of texts")?;
        if texts.len() > most {
            return Err(self.wrong(name, &format!("a list of at most {most} texts")));
        }
        Ok(texts)
    }

    /// The name of an attribute or tier at `name`.
    pub(crate) fn name(&self, name: &str) -> Result<Name, Problem> {
        let text = self.text(name)?;
        Name::new(&text).map_err(|why| Problem::invalid(self.place(name), why.to_string()))
    }

    /// The name at `name`, if there is one.
    pub(crate) fn name_if_set(&self, name: &str) -> Result<Option<Name>, Problem> {
        match self.text_if_set(name)? {
            None => Ok(None),
            Some(text) => Name::new(&text)
                .map(Some)
                .map_err(|why| Problem::invalid(self.place(name), why.to_string())),
        }
    }

    /// The user at `name`, if there is one.
    pub(crate) fn uid_if_set(&self, name: &str) -> Result<Option<Uid>, Problem> {
        match self.text_if_set(name)? {
            None => Ok(None),
            Some(text) => Uid::new(text)
                .map(Some)
                .map_err(|why| Problem::invalid(self.place(name), why.to_string())),
        }
    }

    /// The session at `name`, if there is one.
    pub(crate) fn session_if_set(&self, name: &str) -> Result<Option<SessionId>, Problem> {
        match self.text_if_set(name)? {
            None => Ok(None),
            Some(text) => SessionId::parse(&text)
                .map(Some)
                .map_err(|why| Problem::invalid(self.place(name), why.to_string())),
        }
    }

    /// What is said about the member `name`.
    pub(crate) fn wrong(&self, name: &str, wanted: &str) -> Problem {
        self.bad(name, format!("it must be {wanted}"))
    }

    /// The member `name` makes no sense, for the reason in `detail`.
    pub(crate) fn bad(&self, name: &str, detail: String) -> Problem {
        Problem::invalid(self.place(name), detail)
    }

    fn read<T: Deserialize<'t>>(&self, name: &str, wanted: &str) -> Result<T, Problem> {
        let missing = || self.bad(name, format!("it is missing; it must be {wanted}"));
        let raw = self.raw(name).ok_or_else(missing)?;
        serde_json::from_str(raw.get()).map_err(|_| self.wrong(name, wanted))
    }

    fn place(&self, name: &str) -> String {
        // A name that somebody made up may be long.
        let name: String = name.chars().take(100).collect();
        format!("{}{name}", self.path)
    }
}
