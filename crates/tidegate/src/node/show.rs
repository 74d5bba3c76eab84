//! Nodes for people to read.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use tidegate_lab::text::escaped;

/// Nodes that are named of those that remain.
const REMAINING_MAX: usize = 5;

/// A table of all nodes, below what is said of the fleet.
pub(super) fn list(answer: &Value) -> String {
    let nodes = answer["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut page = fleet(&answer["fleet"], nodes);
    if nodes.is_empty() {
        page += "no node has been heard of within the last minute";
        return page;
    }
    let headings = [
        "node", "state", "weight", "left", "least of", "used", "for", "beacon", "notes",
    ];
    let mut rows = vec![headings.map(str::to_owned)];
    rows.extend(nodes.iter().map(row));
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or_default()
        })
        .collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(page, "{}", line.join("  ").trim_end());
    }
    page
}

fn row(node: &Value) -> [String; 9] {
    let text = |member: &str| node[member].as_str().map_or_else(dash, escaped);
    [
        text("node"),
        text("state"),
        node["weight"].to_string(),
        node["headroom"]
            .as_f64()
            .map_or_else(dash, |left| format!("{:.0} %", left * 100.0)),
        text("dimension"),
        used(node).unwrap_or_else(dash),
        lasting(&node["for_ms"]).unwrap_or_else(dash),
        match (node["beacon_age_ms"].as_u64(), &node["silent_for_ms"]) {
            (Some(age), _) => format!("{:.1} s ago", age as f64 / 1_000.0),
            (None, silent) => lasting(silent)
                .map_or_else(|| "silent".to_owned(), |span| format!("silent for {span}")),
        },
        notes(node),
    ]
}

fn notes(node: &Value) -> String {
    let mut notes = Vec::new();
    if node["source"] == "local" {
        notes.push("by itself".to_owned());
    }
    if let Some(guard) = node["guard"].as_str() {
        notes.push(format!("kept in ({})", escaped(guard)));
    }
    if let Some(drain) = node["drain"].as_object() {
        let by = drain["by"].as_str().map(escaped).unwrap_or_default();
        let is_done = drain["is_done"].as_bool() == Some(true);
        let word = if is_done { "drained" } else { "to be drained" };
        let time = |member: &str| drain.get(member).and_then(Value::as_u64).map(short);
        let since = time("since_ms").map_or_else(String::new, |span| format!(" {span} ago"));
        let until = time("left_ms").map_or_else(String::new, |span| format!(", for {span} yet"));
        notes.push(format!("{word} by {by}{since}{until}"));
    }
    notes.join(", ")
}

/// What takes new requests without the node `name`, in a sentence.
pub(super) fn remains(answer: &Value, name: &str) -> String {
    let nodes = answer["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let others = nodes.iter().filter(|node| {
        node["node"] != name && !node["beacon_age_ms"].is_null() && node["drain"].is_null()
    });
    let others: Vec<String> = others
        .map(|node| {
            let left = node["headroom"].as_f64();
            let left = left.map_or_else(
                || node["state"].as_str().map_or_else(dash, escaped),
                |left| format!("{:.0} % left", left * 100.0),
            );
            format!(
                "{}, {left}",
                node["node"].as_str().map_or_else(dash, escaped)
            )
        })
        .collect();
    if others.is_empty() {
        return "No other node takes requests, and the last one is never drained.".to_owned();
    }
    let named = others.iter().take(REMAINING_MAX).cloned();
    let named: Vec<String> = named.collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("What remains is {}{more}.", named.join("; "))
}

/// What the leader says of the fleet, in lines, of which these are the `rows`.
fn fleet(fleet: &Value, rows: &[Value]) -> String {
    if fleet.is_null() {
        return "nobody leads: every node goes by what it reads itself, and is stressed at most\n\n"
            .to_owned();
    }
    let leader = escaped(fleet["by"].as_str().unwrap_or_default());
    // A leader that has just begun has not seen all that are listed below.
    let count = |is: fn(&Value) -> bool| rows.iter().filter(|row| is(row)).count();
    let nodes = match rows.len() {
        1 => "1 node".to_owned(),
        many => format!("{many} nodes"),
    };
    let heard = count(|row| !row["beacon_age_ms"].is_null());
    let drained = count(|row| row["state"] == "drained");
    let mut page = format!(
        "{nodes}, {heard} heard of, {} out, {drained} drained; {leader} leads\n",
        fleet["out"]
    );
    if let Some(utilisation) = fleet["utilisation"].as_f64() {
        let spare = fleet["spare_rps"].as_f64();
        let spare = spare.map_or_else(String::new, |rps| format!(", {rps:.0} requests/s to spare"));
        let _ = writeln!(page, "{:.0} % used{spare}", utilisation * 100.0);
    }
    if let Some(sentence) = frozen(fleet) {
        let _ = writeln!(page, "{sentence}");
    }
    page.push('\n');
    page
}

