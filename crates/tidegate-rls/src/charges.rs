//! From a request to what it takes of which limits.

use std::sync::{Arc, PoisonError, RwLock};

use tidegate_core::rate::key::Part;
use tidegate_core::rate::set::{LIMITS_MAX, Standing};
use tidegate_core::rate::{Algorithm, Rate, Spec, SpecError, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Asked, Settled};
use tidegate_store::{RateKeys, RateSecret};

use crate::book::Book;
use crate::messages::{
    DescriptorEntry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit,
};
use crate::plan::{Allowance, Fit, RlsLimit, Scope};

/// The most descriptors of a request.
pub const DESCRIPTORS_MAX: usize = 32;
/// The most entries of a descriptor.
pub const ENTRIES_MAX: usize = 16;
/// The longest key of an entry, in bytes, and the longest value that a limit names.
///
/// The values of a request have no bound but that of the message: they are often what a client has sent, who must not
/// choose that its request is not decided on.
pub const ENTRY_BYTES_MAX: usize = 1_024;

/// All limits, ready for use.
pub(crate) struct Limits {
    pub(crate) limits: Vec<RlsLimit>,
    book: Book,
    domains: Vec<String>,
    /// By limit, with a secret of this process.
    own: Keys,
    /// With that of the fleet, once it is known.
    shared: RwLock<Option<Keys>>,
}

/// Keys with one secret, by limit. A clone is the same.
#[derive(Clone)]
struct Keys {
    secret: [u8; 16],
    limits: Arc<[RateKeys]>,
}

/// What a request takes.
#[derive(Debug)]
pub(crate) struct Charges {
    pub(crate) domain: usize,
    /// How many descriptors it has.
    pub(crate) descriptors: usize,
    /// Those that meet a limit without bound and no other.
    pub(crate) unlimited: Descriptors,
    /// At most [`LIMITS_MAX`], each with a key of its own.
    pub(crate) charges: Vec<Charge>,
}

/// What a request takes of one limit.
#[derive(Debug)]
pub(crate) struct Charge {
    /// The limit, by its place.
    pub(crate) limit: usize,
    key: u128,
    /// Whether the key is the same for the whole fleet.
    pub(crate) is_shared: bool,
    spec: Arc<Spec>,
    pub(crate) rate: Rate,
    /// Tokens; 0 for a request that only asks.
    pub(crate) cost: u64,
    /// Tokens of one hit.
    pub(crate) each: u64,
    standing: Standing,
    /// Whose charge it is.
    pub(crate) descriptors: Descriptors,
}

/// Some of the descriptors of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptors(u32);

/// Why a request makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("there is no domain \"{0}\" here; rls.domains names those that there are")]
    Domain(String),
    #[error("a request has 1 to {DESCRIPTORS_MAX} descriptors, and this one {0}")]
    Descriptors(usize),
    #[error("a descriptor has 1 to {ENTRIES_MAX} entries, and one of these {0}")]
    Entries(usize),
    #[error("keys have 1 to {ENTRY_BYTES_MAX} bytes")]
    KeyBytes,
    #[error("a request meets {LIMITS_MAX} limits at most, and this one more")]
    Limits,
    #[error("a rate of its own has a unit")]
    Unit,
    #[error("the rate that the descriptor brings along cannot be kept: {0}")]
    Override(SpecError),
    #[error("hits cannot be given back: is_negative_hits is not served")]
    Negative,
}

impl Limits {
    pub(crate) fn new(domains: Vec<String>, limits: Vec<RlsLimit>, secret: [u8; 16]) -> Self {
        Self {
            own: Keys::new(secret, &domains, &limits),
            shared: RwLock::new(None),
            book: Book::new(&domains, &limits),
            domains,
            limits,
        }
    }

    /// The secret of the fleet, as far as we know; else one of our own.
    pub(crate) fn secret(&self) -> [u8; 16] {
        self.shared_keys()
            .map_or(self.own.secret, |keys| keys.secret)
    }

    /// The secret of the fleet is this. With another one than before, all its limits begin anew.
    pub(crate) fn share(&self, secret: [u8; 16]) {
        if self.shared_keys().is_none_or(|keys| keys.secret != secret) {
            let keys = Keys::new(secret, &self.domains, &self.limits);
            let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
            *shared = Some(keys);
        }
    }

    fn shared_keys(&self) -> Option<Keys> {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        shared.clone()
    }

