//! What HAProxy says of its servers. Columns are found by their names: each version has more of them.

use std::collections::HashMap;

use super::commands::CommandError;

/// Bits of `srv_admin_state` that stand for maintenance, however it came about.
const MAINTENANCE: u32 = 0x01 | 0x02 | 0x04 | 0x20 | 0x40;
/// Bits that stand for a drain.
const DRAIN: u32 = 0x08 | 0x10;

/// A server as HAProxy has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its backend.
    pub backend: String,
    /// What it is called there, as its node is.
    pub name: String,
    /// An operator took it out.
    pub is_maintained: bool,
    /// It gets nothing new.
    pub is_drained: bool,
    /// It is down because an agent said so.
    pub is_down_by_agent: bool,
    /// Its agent.
    pub agent: Agent,
    /// Its weight now, 0 to 256.
    pub weight: u32,
    /// Its weight by configuration, of which percentages are.
    pub initial_weight: u32,
}

/// How the agent of a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// There is none.
    Absent,
    /// It was heard last time, and sets the server by itself.
    Answers,
    /// It was not heard, for a moment.
    Quiet,
    /// It was not heard for so long that what it said counts no more.
    Dead,
}

/// The servers of the answers to `show stat BACKEND 4 -1` and `show servers state BACKEND`.
pub(super) fn servers(stat: &str, state: &str) -> Result<Vec<Server>, CommandError> {
    let stats = Table::of_csv(stat)?;
    let states = Table::of_state(state)?;
    let mut by_name: HashMap<(&str, &str), &Row<'_>> = HashMap::new();
    for row in &states.rows {
        let key = (states.get(row, "be_name")?, states.get(row, "srv_name")?);
        by_name.insert(key, row);
    }
    let mut servers = Vec::new();
    for row in &stats.rows {
        let (backend, name) = (stats.get(row, "pxname")?, stats.get(row, "svname")?);
        // One that came or went between the two answers is looked at next time.
        let Some(state) = by_name.get(&(backend, name)) else {
            continue;
        };
        let admin = number(states.get(state, "srv_admin_state")?)?;
        servers.push(Server {
            backend: backend.to_owned(),
            name: name.to_owned(),
            is_maintained: admin & MAINTENANCE != 0,
            is_drained: admin & DRAIN != 0,
            // A drain is the agent's by this mark, too.
            is_down_by_agent: stats.get(row, "status")? == "DOWN (agent)",
            agent: agent(stats.get(row, "agent_status")?),
            weight: number(states.get(state, "srv_uweight")?)?,
            initial_weight: number(states.get(state, "srv_iweight")?)?,
        });
    }
    Ok(servers)
}

/// What the state of the last agent check says. One that is under way is marked by a star before the last one's.
fn agent(status: &str) -> Agent {
    match status.trim_start_matches(['*', ' ']) {
        "" => Agent::Absent,
        // "Wrong status" is what HAProxy calls an agent that says down.
        "L7OK" | "L7OKC" | "L7STS" => Agent::Answers,
        _ => Agent::Quiet,
    }
}

fn number(text: &str) -> Result<u32, CommandError> {
    text.parse()
        .map_err(|_| CommandError::Senseless("a number is none"))
}

/// Rows whose columns have names.
struct Table<'t> {
    columns: HashMap<&'t str, usize>,
    rows: Vec<Row<'t>>,
}

type Row<'t> = Vec<&'t str>;

impl<'t> Table<'t> {
    /// Statistics: values with commas between, the names in the first line.
    fn of_csv(text: &'t str) -> Result<Self, CommandError> {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let head = lines.next().and_then(|line| line.strip_prefix("# "));
        let head = head.ok_or(CommandError::Senseless("there are no statistics"))?;
        Ok(Self {
            columns: columns(head.split(',')),
            rows: lines.map(|line| csv(line).collect()).collect(),
        })
    }

    /// States: words with spaces between, the names in the second line.
    fn of_state(text: &'t str) -> Result<Self, CommandError> {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        if lines.next() != Some("1") {
            return Err(CommandError::Senseless("states in an unknown version"));
        }
        let head = lines.next().and_then(|line| line.strip_prefix("# "));
        let head = head.ok_or(CommandError::Senseless("there are no states"))?;
        Ok(Self {
            columns: columns(head.split(' ')),
            rows: lines.map(|line| line.split(' ').collect()).collect(),
        })
    }

    fn get(&self, row: &Row<'t>, column: &str) -> Result<&'t str, CommandError> {
        let at = self.columns.get(column);
        let found = at.and_then(|&at| row.get(at));
        found
            .copied()
            .ok_or(CommandError::Senseless("a column is missing"))
    }
}

