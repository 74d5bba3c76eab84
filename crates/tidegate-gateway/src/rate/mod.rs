//! Rate limits on this node: which of them a request meets, and by what it is counted in each.
//!
//! The arithmetic is the core's (`tidegate_core::rate`), and who remembers is the store's table
//! (`tidegate_store::limits`); here is where keys come from, and who gives back what a refused request has
//! spent (`charge`). What a limit counts by is hashed with a secret of the process: nothing that a client
//! sends can be made to collide with somebody else's. Of a few that each limit is met with most (`sample`) the
//! key is kept in words, too (`words`), for the operator who asks (`inspect`).

mod charge;
mod fleet;
pub(crate) mod inspect;
mod plan;
mod sample;
mod words;

use std::net::IpAddr;
use std::num::IntErrorKind;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use tidegate_core::rate::key::{Part, Prefix, PrefixLengths};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Spec, Tick};
use tidegate_core::session::SlotTag;
use tidegate_core::time::Mono;
use tidegate_http::quota::Policy;
use tidegate_store::limits::{self, Few, KeyCounts, LimitTable, LimitTablePlan};
use tidegate_store::{RateKeys, RateSecret};

pub(crate) use self::charge::{Charge, Refused};
pub use self::fleet::{FLEET_KEYS_MAX, FleetMode, FleetPlan, Sharing};
use self::fleet::{Fleet, Wants};
pub(crate) use self::fleet::{FleetTally, LimitTally};
pub use self::plan::{
    Absent, Cost, KEY_PARTS_MAX, KeyPart, LIMITS_CONFIGURED_MAX, LimitPlan, RatePlan, Stage,
};
use self::sample::Sample;
use self::words::Words;
use crate::classify::Malformed;
use crate::cohort;
use crate::context::{Clock, Conn};
use crate::plan::{AppPlan, Plan, RoutePlan};

/// Places of each shard of the table that are looked at for what is full again, once a second.
const SWEPT: usize = 1_024;

/// All rate limits of a gateway, with what they remember.
pub struct Rates {
    limits: Vec<Limit>,
    /// By application and route.
    met: Vec<Vec<Met>>,
    table: LimitTable,
    /// What a request that lacks a part of a key meets where that is denied.
    deny: Arc<Spec>,
    /// Those that hold over all gateways.
    fleet: Option<Fleet>,
}

/// One limit, ready for use.
pub(crate) struct Limit {
    pub(crate) plan: LimitPlan,
    pub(crate) policy: Policy,
    /// What it allows. Its place in memory is its name in the table.
    spec: Arc<Spec>,
    keys: RateKeys,
    /// The keys that its states in the shadow have: what an application in shadow mode uses up, no other must lack.
    shadow_keys: RateKeys,
    /// Who is refused, by requests.
    refused: Sample,
    /// Who spends, by tokens.
    spent: Sample,
}

/// The limits that requests for one route meet: at the edge, and when the session is known.
#[derive(Default)]
struct Met([MetAt; 2]);

/// The limits that they meet at one of them.
#[derive(Default)]
struct MetAt {
    /// Of this node.
    node: Box<[(u16, Standing)]>,
    /// Of the fleet, those that count fewer together first: what one of these refuses is not to be taken from
    /// the wider ones, if only for a moment.
    fleet: Box<[(u16, Standing)]>,
}

/// The limits that a request meets at a stage.
#[derive(Default)]
pub(crate) struct Wanted<'r> {
    /// Their places in the plan.
    pub(crate) limits: Few<u16>,
    /// What each of them is asked for, in the same order.
    pub(crate) asked: Few<limits::Asked<'r>>,
}

impl Wanted<'_> {
    /// Those of them at such places.
    pub(crate) fn those(mut self, is_one: impl Fn(usize) -> bool) -> Self {
        let mut places = 0..;
        self.limits.retain(|_| places.next().is_some_and(&is_one));
        let mut places = 0..;
        self.asked.retain(|_| places.next().is_some_and(&is_one));
        self
    }
}

/// Limits of one node are all in one place, whatever that is called.
fn here() -> SlotTag {
    SlotTag::from_bits(0)
}

/// What limits may look at in a request.
pub(crate) struct Asked<'r> {
    pub(crate) app: usize,
    pub(crate) route: usize,
    pub(crate) route_name: &'r str,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) conn: &'r Conn,
    /// The user whose session it is, once that is known.
    pub(crate) uid: Option<&'r str>,
}