    /// What `request` takes.
    pub(crate) fn charges(&self, request: &RateLimitRequest) -> Result<Charges, Invalid> {
        let domain = self.book.domain(&request.domain);
        let domain =
            domain.ok_or_else(|| Invalid::Domain(request.domain.chars().take(64).collect()))?;
        check(&request.descriptors)?;
        let mut met: Vec<(usize, usize)> = Vec::new();
        for (place, descriptor) in request.descriptors.iter().enumerate() {
            let meets = |limit| met.push((limit, place));
            self.book
                .look_up(domain, &self.limits, &descriptor.entries, meets);
        }
        let replaced: Vec<usize> = met
            .iter()
            .flat_map(|(limit, _)| &self.limits[*limit].replaces)
            .copied()
            .collect();
        met.retain(|(limit, _)| !replaced.contains(limit));

        let mut charges = Charges {
            domain,
            descriptors: request.descriptors.len(),
            unlimited: Descriptors::default(),
            charges: Vec::with_capacity(met.len().min(LIMITS_MAX)),
        };
        let shared = self.shared_keys();
        for (limit, place) in met {
            let descriptor = &request.descriptors[place];
            let hits = descriptor
                .hits_addend
                .unwrap_or_else(|| u64::from(request.hits_addend.max(1)));
            let keys = match self.limits[limit].scope {
                Scope::Node => None,
                Scope::Fleet => shared.as_ref(),
            };
            self.add(&mut charges, (limit, place), descriptor, hits, keys)?;
        }
        let limited = charges.charges.iter().map(|charge| charge.descriptors.0);
        charges.unlimited.0 &= !limited.fold(0, std::ops::BitOr::bitor);
        Ok(charges)
    }

    fn add(
        &self,
        charges: &mut Charges,
        (at, place): (usize, usize),
        descriptor: &RateLimitDescriptor,
        hits: u64,
        shared: Option<&Keys>,
    ) -> Result<(), Invalid> {
        let limit = &self.limits[at];
        let (rate, spec) = match (&limit.allowance, &descriptor.limit) {
            (Allowance::Unlimited, _) => {
                charges.unlimited.insert(place);
                return Ok(());
            }
            (Allowance::Limited { algorithm, .. }, Some(brought)) => {
                let (rate, spec) = overridden(*algorithm, brought)?;
                (rate, Arc::new(spec))
            }
            (Allowance::Limited { rate, spec, .. }, None) => (*rate, Arc::clone(spec)),
        };
        let keys = &shared.unwrap_or(&self.own).limits[at];
        let key = key(limit, &descriptor.entries, keys);
        let cost = hits.saturating_mul(limit.cost);
        let known = charges.charges.iter_mut().find(|charge| charge.key == key);
        if let Some(charge) = known {
            charge.cost = match limit.fit {
                Fit::Whole => charge.cost.saturating_add(cost),
                // It is met by the request, not by each of its descriptors.
                Fit::Part => charge.cost.max(cost),
            };
            charge.descriptors.insert(place);
            return Ok(());
        }
        if charges.charges.len() == LIMITS_MAX {
            return Err(Invalid::Limits);
        }
        let mut descriptors = Descriptors::default();
        descriptors.insert(place);
        charges.charges.push(Charge {
            limit: at,
            key,
            is_shared: shared.is_some(),
            spec,
            rate,
            cost,
            each: limit.cost,
            standing: limit.standing,
            descriptors,
        });
        Ok(())
    }
}

impl Keys {
    fn new(secret: [u8; 16], domains: &[String], limits: &[RlsLimit]) -> Self {
        let its = RateSecret::new(secret);
        let keys = limits.iter().map(|limit| {
            // Names have no colon, so the last one says where a domain ends.
            let (domain, name) = (&domains[limit.domain], &limit.name);
            its.limit(&format!("rls:{domain}:{name}"))
        });
        Self {
            secret,
            limits: keys.collect(),
        }
    }
}

/// Under which key `limit` counts a descriptor that meets it.
fn key(limit: &RlsLimit, entries: &[DescriptorEntry], keys: &RateKeys) -> u128 {
    let mut parts = [Part::Absent; ENTRIES_MAX];
    let mut count = 0;
    for (place, wanted) in limit.descriptor.iter().enumerate() {
        if !wanted.tells_values_apart() {
            continue;
        }
        let entry = match limit.fit {
            Fit::Whole => entries.get(place),
            Fit::Part => wanted.found_in(entries),
        };
        parts[count] = Part::Header(entry.map_or(&[][..], |entry| &entry.value));
        count += 1;
    }
    keys.key(&parts[..count])
}

fn check(descriptors: &[RateLimitDescriptor]) -> Result<(), Invalid> {
    let count = descriptors.len();
    if count == 0 || count > DESCRIPTORS_MAX {
        return Err(Invalid::Descriptors(count));
    }
    for descriptor in descriptors {
        let count = descriptor.entries.len();
        if count == 0 || count > ENTRIES_MAX {
            return Err(Invalid::Entries(count));
        }
        let fits = |entry: &DescriptorEntry| (1..=ENTRY_BYTES_MAX).contains(&entry.key.len());
        if !descriptor.entries.iter().all(fits) {
            return Err(Invalid::KeyBytes);
        }
        if descriptor.is_negative_hits {
            return Err(Invalid::Negative);
        }
    }
    Ok(())
}

