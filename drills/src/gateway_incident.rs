//! The incident: a fifth above the usual peak, an accept queue without a bound, callers who come
//! back. Watched in shadow mode first, then prevented.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Patience, Phase, Report, Retry};
use tidegate_lab::report::Table;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Metrics, ShopProcess, ShopSetup, Verdict, capacity,
    play_watched, series, until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-incident",
    promise: "shadow mode shows the collapse that no error rate shows; enforcing prevents it",
    takes: Duration::from_secs(360),
    run,
};

const SHOP: ShopSetup = ShopSetup::new(64, 64);
const USUAL_RATE: f64 = 900.0;
const PEAK_RATE: f64 = USUAL_RATE * 1.2;
/// Load before the peak.
const BEFORE: Duration = Duration::from_secs(15);
/// Load after it.
const AFTER: Duration = Duration::from_secs(30);
/// How long callers wait for one attempt; they come three times.
const PATIENCE: Duration = Duration::from_secs(2);
/// How soon after the peak goodput must be normal, in seconds.
const RECOVERY_S: usize = 3;
/// The listen backlog and the worker threads' own queue of the real one had no bound either. Here
/// every waiting request is a connection to the shop, and a pair of addresses has 28,000 ports.
const SHADOW: &str = "mode = \"shadow\"\nconnections_max = 12000\nconnect_timeout = \"1m\"";
const ENFORCE: &str = "mode = \"enforce\"";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let peak = args.length(120);
    verdict.say(format!(
        "shop of 64 × 64 ms; {USUAL_RATE}/s, then {PEAK_RATE}/s for {peak:?}, then {USUAL_RATE}/s; \
         callers wait 2 s and come twice more, at once"
    ));

    let shadow = until_valid(args, || incident(args, SHADOW, peak))?;
    show(&verdict, "shadow", &shadow);
    let enforce = until_valid(args, || incident(args, ENFORCE, peak))?;
    show(&verdict, "enforce", &enforce);

    let late_in_peak = &shadow.spans[Span::PeakEnd as usize];
    verdict.add(
        Figure::share(
            "shadow: server errors among the answers",
            server_errors(&shadow.all),
        )
        .below(0.01),
    );
    verdict.add(
        Figure::share(
            "shadow: in time by Tidegate's own metric, last third of the peak",
            in_time(late_in_peak),
        )
        .beside("enforce", in_time(&enforce.spans[Span::PeakEnd as usize]))
        .below(0.50),
    );
    verdict.add(
        Figure::count("shadow: most jobs waiting in the shop", shadow.queue_max)
            .beside("enforce", enforce.queue_max),
    );

    let peak_seconds = enforce.report.steady(1);
    let offered = enforce.report.sum(peak_seconds.clone(), |_| true).offered as f64
        / peak_seconds.len().max(1) as f64;
    verdict.add(
        Figure::share(
            "enforce: goodput in the peak, of min(C, demand)",
            enforce.report.goodput(peak_seconds.clone(), |_| true) / enforce.c.min(offered),
        )
        .beside(
            "shadow",
            shadow.report.goodput(peak_seconds, |_| true) / shadow.c.min(offered),
        )
        .at_least(0.95),
    );
    verdict.add(
        Figure::share(
            "enforce: in time by Tidegate's own metric, whole run",
            in_time(&enforce.all),
        )
        .at_least(0.95),
    );
    verdict.add(
        Figure::share(
            "enforce: good among those who come from 3 s after the peak on",
            recovered(&enforce.report),
        )
        .beside("shadow", recovered(&shadow.report))
        .at_least(0.98),
    );
    Ok(verdict)
}

/// Parts of a run between two scrapes.
#[derive(Clone, Copy)]
enum Span {
    Before,
    PeakBegin,
    PeakEnd,
    After,
}

struct Incident {
    c: f64,
    report: Report,
    /// Metrics of the parts, by [`Span`].
    spans: Vec<Metrics>,
    all: Metrics,
    queue_max: f64,
}

