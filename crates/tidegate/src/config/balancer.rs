//! What load balancers are told, and which are set: `[balancer]` and `[[balancer.haproxy]]`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_fleet::balancer::AgentCheckPlan;
use tidegate_fleet::balancer::haproxy::Socket;

use super::fleet;
use super::keys::balancer::{BALANCER, HAPROXY};
use super::local::{SOCKET_PATH_LEN_MAX, public};
use super::problem::Problems;
use super::section::Section;

/// How a good address looks.
const AGENT_LISTEN: &str =
    "write \"0.0.0.0:9777\", say, or another address that your balancers reach";
/// HAProxies that one process sets.
const HAPROXIES_MAX: usize = 64;
/// The longest name of a backend.
const BACKEND_BYTES_MAX: usize = 128;

/// What load balancers are told, and which are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BalancerPlan {
    /// Where HAProxy asks how the node is, if it may.
    pub(crate) agent_check: Option<AgentCheckPlan>,
    /// Those that are set.
    pub(crate) haproxies: Vec<HaproxyPlan>,
    /// Whether every answer to a client carries a load report.
    pub(crate) load_reports: bool,
}

/// An HAProxy that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HaproxyPlan {
    /// Its command line.
    pub(crate) socket: Socket,
    /// The backends whose servers are set.
    pub(crate) backends: Vec<String>,
    /// How often it is looked at.
    pub(crate) interval: Duration,
    /// An agent that is silent for so long counts as dead.
    pub(crate) lease: Duration,
}

/// The section `[balancer]` of `root`. `own` are the addresses that are taken.
pub(crate) fn balancer(
    root: &Section<'_>,
    own: &[SocketAddr],
    problems: &Problems,
) -> BalancerPlan {
    let Some(node) = root.node("balancer") else {
        return BalancerPlan::default();
    };
    let section = Section::new("[balancer]", node, BALANCER, &["haproxy"], problems);
    let nodes = section.sections("haproxy", "[[balancer.haproxy]]");
    if nodes.len() > HAPROXIES_MAX {
        section.refuse(
            "haproxy",
            format!("{} HAProxies", nodes.len()),
            format!("write at most {HAPROXIES_MAX}; another process can set the others"),
        );
    }
    let mut haproxies: Vec<HaproxyPlan> = Vec::new();
    for node in nodes.iter().take(HAPROXIES_MAX) {
        let section = Section::new("[[balancer.haproxy]]", node, HAPROXY, &[], problems);
        let plan = haproxy(&section);
        refuse_twice(&section, &plan, &haproxies);
        haproxies.push(plan);
    }
    let load_reports = section.switch("load_reports");
    if load_reports && !fleet::is_in(root) {
        section.refuse(
            "load_reports",
            "`load_reports` has nothing to report: nobody measures the load of a gateway that is no node of a fleet",
            "add a section [fleet]; without servers in [store] that is a fleet of this node alone",
        );
    }
    BalancerPlan {
        agent_check: agent_check(&section, own),
        haproxies,
        load_reports,
    }
}

fn agent_check(section: &Section<'_>, own: &[SocketAddr]) -> Option<AgentCheckPlan> {
    if !section.has("agent_listen") {
        for key in ["agent_connections_max", "agent_interval", "maxconn"] {
            if section.has(key) {
                section.refuse(
                    key,
                    format!("`{key}` has no effect: no balancer can ask"),
                    "add agent_listen = \"0.0.0.0:9777\", say, or remove it",
                );
            }
        }
        return None;
    }
    Some(AgentCheckPlan {
        listen: public(section, "agent_listen", AGENT_LISTEN, own),
        connections_max: section.count("agent_connections_max") as usize,
        interval: section.span("agent_interval"),
        maxconn: section.count_if_set("maxconn").and_then(NonZeroU32::new),
    })
}

/// Two that set the same servers would each undo what the other does.
fn refuse_twice(section: &Section<'_>, plan: &HaproxyPlan, before: &[HaproxyPlan]) {
    if !section.sound(&["socket", "backends"]) {
        return;
    }
    let same = before.iter().filter(|other| other.socket == plan.socket);
    let mut taken = same.flat_map(|other| &other.backends);
    if let Some(backend) = taken.find(|backend| plan.backends.contains(backend)) {
        section.refuse(
            "backends",
            format!(
                "backend {backend} of {} is set by another [[balancer.haproxy]] already",
                plan.socket
            ),
            "write each backend of an HAProxy once",
        );
    }
}

fn haproxy(section: &Section<'_>) -> HaproxyPlan {
    let (interval, lease) = (section.span("interval"), section.span("lease"));
    if interval > lease && section.sound(&["interval", "lease"]) {
        section.refuse(
            "interval",
            "`interval` is longer than `lease`, so a dead agent is noticed late",
            "write an interval of a third of the lease, say",
        );
    }
    HaproxyPlan {
        socket: socket(section),
        backends: backends(section),
        interval,
        lease,
    }
}