/// What gateways let in, where that is less than usual.
fn slow(admission: f64) -> Option<String> {
    (admission < 1.0).then(|| {
        format!(
            "Gateways let in {:.0} % of the usual, the lowest classes last.",
            admission * 100.0
        )
    })
}

/// Why moving load from node to node does not help, if so.
fn frozen(fleet: &Value) -> Option<String> {
    let admission = fleet["admission"].as_f64().unwrap_or(1.0);
    let Some(freeze) = fleet["freeze"].as_str() else {
        return slow(admission);
    };
    let let_in = slow(admission).map_or_else(String::new, |let_in| format!(" {let_in}"));
    let why = match freeze {
        "dependency" => {
            let shared = &fleet["shared"];
            let dimension = shared["dimension"].as_str().unwrap_or("something");
            let lasting = lasting(&shared["for_ms"]);
            let since = lasting.map_or_else(String::new, |span| format!(" for {span}"));
            // Only what is behind the nodes tells of something that they share.
            let what = match dimension {
                "pool" | "latency" | "downstream" => "A shared dependency is in trouble",
                _ => {
                    "There is more load than there is room for, or something that all nodes wait for"
                }
            };
            format!(
                "{what}: {} got worse on many nodes at once{since}. Nobody is taken out for that.",
                meaning(dimension)
            )
        }
        "stressed" => {
            "More than half of what the fleet can do is stressed, so weights follow capacity alone."
                .to_owned()
        }
        "panic" => "Less than half of the fleet is heard of, so everybody is in with full weight."
            .to_owned(),
        guard => format!("The guard keeps saturated nodes in: {}.", guarding(guard)),
    };
    Some(why + &let_in)
}

/// A node, in sentences.
pub(super) fn why(answer: &Value) -> String {
    let (fleet, node) = (&answer["fleet"], &answer["node"]);
    let name = escaped(node["node"].as_str().unwrap_or_default());
    let state = node["state"].as_str().unwrap_or_default();
    let lasting_in = lasting(&node["for_ms"]).map_or_else(String::new, |it| format!(" for {it}"));
    let mut page = format!(
        "{name} is {}{lasting_in}, with weight {} of 100.\n",
        escaped(state),
        node["weight"]
    );
    let mut say = |sentence: String| {
        let _ = writeln!(page, "{sentence}");
    };
    if state == "unknown" {
        say(
            "Nothing is known that could tell how full it is. Silence counts as healthy."
                .to_owned(),
        );
    }
    if let Some(dimension) = node["dimension"].as_str() {
        say(least(node, dimension));
    }
    let left = node["headroom"].as_f64();
    if let Some(left) = left.filter(|_| state == "drained") {
        say(format!(
            "{:.0} % of it is left. Nothing is decided by that while it is drained.",
            left * 100.0
        ));
    } else if let Some(left) = left {
        say(format!(
            "{:.0} % of it is left, smoothed: unless [fleet.health] says otherwise, below 45 % a node is stressed, below 20 % \
             twice it is saturated, and above 55 % for six seconds it is healthy again.",
            left * 100.0
        ));
    }
    if let Some(guard) = node["guard"].as_str() {
        say(format!(
            "By itself it would be out, but {}.",
            guarding(guard)
        ));
    }
    if node["source"] == "local" {
        let whom = if fleet.is_null() {
            "nobody leads"
        } else {
            "the leader does not know it yet"
        };
        say(format!(
            "It says so itself, since {whom}; by itself a node is stressed at most."
        ));
    }
    say(heard(node));
    if let Some(confidence) = node["confidence"].as_f64().filter(|share| *share < 1.0) {
        say(format!(
            "Of what is looked for there, {:.0} % is known.",
            confidence * 100.0
        ));
    }
    if let Some(sentence) = frozen(fleet) {
        say(sentence);
    }
    if let Some(drain) = node["drain"].as_object() {
        say(drained(drain));
    }
    page
}

/// What `node` has least of, for how long that has been so however much of it was left, and how much of it is used.
fn least(node: &Value, dimension: &str) -> String {
    let used = used(node).map_or_else(String::new, |used| format!(": {used}"));
    let since = lasting(&node["binding_for_ms"])
        .map_or_else(String::new, |it| format!(", and has been for {it}"));
    format!(
        "What it has least of is {}{since}{used}.",
        meaning(dimension)
    )
}

fn heard(node: &Value) -> String {
    match node["beacon_age_ms"].as_u64() {
        Some(age) => format!("It was heard of {:.1} s ago.", age as f64 / 1_000.0),
        None => match lasting(&node["silent_for_ms"]) {
            Some(span) => {
                format!("It has been silent for {span}: no beacon of it counts any more.")
            }
            None => "It is silent: nobody remembers when it was heard of.".to_owned(),
        },
    }
}

