//! Other limits for some keys of a limit: `[[limit.override]]`.

use tidegate_core::rate::Spec;
use tidegate_gateway::rate::{
    Instead, KeyPart, LIMITS_CONFIGURED_MAX, LimitPlan, counted_key, in_writing, part_written,
};

use super::super::keys::rates::LIMIT_OVERRIDE;
use super::super::name::Names;
use super::super::problem::Problems;
use super::super::section::Section;
use super::{Around, fleet, headroom, rate, refuse_too_dear, spec};

/// Those of one limit.
pub(super) struct Overrides<'a> {
    /// Where the limit stands.
    pub(super) section: &'a Section<'a>,
    /// Its place.
    pub(super) of: usize,
    /// What it is without them.
    pub(super) limit: &'a LimitPlan,
    pub(super) around: &'a Around<'a>,
}

impl Overrides<'_> {
    /// The limits that hold in place of it.
    pub(super) fn read(&self, names: &mut Names, problems: &Problems) -> Vec<LimitPlan> {
        let nodes = self.section.sections("override", "[[limit.override]]");
        if !nodes.is_empty() && !self.has_keys() {
            return Vec::new();
        }
        let mut limits: Vec<LimitPlan> = Vec::new();
        for node in nodes {
            let section = Section::new("[[limit.override]]", node, LIMIT_OVERRIDE, &[], problems);
            let name = section.text("name");
            names.take(&section, name);
            let key = self.key(&section);
            let is_same = |it: &LimitPlan| it.instead.as_ref().is_some_and(|it| it.key == key);
            if limits.iter().any(is_same) && section.sound(&["key"]) {
                section.refuse(
                    "key",
                    format!("{} is overridden already", in_words(&key)),
                    "remove one of the two; addresses of one network, as long as `key` of the limit says, are one key",
                );
            }
            let rate = rate(&section);
            let spec = rate.and_then(|rate| spec(&section, self.limit.algorithm, rate));
            if let Some(spec) = spec {
                refuse_too_dear(&section, &spec, &self.limit.cost);
            }
            let counted = headroom::counted(&section, spec, self.limit.follows.as_ref());
            let of_fleet = self.limit.fleet.is_some();
            limits.push(LimitPlan {
                name: name.to_owned(),
                rate: rate.unwrap_or(self.limit.rate),
                spec: spec.unwrap_or(Spec::Deny),
                fleet: of_fleet
                    .then(|| fleet::fleet(self.section, rate, counted, self.around))
                    .flatten(),
                instead: Some(Instead {
                    of: self.of,
                    name: self.limit.name.clone(),
                    key,
                }),
                ..self.limit.clone()
            });
        }
        limits
    }

    /// Whether there are keys that can be written down.
    fn has_keys(&self) -> bool {
        let key = &self.limit.key;
        let (why, fix) = if key.iter().any(|part| matches!(part, KeyPart::ApiKey(_))) {
            (
                "an API key cannot be written down here: its hash is another one in each installation",
                "remove [[limit.override]], or count by what the key stands for, such as { header = … } from your proxy",
            )
        } else if counted_key(self.limit, &[]).is_ok() {
            (
                "the limit counts all requests together, and has no keys that could have others",
                "remove [[limit.override]], or write a key",
            )
        } else {
            return true;
        };
        if self.section.sound(&["key"]) {
            self.section.refuse("override", why, fix);
        }
        false
    }

    /// The key that it is for, as the limit counts by it: two addresses of one network are one key.
    fn key(&self, section: &Section<'_>) -> Vec<Option<String>> {
        let parts = section.texts("key").into_iter();
        let parts = parts.map(|(part, _)| part_written(part).map(str::to_owned));
        let key: Vec<Option<String>> = parts.collect();
        if !section.sound(&["key"]) || !self.section.sound(&["key"]) {
            return key;
        }
        counted_key(self.limit, &key).unwrap_or_else(|why| {
            section.refuse(
                "key",
                format!("this is no key of {}: {why}", self.limit.name),
                "write its parts in their order and without constants, as `tidegate limit show` takes them",
            );
            key
        })
    }
}

/// A key as it is written by hand.
fn in_words(key: &[Option<String>]) -> String {
    let parts: Vec<_> = key.iter().map(|part| in_writing(part.as_deref())).collect();
    parts.join(" ")
}

/// Each of them has a place of its own.
pub(super) fn refuse_too_many(root: &Section<'_>, limits: usize) {
    if limits > LIMITS_CONFIGURED_MAX {
        root.refuse(
            "limit",
            format!("{limits} limits with their overrides"),
            format!("write at most {LIMITS_CONFIGURED_MAX}"),
        );
    }
}
