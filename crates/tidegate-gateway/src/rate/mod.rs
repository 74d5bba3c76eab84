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
mod token;
mod who;
mod words;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::IntErrorKind;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use tidegate_core::rate::key::{Part, Prefix, PrefixLengths};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Price, Spec, Tick};
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
    Absent, Cost, Instead, KEY_PARTS_MAX, KeyPart, LIMITS_CONFIGURED_MAX, LimitPlan, NetworkPlan,
    RatePlan, Stage,
};
use self::sample::Sample;
pub use self::token::{BadTokenKeys, TokenKeys, TokenPlan};
pub(crate) use self::who::Bearer;
use self::who::{ApiKeys, KeyHash, Who};
use self::words::{BadKey, Words};
pub use self::words::{
    BadPart, KEY_PART_BYTES_MAX, KEY_QUERY_BYTES_MAX, in_writing, part_bytes, part_written,
};
use crate::classify::Malformed;
use crate::cohort;
use crate::context::{Clock, Conn};
use crate::heard::{Heard, Source};
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
    who: Who,
    /// For limits of this node.
    key_hash: KeyHash,
    /// Those that hold over all gateways.
    fleet: Option<Fleet>,
    /// What limits go by that follow the headroom of the fleet.
    heard: Arc<Heard>,
}

/// One limit, ready for use.
pub(crate) struct Limit {
    pub(crate) plan: LimitPlan,
    pub(crate) policy: Policy,
    /// What it allows, as it is counted. Its place in memory is its name in the table.
    spec: Arc<Spec>,
    keys: RateKeys,
    /// The keys that its states in the shadow have: what an application in shadow mode uses up, no other must lack.
    shadow_keys: RateKeys,
    /// The limits that hold in place of this one, by the keys that they do so for, hashed with the process's secret.
    overrides: HashMap<u128, u16>,
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
    /// What a token takes of each, in the same order.
    pub(crate) prices: Few<Price>,
}

impl Wanted<'_> {
    /// Those of them at such places.
    pub(crate) fn those(mut self, is_one: impl Fn(usize) -> bool) -> Self {
        let mut places = 0..;
        self.limits.retain(|_| places.next().is_some_and(&is_one));
        let mut places = 0..;
        self.asked.retain(|_| places.next().is_some_and(&is_one));
        let mut places = 0..;
        self.prices.retain(|_| places.next().is_some_and(&is_one));
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
    pub(crate) bearer: &'r Bearer,
    /// The user whose session it is, once that is known.
    pub(crate) uid: Option<&'r str>,
}

impl Rates {
    /// The limits of `plan`, none of which has been used. Those of the fleet hold only with `sharing`; without it
    /// they let everything pass.
    pub(crate) fn new(
        plan: &Plan,
        sharing: Option<Sharing>,
        clock: Clock,
        heard: Arc<Heard>,
    ) -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random bytes once it is up");
        let secret = RateSecret::new(bytes);
        let limits = plan.rates.limits.iter();
        let mut limits: Vec<Limit> = limits.map(|limit| Limit::new(limit, &secret)).collect();
        override_some(&mut limits);
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
            who: Who::new(&plan.rates, clock),
            key_hash: KeyHash::new(bytes),
            limits,
            fleet: sharing.and_then(|sharing| Fleet::start(&plan.rates, sharing, clock)),
            heard,
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

    /// What a token takes of `limit` now.
    fn price(&self, limit: &Limit) -> Price {
        let follows = limit.plan.follows.as_ref();
        follows.map_or(Price::FIXED, |plan| self.heard.price(plan).0)
    }

    /// The part of the rate of `limit` that holds now, 0 to 1, and why; `None` for one that follows nothing.
    pub(crate) fn share(&self, limit: &Limit) -> Option<(f64, Source)> {
        let (price, source) = self.heard.price(limit.plan.follows.as_ref()?);
        Some((f64::from(price.share()) / 1e3, source))
    }

    /// What clients are told of `limit`: what of it holds now.
    fn policy<'l>(&self, limit: &'l Limit) -> Cow<'l, Policy> {
        if limit.plan.follows.is_none() {
            return Cow::Borrowed(&limit.policy);
        }
        let rate = self.price(limit).rate(limit.plan.rate);
        Cow::Owned(Policy::new(&limit.plan.name, rate.tokens, rate.period_us))
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
            let api_keys = self.key_hash.api_keys(limit, asked.headers);
            let (parts, complete) = limit.parts(asked, client, &self.who, &api_keys);
            let parts = &parts[..limit.plan.key.len()];
            let at = self.overriding(at, parts);
            let limit = &self.limits[usize::from(at)];
            let mut spec = &limit.spec;
            match limit.plan.absent {
                Absent::Skip if !complete => continue,
                Absent::Deny if !complete => spec = &self.deny,
                _ => {}
            }
            let price = self.price(limit);
            wanted.limits.push(at);
            wanted.prices.push(price);
            wanted.asked.push(limits::Asked {
                tag: here(),
                key: limit.keys_in(standing).key(parts),
                spec,
                cost: price.of(limit.cost(asked, &ignored), limit.spec.most()),
                standing,
            });
        }
        wanted
    }

    /// The place of the limit that holds for this key of limit `at`.
    fn overriding(&self, at: u16, parts: &[Part<'_>]) -> u16 {
        let limit = &self.limits[usize::from(at)];
        if limit.overrides.is_empty() {
            return at;
        }
        let key = limit.keys.key(parts);
        limit.overrides.get(&key).copied().unwrap_or(at)
    }

    /// The key that a request has in a limit, in words; with API keys hashed by `key_hash`.
    fn in_words(
        &self,
        limit: &Limit,
        asked: &Asked<'_>,
        trusted: &[IpNet],
        key_hash: &KeyHash,
    ) -> Words {
        let api_keys = key_hash.api_keys(limit, asked.headers);
        let client = asked.client(trusted);
        let (parts, _) = limit.parts(asked, client, &self.who, &api_keys);
        words::written(&limit.plan, &parts)
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
            let api_keys = wants.key_hash().api_keys(limit, asked.headers);
            let (parts, complete) = limit.parts(asked, client, &self.who, &api_keys);
            if !complete && limit.plan.absent == Absent::Skip {
                continue;
            }
            let deny = !complete && limit.plan.absent == Absent::Deny;
            let parts = &parts[..limit.plan.key.len()];
            let at = self.overriding(at, parts);
            let limit = &self.limits[usize::from(at)];
            let price = self.price(limit);
            let cost = price.of(limit.cost(asked, &ignored), limit.spec.most());
            wants.add(at, standing, parts, (cost, price), deny);
        }
        wants
    }
}