impl Rates {
    /// The limits of `plan`, none of which has been used. Those of the fleet hold only with `sharing`; without it
    /// they let everything pass.
    pub(crate) fn new(plan: &Plan, sharing: Option<Sharing>, clock: Clock) -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random bytes once it is up");
        let secret = RateSecret::new(bytes);
        let limits = plan.rates.limits.iter();
        let limits: Vec<Limit> = limits.map(|limit| Limit::new(limit, &secret)).collect();
        let met = |app: &AppPlan| -> Vec<Met> {
            let routes = app.routes.iter();
            routes
                .map(|route| {
                    let at = |stage| met_at(&plan.rates, stage, app, route);
                    Met([at(Stage::Edge), at(Stage::Known)])
                })
                .collect()
        };
        Self {
            met: plan.apps.iter().map(met).collect(),
            table: table(&limits, plan.rates.keys_max),
            deny: Arc::new(Spec::Deny),
            limits,
            fleet: sharing.and_then(|sharing| Fleet::start(&plan.rates, sharing, clock)),
        }
    }

    /// What there is to tell of the limits of the fleet, where there are any.
    pub(crate) fn fleet_tally(&self) -> Option<FleetTally> {
        self.fleet.as_ref().map(Fleet::tally)
    }

    /// Gives back what this node has ahead of limits of the fleet. Waits for a moment at most.
    pub(crate) fn close(&self) {
        if let Some(fleet) = &self.fleet {
            fleet.close();
        }
    }

    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// How many keys of limit `at` are remembered, and how many were forgotten too early, for want of room.
    pub(crate) fn keys(&self, at: usize) -> KeyCounts {
        self.table.counts(at)
    }

    /// Forgets some of the keys that are full again, which costs little and changes no decision.
    pub(crate) fn sweep(&self, now: Mono) {
        self.table.sweep(SWEPT, tick(now));
    }

    /// The limits that requests for this route meet at `stage`.
    fn meets(&self, app: usize, route: usize, stage: Stage) -> &MetAt {
        &self.met[app][route].0[stage as usize]
    }

    /// The limits of `met` with the request's keys and costs.
    fn wanted<'r>(
        &'r self,
        met: &[(u16, Standing)],
        asked: &Asked<'_>,
        trusted: &[IpNet],
        ignored: impl Fn(Malformed),
    ) -> Wanted<'r> {
        let mut wanted = Wanted::default();
        let client = asked.client(trusted);
        for &(at, standing) in met {
            let limit = &self.limits[usize::from(at)];
            let mut spec = &limit.spec;
            let (parts, complete) = limit.parts(asked, client);
            match limit.plan.absent {
                Absent::Skip if !complete => continue,
                Absent::Deny if !complete => spec = &self.deny,
                _ => {}
            }
            wanted.limits.push(at);
            wanted.asked.push(limits::Asked {
                tag: here(),
                key: limit.keys_in(standing).key(&parts[..limit.plan.key.len()]),
                spec,
                cost: limit.cost(asked, &ignored),
                standing,
            });
        }
        wanted
    }

    /// The same of limits of the fleet.
    fn wanted_of_fleet(
        &self,
        fleet: &Fleet,
        met: &[(u16, Standing)],
        asked: &Asked<'_>,
        trusted: &[IpNet],
        ignored: impl Fn(Malformed),
    ) -> Wants {
        let mut wants = Wants::new(fleet, met.len());
        let client = asked.client(trusted);
        for &(at, standing) in met {
            let limit = &self.limits[usize::from(at)];
            let (parts, complete) = limit.parts(asked, client);
            if !complete && limit.plan.absent == Absent::Skip {
                continue;
            }
            let deny = !complete && limit.plan.absent == Absent::Deny;
            let parts = &parts[..limit.plan.key.len()];
            wants.add(at, standing, parts, limit.cost(asked, &ignored), deny);
        }
        wants
    }
}

/// The key that a request has in a limit, in words.
fn in_words(limit: &Limit, asked: &Asked<'_>, trusted: &[IpNet]) -> Words {
    let (parts, _) = limit.parts(asked, asked.client(trusted));
    words::written(&limit.plan, &parts)
}

fn table(limits: &[Limit], keys_max: usize) -> LimitTable {
    let specs: Vec<Arc<Spec>> = limits.iter().map(|limit| Arc::clone(&limit.spec)).collect();
    LimitTable::counting(LimitTablePlan::for_keys(keys_max as u64), &specs)
}

