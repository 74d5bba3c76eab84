//! Which client connections there may be, and which thread serves each.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tidegate_core::time::Mono;

use crate::link::Link;
use crate::plan::Plan;

/// Connections over the cap for one client that may still ask for health paths.
const OVERFLOW_PER_CLIENT_MAX: u32 = 4;

/// Connections that are looked at when one must go to make room for another.
const EVICTION_CANDIDATES_MAX: usize = 64;

/// Connections told to go that may still be there; more are not told.
const EVICTIONS_MAX: u32 = 64;

/// A client that was active more recently than this keeps its connection.
const EVICTION_IDLE_MIN: Duration = Duration::from_secs(1);

/// What a client connection may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything.
    Normal,
    /// Anything, on a slot reserved for probe networks.
    Probe,
    /// Health paths only: it is over a cap.
    Overflow,
}

/// Why a connection got less than it wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// There are as many as there may be: health paths only.
    ConnectionsMax,
    /// Its client has as many as one client may have: health paths only.
    PerClientMax,
    /// Over a cap, and those that are served health paths are too many: closed at once.
    OverflowMax,
    /// The thread that should serve it does not take any more: closed at once.
    ThreadBusy,
}

/// The client connections of a gateway.
pub(crate) struct Connections {
    normal_max: u32,
    per_client_max: Option<u32>,
    probe_max: u32,
    overflow_max: u32,
    probe_networks: Vec<IpNet>,
    trusted_networks: Vec<IpNet>,
    open: Mutex<Open>,
    turned_away: [AtomicU64; TurnedAway::ALL.len()],
    accept_errors: AtomicU64,
    draining: AtomicBool,
}

struct Open {
    normal: u32,
    probe: u32,
    overflow: u32,
    /// Told to go, but still there; they do not count as normal any more.
    evicted: u32,
    by_thread: Vec<u32>,
    /// Only kept when there is a cap. No larger than the number of connections.
    by_client: HashMap<Client, u32>,
    links: Vec<Arc<Link>>,
    eviction_cursor: usize,
}

/// A client as the cap sees it: an IPv4 address or an IPv6 /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    V4(u32),
    V6(u64),
}

/// The right to have one connection. Dropping it makes room.
pub(crate) struct Permit {
    connections: Arc<Connections>,
    link: Arc<Link>,
    kind: Kind,
    trusted: bool,
    client: Option<Client>,
    thread: usize,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Normal, Self::Probe, Self::Overflow];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Probe => "probe",
            Self::Overflow => "overflow",
        }
    }
}

impl TurnedAway {
    pub(crate) const ALL: [Self; 4] = [
        Self::ConnectionsMax,
        Self::PerClientMax,
        Self::OverflowMax,
        Self::ThreadBusy,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::ConnectionsMax => "connections_max",
            Self::PerClientMax => "connections_per_client_max",
            Self::OverflowMax => "overflow_connections_max",
            Self::ThreadBusy => "thread_busy",
        }
    }
}

