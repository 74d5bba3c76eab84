//! What a configuration needs of the machine that it is for, as far as a check can see from where it runs.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::Setup;

/// What is missing here of what `setup` names. It may be checked on another machine, so all of it are notes.
pub(crate) fn look(setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    let log = setup.fleet.as_ref().and_then(|it| it.decision_log.as_ref());
    if let Some(log) = log
        && let Some(folder) = folder_of(log)
        && !folder.is_dir()
    {
        notes.push(format!(
            "note: decision_log {}: there is no folder {} here, and a start fails without it",
            log.display(),
            folder.display()
        ));
    }
    notes.extend(of_rooms(setup, SystemTime::now()));
    let Some(look) = setup.agent.as_ref().map(|agent| &agent.look) else {
        return notes;
    };
    if let Some(pid) = look.pid
        && !look.roots.proc.join(pid.to_string()).is_dir()
    {
        notes.push(format!(
            "note: pid = {pid}: there is no such process here, so no cgroup of one is read"
        ));
    }
    if let Some(key) = look.unasked() {
        let runtime = look.runtime.name();
        notes.push(format!(
            "note: [agent] does not ask {runtime} how it is: without `{key}` it sees the machine, the listeners, and what \
             the application posts"
        ));
    }
    notes
}

/// What rooms name that is not here, or is over at `now`.
fn of_rooms(setup: &Setup, now: SystemTime) -> Vec<String> {
    let mut notes = Vec::new();
    for room in &setup.gateway.rooms {
        let name = &room.tokens.room;
        if let Some(event) = room.event {
            let starts = UNIX_EPOCH + Duration::from_millis(event.starts_ms);
            if starts <= now {
                notes.push(format!(
                    "warning: room {name}: starts = {} is past, and nobody gathers before it any more",
                    humantime::format_rfc3339(starts)
                ));
            }
        }
        for (key, path) in [("state", &room.state), ("audit", &room.audit)] {
            if let Some(path) = path
                && let Some(folder) = folder_of(path)
                && !folder.is_dir()
            {
                notes.push(format!(
                    "note: room {name}: {key} {}: there is no folder {} here",
                    path.display(),
                    folder.display()
                ));
            }
        }
    }
    notes
}

/// The folder that a file at `path` would be in, unless that is the one where the process runs.
fn folder_of(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    (!folder.as_os_str().is_empty()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, parse};

    fn notes(more: &str) -> Vec<String> {
        let app = "[[app]]\nname = \"shop\"\nupstream = \"http://127.0.0.1:8000\"\n";
        let setup = parse("file", &format!("{app}{more}"), &Flags::default());
        look(&setup.unwrap())
    }

    #[test]
    fn what_is_not_here_is_noted() {
        for (keys, said) in [
            (
                "[fleet]\ndecision_log = \"/nope/x\"\n",
                "there is no folder /nope here",
            ),
            (
                // More than there can be.
                "[fleet]\n[agent]\npid = 4194304\n",
                "pid = 4194304: there is no such process here",
            ),
            (
                "[fleet]\n[agent]\nruntime = \"tomcat\"\n",
                "does not ask tomcat how it is: without `url`",
            ),
            (
                "[[room]]\nname = \"sale\"\nkey_file = \"k\"\nstate = \"/nope/x\"\n",
                "room sale: state /nope/x: there is no folder /nope here",
            ),
        ] {
            let notes = notes(keys);

            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(notes[0].starts_with("note: "), "{notes:?}");
            assert!(notes[0].contains(said), "{notes:?}");
        }
    }

    #[test]
    fn what_is_here_is_not_mentioned() {
        let here = format!(
            "[fleet]\ndecision_log = \"{}\"\n[agent]\npid = {}\nruntime = \"tomcat\"\nurl = \"http://127.0.0.1:8082/manager\"\n",
            std::env::temp_dir().join("decisions.jsonl").display(),
            std::process::id()
        );
        assert_eq!(notes(&here), [""; 0]);
        assert_eq!(notes("[fleet]\ndecision_log = \"x.jsonl\"\n"), [""; 0]);
        assert_eq!(notes(""), [""; 0]);
    }

    #[test]
    fn what_began_already_is_warned_of() {
        let room = |starts: &str| {
            format!("[[room]]\nname = \"sale\"\nkey_file = \"k\"\nstarts = \"{starts}\"\n")
        };

        let past = notes(&room("2001-01-01T00:00:00Z"));

        assert_eq!(past.len(), 1, "{past:?}");
        assert!(
            past[0].starts_with("warning: room sale: starts = 2001-01-01T00:00:00Z is past"),
            "{past:?}"
        );
        assert_eq!(notes(&room("2999-01-01T00:00:00Z")), [""; 0]);
    }
}
