//! The traps of HAProxy that are known, each tried on a real one.

use std::time::Duration;

use tidegate_lab::text::shown;

use super::sections::{Config, Proxy};
use super::server::{At, Server, Weight};
use crate::lint_lb::finding::{Finding, Trap};

/// Below this weight the least share that a node is given would be rounded down to nothing.
const WEIGHT_MIN: u32 = 20;
/// What the agent of a node reckons with.
const AGENT_INTER_MAX: Duration = Duration::from_secs(2);
/// HAProxy's own limit of errors in a row.
const ERROR_LIMIT_DEFAULT: u32 = 10;
/// So many errors in a row are no overload any more, in which some requests are served at least.
const ERROR_LIMIT_MIN: u32 = 50;

const SMALL_WEIGHT: Trap = Trap {
    name: "small-weight",
    why: "the percentage of an agent is taken of this weight and rounded down: at the default of 1, all below 100% is 0, and \
          the server gets no requests while its status still says UP",
    fix: "weight 100",
};
const ZERO_WEIGHT: Trap = Trap {
    name: "zero-weight",
    why: "the server gets no requests while its status says UP, and no percentage of 0 is more than 0",
    fix: "weight 100, and `disabled` while it is to have nothing",
};
const IGNORED_WEIGHT: Trap = Trap {
    name: "ignored-weight",
    why: "this way of balancing knows no weights between 0 and 100%: what an agent says has no effect but a warning in the log",
    fix: "balance roundrobin, leastconn or random; to choose by a hash, hash-type consistent beside it",
};
const NO_CHECK: Trap = Trap {
    name: "no-check",
    why: "nobody looks whether the server is there: one that is gone keeps its share, and an agent alone can only take it out",
    fix: "check on the server or on default-server, with option httpchk GET /.tidegate/readyz",
};
const SLOW_AGENT: Trap = Trap {
    name: "slow-agent",
    why: "for so long the share is one that was right before, and a node that stops has to wait for two such times",
    fix: "agent-inter 2s or less",
};
const CUT_OFF: Trap = Trap {
    name: "cut-off",
    why: "an agent says down when a node is full, and this resets every request that the node is still working on",
    fix: "no on-marked-down: without it, requests under way are finished and nothing new comes",
};
const NO_REDISPATCH: Trap = Trap {
    name: "no-redispatch",
    why: "a connection that cannot be made is tried again at the same server, until the checks have noticed",
    fix: "option redispatch 1",
};
const NO_COMMANDS: Trap = Trap {
    name: "no-commands",
    why: "when an agent dies, HAProxy keeps what it said last for ever, 25% or DOWN; only a command can put that right",
    fix: "stats socket /run/haproxy/admin.sock mode 660 level admin, and [[balancer.haproxy]] in Tidegate's configuration",
};
const BLACK_HOLE: Trap = Trap {
    name: "black-hole",
    why: "with leastconn a server that fails at once has the fewest connections and so gets nearly everything, and its \
          checks may be fine",
    fix: "default-server observe layer7 error-limit 100 on-error mark-down (observe layer4 in mode tcp)",
};
const HASTY: Trap = Trap {
    name: "hasty-observe",
    why: "an overload that hits all servers brings so many errors in a row at each of them, and the last one is taken out as well",
    fix: "error-limit 100: so many in a row come of a broken server alone",
};
const NO_RETRY: Trap = Trap {
    name: "no-retry",
    why: "with leastconn a server that has just died has the fewest connections, and what is sent to it until the checks notice \
          is lost",
    fix: "retry-on conn-failure empty-response, with http-request disable-l7-retry unless METH_GET",
};

/// All that are in `config`, from the first line on.
pub(super) fn all(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for proxy in &config.proxies {
        // Counted once: asked of every server anew it would be the square of them.
        let serving = serving(proxy);
        for server in &proxy.servers {
            of_server(proxy, server, serving, &mut findings);
        }
        of_proxy(proxy, serving, &mut findings);
    }
    if let Some(at) = config.global
        && config.proxies.iter().any(has_agent)
        && !config.has_admin_socket
    {
        let what = "global has no stats socket of level admin, and servers have agents";
        findings.push(at_place(NO_COMMANDS, at, what));
    }
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings
}

fn has_agent(proxy: &Proxy) -> bool {
    proxy.servers.iter().any(|server| server.settings.agent)
}

fn at_place(trap: Trap, at: At, what: impl Into<String>) -> Finding {
    trap.at(at.line, at.column, what)
}

