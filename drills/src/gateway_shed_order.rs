//! Who is turned away first, and that checkout is not.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_lab::load::{Kind, LoadPlan, Phase, Report, Request};
use tidegate_lab::report::Table;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Metrics, ShopProcess, ShopSetup, Verdict, capacity,
    play, say, until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-shed-order",
    promise: "background goes first, then static, anonymous, signed-in; checkout is served at 10 ×",
    takes: Duration::from_secs(85),
    run,
};

/// Less than 100 slots, so that the generator on the same machine keeps its schedule at 10 ×.
const SHOP: ShopSetup = ShopSetup::new(40, 50);
const APP: &str = "workers = 40
patience = \"1s\"
session_cookies = [\"JSESSIONID\"]

[[app.route]]
name = \"checkout\"
path = \"/checkout/**\"
methods = [\"POST\"]
class = \"critical\"
";
/// Offered load as multiples of C.
const RATES: [f64; 4] = [1.2, 1.5, 2.0, 3.0];
/// What the classes are of the offered load, the highest first. At none of the rates do the classes
/// down to one of them just fill the shop: there chance alone decides who is shed.
const SHARES: [f64; Class::COUNT] = [0.10, 0.20, 0.25, 0.18, 0.27];
/// The highest rate, and what of it makes 0.2 C of checkout.
const TOP_RATE: f64 = 10.0;
const TOP_SHARES: [f64; Class::COUNT] = [0.02, 0.20, 0.30, 0.23, 0.25];
/// A class that loses more than this is being shed …
const LOSS_MAX: f64 = 0.02;
/// … which is wrong while a lower one still gets more than this.
const STILL_SERVED: f64 = 0.05;

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(15);
    let shop = ShopProcess::open(&SHOP)?;
    let c = capacity(shop.address(), SHOP.slots)?.per_second;
    verdict.say(format!(
        "shop scaled down to 40 × 50 ms: C = {c:.0}/s; {length:?} at each rate; visitors wait 1 s"
    ));

    let mut table = Table::new([
        "served at",
        "critical",
        "signed-in",
        "anonymous",
        "static",
        "background",
    ]);
    let mut reports = Vec::new();
    for rate in RATES {
        let report = protected(args, shop.address(), rate * c, length, SHARES)?;
        table.row(row(rate, &report));
        reports.push((rate, report));
    }
    let top = protected(args, shop.address(), TOP_RATE * c, length, TOP_SHARES)?;
    table.row(row(TOP_RATE, &top));
    verdict.table(&table);

    for (rate, report) in &reports {
        let wrong = order_violation(&served(report));
        verdict.add(
            Figure::share(
                format!("at {rate} ×: most that a class gets below one that is shed"),
                wrong,
            )
            .at_most(STILL_SERVED),
        );
    }
    let tally = top.sum(top.steady(0), |kind| kind.class == Class::Critical.name());
    verdict.add(
        Figure::share("at 10 ×: checkout at 0.2 C, in time", tally.good_share()).at_least(0.995),
    );
    verdict.add(Figure::share(
        "at 10 ×: goodput of all, of C",
        top.goodput(top.steady(0), |_| true) / c,
    ));
    Ok(verdict)
}

/// One run at the shop behind a new gateway.
fn protected(
    args: &Args,
    shop: SocketAddr,
    rate: f64,
    length: Duration,
    shares: [f64; Class::COUNT],
) -> anyhow::Result<Report> {
    until_valid(args, || {
        let gateway = Gateway::start(&GatewaySetup {
            threads: args.threads,
            ..GatewaySetup::app(shop, APP)
        })?;
        let kinds = Class::ALL
            .into_iter()
            .zip(shares)
            .map(|(class, share)| visitor(class).share(share))
            .collect();
        let phases = vec![Phase::new("offered", rate, length)];
        let report = play(LoadPlan::new(gateway.address(), kinds, phases))?;
        say(args.json, refusals(rate, &gateway.metrics()?));
        Ok(report)
    })
}

/// A visitor of `class`, who earns it as in production.
fn visitor(class: Class) -> Kind {
    let name = class.name();
    match class {
        Class::Critical => Kind::get(name, "/").request(Request::post("/checkout/pay", 64)),
        Class::SignedIn => Kind::get(name, "/account/orders").header("Cookie", "JSESSIONID=1"),
        Class::Anonymous => Kind::get(name, "/browse/shoes"),
        Class::Static => Kind::get(name, "/static/shop.css"),
        Class::Background => Kind::get(name, "/browse/next").header("Sec-Purpose", "prefetch"),
    }
}

/// The share of each class that was served in time, the highest class first.
fn served(report: &Report) -> Vec<f64> {
    let share = |class: Class| {
        let tally = report.sum(report.steady(0), |kind| kind.class == class.name());
        tally.good_share()
    };
    Class::ALL.into_iter().map(share).collect()
}

/// The most that any class still gets below one that loses too much; 0 when none does.
fn order_violation(served: &[f64]) -> f64 {
    let first_shed = served.iter().position(|share| 1.0 - share > LOSS_MAX);
    let below = first_shed.map_or(&[][..], |index| &served[index + 1..]);
    below.iter().copied().fold(0.0, f64::max)
}

/// Who was refused, and why.
fn refusals(rate: f64, metrics: &Metrics) -> String {
    let mut line = format!("refused at {rate:.0}/s:");
    for class in Class::ALL {
        for reason in metrics.by("tidegate_refused_total", "reason").into_keys() {
            let labels = [("class", class.name()), ("reason", reason.as_str())];
            let count = metrics.sum("tidegate_refused_total", &labels);
            if count > 0.0 {
                line.push_str(&format!(" {} {reason} {count};", class.name()));
            }
        }
    }
    line
}

fn row(rate: f64, report: &Report) -> Vec<String> {
    let shares = served(report);
    std::iter::once(format!("{rate} × C"))
        .chain(shares.iter().map(|share| format!("{:.1} %", share * 100.0)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_below_one_that_is_shed_counts_against_the_order() {
        assert_eq!(order_violation(&[1.0, 1.0, 1.0, 0.99, 0.4]), 0.0);
        assert_eq!(order_violation(&[1.0, 1.0, 0.9, 0.02, 0.04]), 0.04);
        assert_eq!(order_violation(&[1.0, 0.9, 1.0, 0.0, 0.0]), 1.0);
    }
}