/// The limit that a descriptor brings along. It has no burst: what comes in one unit may come at once.
fn overridden(algorithm: Algorithm, brought: &RateLimitOverride) -> Result<(Rate, Spec), Invalid> {
    let unit = Unit::try_from(brought.unit).unwrap_or(Unit::Unknown);
    let rate = Rate {
        tokens: u64::from(brought.requests_per_unit),
        period_us: unit.micros().ok_or(Invalid::Unit)?,
    };
    let spec = Spec::new(algorithm, rate, None).map_err(Invalid::Override)?;
    Ok((rate, spec))
}

impl Charge {
    /// Whether the request only asks.
    pub(crate) const fn only_asks(&self) -> bool {
        self.cost == 0
    }

    pub(crate) const fn is_enforced(&self) -> bool {
        matches!(self.standing, Standing::Enforced)
    }

    pub(crate) const fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// As it is asked for. Who only asks wants to know whether one more would pass.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked {
            key: self.key,
            tag: self.tag(),
            spec: &self.spec,
            cost: if self.only_asks() {
                self.each
            } else {
                self.cost
            },
            standing: self.standing,
        }
    }

    /// All that was taken at `at`, given back.
    pub(crate) fn given_back(&self, at: Tick) -> Settled<'_> {
        Settled {
            key: self.key,
            tag: self.tag(),
            spec: &self.spec,
            at,
            taken: self.cost,
            used: 0,
        }
    }

    /// Keys are spread over a Cluster one by one.
    fn tag(&self) -> SlotTag {
        SlotTag::from_bits(self.key as u32)
    }
}

impl Descriptors {
    fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub(crate) const fn contains(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Entry, OnStoreLoss, Wanted};

    /// Limits of one entry each, which tell values apart.
    fn limits(entries: &[(&str, Wanted)]) -> Limits {
        let rate: Rate = "10/s".parse().unwrap();
        let limit = |(name, (key, value)): (usize, &(&str, Wanted))| RlsLimit {
            name: name.to_string(),
            domain: 0,
            descriptor: vec![Entry {
                key: (*key).to_owned(),
                value: value.clone(),
                together: false,
            }],
            fit: Fit::Whole,
            allowance: Allowance::Limited {
                rate,
                algorithm: Algorithm::Bucket,
                spec: Arc::new(Spec::new(Algorithm::Bucket, rate, None).unwrap()),
            },
            cost: 1,
            standing: Standing::Enforced,
            scope: Scope::Node,
            on_store_loss: OnStoreLoss::Open,
            replaces: Vec::new(),
        };
        let limits = entries.iter().enumerate().map(limit).collect();
        Limits::new(vec!["edge".to_owned()], limits, [7; 16])
    }

    /// What descriptors of one entry each take.
    fn charges(limits: &Limits, entries: &[(&str, &[u8])]) -> Vec<(usize, u128)> {
        let descriptor = |&(key, value): &(&str, &[u8])| RateLimitDescriptor {
            entries: vec![DescriptorEntry {
                key: key.to_owned(),
                value: value.to_vec(),
            }],
            ..RateLimitDescriptor::default()
        };
        let request = RateLimitRequest {
            domain: "edge".to_owned(),
            descriptors: entries.iter().map(descriptor).collect(),
            hits_addend: 1,
        };
        let charges = limits.charges(&request).unwrap().charges;
        charges.iter().map(|it| (it.limit, it.key)).collect()
    }

    #[test]
    fn no_value_that_a_client_makes_up_gets_its_request_out_of_a_limit() {
        let limits = limits(&[
            ("all", Wanted::Is("all".to_owned())),
            ("path", Wanted::Any),
            ("path", Wanted::Begins("/login".to_owned())),
        ]);
        let met = |path: &[u8]| charges(&limits, &[("all", b"all"), ("path", path)]);
        let long = |last: u8| [&b"/login?"[..], &[b'a'; 60_000], &[last]].concat();

        for (path, limit) in [
            (&long(b'b')[..], 2),
            (b"/login\xff", 2),
            (&long(b'b')[1..], 1),
            (b"\xff", 1),
            (b"", 1),
        ] {
            let met = met(path);
            assert_eq!((met.len(), met[0].0, met[1].0), (2, 0, limit));
        }
        // All of a value counts, not a beginning of it and not what could be read of it.
        assert_ne!(met(&long(b'b')), met(&long(b'c')));
        assert_ne!(met(b"\xff"), met(b"\xfe"));
        assert_eq!(met(b"\xff"), met(b"\xff"));
    }
}
