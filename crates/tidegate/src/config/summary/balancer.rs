//! What follows about load balancers.

use std::fmt;

use super::span;
use crate::config::BalancerPlan;

/// Nothing, where none is told anything.
pub(super) fn show(f: &mut fmt::Formatter<'_>, plan: &BalancerPlan) -> fmt::Result {
    if let Some(agent) = &plan.agent_check {
        writeln!(
            f,
            "\nagent check for HAProxy on {}; at the end it says for {} that the node is all right",
            agent.listen,
            span(agent.farewell())
        )?;
        if let Some(maxconn) = agent.maxconn {
            writeln!(
                f,
                "  each balancer may have {maxconn} requests here at once"
            )?;
        }
    }
    if plan.load_reports {
        writeln!(f, "\nevery answer to a client carries a load report")?;
    }
    for haproxy in &plan.haproxies {
        writeln!(
            f,
            "\nHAProxy at {}: servers of {}; what an agent said that is silent for {} is put right",
            haproxy.socket,
            haproxy.backends.join(" "),
            span(haproxy.lease)
        )?;
    }
    Ok(())
}