fn socket(section: &Section<'_>) -> Socket {
    let text = section.text("socket");
    let stand_in = Socket::Unix(PathBuf::new());
    if !section.sound(&["socket"]) {
        return stand_in;
    }
    let refuse = |why: &str| {
        section.refuse(
            "socket",
            format!("`socket = \"{text}\"` {why}"),
            "write \"unix:/run/haproxy/admin.sock\" or \"127.0.0.1:9999\", say: what `stats socket … level admin` has",
        );
    };
    let Some(path) = text.strip_prefix("unix:") else {
        let address = text.parse().ok().filter(|at: &SocketAddr| at.port() != 0);
        if address.is_none() {
            refuse("is neither a socket's path nor an address");
        }
        return address.map_or(stand_in, Socket::Tcp);
    };
    if !Path::new(path).is_absolute() || path.ends_with('/') {
        refuse("is no whole path of a socket");
    } else if path.len() > SOCKET_PATH_LEN_MAX {
        refuse("is a path too long for a socket");
    }
    Socket::Unix(PathBuf::from(path))
}

/// The names go into commands: nothing that could be a second one.
fn backends(section: &Section<'_>) -> Vec<String> {
    let texts = section.texts("backends");
    if texts.is_empty() && section.sound(&["backends"]) {
        section.refuse(
            "backends",
            "[[balancer.haproxy]] needs `backends`: whose servers are to be set",
            "write backends = [\"nodes\"], say, as in `backend nodes`",
        );
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let mut backends = Vec::new();
    for (text, place) in texts {
        let is_name =
            !text.is_empty() && text.len() <= BACKEND_BYTES_MAX && text.chars().all(plain);
        if !is_name {
            section.refuse_item(
                "backends",
                place,
                format!("`{text}` is no name of a backend"),
                format!("HAProxy takes letters, digits and -_.: in it, and here {BACKEND_BYTES_MAX} of them at most"),
            );
        }
        backends.push(text.to_owned());
    }
    backends
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MINIMAL, errors, setup};
    use super::*;

    fn read(section: &str) -> BalancerPlan {
        setup(&format!("{MINIMAL}{section}")).balancer
    }

    #[test]
    fn without_a_section_nobody_is_told_anything_more() {
        assert_eq!(read(""), BalancerPlan::default());
    }

    #[test]
    fn an_agent_check_and_balancers_are_read() {
        let plan = read(
            "[balancer]\nagent_listen = \"0.0.0.0:9777\"\nmaxconn = 40\n\
             [[balancer.haproxy]]\nsocket = \"unix:/run/h.sock\"\nbackends = [\"nodes\", \"api\"]\n\
             [[balancer.haproxy]]\nsocket = \"10.0.0.2:9999\"\nbackends = [\"nodes\"]\nlease = \"5s\"\n",
        );

        let agent = plan.agent_check.unwrap();
        assert_eq!(agent.listen.to_string(), "0.0.0.0:9777");
        assert_eq!(
            (agent.connections_max, agent.interval),
            (64, Duration::from_secs(2))
        );
        assert_eq!(agent.maxconn, NonZeroU32::new(40));
        let [one, other] = &plan.haproxies[..] else {
            panic!("two");
        };
        assert_eq!(one.socket.to_string(), "unix:/run/h.sock");
        assert_eq!(one.backends, ["nodes", "api"]);
        assert_eq!(
            (one.interval, one.lease),
            (Duration::from_secs(1), Duration::from_secs(3))
        );
        assert_eq!(other.socket.to_string(), "10.0.0.2:9999");
        assert_eq!(other.lease, Duration::from_secs(5));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (section, why) in [
            ("[balancer]\nagent_listen = \"x\"\n", "no address and port"),
            (
                "[balancer]\nagent_listen = \"127.0.0.1:8080\"\n",
                "taken by a listener",
            ),
            ("[balancer]\nmaxconn = 3\n", "no balancer can ask"),
            (
                "[[balancer.haproxy]]\nbackends = [\"a\"]\n",
                "needs `socket`",
            ),
            (
                "[[balancer.haproxy]]\nsocket = \"unix:/s\"\n",
                "needs `backends`",
            ),
            (
                "[[balancer.haproxy]]\nsocket = \"s\"\nbackends = [\"a\"]\n",
                "neither a socket's path",
            ),
            (
                "[[balancer.haproxy]]\nsocket = \"unix:s\"\nbackends = [\"a\"]\n",
                "no whole path",
            ),
            (
                "[[balancer.haproxy]]\nsocket = \"unix:/s\"\nbackends = [\"a; shutdown\"]\n",
                "no name of a backend",
            ),
            (
                "[[balancer.haproxy]]\nsocket = \"unix:/s\"\nbackends = [\"a\"]\ninterval = \"5s\"\n",
                "longer than `lease`",
            ),
            (
                "[[balancer.haproxy]]\nsocket = \"unix:/s\"\nbackends = [\"a\", \"b\"]\n\
                 [[balancer.haproxy]]\nsocket = \"unix:/s\"\nbackends = [\"c\", \"b\"]\n",
                "backend b of unix:/s is set by another",
            ),
        ] {
            let errors = errors(&format!("{MINIMAL}{section}"));
            assert_eq!(errors.len(), 1, "{section}: {errors:#?}");
            assert!(errors[0].1.contains(why), "{section}: {errors:#?}");
        }
    }
}