fn table(limits: &[Limit], keys_max: usize) -> LimitTable {
    let specs: Vec<Arc<Spec>> = limits.iter().map(|limit| Arc::clone(&limit.spec)).collect();
    LimitTable::counting(LimitTablePlan::for_keys(keys_max as u64), &specs)
}

/// The `key` of the limit `plan` as the limit counts by it, such as the network that an address is in: its parts in their
/// order, constants left out, `None` for one that a request lacks.
///
/// # Errors
///
/// Why it is no key of it, in words.
pub fn counted_key(
    plan: &LimitPlan,
    key: &[Option<String>],
) -> Result<Vec<Option<String>>, String> {
    let parts = words::read(plan, key).map_err(|bad| bad.to_string())?;
    if parts.contains(&Part::Absent) && plan.absent != Absent::Shared {
        return Err(BadKey::NotCounted.to_string());
    }
    let counted = plan.key.iter().zip(parts).filter(|(it, _)| it.is_said());
    let words = key.iter().zip(counted);
    let words = words.map(|(word, (_, part))| match part {
        Part::Address(network) => Some(network.to_string()),
        _ => word.clone(),
    });
    Ok(words.collect())
}

/// Notes which limits hold in place of others, and for which of their keys.
fn override_some(limits: &mut [Limit]) {
    for place in 0..limits.len() {
        let Some(Instead { of, key, .. }) = limits[place].plan.instead.clone() else {
            continue;
        };
        let limit = &mut limits[of];
        if let Ok(parts) = words::read(&limit.plan, &key) {
            let key = limit.keys.key(&parts);
            limit.overrides.insert(key, place as u16);
        }
    }
}

fn met_at(plan: &RatePlan, stage: Stage, app: &AppPlan, route: &RoutePlan) -> MetAt {
    let limits = plan.limits.iter().enumerate();
    let (mut of_fleet, of_node): (Vec<_>, Vec<_>) = limits
        .filter(|(_, limit)| limit.stage == stage && limit.applies_to(app, route))
        // Those are met through what they hold in place of.
        .filter(|(_, limit)| limit.instead.is_none())
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
            spec: Arc::new(plan.counted().unwrap_or(plan.spec)),
            keys: secret.limit(&plan.name),
            shadow_keys: secret.limit(&shadow_name(&plan.name)),
            plan: plan.clone(),
            overrides: HashMap::new(),
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
    fn parts<'a>(
        &'a self,
        asked: &Asked<'a>,
        client: IpAddr,
        who: &'a Who,
        api_keys: &'a ApiKeys,
    ) -> ([Part<'a>; KEY_PARTS_MAX], bool) {
        let mut parts = [Part::Absent; KEY_PARTS_MAX];
        let mut complete = true;
        for (place, (part, plan)) in parts.iter_mut().zip(&self.plan.key).enumerate() {
            let found = match plan {
                KeyPart::Client { v4, v6 } => {
                    let lengths = PrefixLengths::new(*v4, *v6).unwrap_or_default();
                    Some(Part::Address(Prefix::of(client, lengths)))
                }
                KeyPart::Network => who.network(client).map(Part::Network),
                KeyPart::ApiKey(_) => api_keys.at(place).map(Part::ApiKey),
                KeyPart::Claim(name) => {
                    let said = who.claim(asked.bearer, asked.headers, name);
                    said.map(|said| Part::Claim(said.as_bytes()))
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
            Cost::Header { name, otherwise } => (name, *otherwise),
            cost => return cost.usual(),
        };
        let Some(said) = asked.trusted_header(name) else {
            return otherwise;
        };
        tokens(said).unwrap_or_else(|| {
            ignored(Malformed::Cost);
            otherwise
        })
    }

    /// What the request has really cost by the head of its answer; `None` if that says nothing.
    fn cost_by_answer(&self, headers: &HeaderMap, ignored: impl Fn(Malformed)) -> Option<u64> {
        let Cost::Response { name, .. } = &self.plan.cost else {
            return None;
        };
        let cost = tokens(headers.get(name)?.as_bytes());
        if cost.is_none() {
            ignored(Malformed::Cost);
        }
        cost
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

/// A cost in words.
fn tokens(said: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(said).ok()?.trim();
    // A number with a sign is one to the library, and to nobody who reads fields.
    if digits.starts_with('+') {
        return None;
    }
    match digits.parse::<u64>() {
        // More than there is a number for is still a cost, and more than any limit has.
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(u64::MAX),
        cost => cost.ok(),
    }
}

/// The process's clock as limits read it.
pub(crate) fn tick(now: Mono) -> Tick {
    Tick(now.as_nanos() / 1_000)
}

#[cfg(test)]
mod tests;
