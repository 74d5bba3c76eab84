//! A node as a fleet has many: a gateway, and the application beside it.

use std::net::SocketAddr;

use super::{Gateway, GatewaySetup, Keeps, Metrics, Site};

/// A running node. Dropping it stops both.
pub(crate) struct Node {
    name: String,
    gateway: Gateway,
    site: Site,
}

impl Node {
    /// Starts one called `name` whose application keeps sessions by itself.
    pub(crate) fn start(name: &str, keeps: Keeps) -> anyhow::Result<Self> {
        Self::start_with(name, keeps, "", "")
    }

    /// Starts one; `keys` are further ones of its `[[app]]` and the tables below it, `sections`
    /// whatever else is in the gateway's file.
    pub(crate) fn start_with(
        name: &str,
        keeps: Keeps,
        keys: &str,
        sections: &str,
    ) -> anyhow::Result<Self> {
        let site = Site::start(name, keeps)?;
        let mut setup = GatewaySetup::app(site.address(), keys);
        setup.sections.push_str(sections);
        let gateway = Gateway::start(&setup)?;
        Ok(Self {
            name: name.to_owned(),
            gateway,
            site,
        })
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Its name and address, for a balancer.
    pub(crate) fn entry(&self) -> (String, SocketAddr) {
        (self.name.clone(), self.address())
    }

    /// Its gateway.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// What its gateway says of itself.
    pub(crate) fn metrics(&self) -> anyhow::Result<Metrics> {
        self.gateway.metrics()
    }

    /// Ends both as an operator does: the gateway writes what it held back.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.gateway.stop()
    }

    /// Ends both at once, as when the machine is gone.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.gateway.kill()?;
        self.site.kill()
    }
}
