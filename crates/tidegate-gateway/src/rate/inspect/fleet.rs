//! The same of limits of the fleet: most of what there is to know of them is in the store.

use http::StatusCode;
use serde_json::{Value, json};
use tidegate_core::rate::Tick;
use tidegate_core::rate::set::Standing;

use super::super::fleet::{Fleet, FleetMode, Stands};
use super::super::words::{self, BadKey, Given};
use super::super::{Limit, Rates};
use super::{Question, Reply, counted, no_key, problem, state_json, wait_ms};

/// Why there is no answer.
enum No {
    BadKey(BadKey),
    /// The store does not answer, or has not yet.
    Away,
}

impl From<BadKey> for No {
    fn from(bad: BadKey) -> Self {
        Self::BadKey(bad)
    }
}

/// What there is to say of a limit that is shared in this way: where what is shown was counted, and what else is
/// left after a reset.
const fn words_for(mode: FleetMode) -> (&'static str, &'static str) {
    match mode {
        FleetMode::Shared => (
            "in the store, for all gateways",
            "another gateway goes on refusing for up to a second what it was told a moment ago, and spends what it has ahead of a key that is asked for very often",
        ),
        FleetMode::Lease(_) => (
            "in the store, for all gateways; what one of them has ahead counts as used",
            "other gateways spend what they have ahead, and go on refusing for as long as they were told that nothing is there: reset the key at each of them",
        ),
        FleetMode::Divided => (
            "of this gateway's part; each of the others counts for itself",
            "the parts of the other gateways are as they were: reset the key at each of them",
        ),
        FleetMode::Aggregate(_) => (
            "in the store, as all gateways have reported it",
            "other gateways hear of it with their next report, which still counts what they have spent before it",
        ),
    }
}

impl Rates {
    pub(super) async fn answer_for_fleet(
        &self,
        at: usize,
        question: Question,
        key: &[Given],
        now: Tick,
    ) -> Reply {
        let limit = &self.limits[at];
        let Some((fleet, plan)) = self.fleet.as_ref().zip(limit.plan.fleet) else {
            let detail = format!(
                "{} holds over the fleet, and there is no store",
                limit.plan.name
            );
            return problem(StatusCode::CONFLICT, "of_fleet", &detail);
        };
        let of = OfFleet {
            rates: self,
            at,
            limit,
            fleet,
            mode: plan.mode,
        };
        let said = match question {
            Question::Show => of.show(key).await,
            Question::Top => Ok(of.top(now).await),
            Question::Reset => of.reset(key).await,
        };
        match said {
            Ok(said) => (StatusCode::OK, said),
            Err(No::BadKey(bad)) => no_key(&bad),
            Err(No::Away) => {
                let detail = "the store does not answer, and what is used of the limit is there";
                problem(StatusCode::SERVICE_UNAVAILABLE, "limit_store_away", detail)
            }
        }
    }
}

/// A limit of the fleet.
struct OfFleet<'a> {
    rates: &'a Rates,
    at: usize,
    limit: &'a Limit,
    fleet: &'a Fleet,
    mode: FleetMode,
}

impl OfFleet<'_> {
    async fn show(&self, key: &[Given]) -> Result<Value, No> {
        let mut said = self.rates.said(self.limit);
        said["mode"] = self.mode.name().into();
        said["keys"] = self.fleet.seats(self.at as u16).into();
        said["counted"] = words_for(self.mode).0.into();
        if !key.is_empty() || words::names(&self.limit.plan).is_empty() {
            let keys = self.keys(key)?;
            said["key"] = json!(words::again(key));
            said["states"] = self.states(&keys).await?.into();
        }
        Ok(said)
    }

    async fn reset(&self, key: &[Given]) -> Result<Value, No> {
        let keys = self.keys(key)?;
        let before = self.states(&keys).await?;
        for &(key, _) in &keys {
            let done = self.fleet.reset(self.at as u16, key).await;
            done.map_err(|_| No::Away)?;
            self.limit.refused.forget(key);
            self.limit.spent.forget(key);
        }
        self.limit.log_reset();
        Ok(json!({
            "limit": self.limit.plan.name,
            "mode": self.mode.name(),
            "key": words::again(key),
            "before": before,
            "left": words_for(self.mode).1,
        }))
    }

    /// What this gateway has met most. Without the store it is not known what is used of it.
    async fn top(&self, now: Tick) -> Value {
        let mut said = json!({
            "limit": self.limit.plan.name,
            "mode": self.mode.name(),
            "counted_by": words::names(&self.limit.plan),
        });
        for (list, sample) in [
            ("refused", &self.limit.refused),
            ("spent", &self.limit.spent),
        ] {
            let candidates = sample.candidates(now);
            let keys: Vec<_> = candidates.iter().map(|it| (it.key, it.standing)).collect();
            let mut states = self.states(&keys).await.unwrap_or_default().into_iter();
            let rows = candidates.iter().map(|it| {
                let unknown = || json!({ "shadow": it.standing == Standing::Shadow });
                counted(states.next().unwrap_or_else(unknown), it, now)
            });
            said[list] = rows.collect();
        }
        said
    }

    /// The keys that these words say: of applications that enforce the limit, and of those that do not.
    fn keys(&self, words: &[Given]) -> Result<Vec<(u128, Standing)>, No> {
        let parts = words::read(&self.limit.plan, words)?;
        let keys = self.rates.standings(self.at).map(|standing| {
            let key = self.fleet.key(self.at as u16, standing, &parts);
            key.map(|key| (key, standing))
        });
        keys.collect::<Option<_>>().ok_or(No::Away)
    }

    async fn states(&self, keys: &[(u128, Standing)]) -> Result<Vec<Value>, No> {
        let limit = self.limit;
        let (unit, price) = (limit.plan.unit(), self.rates.price(limit));
        let cost = price.of(limit.usual_cost(), limit.spec.most());
        let looked = self.fleet.look(self.at as u16, keys, cost).await;
        let stand = looked.map_err(|_| No::Away)?;
        let said = |(&(_, standing), stands): (&(u128, Standing), Stands)| {
            let wait = stands.short.map_or(Some(0), wait_ms);
            let prices = (unit, price);
            let mut state = state_json(standing, stands.most, stands.remaining, wait, prices);
            state["ahead"] = unit.tokens(stands.ahead).into();
            state["unreported"] = unit.tokens(stands.unreported).into();
            state
        };
        Ok(keys.iter().zip(stand).map(said).collect())
    }
}