fn drained(drain: &serde_json::Map<String, Value>) -> String {
    let text = |member: &str| drain.get(member).and_then(Value::as_str).map(escaped);
    let by = text("by").unwrap_or_default();
    let why = text("why").map_or_else(String::new, |why| format!(" ({why})"));
    let since = drain.get("since_ms").and_then(Value::as_u64).map(short);
    let since = since.map_or_else(String::new, |span| format!(" since {span} ago"));
    let until = match drain.get("left_ms").and_then(Value::as_u64) {
        Some(left) => format!("for {} yet", short(left)),
        None => "until that is taken back".to_owned(),
    };
    if drain.get("is_done").and_then(Value::as_bool) == Some(true) {
        format!(
            "{by} has it drained{since}{why}, {until}: it gets nothing new, and what is there ends by itself."
        )
    } else {
        format!(
            "{by} wants it drained{since}{why}, {until}; that has not happened yet, or it is the last node."
        )
    }
}

fn meaning(dimension: &str) -> String {
    let said = match dimension {
        "threads" => "its workers",
        "queue" => "the queue before its workers",
        "pool" => "its pool of connections",
        "inflight" => "requests inside the application",
        "latency" => "the time that answers take",
        "gc" => "the time that garbage collection takes",
        "oldgen" => "memory after a collection",
        "cpu" => "its processors",
        "psi_cpu" => "waiting for a processor",
        "psi_memory" => "waiting for memory",
        "psi_io" => "waiting for disks",
        "steal" => "what its host takes away",
        "load" => "the load of its host",
        "downstream" => "calls to what it depends on",
        _ => "something",
    };
    format!("{said} ({})", escaped(dimension))
}

fn guarding(guard: &str) -> String {
    let said = match guard {
        "fraction" => "as many nodes are out as may be",
        "capacity" => "the others could not carry what comes",
        "last" => "there is no other",
        "silence" => "too few others are heard of",
        "sessions" => "sessions live in its memory, so it is slowed and not taken out",
        "dependency" => {
            "many nodes suffer from the same, so it is nothing that this node has alone"
        }
        "rest" => "it was put back a moment ago",
        "panic" => "less than half of the fleet is heard of",
        _ => "the guard says so",
    };
    format!("{said} ({})", escaped(guard))
}