impl Connections {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            normal_max: plan.listener.connections_max.get(),
            per_client_max: plan.listener.connections_per_client_max.map(u32::from),
            probe_max: plan.probes.connections_reserved.get(),
            overflow_max: plan.probes.overflow_connections_max.get(),
            probe_networks: plan.probes.networks.clone(),
            trusted_networks: plan.trusted.clone(),
            open: Mutex::new(Open {
                normal: 0,
                probe: 0,
                overflow: 0,
                evicted: 0,
                by_thread: vec![0; plan.threads.get()],
                by_client: HashMap::new(),
                links: Vec::new(),
                eviction_cursor: 0,
            }),
            turned_away: Default::default(),
            accept_errors: AtomicU64::new(0),
            draining: AtomicBool::new(false),
        }
    }

    /// Makes room for a connection from `peer`; `None` when it must be closed at once.
    ///
    /// Probe networks come first, on slots of their own. At the cap, the client that has been idle
    /// longest of those looked at loses its connection to the newcomer.
    pub(crate) fn admit(self: &Arc<Self>, peer: SocketAddr, now: Mono) -> Option<Permit> {
        let address = peer.ip().to_canonical();
        let trusted = contains(&self.trusted_networks, address);
        let probe = contains(&self.probe_networks, address);
        let mut open = self.lock();
        let kind = if probe && open.probe < self.probe_max {
            open.probe += 1;
            Kind::Probe
        } else {
            self.admit_ordinary(&mut open, address, trusted, now)?
        };

        // A proxy stands for many clients, and probes are not capped.
        let client = (self.per_client_max.is_some() && !trusted && kind != Kind::Probe)
            .then(|| Client::of(address));
        if let Some(client) = client {
            *open.by_client.entry(client).or_default() += 1;
        }
        let thread = open.quietest_thread();
        open.by_thread[thread] += 1;
        let link = Arc::new(Link::new(open.links.len(), kind, now));
        open.links.push(Arc::clone(&link));
        drop(open);
        if self.draining.load(Ordering::Acquire) {
            link.ask_to_close();
        }
        Some(Permit {
            connections: Arc::clone(self),
            link,
            kind,
            trusted,
            client,
            thread,
        })
    }

    fn admit_ordinary(
        &self,
        open: &mut Open,
        address: IpAddr,
        trusted: bool,
        now: Mono,
    ) -> Option<Kind> {
        let mut over = None;
        if let Some(max) = self.per_client_max.filter(|_| !trusted) {
            let count = open
                .by_client
                .get(&Client::of(address))
                .copied()
                .unwrap_or(0);
            if count >= max.saturating_add(OVERFLOW_PER_CLIENT_MAX) {
                self.turn_away(TurnedAway::OverflowMax);
                return None;
            }
            if count >= max {
                over = Some(TurnedAway::PerClientMax);
            }
        }
        if over.is_none() && open.normal >= self.normal_max && !open.evict(now) {
            over = Some(TurnedAway::ConnectionsMax);
        }
        match over {
            None => {
                open.normal += 1;
                Some(Kind::Normal)
            }
            Some(reason) if open.overflow < self.overflow_max => {
                self.turn_away(reason);
                open.overflow += 1;
                Some(Kind::Overflow)
            }
            Some(_) => {
                self.turn_away(TurnedAway::OverflowMax);
                None
            }
        }
    }

    /// Asks every connection, those to come included, to close as soon as it is idle.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        let links = self.lock().links.clone();
        // All before any: whoever sees one connection close can count on the others.
        for link in &links {
            link.mark_to_close();
        }
        for link in &links {
            link.ask_to_close();
        }
    }

    /// Connections of this kind now.
    pub(crate) fn open(&self, kind: Kind) -> u32 {
        let open = self.lock();
        match kind {
            Kind::Normal => open.normal + open.evicted,
            Kind::Probe => open.probe,
            Kind::Overflow => open.overflow,
        }
    }

    /// Whether there is no connection at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().links.is_empty()
    }

    pub(crate) fn turn_away(&self, reason: TurnedAway) {
        self.turned_away[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn turned_away(&self, reason: TurnedAway) -> u64 {
        self.turned_away[reason as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accept_errors(&self) -> u64 {
        self.accept_errors.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Every change of `Open` is complete before anything in it could panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn quietest_thread(&self) -> usize {
        let threads = self.by_thread.iter().enumerate();
        threads
            .min_by_key(|&(_, count)| count)
            .map_or(0, |(thread, _)| thread)
    }

    /// Tells an idle connection to go, so that a new one can have its place.
    fn evict(&mut self, now: Mono) -> bool {
        if self.evicted >= EVICTIONS_MAX {
            return false;
        }
        let candidates = self.links.len().min(EVICTION_CANDIDATES_MAX);
        let longest_idle = (0..candidates)
            .map(|step| &self.links[(self.eviction_cursor + step) % self.links.len()])
            .filter(|link| link.kind() == Kind::Normal && !link.is_evicted())
            .filter_map(|link| Some((link.idle_since()?, link)))
            .filter(|(since, _)| now.since(*since) >= EVICTION_IDLE_MIN)
            .min_by_key(|(since, _)| *since)
            .map(|(_, link)| Arc::clone(link));
        self.eviction_cursor = self.eviction_cursor.wrapping_add(candidates);
        let Some(link) = longest_idle else {
            return false;
        };
        link.evict();
        self.normal -= 1;
        self.evicted += 1;
        true
    }
}

impl Client {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl Permit {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the peer's word on other clients is taken.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// The thread that is to serve the connection.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        let open = &mut *open;
        match self.kind {
            Kind::Normal if self.link.is_evicted() => open.evicted -= 1,
            Kind::Normal => open.normal -= 1,
            Kind::Probe => open.probe -= 1,
            Kind::Overflow => open.overflow -= 1,
        }
        open.by_thread[self.thread] -= 1;
        if let Some(client) = self.client
            && let Some(count) = open.by_client.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                open.by_client.remove(&client);
            }
        }
        let place = self.link.place();
        open.links.swap_remove(place);
        if let Some(moved) = open.links.get(place) {
            moved.move_to(place);
        }
    }
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests;
