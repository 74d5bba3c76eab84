//! `tidegate room`: what can be done about waiting rooms.

mod audit;
mod export;
mod key;
mod orders;
mod show;
mod status;
pub(crate) mod theme;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Subcommand;
use serde_json::Value;
use tidegate_core::room::RoomName;

use crate::admin::Gateway;

/// How long a gateway may take to answer: an order waits for its store, and who asks in an incident has no time.
const PATIENCE: Duration = Duration::from_secs(5);

/// What can be done about waiting rooms.
#[derive(Subcommand)]
pub(crate) enum Command {
    Status(status::Args),
    #[command(flatten)]
    Order(orders::Command),
    Audit(audit::Args),
    Key(key::Args),
    Export(export::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Status(args) => status::run(&args),
        Command::Order(command) => orders::run(command),
        Command::Audit(args) => audit::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Export(args) => export::run(&args),
    }
}

/// The path of the room `name` at a gateway, or of the only one that it has.
fn path(gateway: &Gateway, name: Option<&str>) -> anyhow::Result<String> {
    let Some(name) = name else {
        let all = gateway.ask(PATIENCE, "GET", "/rooms", None)?;
        return only(&all).map(|name| format!("/rooms/{name}"));
    };
    // A name has nothing that would have to be escaped in a path.
    let name = RoomName::new(name).map_err(|bad| anyhow!("--room: {bad}"))?;
    Ok(format!("/rooms/{name}"))
}

/// The name of the only room among `all`.
fn only(all: &Value) -> anyhow::Result<&str> {
    let rooms = all["rooms"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = rooms
        .iter()
        .filter_map(|room| room["name"].as_str())
        .collect();
    match names[..] {
        [name] => Ok(name),
        [] => bail!("the gateway has no waiting room: its configuration has no [[room]]"),
        _ => bail!("say which room with --room: there is {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_room_need_not_be_named_where_there_is_one() {
        let rooms = |names: &[&str]| {
            let rooms: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "rooms": rooms })
        };

        assert_eq!(only(&rooms(&["shop"])).unwrap(), "shop");
        let two = only(&rooms(&["shop", "sale"])).unwrap_err().to_string();
        assert_eq!(two, "say which room with --room: there is shop, sale");
        let none = only(&rooms(&[])).unwrap_err().to_string();
        assert!(none.contains("no [[room]]"), "{none}");
    }
}
