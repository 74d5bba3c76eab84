//! The traps of Envoy that are known.
//!
//! Clusters are looked for everywhere, since the same ones stand in a configuration, in files that are read at run time, and in
//! what Envoy says of itself.

use tidegate_lab::text::shown;

use super::tree::Node;
use crate::lint_lb::finding::{Finding, Trap};

/// Beyond so many seconds a new cluster is long without what the nodes say.
const NO_TRAFFIC_INTERVAL_MAX: f64 = 10.0;
/// Envoy looks at this before it ejects: above 50, the second of three hosts goes as well, and then the third.
const EJECTED_PERCENT_MAX: f64 = 50.0;

const QUIET_CHECKS: Trap = Trap {
    name: "no-traffic-interval",
    why: "a cluster without traffic is checked once a minute by default, so that a new one does not know for a minute what its hosts \
          say",
    fix: "no_traffic_interval: 1s, the same as interval",
};
const NO_PANIC: Trap = Trap {
    name: "no-panic",
    why: "nothing keeps the last hosts in: when all say that they are full, there are none left, and nobody is served",
    fix: "healthy_panic_threshold: { value: 50 }, or --guarded where the nodes' own guard holds",
};
const NO_PENALTY: Trap = Trap {
    name: "no-error-penalty",
    why: "a host that fails at once uses little and completes much: without a penalty it gets nearly everything",
    fix: "error_utilization_penalty: 1.0; reports of Tidegate count errors as load by themselves",
};
const ZERO_WEIGHT: Trap = Trap {
    name: "zero-weight",
    why: "Envoy refuses the whole assignment for it, and keeps the weights that were there before",
    fix: "load_balancing_weight of 1 to 100, or health_status: DRAINING for a host that is to have nothing",
};
const BLACK_HOLE: Trap = Trap {
    name: "black-hole",
    why: "by least requests a host that fails at once has the fewest and so gets nearly everything, and its checks may be fine",
    fix: "outlier_detection: { consecutive_5xx: 100, max_ejection_percent: 30 }",
};
const EJECTS_ALL: Trap = Trap {
    name: "ejects-too-many",
    why: "the share is looked at before a host is ejected, not after: of three hosts at 67 all three go",
    fix: "max_ejection_percent: 30",
};

/// All that are below `root`, from the first line on.
pub(super) fn all(root: &Node, guarded: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    // How deep a tree may be is bounded by its reader, so this may call itself.
    of_node(root, guarded, &mut findings);
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings
}

fn of_node(node: &Node, guarded: bool, findings: &mut Vec<Finding>) {
    if is_cluster(node) {
        of_cluster(node, guarded, findings);
    }
    if is_typed(node, "ClientSideWeightedRoundRobin") {
        let penalty = node.get("error_utilization_penalty");
        if penalty.and_then(Node::number).unwrap_or(0.0) <= 0.0 {
            let at = penalty.unwrap_or(node);
            findings.push(at_node(
                NO_PENALTY,
                at,
                "ClientSideWeightedRoundRobin without error_utilization_penalty",
            ));
        }
    }
    if let Some(weight) = node.get("load_balancing_weight")
        && weight.number() == Some(0.0)
    {
        findings.push(at_node(ZERO_WEIGHT, weight, "load_balancing_weight: 0"));
    }
    for (_, below) in node.entries() {
        of_node(below, guarded, findings);
    }
    for below in node.items() {
        of_node(below, guarded, findings);
    }
}

fn at_node(trap: Trap, node: &Node, what: impl Into<String>) -> Finding {
    trap.at(node.line, node.column, what)
}

/// Whether the `@type` of `node` is `name`, in whichever version.
fn is_typed(node: &Node, name: &str) -> bool {
    let kind = node.get("@type").and_then(Node::text);
    kind.is_some_and(|kind| kind.rsplit(['.', '/']).next() == Some(name))
}

/// A cluster has a name and something that only clusters have.
fn is_cluster(node: &Node) -> bool {
    let own = [
        "common_lb_config",
        "health_checks",
        "lb_policy",
        "load_assignment",
        "load_balancing_policy",
        "outlier_detection",
    ];
    is_typed(node, "Cluster")
        || node.get("name").is_some() && own.iter().any(|key| node.get(key).is_some())
}

fn of_cluster(cluster: &Node, guarded: bool, findings: &mut Vec<Finding>) {
    let name = cluster.get("name").and_then(Node::text);
    let title = format!("cluster {}", shown(name.unwrap_or("without a name")));
    let checks = cluster.get("health_checks").map_or(&[][..], Node::items);
    for check in checks {
        let interval = check.get("no_traffic_interval");
        let seconds = interval.and_then(Node::seconds);
        let (at, what) = match (interval, seconds) {
            (None, _) => (
                check,
                "has health checks without no_traffic_interval".to_owned(),
            ),
            (Some(at), Some(seconds)) if seconds > NO_TRAFFIC_INTERVAL_MAX => {
                (at, format!("has a no_traffic_interval of {seconds} s"))
            }
            _ => continue,
        };
        findings.push(at_node(QUIET_CHECKS, at, format!("{title} {what}")));
    }
    let common = cluster.get("common_lb_config");
    let panic = common.and_then(|common| common.get("healthy_panic_threshold"));
    if let Some(panic) = panic
        && panic.number().unwrap_or(0.0) <= 0.0
        && !guarded
    {
        let what = format!("{title} has a healthy_panic_threshold of 0");
        findings.push(at_node(NO_PANIC, panic, what));
    }
    let outliers = cluster.get("outlier_detection");
    if outliers.is_none()
        && let Some(policy) = least_request(cluster)
    {
        let what = format!("{title} balances by least requests, without outlier_detection");
        findings.push(at_node(BLACK_HOLE, policy, what));
    }
    let ejected = outliers.and_then(|outliers| outliers.get("max_ejection_percent"));
    if let Some(ejected) = ejected
        && let Some(percent) = ejected.number()
        && percent > EJECTED_PERCENT_MAX
    {
        let what = format!("{title} has a max_ejection_percent of {percent}");
        findings.push(at_node(EJECTS_ALL, ejected, what));
    }
}

