//! What the demo plays: a shop, its visitors, how many come when, and what must hold.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Patience, Phase, Request, Retry};
use tidegate_lab::shop::ShopPlan;

use super::Args;

/// Seconds of the knee on each side.
const KNEE_SECONDS: u32 = 20;
/// Seconds of the incident on each side: its peak of 120 s and what is around it.
const INCIDENT_SECONDS: u32 = 150;
/// The share of the shop's slots that calls of the recommendation dependency may take.
const RECOMMEND_SHARE: f64 = 0.1;
/// How slow `--slow-dependency` makes it.
const SLOW_FACTOR: f64 = 20.0;

/// Everything about one demo but the shop's capacity, which is measured first.
pub(super) struct Scene {
    pub(super) title: String,
    pub(super) shop: ShopPlan,
    pub(super) kinds: Vec<Kind>,
    pub(super) phases: Vec<ScenePhase>,
    /// Tidegate's configuration without its listener and the shop's address.
    pub(super) app: String,
    /// The share of the capacity that is left when a slow dependency has all it may take.
    pub(super) reachable: f64,
    pub(super) bars: Vec<Bar>,
}

/// A phase before the capacity is known.
pub(super) struct ScenePhase {
    pub(super) name: &'static str,
    rate: Rate,
    /// Of the whole scene.
    share: f64,
}

enum Rate {
    OfCapacity(f64),
    PerSecond(f64),
}

/// What protection must achieve in one phase.
pub(super) struct Bar {
    pub(super) phase: usize,
    /// Seconds of the phase that do not count.
    pub(super) settling_s: usize,
    /// The part of what is possible, which is the lesser of demand and reachable capacity.
    pub(super) share: f64,
}

impl Scene {
    /// The scene that `args` ask for.
    pub(super) fn new(args: &Args) -> Self {
        if args.incident {
            Self::incident()
        } else {
            Self::knee(args.slow_dependency)
        }
    }

    /// How long it is if nobody says otherwise.
    pub(super) fn usual_length(args: &Args) -> Duration {
        let seconds = if args.incident {
            INCIDENT_SECONDS
        } else {
            KNEE_SECONDS
        };
        Duration::from_secs(seconds.into())
    }

    /// A day at the shop: below its knee, past it, far past it, and back.
    fn knee(slow_dependency: bool) -> Self {
        let phase = |name, times, share| ScenePhase {
            name,
            rate: Rate::OfCapacity(times),
            share,
        };
        let bar = |phase| Bar {
            phase,
            settling_s: 1,
            share: 0.9,
        };
        let shop = ShopPlan {
            recommend_factor: if slow_dependency { SLOW_FACTOR } else { 1.0 },
            ..ShopPlan::default()
        };
        let dependency = if slow_dependency {
            ", its recommendations 20 times slower"
        } else {
            ""
        };
        Self {
            title: format!(
                "a shop of {} slots × {} ms{dependency}",
                shop.slots,
                shop.service.as_millis()
            ),
            kinds: shoppers(),
            phases: vec![
                phase("below the knee", 0.7, 0.2),
                phase("1.5 × C", 1.5, 0.3),
                phase("3 × C", 3.0, 0.3),
                phase("back", 0.7, 0.2),
            ],
            app: shop_config(shop.slots),
            reachable: if slow_dependency {
                1.0 - RECOMMEND_SHARE
            } else {
                1.0
            },
            bars: vec![bar(1), bar(2)],
            shop,
        }
    }

    /// A fifth above a normal peak, at a shop that nobody thought was near its end.
    fn incident() -> Self {
        let phase = |name, rate, seconds: u32| ScenePhase {
            name,
            rate: Rate::PerSecond(rate),
            share: f64::from(seconds) / f64::from(INCIDENT_SECONDS),
        };
        let shop = ShopPlan {
            slots: 64,
            service: Duration::from_millis(64),
            ..ShopPlan::default()
        };
        let patience = Patience::per_attempt(Duration::from_secs(2), 3);
        let caller = Kind::get("caller", "/browse/shoes").class("anonymous");
        Self {
            title: "the incident: 64 workers × 64 ms, callers wait 2 s and come twice more"
                .to_owned(),
            kinds: vec![caller.patience(patience).retry(Retry::at_once(3))],
            phases: vec![
                phase("usual peak", 900.0, 10),
                phase("a fifth more", 1_080.0, 120),
                phase("usual again", 900.0, 20),
            ],
            app: "workers = 64\npatience = \"2s\"\n".to_owned(),
            reachable: 1.0,
            bars: vec![
                Bar {
                    phase: 1,
                    settling_s: 1,
                    share: 0.9,
                },
                Bar {
                    phase: 2,
                    settling_s: 3,
                    share: 0.95,
                },
            ],
            shop,
        }
    }