fn met_at(plan: &RatePlan, stage: Stage, app: &AppPlan, route: &RoutePlan) -> MetAt {
    let limits = plan.limits.iter().enumerate();
    let (mut of_fleet, of_node): (Vec<_>, Vec<_>) = limits
        .filter(|(_, limit)| limit.stage == stage && limit.applies_to(app, route))
        .partition(|(_, limit)| limit.fleet.is_some());
    of_fleet.sort_by_key(|(_, limit)| std::cmp::Reverse(limit.key.len()));
    let standing = |limits: Vec<(usize, &LimitPlan)>| -> Box<[(u16, Standing)]> {
        let limits = limits.into_iter();
        limits
            .map(|(at, limit)| (at as u16, limit.standing_in(app)))
            .collect()
    };
    MetAt {
        node: standing(of_node),
        fleet: standing(of_fleet),
    }
}

/// The name that a limit's states in the shadow have. No limit is called so.
fn shadow_name(name: &str) -> String {
    format!("{name}:s")
}

impl Limit {
    fn new(plan: &LimitPlan, secret: &RateSecret) -> Self {
        Self {
            policy: Policy::new(&plan.name, plan.rate.tokens, plan.rate.period_us),
            spec: Arc::new(plan.spec),
            keys: secret.limit(&plan.name),
            shadow_keys: secret.limit(&shadow_name(&plan.name)),
            plan: plan.clone(),
            refused: Sample::default(),
            spent: Sample::default(),
        }
    }

    const fn keys_in(&self, standing: Standing) -> &RateKeys {
        match standing {
            Standing::Enforced => &self.keys,
            Standing::Shadow => &self.shadow_keys,
        }
    }

    /// What the request is counted by, and whether no part is missing.
    fn parts<'a>(&'a self, asked: &Asked<'a>, client: IpAddr) -> ([Part<'a>; KEY_PARTS_MAX], bool) {
        let mut parts = [Part::Absent; KEY_PARTS_MAX];
        let mut complete = true;
        for (part, plan) in parts.iter_mut().zip(&self.plan.key) {
            let found = match plan {
                KeyPart::Client { v4, v6 } => {
                    let lengths = PrefixLengths::new(*v4, *v6).unwrap_or_default();
                    Some(Part::Address(Prefix::of(client, lengths)))
                }
                KeyPart::Session => asked.uid.map(|uid| Part::Identity(uid.as_bytes())),
                KeyPart::Header(name) => asked.trusted_header(name).map(Part::Header),
                KeyPart::Route => Some(Part::Route(asked.route_name)),
                KeyPart::Constant(text) => Some(Part::Constant(text)),
            };
            complete &= found.is_some();
            *part = found.unwrap_or(Part::Absent);
        }
        (parts, complete)
    }

    fn cost(&self, asked: &Asked<'_>, ignored: impl Fn(Malformed)) -> u64 {
        let (name, otherwise) = match &self.plan.cost {
            Cost::Fixed(cost) => return *cost,
            Cost::Header { name, otherwise } => (name, *otherwise),
        };
        let Some(said) = asked.trusted_header(name) else {
            return otherwise;
        };
        let cost = str::from_utf8(said)
            .ok()
            .map(str::trim)
            .map(str::parse::<u64>);
        let cost = cost.and_then(|cost| match cost {
            // More than there is a number for is still a cost, and more than any limit has.
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(u64::MAX),
            cost => cost.ok(),
        });
        cost.unwrap_or_else(|| {
            ignored(Malformed::Cost);
            otherwise
        })
    }
}

impl<'r> Asked<'r> {
    /// The client's address, as far as it is believed.
    fn client(&self, trusted: &[IpNet]) -> IpAddr {
        match self.conn.trusted {
            true => cohort::client(self.headers, self.conn.peer.ip(), trusted),
            false => self.conn.peer.ip(),
        }
    }

    /// What a trusted peer says in `name`. Of several lines the last: the peer itself has added it.
    fn trusted_header(&self, name: &HeaderName) -> Option<&'r [u8]> {
        if !self.conn.trusted {
            return None;
        }
        let last = self.headers.get_all(name).iter().next_back()?;
        Some(last.as_bytes())
    }
}

/// The process's clock as limits read it.
pub(crate) fn tick(now: Mono) -> Tick {
    Tick(now.as_nanos() / 1_000)
}

#[cfg(test)]
mod tests;
