//! Nothing is configured but where the application is.

use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Phase};

use crate::harness::{
    Args, Drill, Figure, Gateway, ShopProcess, ShopSetup, Verdict, capacity, play, series,
    until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limiter-default",
    promise: "with nothing configured but --upstream, at least 93 % of the capacity is goodput",
    takes: Duration::from_secs(170),
    run,
};

const OVERLOAD: f64 = 1.5;
/// The bar, as a part of the closed-loop maximum.
const LEAST: f64 = 0.93;

/// Applications that differ in size and speed, so that no one start value fits.
const SHOPS: [(&str, ShopSetup); 3] = [
    ("100 × 50 ms", ShopSetup::new(100, 50)),
    ("8 × 20 ms", ShopSetup::new(8, 20)),
    ("400 × 250 ms", ShopSetup::new(400, 250)),
];

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(30);
    for (name, shop) in &SHOPS {
        let c = capacity(ShopProcess::open(shop)?.address(), shop.slots)?.per_second;
        let visitors = || vec![Kind::get("user", "/browse/shoes")];
        let phases = || vec![Phase::new("overload", OVERLOAD * c, length)];

        let bare = until_valid(args, || {
            let shop = ShopProcess::open(shop)?;
            play(LoadPlan::new(shop.address(), visitors(), phases()))
        })?;
        let behind = until_valid(args, || {
            let shop = ShopProcess::open(shop)?;
            let gateway = Gateway::start_bare(shop.address())?;
            let report = play(LoadPlan::new(gateway.address(), visitors(), phases()))?;
            // One that has panicked on the way is no result.
            gateway.metrics()?;
            Ok(report)
        })?;

        verdict.say(format!(
            "shop of {name}: C = {c:.0}/s, {:.0}/s offered; good/s: {}",
            OVERLOAD * c,
            series(&behind)
        ));
        let steady = behind.steady(0);
        let bare_steady = bare.steady(0);
        let bare_late = bare_steady.start + bare_steady.len() / 2..bare_steady.end;
        verdict.add(
            Figure::share(
                format!("{name}: goodput from second 2 on, of C"),
                behind.goodput(steady, |_| true) / c,
            )
            .beside(
                "bare shop's second half",
                bare.goodput(bare_late, |_| true) / c,
            )
            .at_least(LEAST),
        );
    }
    Ok(verdict)
}