/// Where a cluster says that it balances by least requests.
fn least_request(cluster: &Node) -> Option<&Node> {
    if let Some(policy) = cluster.get("load_balancing_policy") {
        // It goes before the older field.
        let policies = policy.get("policies").map_or(&[][..], Node::items);
        return policies.iter().find_map(|policy| {
            let config = policy.get("typed_extension_config")?.get("typed_config")?;
            is_typed(config, "LeastRequest").then_some(config)
        });
    }
    let policy = cluster.get("lb_policy")?;
    (policy.text() == Some("LEAST_REQUEST")).then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::super::tree::read;
    use super::*;

    fn traps(text: &str, guarded: bool) -> Vec<(&'static str, usize, usize)> {
        let findings = all(&read(text).unwrap(), guarded);
        let places = findings.iter().map(|it| (it.trap, it.line, it.column));
        places.collect()
    }

    /// The traps in a cluster with these lines.
    fn within(lines: &str) -> Vec<&'static str> {
        let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
        let text = format!("static_resources:\n  clusters:\n  - name: nodes\n{lines}");
        traps(&text, false).into_iter().map(|it| it.0).collect()
    }

    #[test]
    fn a_new_cluster_hears_its_hosts_soon() {
        let checks = |interval: &str| {
            within(&format!(
                "health_checks:\n- timeout: 1s\n  interval: 1s\n  {interval}\n  http_health_check: {{path: /x}}"
            ))
        };

        assert_eq!(checks("healthy_threshold: 1"), ["no-traffic-interval"]);
        assert_eq!(checks("no_traffic_interval: 60s"), ["no-traffic-interval"]);
        assert!(checks("no_traffic_interval: 1s").is_empty());
        assert!(checks("noTrafficInterval: 1s").is_empty());
        assert!(checks("no_traffic_interval: {seconds: 1}").is_empty());
    }

    #[test]
    fn the_last_hosts_stay() {
        let text = "static_resources: {clusters: [{name: n, common_lb_config: {healthy_panic_threshold: {value: 0}}}]}";

        assert_eq!(traps(text, false), [("no-panic", 1, 85)]);
        assert!(traps(text, true).is_empty());
        assert_eq!(
            within("common_lb_config: {healthy_panic_threshold: {}}"),
            ["no-panic"],
            "an empty value is 0"
        );
        assert!(within("common_lb_config: {healthy_panic_threshold: {value: 30}}").is_empty());
    }

    #[test]
    fn a_policy_by_reports_needs_a_penalty_for_errors() {
        let policy = |penalty: &str| {
            within(&format!(
                "load_balancing_policy:\n  policies:\n  - typed_extension_config:\n      name: w\n      typed_config:\n        \"@type\": type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin\n        {penalty}"
            ))
        };

        assert_eq!(policy("blackout_period: 10s"), ["no-error-penalty"]);
        assert_eq!(policy("error_utilization_penalty: 0"), ["no-error-penalty"]);
        assert!(policy("error_utilization_penalty: 1.0").is_empty());
        assert!(policy("error_utilization_penalty: {value: 1}").is_empty());
    }

    #[test]
    fn a_weight_of_nothing_is_found_in_a_file_of_endpoints_too() {
        let text = "resources:\n- \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n  cluster_name: n\n  endpoints:\n  - lb_endpoints:\n    - load_balancing_weight: 0\n    - load_balancing_weight: 1\n    - load_balancing_weight: {value: 0}\n";

        assert_eq!(
            traps(text, false),
            [("zero-weight", 6, 30), ("zero-weight", 8, 30)]
        );
    }

    #[test]
    fn least_requests_need_eyes() {
        assert_eq!(within("lb_policy: LEAST_REQUEST"), ["black-hole"]);
        assert!(within("lb_policy: ROUND_ROBIN").is_empty());
        assert!(within("lb_policy: LEAST_REQUEST\noutlier_detection: {}").is_empty());
        let typed = "load_balancing_policy:\n  policies:\n  - typed_extension_config:\n      typed_config: {\"@type\": type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest}";
        assert_eq!(within(typed), ["black-hole"]);
    }

    #[test]
    fn what_is_looked_at_before_ejects_too_many() {
        assert_eq!(
            within("outlier_detection: {max_ejection_percent: 67}"),
            ["ejects-too-many"]
        );
        assert!(within("outlier_detection: {max_ejection_percent: 50}").is_empty());
    }
}