fn columns<'t>(names: impl Iterator<Item = &'t str>) -> HashMap<&'t str, usize> {
    names.enumerate().map(|(at, name)| (name, at)).collect()
}

/// The values of a line. One in quotes may have commas in it; none that is read here has quotes in it.
fn csv(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let quoted = text.strip_prefix('"').and_then(closing);
        let (value, after) = match quoted {
            Some((value, after)) => (value, after.strip_prefix(',')),
            None => match text.split_once(',') {
                Some((value, after)) => (value, Some(after)),
                None => (text, None),
            },
        };
        rest = after;
        Some(value)
    })
}

/// What stands before the quote that closes, and what behind it; a quote within is doubled.
fn closing(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('"')?;
        if !text[at + 1..].starts_with('"') {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight new\n\
        3 nodes 1 a 127.0.0.1 2 0 25 100 x\n\
        3 nodes 2 b 127.0.0.1 0 8 100 100 x\n\
        3 nodes 3 c 127.0.0.1 0 1 3 3 x\n\n";

    fn stat(rows: &[(&str, &str, &str)]) -> String {
        let rows: String = rows
            .iter()
            .map(|(name, status, agent)| {
                format!("nodes,{name},\"a, \"\"b\"\"\",{status},{agent},\n")
            })
            .collect();
        format!("# pxname,svname,note,status,agent_status,\n{rows}\n")
    }

    #[test]
    fn servers_are_read_by_the_names_of_columns() {
        let stat = stat(&[
            ("a", "UP", "L7OK"),
            ("b", "DOWN (agent)", "* L4CON"),
            ("c", "DRAIN (agent)", ""),
            ("new", "UP", ""),
        ]);

        let servers = servers(&stat, STATE).unwrap();

        let [a, b, c] = &servers[..] else {
            panic!("three servers: {servers:?}");
        };
        assert_eq!((a.backend.as_str(), a.name.as_str()), ("nodes", "a"));
        assert_eq!(
            (a.weight, a.initial_weight, a.agent),
            (25, 100, Agent::Answers)
        );
        assert!(!a.is_drained && !a.is_maintained && !a.is_down_by_agent);
        assert!(b.is_drained && b.is_down_by_agent && b.agent == Agent::Quiet);
        assert!(c.is_maintained && !c.is_down_by_agent && c.agent == Agent::Absent);
    }

    #[test]
    fn an_agent_that_says_down_is_one_that_answers() {
        for (status, is) in [
            ("L7OK", Agent::Answers),
            ("* L7OK", Agent::Answers),
            ("L7STS", Agent::Answers),
            ("L4CON", Agent::Quiet),
            ("L4TOUT", Agent::Quiet),
            ("L7TOUT", Agent::Quiet),
            ("L7RSP", Agent::Quiet),
            ("INI", Agent::Quiet),
            ("", Agent::Absent),
        ] {
            assert_eq!(agent(status), is, "{status}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_no_server() {
        let good = stat(&[("a", "UP", "L7OK")]);
        for (stat, state) in [
            ("", STATE),
            ("No such proxy.\n", STATE),
            ("# pxname,svname\nnodes,a\n", STATE),
            (good.as_str(), ""),
            (good.as_str(), "2\n# be_name\n"),
            (good.as_str(), "1\n# be_name srv_name\nnodes a\n"),
        ] {
            assert!(servers(stat, state).is_err(), "{stat:?} {state:?}");
        }
        let bent = STATE.replace("25 100", "x 100");
        assert!(servers(&good, &bent).is_err());
    }

    #[test]
    fn quotes_keep_commas_together() {
        let values = |line: &'static str| csv(line).collect::<Vec<_>>();

        assert_eq!(values("a,,b"), ["a", "", "b"]);
        assert_eq!(values("\"a,b\",c"), ["a,b", "c"]);
        assert_eq!(values("\"a\"\"b\",c"), ["a\"\"b", "c"]);
        assert_eq!(values("\"open,c"), ["\"open", "c"]);
        assert_eq!(values(""), [""]);
    }
}
