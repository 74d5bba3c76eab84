//! The drills: every promise of Tidegate as a command that starts real servers, loads them, and
//! prints what it measured beside what happens without.
//!
//! A drill is a file of this crate, named like it, and a line in [`DRILLS`]. The exit code is 0
//! when every bar holds, 1 when one is missed, and 3 when the machine was too busy for a result.

// What the tests of the page do with a browser, drills do as well.
#[path = "../../crates/tidegate-page/tests/browser/browser.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests of the page look at more, and have failed when they cannot go on"
)]
mod browser;
mod gateway_bulkhead;
mod gateway_client_gone;
mod gateway_dead_work;
mod gateway_incident;
mod gateway_leaks;
mod gateway_probes;
mod gateway_proxy_cost;
mod gateway_refusal_cost;
mod gateway_reserve;
mod gateway_shed_order;
mod gateway_slow_readers;
mod gateway_worked_example;
mod harness;
mod health_agent_cost;
mod health_capacity;
mod health_control_1000;
mod health_control_loop;
mod health_dependency;
mod health_fail_open;
mod health_figures;
mod health_haproxy_leastconn;
mod health_haproxy_stale;
mod health_jvm;
mod health_pool;
mod health_runtimes;
mod health_tomcats;
mod limiter_default;
mod limiter_sockets;
mod limits_cost;
mod limits_dependency;
mod limits_envoy;
mod limits_fleet;
mod limits_hot_key;
mod limits_keys;
mod limits_permits;
mod limits_store_lost;
mod limits_vectors;
mod limits_windows;
mod room;
mod room_cdn;
mod room_estimate;
mod room_flush;
mod room_ghosts;
mod room_hidden;
mod room_leader;
mod room_memory;
mod room_million;
mod room_never_back;
mod room_overtake;
mod room_page_cost;
mod room_surge;
mod room_tokens;
mod sessions_big_attributes;
mod sessions_concurrency;
mod sessions_disaster;
mod sessions_expiry;
mod sessions_failover;
mod sessions_lifetimes;
mod sessions_node_kill;
mod sessions_open_cost;
mod sessions_partial_reads;
mod sessions_refused_costs_nothing;
mod sessions_resume;
mod sessions_rotation;
mod sessions_sign_out;
mod sessions_stale_reads;
mod sessions_store_hung;
mod tomcats;
#[path = "../../crates/tidegate-page/tests/browser/webdriver.rs"]
#[allow(
    clippy::unwrap_used,
    reason = "the tests of the page have failed when they cannot go on"
)]
mod webdriver;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;
use tidegate_lab::measure;
use tidegate_lab::report::Table;

use harness::{Args, Drill, Invalid, Keeps, Verdict, say};

/// Files this process wants to be able to open: every visitor's connection is one.
const FILES_WANTED: u64 = 65_536;
/// The exit code for "no result".
const INVALID: u8 = 3;

/// All drills, in the order of the list.
const DRILLS: &[Drill] = &[
    gateway_worked_example::DRILL,
    gateway_incident::DRILL,
    gateway_shed_order::DRILL,
    gateway_reserve::DRILL,
    gateway_bulkhead::DRILL,
    gateway_probes::DRILL,
    gateway_dead_work::DRILL,
    gateway_client_gone::DRILL,
    gateway_slow_readers::DRILL,
    gateway_leaks::DRILL,
    gateway_refusal_cost::DRILL,
    gateway_proxy_cost::DRILL,
    health_control_1000::DRILL,
    limiter_sockets::DRILL,
    limiter_default::DRILL,
    limits_fleet::DRILL,
    limits_store_lost::DRILL,
    limits_hot_key::DRILL,
    limits_dependency::DRILL,
    limits_permits::DRILL,
    limits_envoy::DRILL,
    limits_vectors::DRILL,
    limits_windows::DRILL,
    limits_keys::DRILL,
    limits_cost::DRILL,
    room_memory::DRILL,
    health_runtimes::DRILL,
    health_agent_cost::DRILL,
    health_haproxy_leastconn::DRILL,
    health_haproxy_stale::DRILL,
    health_tomcats::DRILL,
    health_capacity::DRILL,
    health_fail_open::DRILL,
    health_pool::DRILL,
    health_jvm::DRILL,
    health_dependency::DRILL,
    health_figures::DRILL,
    room_tokens::DRILL,
    room_surge::DRILL,
    room_never_back::DRILL,
    room_overtake::DRILL,
    room_million::DRILL,
    room_leader::DRILL,
    room_flush::DRILL,
    room_page_cost::DRILL,
    room_hidden::DRILL,
    room_cdn::DRILL,
    sessions_node_kill::DRILL,
    sessions_stale_reads::DRILL,
    sessions_store_hung::DRILL,
    sessions_rotation::DRILL,
    sessions_resume::DRILL,
    sessions_sign_out::DRILL,
    sessions_big_attributes::DRILL,
    sessions_refused_costs_nothing::DRILL,
    sessions_disaster::DRILL,
    sessions_failover::DRILL,
    sessions_concurrency::DRILL,
    sessions_open_cost::DRILL,
    sessions_partial_reads::DRILL,
    sessions_lifetimes::DRILL,
    sessions_expiry::DRILL,
    health_control_loop::DRILL,
    room_estimate::DRILL,
    room_ghosts::DRILL,
];

