//! Where the decisions of an application are written down.

use std::path::PathBuf;

use tidegate_gateway::plan::{AppPlan, JournalPlan};

use super::section::Section;

/// The decision log, if one is asked for; no two applications may have the same.
pub(crate) fn journal(section: &Section<'_>) -> Option<JournalPlan> {
    let bytes_max = section.bytes("decision_log_max");
    let Some(text) = section.text_if_set("decision_log") else {
        if section.has("decision_log_max") && section.sound(&["decision_log_max"]) {
            section.refuse(
                "decision_log_max",
                "`decision_log_max` has no effect: no log is written",
                "add decision_log = \"/var/log/tidegate/shop.tglog\", say, or remove decision_log_max",
            );
        }
        return None;
    };
    if (text.is_empty() || text.ends_with('/')) && section.sound(&["decision_log"]) {
        section.refuse(
            "decision_log",
            format!("`decision_log = \"{text}\"` names no file"),
            "write a path such as \"/var/log/tidegate/shop.tglog\"",
        );
    }
    Some(JournalPlan {
        path: PathBuf::from(text),
        bytes_max,
    })
}

/// Two writers of one file would each take it for their own.
pub(crate) fn refuse_shared(section: &Section<'_>, app: &AppPlan, earlier: &[AppPlan]) {
    let path = |app: &AppPlan| app.journal.as_ref().map(|journal| journal.path.clone());
    let Some(own) = path(app).filter(|_| section.sound(&["decision_log"])) else {
        return;
    };
    if let Some(first) = earlier
        .iter()
        .find(|first| path(first).as_ref() == Some(&own))
    {
        section.refuse(
            "decision_log",
            format!(
                "application \"{}\" writes its decisions to the same file",
                first.name
            ),
            "give each application a file of its own",
        );
    }
}