/// How much of how much, with the unit of the dimension.
fn used(node: &Value) -> Option<String> {
    let (value, limit) = (node["value"].as_f64()?, node["limit"].as_f64()?);
    let of = |unit: &str| format!("{} of {}{unit}", plain(value), plain(limit));
    Some(match node["dimension"].as_str()? {
        "latency" => of(" ms"),
        "oldgen" => format!(
            "{:.0} of {:.0} MiB",
            value / 1_048_576.0,
            limit / 1_048_576.0
        ),
        "psi_cpu" | "psi_memory" | "psi_io" | "steal" | "gc" | "downstream" => {
            format!("{:.0} of {:.0} %", value * 100.0, limit * 100.0)
        }
        _ => of(""),
    })
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn lasting(millis: &Value) -> Option<String> {
    millis.as_u64().map(short)
}

/// To the second, or to the minute after an hour.
fn short(millis: u64) -> String {
    let seconds = millis / 1_000;
    let seconds = if seconds >= 3_600 {
        seconds / 60 * 60
    } else {
        seconds
    };
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        json!({
            "fleet": {
                "by": "shop-1", "nodes": 3, "heard": 1, "out": 0, "drained": 1, "utilisation": 0.81,
                "spare_rps": 12.5, "admission": 0.62, "freeze": "dependency",
                "shared": { "dimension": "pool", "for_ms": 14_900 },
            },
            "nodes": [
                {
                    "node": "shop-1", "state": "stressed", "source": "control", "weight": 70, "headroom": 0.114,
                    "dimension": "pool", "value": 20, "limit": 20, "binding_for_ms": 9_000, "for_ms": 12_300,
                    "confidence": 0.75, "guard": "dependency", "beacon_age_ms": 400, "drain": null,
                },
                {
                    "node": "shop-2", "state": "drained", "source": "control", "weight": 0, "headroom": 0.9,
                    "dimension": "threads", "value": 2, "limit": 20, "for_ms": 4_000_000, "beacon_age_ms": null,
                    "silent_for_ms": 7_000, "guard": null,
                    "drain": {
                        "by": "kim", "why": "new disk", "since_ms": 4_000_000, "left_ms": 61_000, "is_done": true,
                    },
                },
                {
                    "node": "shop-3", "state": "unknown", "source": "control", "weight": 100, "headroom": null,
                    "dimension": null, "value": null, "limit": null, "for_ms": 9_000, "beacon_age_ms": null,
                    "silent_for_ms": 9_000, "guard": null, "drain": null,
                },
            ],
        })
    }

    #[test]
    fn a_list_says_what_binds_and_who_is_silent_or_drained() {
        let page = list(&answer());

        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines[0],
            "3 nodes, 1 heard of, 0 out, 1 drained; shop-1 leads"
        );
        assert_eq!(lines[1], "81 % used, 12 requests/s to spare");
        assert!(
            lines[2]
                .starts_with("A shared dependency is in trouble: its pool of connections (pool)")
        );
        assert!(lines[2].ends_with("Gateways let in 62 % of the usual, the lowest classes last."));
        let first: Vec<&str> = lines[5]
            .split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        let expected = [
            "shop-1",
            "stressed",
            "70",
            "11 %",
            "pool",
            "20 of 20",
            "12s",
            "0.4 s ago",
            "kept in (dependency)",
        ];
        assert_eq!(first, expected);
        let second: Vec<&str> = lines[6]
            .split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        let expected = [
            "shop-2",
            "drained",
            "0",
            "90 %",
            "threads",
            "2 of 20",
            "1h 6m",
            "silent for 7s",
            "drained by kim 1h 6m ago, for 1m 1s yet",
        ];
        assert_eq!(second, expected);
        assert!(lines[7].ends_with("silent for 9s"), "{}", lines[7]);
    }

    #[test]
    fn why_is_said_in_sentences() {
        let all = answer();
        let first = why(&json!({ "fleet": all["fleet"], "node": all["nodes"][0] }));

        assert!(first.starts_with("shop-1 is stressed for 12s, with weight 70 of 100.\n"));
        for said in [
            "What it has least of is its pool of connections (pool), and has been for 9s: 20 of 20.",
            "11 % of it is left",
            "By itself it would be out, but many nodes suffer from the same, so it is nothing that this node has alone",
            "Of what is looked for there, 75 % is known.",
            "A shared dependency is in trouble",
        ] {
            assert!(first.contains(said), "{said} in {first}");
        }
        let second = why(&json!({ "fleet": null, "node": all["nodes"][1] }));
        for said in [
            "shop-2 is drained for 1h 6m, with weight 0 of 100.\n",
            "What it has least of is its workers (threads): 2 of 20.\n90 % of it is left. Nothing is decided",
            "It has been silent for 7s: no beacon of it counts",
            "kim has it drained since 1h 6m ago (new disk), for 1m 1s yet",
        ] {
            assert!(second.contains(said), "{said} in {second}");
        }
        let third = why(&json!({ "fleet": all["fleet"], "node": all["nodes"][2] }));
        assert!(third.contains("Silence counts as healthy."), "{third}");
    }

    #[test]
    fn only_what_is_behind_the_nodes_is_called_a_shared_dependency() {
        for (dimension, is_behind) in [
            ("pool", true),
            ("latency", true),
            ("downstream", true),
            ("threads", false),
            ("inflight", false),
            ("queue", false),
            ("cpu", false),
        ] {
            let mut all = answer();
            all["fleet"]["shared"]["dimension"] = json!(dimension);

            let page = list(&all);

            let line = page.lines().nth(2).unwrap();
            assert_eq!(
                line.starts_with("A shared dependency is in trouble: "),
                is_behind,
                "{line}"
            );
            assert_eq!(
                line.contains("more load than there is room for"),
                !is_behind
            );
            assert!(line.contains(&format!("({dimension}) got worse on many nodes")));
        }
    }

    #[test]
    fn the_first_line_counts_what_is_listed() {
        let mut all = answer();
        // What a leader knows that has just begun.
        all["fleet"]["nodes"] = json!(1);
        all["fleet"]["heard"] = json!(0);
        all["fleet"]["drained"] = json!(0);

        assert!(list(&all).starts_with("3 nodes, 1 heard of, 0 out, 1 drained; shop-1 leads\n"));
    }

    #[test]
    fn who_drains_a_node_is_told_what_remains() {
        let mut all = answer();

        assert!(remains(&all, "shop-1").starts_with("No other node takes requests"));
        let without_the_second = remains(&all, "shop-2");
        assert_eq!(without_the_second, "What remains is shop-1, 11 % left.");
        all["nodes"][2]["beacon_age_ms"] = json!(10);
        let without_any = remains(&all, "shop-9");
        assert_eq!(
            without_any,
            "What remains is shop-1, 11 % left; shop-3, unknown."
        );
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        let mut all = answer();
        all["nodes"][1]["drain"]["by"] = json!("\u{1b}[2J");

        assert!(!list(&all).contains('\u{1b}'));
    }
}