/// Run a drill: one promise of Tidegate, shown on this machine.
#[derive(Parser)]
#[command(name = "drill", disable_version_flag = true)]
struct Cli {
    /// The drill; without one they are listed.
    name: Option<String>,
    /// List the drills.
    #[arg(long)]
    list: bool,
    /// Be the application of a drill instead, under the name given.
    #[arg(long, hide = true)]
    site: Option<Keeps>,
    #[command(flatten)]
    args: Args,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(keeps) = cli.site {
        return match harness::site::serve(cli.name.as_deref().unwrap_or("site"), keeps) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(name) = cli.name.filter(|_| !cli.list) else {
        print!("{}", list());
        return ExitCode::SUCCESS;
    };
    let Some(drill) = DRILLS.iter().find(|drill| drill.name == name) else {
        eprintln!("there is no drill {name}{}", suggestion(&name));
        return ExitCode::FAILURE;
    };
    match run(drill, &cli.args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}: {error:#}", drill.name);
            ExitCode::FAILURE
        }
    }
}

fn run(drill: &Drill, args: &Args) -> anyhow::Result<ExitCode> {
    measure::raise_file_limit(FILES_WANTED)?;
    if ["sessions-", "limits-", "room-"]
        .iter()
        .any(|it| drill.name.starts_with(it))
    {
        // Servers started from here go before what else runs on the machine as well: a store that
        // does not get a core for 8 ms is one that is away.
        measure::prefer_thread();
    }
    say(args.json, format!("{}: {}", drill.name, drill.promise));
    let begun = Instant::now();
    let mut reasons = Vec::new();
    for attempt in 1..=args.attempts {
        match (drill.run)(args) {
            Ok(verdict) => return Ok(conclude(drill, args, &verdict, begun.elapsed())),
            Err(error) => {
                // Anything but a busy machine stays what it is however often it is tried.
                let invalid = error.downcast::<Invalid>()?;
                say(args.json, format!("INVALID run {attempt}: {invalid}"));
                reasons.push(invalid.0);
            }
        }
    }
    let result = json!({ "drill": drill.name, "verdict": "INVALID", "reasons": reasons });
    if args.json {
        println!("{result:#}");
    }
    say(args.json, format!("\n{}: INVALID, no result", drill.name));
    Ok(ExitCode::from(INVALID))
}

fn conclude(drill: &Drill, args: &Args, verdict: &Verdict, took: Duration) -> ExitCode {
    let word = if verdict.holds() { "HOLDS" } else { "MISSED" };
    verdict.table(&verdict.summary());
    say(
        args.json,
        format!("{}: {word} ({} s)", drill.name, took.as_secs()),
    );
    if args.json {
        let result = json!({
            "drill": drill.name,
            "promise": drill.promise,
            "verdict": word,
            "seconds": took.as_secs_f64(),
            "figures": verdict.figures_json(),
        });
        println!("{result:#}");
    }
    ExitCode::from(u8::from(!verdict.holds()))
}

fn list() -> Table {
    let mut table = Table::new(["drill", "takes", "promise"]);
    for drill in DRILLS {
        let takes = format!("{} s", drill.takes.as_secs());
        table.row([drill.name, &takes, drill.promise]);
    }
    table
}

/// The drill most like `name`, as the end of a sentence.
fn suggestion(name: &str) -> String {
    let nearest = DRILLS
        .iter()
        .map(|drill| (strsim::jaro_winkler(name, drill.name), drill.name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    nearest
        .map(|(_, nearest)| format!(": did you mean {nearest}? (--list lists them all)"))
        .unwrap_or_default()
}