    /// New visits per second in phase `index` when the capacity is `c`.
    pub(super) fn rate(&self, index: usize, c: f64) -> f64 {
        match self.phases[index].rate {
            Rate::OfCapacity(times) => times * c,
            Rate::PerSecond(rate) => rate,
        }
    }

    /// The good visits per second that `bar` asks for when the capacity is `c`.
    pub(super) fn wanted(&self, bar: &Bar, c: f64) -> f64 {
        bar.share * self.rate(bar.phase, c).min(c * self.reachable)
    }

    /// The scene as load on `target`, `length` long.
    pub(super) fn load(&self, target: SocketAddr, c: f64, length: Duration) -> LoadPlan {
        let phases = self.phases.iter().enumerate().map(|(index, phase)| {
            // Whole seconds, since that is how things are counted.
            let seconds = length.mul_f64(phase.share).as_secs_f64().round().max(3.0);
            Phase::new(
                phase.name,
                self.rate(index, c),
                Duration::from_secs_f64(seconds),
            )
        });
        LoadPlan::new(target, self.kinds.clone(), phases.collect())
    }
}

fn shop_config(workers: u32) -> String {
    format!(
        r#"workers = {workers}
patience = "1s"
session_cookies = ["session"]

[[app.group]]
name = "recommendations"
share = {RECOMMEND_SHARE}

[[app.route]]
name = "checkout"
path = "/checkout/**"
class = "critical"

[[app.route]]
name = "recommendations"
path = "/recommend/**"
group = "recommendations"
"#
    )
}

/// Visitors wait a second in all. Those who are turned away come up to twice more, soon.
fn shoppers() -> Vec<Kind> {
    let (base, cap) = (Duration::from_millis(100), Duration::from_millis(400));
    let retry = Retry::backing_off(3, base, cap);
    let cookie = |kind: Kind| kind.header("Cookie", "session=7f3a");
    let kinds = vec![
        cookie(Kind::get("checkout", "/checkout/pay"))
            .request(Request::post("/checkout/pay", 400))
            .class("critical")
            .share(0.08),
        cookie(Kind::get("signed-in browse", "/browse/shoes"))
            .class("signed-in")
            .share(0.27),
        cookie(Kind::get("recommendations", "/recommend/shoes"))
            .class("signed-in")
            .share(0.05),
        Kind::get("anonymous browse", "/browse/hats")
            .class("anonymous")
            .share(0.3),
        Kind::get("static pages", "/static/site.css")
            .class("static")
            .share(0.2),
        Kind::get("background", "/background/prices")
            .header("Sec-Purpose", "prefetch")
            .class("background")
            .share(0.1),
    ];
    kinds.into_iter().map(|kind| kind.retry(retry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(incident: bool, slow_dependency: bool) -> Args {
        Args {
            seconds: None,
            slow_dependency,
            incident,
            json: None,
        }
    }

    #[test]
    fn phases_are_multiples_of_what_the_shop_can_do() {
        let scene = Scene::new(&args(false, false));

        let plan = scene.load(([127, 0, 0, 1], 1).into(), 2_000.0, Duration::from_secs(20));

        let rates: Vec<f64> = plan.phases.iter().map(|phase| phase.rate).collect();
        assert_eq!(rates, [1_400.0, 3_000.0, 6_000.0, 1_400.0]);
        assert_eq!(plan.length(), Duration::from_secs(20));
        assert_eq!(scene.wanted(&scene.bars[0], 2_000.0), 1_800.0);
    }

    #[test]
    fn the_incident_asks_for_what_was_possible_then() {
        let scene = Scene::new(&args(true, false));

        let wanted: Vec<f64> = scene
            .bars
            .iter()
            .map(|bar| scene.wanted(bar, 985.0))
            .collect();

        assert_eq!(wanted, [886.5, 855.0]);
        let length = Scene::usual_length(&args(true, false));
        let plan = scene.load(([127, 0, 0, 1], 1).into(), 985.0, length);
        assert_eq!(plan.phases[1].length, Duration::from_secs(120));
    }

    #[test]
    fn a_slow_dependency_lowers_the_bar_by_its_share_and_no_more() {
        let scene = Scene::new(&args(false, true));

        assert_eq!(scene.shop.recommend_factor, 20.0);
        assert_eq!(scene.wanted(&scene.bars[1], 2_000.0), 1_620.0);
    }
}
