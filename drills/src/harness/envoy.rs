//! A real Envoy that asks a rate limit service before it passes a request on.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;

use super::{Peer, TempDir, free_port, loopback, peer};

/// Where an Envoy is that is on nobody's path; `./drill` installs one and says so here.
const VARIABLE: &str = "TIDEGATE_ENVOY";

/// An Envoy to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvoySetup {
    /// What it passes requests to.
    pub(crate) upstream: SocketAddr,
    /// The rate limit service it asks.
    pub(crate) rls: SocketAddr,
    /// Whether it refuses requests when it gets no answer.
    pub(crate) failure_mode_deny: bool,
}

impl Peer {
    /// Starts Envoy. Each request has two descriptors: `user`, which is its header `x-user`, and `generic_key`, which is
    /// `all`.
    pub(crate) fn envoy(setup: &EnvoySetup) -> anyhow::Result<Self> {
        let program = program()?;
        let dir = TempDir::new()?;
        let address = loopback(free_port()?);
        let file = dir.path().join("envoy.yaml");
        fs::write(&file, yaml(setup, address))?;
        let mut command = vec![program.display().to_string()];
        command.extend(["--concurrency", "1", "--log-level", "off"].map(str::to_owned));
        // Several may run beside each other.
        command.extend(["--use-dynamic-base-id", "-c"].map(str::to_owned));
        command.push(file.display().to_string());
        Self::start(&command, address, dir, None)
    }
}

fn program() -> anyhow::Result<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(path) => Ok(PathBuf::from(path)),
        None => peer::program("envoy", "no package of Debian's; ./drill gets it from PyPI")
            .with_context(|| format!("{VARIABLE} does not name one either")),
    }
}

fn yaml(setup: &EnvoySetup, address: SocketAddr) -> String {
    let (port, deny) = (address.port(), setup.failure_mode_deny);
    let app = cluster("app", setup.upstream, "");
    let http2 = "
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }";
    let rls = cluster("rls", setup.rls, http2);
    format!(
        "static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: drill
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{ prefix: / }}
                route:
                  cluster: app
                  rate_limits:
                  - actions: [{{ request_headers: {{ header_name: x-user, descriptor_key: user }} }}]
                  - actions: [{{ generic_key: {{ descriptor_value: all }} }}]
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              timeout: 2s
              failure_mode_deny: {deny}
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{ envoy_grpc: {{ cluster_name: rls }} }}
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
{app}{rls}"
    )
}

fn cluster(name: &str, address: SocketAddr, more: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "  - name: {name}
    connect_timeout: 1s{more}
    load_assignment:
      cluster_name: {name}
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }}
"
    )
}
