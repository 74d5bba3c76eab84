//! What is wrong with a server's settings for what it is used for, and what to set instead.

use tidegate_core::session::WriteClass;
use tidegate_store::redis::{Arrangement, Found, RedisPlan, Use};

use crate::config::{Setup, may_be_evicted};

/// The oldest release whose commands are enough.
const VERSION_MIN: (u32, u32) = (7, 0);

/// A hash with a longer field takes several times the memory.
const LISTPACK_VALUE_MIN: u64 = 1024;

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) weight: Weight,
    pub(super) text: String,
    pub(super) fix: String,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Without it something will not work, or lose what it should not.
    Must,
    /// It works, and worse than it could.
    Should,
}

/// What the servers are used for.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    keeps: bool,
    sessions: bool,
    arrangement: Kind,
    /// Replicas that some write waits for.
    replicas: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Standalone,
    Sentinel,
    Cluster,
}

impl Needs {
    /// What `uses` need of the servers of `plan`.
    pub(super) fn of(uses: &[Use], plan: &RedisPlan, setup: &Setup) -> Self {
        let sessions = (setup.sessions.as_ref()).filter(|_| uses.contains(&Use::Sessions));
        let waited = sessions.map_or(0, |sessions| {
            let waits = WriteClass::ALL.map(|class| sessions.desk.durability(class).wait);
            let replicas = waits.iter().flatten().map(|wait| wait.replicas);
            replicas.max().unwrap_or(0)
        });
        Self {
            keeps: uses.iter().any(|&which| !may_be_evicted(which)),
            sessions: uses.contains(&Use::Sessions),
            arrangement: match plan.arrangement {
                Arrangement::Standalone(_) => Kind::Standalone,
                Arrangement::Sentinel { .. } => Kind::Sentinel,
                Arrangement::Cluster(_) => Kind::Cluster,
            },
            replicas: waited,
        }
    }
}

/// What to change at a server that says `found` of itself.
pub(super) fn advice(found: &Found, needs: &Needs) -> Vec<Advice> {
    let mut advice = Vec::new();
    version(found, &mut advice);
    if found.role == "slave" && needs.arrangement == Kind::Standalone {
        advice.push(must(
            "it is a replica, and takes no writes",
            "name its master in url; or let Sentinels say who is master: mode = \"sentinel\"",
        ));
    }
    if found.settings.is_empty() {
        advice.push(should(
            "it does not tell its settings (CONFIG GET is forbidden, as in many a hosted service)",
            "see to it there that maxmemory-policy is noeviction, that writes reach the disk, and that \
             min-replicas-to-write is 1",
        ));
        return advice;
    }
    eviction(found, needs, &mut advice);
    replication(found, needs, &mut advice);
    disk(found, needs, &mut advice);
    if needs.sessions {
        let value = number(found, "hash-max-listpack-value");
        if value.is_some_and(|value| value < LISTPACK_VALUE_MIN) {
            advice.push(should(
                format!(
                    "hash-max-listpack-value is {}: one longer attribute multiplies the memory of its session",
                    value.unwrap_or_default()
                ),
                "CONFIG SET hash-max-listpack-value 1024",
            ));
        }
    }
    advice
}

fn version(found: &Found, advice: &mut Vec<Advice>) {
    let mut numbers = found
        .version
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < VERSION_MIN {
        advice.push(must(
            format!("version {} is too old", found.version),
            "use Redis 7.0, or Valkey, or later",
        ));
    }
}

fn eviction(found: &Found, needs: &Needs, advice: &mut Vec<Advice>) {
    if !needs.keeps {
        return;
    }
    if let Some(policy) = found.settings.get("maxmemory-policy")
        && policy != "noeviction"
    {
        let limited = number(found, "maxmemory").is_some_and(|bytes| bytes > 0);
        let text = format!("maxmemory-policy is {policy}: short of memory it throws sessions away");
        let fix = "CONFIG SET maxmemory-policy noeviction";
        advice.push(if limited {
            must(text, fix)
        } else {
            should(text, fix)
        });
    }
    if found.evicted_keys > 0 {
        advice.push(should(
            format!("{} keys were evicted since its start", found.evicted_keys),
            "give it more memory, and set maxmemory-policy noeviction",
        ));
    }
}

