//! The files that are written for an application.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tidegate_core::limit::Kind;
use tidegate_gateway::plan::{AppPlan, JournalPlan};

use super::section::Section;

/// The decision log, if one is asked for.
pub(crate) fn journal(section: &Section<'_>) -> Option<JournalPlan> {
    let bytes_max = section.bytes("decision_log_max");
    let path = path(section, "decision_log", "/var/log/tidegate/shop.tglog");
    if path.is_none() && section.has("decision_log_max") && section.sound(&["decision_log_max"]) {
        section.refuse(
            "decision_log_max",
            "`decision_log_max` has no effect: no log is written",
            "add decision_log = \"/var/log/tidegate/shop.tglog\", say, or remove decision_log_max",
        );
    }
    path.map(|path| JournalPlan { path, bytes_max })
}

/// Where what the limit has learnt is kept, if that is asked for.
pub(crate) fn warm_start(section: &Section<'_>, limit: &Kind) -> Option<PathBuf> {
    let path = path(section, "warm_start", "/var/lib/tidegate/shop.json")?;
    if !matches!(limit, Kind::Adaptive(_)) && section.sound(&["warm_start", "limit"]) {
        section.refuse(
            "warm_start",
            format!(
                "`warm_start` has no effect: the limit is {}, and only an adaptive one can begin where \
                 it left off",
                limit.name()
            ),
            "remove warm_start, or choose limit = \"adaptive\"",
        );
    }
    Some(path)
}

/// Two writers of one file would each take it for their own.
pub(crate) fn refuse_shared(section: &Section<'_>, app: &AppPlan, earlier: &[AppPlan]) {
    for (key, own) in files(app) {
        let meets = |path: &Path| {
            let own = [own.to_owned(), twin(key, own)];
            own.iter().any(|own| own == path)
        };
        let shares =
            |(other, path): (&'static str, &Path)| meets(path) || meets(&twin(other, path));
        let other = earlier.iter().find(|other| files(other).any(shares));
        let twice = files(app).any(|(other, path)| other != key && shares((other, path)));
        let name = other.or_else(|| twice.then_some(app)).map(|app| &app.name);
        if let Some(name) = name.filter(|_| section.sound(&["decision_log", "warm_start"])) {
            section.refuse(
                key,
                format!("`{key}` names a file that application \"{name}\" writes as well"),
                "give each its own file; a decision log has a second one with .old behind its name, a \
                 warm start file one with .new",
            );
        }
    }
}

fn files(app: &AppPlan) -> impl Iterator<Item = (&'static str, &Path)> {
    let journal = app.journal.as_ref().map(|journal| journal.path.as_path());
    let files = [
        ("decision_log", journal),
        ("warm_start", app.warm_start.as_deref()),
    ];
    files
        .into_iter()
        .filter_map(|(key, path)| Some((key, path?)))
}

/// The file that is written beside what `key` names: the log before, or the state before it is whole.
fn twin(key: &str, path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(if key == "decision_log" {
        ".old"
    } else {
        ".new"
    });
    name.into()
}

fn path(section: &Section<'_>, key: &'static str, example: &str) -> Option<PathBuf> {
    let text = section.text_if_set(key)?;
    if (text.is_empty() || text.ends_with('/')) && section.sound(&[key]) {
        section.refuse(
            key,
            format!("`{key} = \"{text}\"` names no file"),
            format!("write a path such as \"{example}\""),
        );
    }
    Some(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{MINIMAL, app_error, errors, plan};

    #[test]
    fn a_file_has_one_writer() {
        let log = "decision_log = \"a.tglog\"\n";
        let journal = plan(&format!("{MINIMAL}{log}"))
            .apps
            .remove(0)
            .journal
            .unwrap();
        assert_eq!(journal.path, std::path::Path::new("a.tglog"));
        assert_eq!(journal.bytes_max, 1 << 30);

        let two = format!(
            "{MINIMAL}hosts = [\"a\"]\n{log}[[app]]\nname = \"b\"\nupstream = \"http://127.0.0.1:1\"\n\
             warm_start = \"a.tglog\"\n"
        );
        assert_eq!(
            errors(&two)[0].1,
            "`warm_start` names a file that application \"app\" writes as well"
        );
        assert_eq!(
            app_error("decision_log = \"a\"\nwarm_start = \"a\"").0,
            "`decision_log` names a file that application \"app\" writes as well"
        );
    }

    #[test]
    fn the_file_beside_it_has_one_writer_too() {
        for (own, others) in [
            ("decision_log = \"o\"", "decision_log = \"o.old\""),
            ("decision_log = \"o.old\"", "decision_log = \"o\""),
            ("warm_start = \"o\"", "decision_log = \"o.new\""),
        ] {
            let two = format!(
                "{MINIMAL}hosts = [\"a\"]\n{own}\n[[app]]\nname = \"b\"\n\
                 upstream = \"http://127.0.0.1:1\"\n{others}\n"
            );
            let error = &errors(&two).remove(0).1;
            let met = "names a file that application \"app\" writes as well";
            assert!(error.ends_with(met), "{error}");
        }
        assert_eq!(
            app_error("decision_log = \"a\"\nwarm_start = \"a.old\"").0,
            "`decision_log` names a file that application \"app\" writes as well"
        );
        plan(&format!(
            "{MINIMAL}decision_log = \"a\"\nwarm_start = \"a.new\"\n"
        ));
    }

    #[test]
    fn a_file_that_would_never_be_written_is_refused() {
        assert_eq!(
            app_error("decision_log = \"logs/\"").0,
            "`decision_log = \"logs/\"` names no file"
        );
        assert_eq!(
            app_error("decision_log_max = \"2GiB\"").0,
            "`decision_log_max` has no effect: no log is written"
        );
        assert!(
            app_error("workers = 4\nwarm_start = \"shop.json\"")
                .0
                .starts_with("`warm_start` has no effect: the limit is static")
        );
        let app = plan(&format!("{MINIMAL}warm_start = \"shop.json\"\n"))
            .apps
            .remove(0);
        assert_eq!(app.warm_start.unwrap(), std::path::Path::new("shop.json"));
    }
}