/// What is said of one server of `proxy`, where requests are shared among `serving`.
fn of_server(proxy: &Proxy, server: &Server, serving: usize, findings: &mut Vec<Finding>) {
    let settings = &server.settings;
    let named = |what: &str| format!("server {} of {} {what}", server.name, proxy.title);
    match &settings.weight {
        Weight::Is(said) if said.what == 0 => {
            findings.push(at_place(ZERO_WEIGHT, said.at, named("has the weight 0")));
        }
        Weight::Is(said) if settings.agent && said.what < WEIGHT_MIN => {
            let what = format!("has an agent and the weight {}", said.what);
            findings.push(at_place(SMALL_WEIGHT, said.at, named(&what)));
        }
        Weight::Unsaid if settings.agent => {
            let what = named("has an agent and the default weight, 1");
            findings.push(at_place(SMALL_WEIGHT, server.at, what));
        }
        _ => {}
    }
    let is_alone = !settings.backup && serving < 2;
    if !settings.check && (settings.agent || !is_alone) {
        findings.push(at_place(NO_CHECK, server.at, named("has no check")));
    }
    if let Some(said) = &settings.agent_inter
        && settings.agent
        && said.what > AGENT_INTER_MAX
    {
        let what = named(&format!("asks its agent every {:?}", said.what));
        findings.push(at_place(SLOW_AGENT, said.at, what));
    }
    if let Some(said) = &settings.on_marked_down
        && settings.agent
        && said.what == "shutdown-sessions"
    {
        let what = named("has an agent and on-marked-down shutdown-sessions");
        findings.push(at_place(CUT_OFF, said.at, what));
    }
    if let Some(said) = &settings.observe
        && takes_out(server)
    {
        let limit = settings.error_limit.as_ref();
        let errors = limit.map_or(ERROR_LIMIT_DEFAULT, |limit| limit.what);
        if said.what == "layer7" && errors < ERROR_LIMIT_MIN {
            let at = limit.map_or(said.at, |limit| limit.at);
            let what = named(&format!("is taken out after {errors} errors in a row"));
            findings.push(at_place(HASTY, at, what));
        }
    }
}

/// Whether errors that are observed do more than hurry the next check.
fn takes_out(server: &Server) -> bool {
    let on_error = server.settings.on_error.as_ref();
    on_error.is_some_and(|said| said.what != "fastinter")
}

/// How many servers requests are shared among.
fn serving(proxy: &Proxy) -> usize {
    let mains = proxy.servers.iter().filter(|it| !it.settings.backup);
    // A template may stand for as many as a number can say.
    mains
        .map(|server| server.count)
        .fold(0, usize::saturating_add)
}

fn of_proxy(proxy: &Proxy, serving: usize, findings: &mut Vec<Finding>) {
    let settings = &proxy.settings;
    let how = settings.balance.as_ref();
    if let Some(said) = how
        && has_agent(proxy)
        && ignores_weights(&said.what, settings.hash_is_consistent)
    {
        let what = format!(
            "{} has agents and `balance {}`{}",
            proxy.title,
            shown(&said.what),
            if is_hash(&said.what) {
                " with a hash by map"
            } else {
                ""
            }
        );
        findings.push(at_place(IGNORED_WEIGHT, said.at, what));
    }
    if serving < 2 {
        return;
    }
    if !settings.redispatches {
        let what = format!("{} has several servers and no redispatch", proxy.title);
        findings.push(at_place(NO_REDISPATCH, proxy.at, what));
    }
    let Some(said) = how.filter(|said| said.what == "leastconn") else {
        return;
    };
    let blind = |server: &&Server| {
        !server.settings.backup && (server.settings.observe.is_none() || !takes_out(server))
    };
    if let Some(server) = proxy.servers.iter().find(blind) {
        let what = format!(
            "{} has `balance leastconn`, and errors of server {} do not take it out",
            proxy.title, server.name
        );
        findings.push(at_place(BLACK_HOLE, said.at, what));
    }
    // In mode tcp there is nothing that could be sent again.
    let retries = settings.retry_on.as_deref().unwrap_or_default();
    if settings.is_http && (retries.is_empty() || retries.iter().any(|what| what == "none")) {
        let what = format!("{} has `balance leastconn` and no retry-on", proxy.title);
        findings.push(at_place(NO_RETRY, said.at, what));
    }
}

/// Whether a server is found by a hash, as a table or as a ring.
fn is_hash(how: &str) -> bool {
    ["source", "uri", "url_param", "hdr", "rdp-cookie", "hash"]
        .iter()
        .any(|hash| how == *hash || how.starts_with(&format!("{hash}(")))
}

fn ignores_weights(how: &str, hash_is_consistent: bool) -> bool {
    ["static-rr", "first"].contains(&how) || (is_hash(how) && !hash_is_consistent)
}

#[cfg(test)]
mod tests {
    use super::super::sections::read;
    use super::*;

    /// What is all right.
    const GLOBAL: &str = "global\n stats socket /run/h.sock level admin\n";
    const SOUND: &str = "defaults\n mode http\n option redispatch 1\n default-server check agent-check weight 100 agent-inter 2s\n";
    const TWO: &str = " server a h:1\n server b h:2\n";

    fn traps(text: &str) -> Vec<(&'static str, usize, usize)> {
        let findings = all(&read(text).unwrap());
        let places = findings.iter().map(|it| (it.trap, it.line, it.column));
        places.collect()
    }

