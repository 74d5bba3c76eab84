//! The sections about the process itself: listener, admin, trust, probes, drain.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use ipnet::IpNet;
use tidegate_gateway::plan::{DrainPlan, ListenerPlan, ProbePlan};

use super::section::Section;

pub(crate) fn listener(section: &Section<'_>) -> ListenerPlan {
    ListenerPlan {
        address: Some(address(section, section.text("address"))),
        connections_max: non_zero(section.count("connections_max")),
        connections_per_client_max: section
            .count_if_set("connections_per_client_max")
            .map(non_zero),
        head_bytes_max: usize_of(section.bytes("head_bytes_max")),
        headers_max: section.count("headers_max") as usize,
        head_timeout: section.span("head_timeout"),
        keep_alive_timeout: section.span("keep_alive_timeout"),
        body_timeout: section.span("body_timeout"),
        write_timeout: section.span("write_timeout"),
        half_close: section.switch("half_close"),
    }
}

/// The admin listener's address; it must differ from that of the listener.
pub(crate) fn admin(
    section: &Section<'_>,
    listen: &Section<'_>,
    listener: Option<SocketAddr>,
) -> Option<SocketAddr> {
    let text = section.text("address");
    if text == "off" {
        return None;
    }
    let admin = address(section, text);
    let overlaps = |listener: &SocketAddr| {
        admin.port() == listener.port()
            && admin.port() != 0
            && (admin.ip() == listener.ip()
                || admin.ip().is_unspecified()
                || listener.ip().is_unspecified())
    };
    if let Some(listener) = listener.filter(overlaps)
        && section.sound(&["address"])
        && listen.sound(&["address"])
    {
        section.refuse(
            "address",
            format!("the admin address {admin} is taken by the listener, which is on {listener}"),
            "choose another port, or \"off\" for no admin listener",
        );
    }
    Some(admin)
}

pub(crate) fn probes(section: &Section<'_>) -> ProbePlan {
    let mut paths = Vec::new();
    for (path, place) in section.texts("paths") {
        if !path.starts_with('/')
            || path.contains(['*', '?', '#'])
            || !path.bytes().all(|byte| byte.is_ascii_graphic())
        {
            section.refuse_item(
                "paths",
                place,
                format!("`{path}` is no path of a probe"),
                "write a whole path without wildcards or query, such as \"/health\"",
            );
        }
        paths.push(path.to_owned());
    }
    ProbePlan {
        networks: networks(section, "networks"),
        connections_reserved: non_zero(section.count("connections_reserved")),
        paths,
        overflow_connections_max: non_zero(section.count("overflow_connections_max")),
    }
}

pub(crate) fn drain(section: &Section<'_>) -> DrainPlan {
    DrainPlan {
        delay: section.span("delay"),
        timeout: section.span("timeout"),
    }
}

pub(crate) fn networks(section: &Section<'_>, key: &'static str) -> Vec<IpNet> {
    let mut networks = Vec::new();
    for (text, place) in section.texts(key) {
        let network = text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        match network {
            Ok(network) if network.trunc() == network => networks.push(network),
            Ok(network) => section.refuse_item(
                key,
                place,
                format!("`{text}` has bits set beyond its prefix"),
                format!(
                    "write \"{}\" for the network, or \"{}\" for the one address",
                    network.trunc(),
                    network.addr()
                ),
            ),
            Err(_) => section.refuse_item(
                key,
                place,
                format!("`{text}` is no network"),
                "write an address with or without prefix length, such as \"10.0.0.0/8\" or \"::1\"",
            ),
        }
    }
    networks
}

pub(crate) fn non_zero(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

pub(crate) fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn address(section: &Section<'_>, text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|_| {
        if section.sound(&["address"]) {
            let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(8080);
            section.refuse(
                "address",
                format!("`address = \"{text}\"` is no IP address with port"),
                format!("write \"0.0.0.0:{port}\" for every IPv4 address, \"[::]:{port}\" for every address, or \"127.0.0.1:{port}\""),
            );
        }
        SocketAddr::from(([127, 0, 0, 1], 0))
    })
}
