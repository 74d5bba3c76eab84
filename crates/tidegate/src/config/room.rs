//! Waiting rooms: `[[room]]`.

mod line;
mod page;
mod pass;
mod route;
mod webhook;
mod when;

use std::path::{Path, PathBuf};

use tidegate_core::room::{Phase, RoomName};
use tidegate_gateway::plan::AppPlan;
use tidegate_gateway::room::{Algorithm, Keys, RoomPlan, draw_key};
use tidegate_page::Theme;
use tidegate_store::redis::Use;

use super::keys::room::ROOM;
use super::problem::Problems;
use super::section::{Section, closest};
use super::sessions::Sessions;
use super::store::Store;

/// More rooms than this nobody looks after.
const ROOMS_CONFIGURED_MAX: usize = 16;

/// What rooms refer to.
pub(crate) struct Around<'a> {
    /// Where paths begin that begin nowhere themselves: where the configuration file is.
    pub(crate) folder: &'a Path,
    pub(crate) sessions: Option<&'a Sessions>,
    pub(crate) store: &'a Store,
}

/// Rooms as they are configured. Keys, secrets and themes are in their files until they are needed.
#[derive(Default)]
pub(crate) struct Rooms {
    /// With keys of its own in place of those of `key_file`, without secrets, and plain.
    pub(crate) plans: Vec<RoomPlan>,
    /// The file that says how each looks, if one does.
    pub(crate) themes: Vec<Option<PathBuf>>,
}

/// The rooms at `[[room]]`. The routes of `apps` that they are before get to know of them.
pub(crate) fn rooms(
    root: &Section<'_>,
    apps: &mut [AppPlan],
    around: &Around<'_>,
    problems: &Problems,
) -> Rooms {
    let nodes = root.sections("room", "[[room]]");
    let mut rooms = Rooms::default();
    if nodes.len() > ROOMS_CONFIGURED_MAX {
        root.refuse(
            "room",
            format!("{} rooms", nodes.len()),
            format!("write at most {ROOMS_CONFIGURED_MAX}; one may be before many routes"),
        );
        return rooms;
    }
    if !nodes.is_empty() {
        refuse_apart(root, around.store);
    }
    let mut names = Vec::new();
    for node in nodes {
        let section = Section::new("[[room]]", node, ROOM, &["webhook"], problems);
        let name = name(&section, &mut names);
        if let Some(at) = app(&section, apps) {
            let app = &mut apps[at];
            for route in route::covered(&section, app, &rooms.plans) {
                app.routes[route].room = Some(rooms.plans.len());
            }
        }
        let plan = plan(&section, name, around, problems);
        refuse_shared_files(&section, &plan, &rooms.plans);
        rooms.plans.push(plan);
        rooms.themes.push(path(&section, "theme", around.folder));
    }
    rooms
}

fn plan(
    section: &Section<'_>,
    name: RoomName,
    around: &Around<'_>,
    problems: &Problems,
) -> RoomPlan {
    let folder = around.folder;
    RoomPlan {
        tokens: pass::tokens(section, name, around.sessions),
        key_file: needed_path(section, "key_file", folder),
        keys: stand_in(),
        phase: (section.choice("phase").and_then(Phase::parse)).unwrap_or_default(),
        order: line::order(section, problems),
        bounds: line::bounds(section),
        load_each: section.number("visitor_rps"),
        rules: line::rules(section),
        claim_within: section.span("claim_within"),
        extensions_max: line::few(section, "more_time"),
        asks: line::asks(section),
        on_store_loss: line::on_store_loss(section),
        joins: line::joins(section),
        page_status: page::status(section),
        theme: Theme::default(),
        message: page::message(section),
        event: page::event(section),
        state: path(section, "state", folder),
        audit: path(section, "audit", folder),
        webhooks: webhook::webhooks(section, folder, problems),
    }
}