    /// The traps in a backend with two servers, `lines` before them.
    fn within(lines: &str) -> Vec<&'static str> {
        let text = format!("{GLOBAL}{SOUND}backend x\n{lines}{TWO}");
        traps(&text).into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn a_sound_configuration_has_none() {
        assert!(within("").is_empty());
        assert!(within(" balance roundrobin\n").is_empty());
        assert!(within(" balance random(2)\n").is_empty());
        assert!(within(" balance source\n hash-type consistent\n").is_empty());
    }

    #[test]
    fn an_agent_needs_a_weight_that_can_be_divided() {
        let weight = |weight: &str| {
            within(&format!(" default-server {weight}\n"))
                .first()
                .copied()
        };

        assert_eq!(weight("weight 19"), Some("small-weight"));
        assert_eq!(weight("weight 20"), None);
        assert_eq!(weight("weight 0"), Some("zero-weight"));
        assert_eq!(weight("weight \"$W\""), None);
        assert_eq!(weight("weight 1 no-agent-check"), None);
        let plain = "backend x\n server a h:1 check agent-check\n";
        assert_eq!(traps(plain), [("small-weight", 2, 9)]);
        let said = "backend x\n server a h:1 check agent-check weight 7\n";
        assert_eq!(traps(said), [("small-weight", 2, 33)]);
    }

    #[test]
    fn an_agent_needs_a_balance_that_knows_weights() {
        for how in [
            "static-rr",
            "first",
            "source",
            "uri depth 3",
            "hdr(host)",
            "url_param u",
            "hash src",
            "rdp-cookie",
        ] {
            assert_eq!(
                within(&format!(" balance {how}\n")),
                ["ignored-weight"],
                "{how}"
            );
        }
        assert!(within(" balance static-rr\n default-server no-agent-check\n").is_empty());
    }

    #[test]
    fn somebody_looks_whether_a_server_is_there() {
        assert_eq!(
            within(" default-server no-check\n"),
            ["no-check", "no-check"]
        );
        assert!(traps("backend x\n server a h:1\n").is_empty());
        assert!(
            traps("backend x\n server a h:1\n server b h:2 track x/a backup check\n").is_empty()
        );
    }

    #[test]
    fn an_agent_is_asked_often_enough() {
        assert_eq!(
            within(" default-server agent-inter 2001\n"),
            ["slow-agent", "slow-agent"]
        );
        assert!(within(" default-server agent-inter 2000\n").is_empty());
        assert!(within(" default-server agent-inter 1m no-agent-check\n").is_empty());
    }

    #[test]
    fn what_is_full_is_not_cut_off() {
        let lines = " default-server on-marked-down shutdown-sessions\n";
        assert_eq!(within(lines), ["cut-off", "cut-off"]);
    }

    #[test]
    fn a_failed_connection_is_tried_elsewhere() {
        assert_eq!(within(" no option redispatch\n"), ["no-redispatch"]);
        let one = format!("{SOUND}backend x\n no option redispatch\n server a h:1\n");
        assert!(traps(&one).is_empty());
    }

    #[test]
    fn least_connections_need_eyes_and_a_second_try() {
        let observed = " default-server observe layer7 error-limit 100 on-error mark-down\n";
        let retried = " retry-on conn-failure empty-response\n";
        let least = " balance leastconn\n";

        assert!(within(&format!("{least}{observed}{retried}")).is_empty());
        assert_eq!(within(&format!("{least}{retried}")), ["black-hole"]);
        assert_eq!(
            within(&format!(
                "{least}{retried} default-server observe layer7 error-limit 100\n"
            )),
            ["black-hole"],
            "observing alone takes nothing out"
        );
        assert_eq!(within(&format!("{least}{observed}")), ["no-retry"]);
        assert_eq!(
            within(&format!("{least}{observed} retry-on none\n")),
            ["no-retry"]
        );
        assert!(within(&format!("{least}{observed} mode tcp\n")).is_empty());
    }

    #[test]
    fn an_overload_of_all_takes_nobody_out() {
        let lines = " default-server observe layer7 on-error mark-down\n";
        assert_eq!(within(lines), ["hasty-observe", "hasty-observe"]);
        let lines = " default-server observe layer7 error-limit 49 on-error fail-check\n";
        assert_eq!(within(lines), ["hasty-observe", "hasty-observe"]);
        assert!(within(" default-server observe layer7\n").is_empty());
        assert!(within(" default-server observe layer4 on-error mark-down\n").is_empty());
    }

    #[test]
    fn what_a_dead_agent_leaves_behind_can_be_put_right() {
        let text = format!("global\n maxconn 100\n{SOUND}backend x\n{TWO}");
        assert_eq!(traps(&text), [("no-commands", 1, 1)]);
        // Its global may be in another file.
        assert!(traps(&format!("{SOUND}backend x\n{TWO}")).is_empty());
    }

    #[test]
    fn findings_come_in_the_order_of_the_file() {
        let text = "defaults\n mode http\nbackend x\n balance static-rr\n server a h:1 agent-check\n server b h:2\n";
        assert_eq!(
            traps(text),
            [
                ("no-redispatch", 3, 1),
                ("ignored-weight", 4, 10),
                ("small-weight", 5, 9),
                ("no-check", 5, 9),
                ("no-check", 6, 9),
            ]
        );
    }
}
