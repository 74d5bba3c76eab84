//! Other limits for some keys of a limit: `[[limit.override]]`.

use http::HeaderValue;
use tidegate_core::rate::Spec;
use tidegate_gateway::rate::{
    Instead, KeyPart, LIMITS_CONFIGURED_MAX, LimitPlan, NetworkPlan, counted_key, in_writing,
    part_written,
};

use super::super::keys::rates::LIMIT_OVERRIDE;
use super::super::name::Names;
use super::super::problem::Problems;
use super::super::section::{Section, closest};
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
    pub(super) networks: &'a [NetworkPlan],
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
        match counted_key(self.limit, &key) {
            Ok(counted) => {
                self.refuse_unmet(section, &counted);
                self.refuse_unsendable(section, &counted);
                counted
            }
            Err(why) => {
                section.refuse(
                    "key",
                    format!("this is no key of {}: {why}", self.limit.name),
                    "write its parts in their order and without constants, as `tidegate limit show` takes them",
                );
                key
            }
        }
    }

    /// A route or a network that there is not is the key of no request.
    fn refuse_unmet(&self, section: &Section<'_>, key: &[Option<String>]) {
        if !self.section.sound(&["apps", "routes"]) {
            return;
        }
        let parts = self.limit.key.iter();
        let said = parts.filter(|part| !matches!(part, KeyPart::Constant(_)));
        for (part, word) in said.zip(key) {
            let Some(word) = word.as_deref() else {
                continue;
            };
            let (what, known) = match part {
                KeyPart::Route => ("route", self.routes()),
                KeyPart::Network => {
                    let names = self.networks.iter().map(|it| it.name.as_str());
                    ("network", names.collect())
                }
                _ => continue,
            };
            if known.contains(&word) {
                continue;
            }
            let fix = match closest(word, known.into_iter()) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("write the name of a {what} that the limit is for"),
            };
            let problem = format!(
                "there is no {what} called \"{word}\" that {} is for",
                self.limit.name
            );
            section.refuse("key", problem, fix);
        }
    }

    /// What no header can have is the key of no request.
    fn refuse_unsendable(&self, section: &Section<'_>, key: &[Option<String>]) {
        let parts = self.limit.key.iter();
        let said = parts.filter(|part| !matches!(part, KeyPart::Constant(_)));
        for (part, word) in said.zip(key) {
            let (KeyPart::Header(name), Some(word)) = (part, word) else {
                continue;
            };
            let why = if word.trim_matches([' ', '\t']) != word {
                "blanks around a header's value are no part of it"
            } else if HeaderValue::from_bytes(word.as_bytes()).is_err() {
                "a header's value has no control characters"
            } else {
                continue;
            };
            section.refuse(
                "key",
                format!("no request has this key, whose part for header {name} is {word:?}: {why}"),
                "write the value as the header has it",
            );
        }
    }

    /// The routes whose requests meet the limit.
    fn routes(&self) -> Vec<&str> {
        let apps = self.around.apps.iter();
        let routes = apps.flat_map(|app| app.routes.iter().map(move |route| (app, route)));
        routes
            .filter(|(app, route)| self.limit.applies_to(app, route))
            .map(|(_, route)| route.name.as_str())
            .collect()
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