/// The name of a room, which none of `taken` is.
fn name<'t>(section: &Section<'t>, taken: &mut Vec<&'t str>) -> RoomName {
    let text = section.text("name");
    let name = RoomName::new(text).ok();
    if section.sound(&["name"]) {
        if name.is_none() {
            section.refuse(
                "name",
                format!("`name = \"{text}\"` is no name of a room"),
                format!(
                    "write 1 to {} of a-z, 0-9 and '-': it is in the names of cookies",
                    RoomName::LEN_MAX
                ),
            );
        } else if taken.contains(&text) {
            section.refuse(
                "name",
                format!("a second room is called \"{text}\""),
                "give each a name of its own",
            );
        } else {
            taken.push(text);
        }
    }
    name.unwrap_or_else(|| RoomName::new("room").expect("a word is a name"))
}

/// Which of `apps` the room is before.
fn app(section: &Section<'_>, apps: &[AppPlan]) -> Option<usize> {
    let Some(text) = section.text_if_set("app") else {
        if apps.len() > 1 {
            section.refuse(
                "app",
                format!(
                    "[[room]] needs `app`: there are {} applications",
                    apps.len()
                ),
                format!(
                    "write which one it is before, such as app = \"{}\"",
                    apps[0].name
                ),
            );
        }
        // That there is none is said elsewhere.
        return (apps.len() == 1).then_some(0);
    };
    if !section.sound(&["app"]) {
        return None;
    }
    let found = apps.iter().position(|app| app.name == text);
    if found.is_none() {
        let fix = match closest(text, apps.iter().map(|app| app.name.as_str())) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => "write the name of one that is configured".to_owned(),
        };
        let message = format!("there is no application called \"{text}\"");
        section.refuse("app", message, fix);
    }
    found
}

/// Nodes that hear what the whole fleet has to spare, and let in so many each, would let in too many.
fn refuse_apart(root: &Section<'_>, store: &Store) {
    if store.servers(Use::Room).is_none() && store.servers(Use::Bus).is_some() {
        root.refuse(
            "room",
            "the nodes of the fleet share [store.bus] but no rooms: each would have a line of its own, and let in what \
             all of them can take",
            "add [store.room] with url = \"redis://…\", or name the server in [store], which is for every use",
        );
    }
}

/// Two writers of one file would each take it for their own.
fn refuse_shared_files(section: &Section<'_>, plan: &RoomPlan, earlier: &[RoomPlan]) {
    for (key, own) in [("state", &plan.state), ("audit", &plan.audit)] {
        let Some(own) = own.as_deref() else { continue };
        let has = |other: &Option<PathBuf>| other.as_deref() == Some(own);
        let writes = |other: &RoomPlan| has(&other.state) || has(&other.audit);
        let other = earlier.iter().find(|other| writes(other));
        let twice = (key == "audit" && has(&plan.state)).then_some(plan);
        if let Some(other) = other.or(twice).filter(|_| section.sound(&[key])) {
            section.refuse(
                key,
                format!(
                    "`{key}` names a file that room \"{}\" writes as well",
                    other.tokens.room
                ),
                "give each its own file",
            );
        }
    }
}

/// The file at `key`. Where its path begins nowhere itself, it is below `folder`.
fn path(section: &Section<'_>, key: &'static str, folder: &Path) -> Option<PathBuf> {
    let text = section.text_if_set(key)?;
    let names_none = text.ends_with('/') || Path::new(text).file_name().is_none();
    if names_none && section.sound(&[key]) {
        section.refuse(
            key,
            format!("`{key} = \"{text}\"` names no file"),
            "write the path of a file; one that does not begin with / is beside the configuration file",
        );
    }
    Some(folder.join(text))
}

/// The same of a key that must be set.
fn needed_path(section: &Section<'_>, key: &'static str, folder: &Path) -> PathBuf {
    // Says so where it is missing.
    section.text(key);
    path(section, key, folder).unwrap_or_default()
}

/// Keys of nobody, until those of the room are read.
fn stand_in() -> Keys {
    let drawn = draw_key("stand-in", Algorithm::Hs256, 0);
    let file = format!("{{\"keys\":[{drawn}]}}");
    Keys::from_json(&file).expect("a key that was drawn is one")
}

#[cfg(test)]
mod tests;
