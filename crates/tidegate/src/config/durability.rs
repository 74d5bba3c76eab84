//! How safe each kind of write is to be: `[sessions.durability]`.

use std::time::Duration;

use tidegate_core::session::{Durability, OnShort, Wait, WriteClass};

use super::section::Section;

/// Replicas that may be asked for: more than any sound arrangement has.
const REPLICAS_MAX: u8 = 16;
/// A visitor waits for so long at most.
const WITHIN_MAX: Duration = Duration::from_secs(5);

/// The durability of every class, by [`WriteClass::index`]. With `one_server` there are no replicas
/// to wait for unless somebody says so.
pub(crate) fn durabilities(
    section: &Section<'_>,
    one_server: bool,
) -> [Durability; WriteClass::ALL.len()] {
    WriteClass::ALL.map(|class| {
        let mut usual = class.usual();
        if one_server {
            usual.wait = None;
        }
        // A touch rides on a read, and its loss is a session that ends a minute early.
        if class == WriteClass::Touch {
            return usual;
        }
        let Some(text) = section.text_if_set(class.name()) else {
            return usual;
        };
        if !section.sound(&[class.name()]) {
            return usual;
        }
        parse(text).unwrap_or_else(|why| {
            section.refuse(
                class.name(),
                format!("`{} = \"{text}\"` {why}", class.name()),
                "write \"async\", \"redo\", \"wait(1, 50ms) degrade\" or \"redo + wait(1, 50ms) fail\", say",
            );
            usual
        })
    })
}

/// What is written back by [`show`].
fn parse(text: &str) -> Result<Durability, String> {
    let text = text.trim();
    if text == "async" {
        return Ok(Durability::ASYNC);
    }
    if text == "redo" {
        return Ok(Durability::REDO);
    }
    let (redo, wait) = match text.strip_prefix("redo") {
        Some(rest) => match rest.trim_start().strip_prefix('+') {
            Some(wait) => (true, wait.trim_start()),
            None => return Err("says more than redo, but not with a +".to_owned()),
        },
        None => (false, text),
    };
    let wait = wait_of(wait)?;
    Ok(Durability {
        redo,
        wait: Some(wait),
    })
}

fn wait_of(text: &str) -> Result<Wait, String> {
    let inner = (text.strip_prefix("wait"))
        .and_then(|rest| rest.trim_start().strip_prefix('('))
        .ok_or("is no durability")?;
    let (numbers, on_short) = inner.split_once(')').ok_or("has no closing bracket")?;
    let (replicas, within) = numbers
        .split_once(',')
        .ok_or("does not say for how many replicas and for how long to wait")?;
    let replicas = replicas.trim().parse().ok();
    let replicas = replicas
        .filter(|replicas| (1..=REPLICAS_MAX).contains(replicas))
        .ok_or_else(|| format!("waits for no number of replicas from 1 to {REPLICAS_MAX}"))?;
    let within = humantime::parse_duration(within.trim()).ok();
    let within = within
        .filter(|within| (Duration::from_millis(1)..=WITHIN_MAX).contains(within))
        .ok_or("waits for no time from 1ms to 5s")?;
    let on_short = match on_short.trim() {
        "degrade" => OnShort::Degrade,
        "fail" => OnShort::Fail,
        _ => {
            return Err(
                "does not say what happens when too few replicas answer: degrade or fail"
                    .to_owned(),
            );
        }
    };
    Ok(Wait {
        replicas,
        within,
        on_short,
    })
}

/// `durability` as a configuration has it.
pub(crate) fn show(durability: Durability) -> String {
    let Some(wait) = durability.wait else {
        return if durability.redo { "redo" } else { "async" }.to_owned();
    };
    format!(
        "{}wait({}, {}) {}",
        if durability.redo { "redo + " } else { "" },
        wait.replicas,
        humantime::format_duration(wait.within),
        match wait.on_short {
            OnShort::Degrade => "degrade",
            OnShort::Fail => "fail",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_reads_back() {
        for text in [
            "async",
            "redo",
            "wait(1, 50ms) degrade",
            "redo + wait(2, 1s) fail",
        ] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
        assert_eq!(
            parse(" redo+wait( 2,1s )fail "),
            parse("redo + wait(2, 1s) fail")
        );
    }

    #[test]
    fn the_defaults_in_the_table_are_the_usual_ones() {
        for key in super::super::keys::sessions::DURABILITY {
            let class = WriteClass::ALL
                .into_iter()
                .find(|class| class.name() == key.name);
            let said = key.otherwise.to_string();
            let usual = said.split(", with one server").next().unwrap();
            assert_eq!(show(class.unwrap().usual()), usual);
        }
    }

    #[test]
    fn what_is_no_durability_says_why() {
        for (text, why) in [
            ("sync", "is no durability"),
            ("redo wait(1, 50ms) fail", "not with a +"),
            ("wait(1, 50ms)", "degrade or fail"),
            ("wait(1) fail", "for how long"),
            ("wait(0, 50ms) fail", "from 1 to 16"),
            ("wait(1, 50) fail", "from 1ms to 5s"),
            ("wait(1, 1h) fail", "from 1ms to 5s"),
            ("wait(1, 50ms fail", "no closing bracket"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