fn replication(found: &Found, needs: &Needs, advice: &mut Vec<Advice>) {
    if found.role == "slave" {
        return;
    }
    if found.replicas < needs.replicas.into() {
        advice.push(should(
            format!(
                "{} replicas are connected, but writes wait for {}",
                found.replicas, needs.replicas
            ),
            "connect a replica, or write a durability without wait in [sessions.durability]",
        ));
    }
    if needs.arrangement == Kind::Standalone {
        return;
    }
    if number(found, "min-replicas-to-write") == Some(0) {
        advice.push(should(
            "min-replicas-to-write is 0: a master that is cut off goes on taking writes that the next one \
             does not have",
            "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag 2",
        ));
    } else if number(found, "min-replicas-max-lag").is_some_and(|lag| lag > 2) {
        advice.push(should(
            "min-replicas-max-lag is more than 2 seconds: for so long a master that is cut off takes writes",
            "CONFIG SET min-replicas-max-lag 2",
        ));
    }
    let full = found.settings.get("cluster-require-full-coverage");
    if needs.arrangement == Kind::Cluster && full.is_some_and(|full| full == "yes") {
        advice.push(should(
            "cluster-require-full-coverage is yes: one shard that is gone takes all of them away",
            "CONFIG SET cluster-require-full-coverage no",
        ));
    }
}

fn disk(found: &Found, needs: &Needs, advice: &mut Vec<Advice>) {
    if !needs.keeps {
        return;
    }
    let setting = |name| found.settings.get(name).map(String::as_str);
    match (setting("appendonly"), setting("appendfsync")) {
        (Some("no"), _) => advice.push(should(
            "appendonly is no: a restart loses what was written since the last snapshot",
            "CONFIG SET appendonly yes, and appendfsync everysec",
        )),
        (Some("yes"), Some("no")) => advice.push(should(
            "appendfsync is no: the machine's failure loses what the system had not written, up to half a \
             minute",
            "CONFIG SET appendfsync everysec",
        )),
        _ => {}
    }
}

fn number(found: &Found, name: &str) -> Option<u64> {
    found.settings.get(name)?.parse().ok()
}

fn must(text: impl Into<String>, fix: impl Into<String>) -> Advice {
    Advice {
        weight: Weight::Must,
        text: text.into(),
        fix: fix.into(),
    }
}

fn should(text: impl Into<String>, fix: impl Into<String>) -> Advice {
    Advice {
        weight: Weight::Should,
        ..must(text, fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(arrangement: Kind) -> Needs {
        Needs {
            keeps: true,
            sessions: true,
            arrangement,
            replicas: 1,
        }
    }

    fn found(settings: &[(&str, &str)]) -> Found {
        let usual = [
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("hash-max-listpack-value", "1024"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("min-replicas-to-write", "1"),
            ("min-replicas-max-lag", "2"),
        ];
        let all = usual.iter().chain(settings);
        Found {
            product: "redis".to_owned(),
            version: "7.0.15".to_owned(),
            role: "master".to_owned(),
            replicas: 1,
            evicted_keys: 0,
            settings: all
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn said(found: &Found, kind: Kind) -> Vec<(Weight, String)> {
        let advice = advice(found, &needs(kind));
        advice
            .into_iter()
            .map(|advice| (advice.weight, advice.text))
            .collect()
    }

    #[test]
    fn there_is_nothing_to_say_about_a_server_that_is_set_up_well() {
        for kind in [Kind::Standalone, Kind::Sentinel, Kind::Cluster] {
            assert_eq!(said(&found(&[]), kind), []);
        }
    }

    #[test]
    fn each_bad_setting_is_said() {
        for (name, value, kind) in [
            ("maxmemory-policy", "allkeys-lru", Kind::Standalone),
            ("hash-max-listpack-value", "64", Kind::Standalone),
            ("appendonly", "no", Kind::Standalone),
            ("appendfsync", "no", Kind::Standalone),
            ("min-replicas-to-write", "0", Kind::Sentinel),
            ("min-replicas-max-lag", "10", Kind::Sentinel),
            ("cluster-require-full-coverage", "yes", Kind::Cluster),
        ] {
            let said = said(&found(&[(name, value)]), kind);
            assert_eq!(said.len(), 1, "{name}: {said:?}");
            assert_eq!(said[0].0, Weight::Should);
            assert!(said[0].1.contains(name), "{said:?}");
        }
    }

    #[test]
    fn what_loses_sessions_must_be_changed() {
        let evicts = [
            ("maxmemory-policy", "volatile-lru"),
            ("maxmemory", "100000"),
        ];
        assert_eq!(said(&found(&evicts), Kind::Cluster)[0].0, Weight::Must);
        let old = Found {
            version: "6.2.7".to_owned(),
            ..found(&[])
        };
        assert_eq!(said(&old, Kind::Cluster)[0].0, Weight::Must);
        let replica = Found {
            role: "slave".to_owned(),
            ..found(&[])
        };
        assert_eq!(said(&replica, Kind::Standalone)[0].0, Weight::Must);
        assert_eq!(said(&replica, Kind::Sentinel), []);
    }

    #[test]
    fn a_server_that_tells_nothing_is_told_so() {
        let mute = Found {
            settings: std::collections::BTreeMap::new(),
            replicas: 0,
            ..found(&[])
        };
        assert_eq!(said(&mute, Kind::Standalone).len(), 1);
    }
}