fn incident(args: &Args, mode: &str, peak: Duration) -> anyhow::Result<Incident> {
    let shop = ShopProcess::open(&SHOP)?;
    let c = capacity(shop.address(), SHOP.slots)?.per_second;
    let setup = GatewaySetup {
        threads: args.threads,
        listen: "connections_max = 30000".to_owned(),
        ..GatewaySetup::app(
            shop.address(),
            &format!("workers = 64\npatience = \"2s\"\n{mode}"),
        )
    };
    let gateway = Gateway::start(&setup)?;

    let marks = [BEFORE, BEFORE + peak * 2 / 3, BEFORE + peak];
    let mut scrapes = vec![gateway.metrics()?];
    let report = play_watched(plan(gateway.address(), peak), &marks, |_| {
        scrapes.push(gateway.metrics()?);
        Ok(())
    })?;
    scrapes.push(gateway.metrics()?);
    Ok(Incident {
        c,
        report,
        spans: scrapes
            .windows(2)
            .map(|pair| pair[1].since(&pair[0]))
            .collect(),
        all: scrapes[scrapes.len() - 1].since(&scrapes[0]),
        queue_max: shop.stats()?.queue_max as f64,
    })
}

fn plan(target: SocketAddr, peak: Duration) -> LoadPlan {
    let caller = Kind::get("caller", "/browse/shoes")
        .patience(Patience::per_attempt(PATIENCE, 3))
        .retry(Retry::at_once(3));
    LoadPlan::new(
        target,
        vec![caller],
        vec![
            Phase::new("before", USUAL_RATE, BEFORE),
            Phase::new("peak", PEAK_RATE, peak),
            Phase::new("after", USUAL_RATE, AFTER),
        ],
    )
}

fn show(verdict: &Verdict, name: &str, incident: &Incident) {
    verdict.say(format!(
        "{name}, C = {:.0}/s, good/s: {}",
        incident.c,
        series(&incident.report)
    ));
    let mut table = Table::new([name, "arrivals", "in time", "late", "gone", "5xx"]);
    let parts = [
        ("before", Span::Before),
        ("peak, two thirds", Span::PeakBegin),
        ("peak, last third", Span::PeakEnd),
        ("after", Span::After),
    ];
    for (part, span) in parts {
        let metrics = &incident.spans[span as usize];
        let outcome = |outcome| completions(metrics, outcome).to_string();
        table.row([
            part.to_owned(),
            metrics.sum("tidegate_arrivals_total", &[]).to_string(),
            outcome("in_time"),
            outcome("late"),
            outcome("gone"),
            error_rate(metrics),
        ]);
    }
    verdict.table(&table);
}

fn completions(metrics: &Metrics, outcome: &str) -> f64 {
    metrics.sum("tidegate_completions_total", &[("outcome", outcome)])
}

/// The share of finished work that was in time for its caller.
fn in_time(metrics: &Metrics) -> f64 {
    completions(metrics, "in_time") / metrics.sum("tidegate_completions_total", &[])
}

/// The share of answers with a status that monitoring calls an error.
fn server_errors(metrics: &Metrics) -> f64 {
    let answers = metrics.sum("tidegate_answers_total", &[]);
    metrics.sum("tidegate_answers_total", &[("code", "5xx")]) / answers
}

fn error_rate(metrics: &Metrics) -> String {
    match server_errors(metrics) {
        share if share.is_nan() => "no answer".to_owned(),
        share => format!("{:.2} %", share * 100.0),
    }
}

/// The share of visits that went well among those from some seconds after the peak on.
fn recovered(report: &Report) -> f64 {
    let after = &report.phases[2];
    let from = after.from_s.ceil() as usize + RECOVERY_S;
    report
        .sum(from..after.to_s.floor() as usize, |_| true)
        .good_share()
}
