//! Several limits on one request, and what is given back.

use std::net::SocketAddr;
use std::thread;

use http::StatusCode;

use super::{Client, Peers, gateway, left, passed, told};
use crate::harness::{
    Figure, Gateway, ShopProcess, ShopSetup, Verdict, free_port, loopback, runtime, wait_for,
};

/// Limits that a request meets.
const LIMITS: u64 = 17;
const CLIENTS: u64 = 10;
/// Connections of each client that ask at the same time.
const AT_A_TIME: u64 = 16;
/// Requests on each of them.
const EACH: u64 = 10;
/// What one client may.
const NARROW: u64 = 20;
/// What all together may.
const WIDE: u64 = 150;

/// Ten clients, 16 requests of each at a time, 17 limits on each request: one for each client, one for all of them that binds
/// before theirs are used up, the rest roomy, of all kinds. Nothing may be spent of one that another refuses.
pub(super) fn narrow_and_wide(verdict: &mut Verdict, shop: SocketAddr) -> anyhow::Result<()> {
    let limits = limits();
    let gateway = gateway(
        shop,
        Peers::Trusted,
        "workers = 64\nqueue_max = 1000\nhold = \"10s\"\n\
         [[app.route]]\nname = \"shop\"\npath = \"/browse\"\n\
         [[app.route]]\nname = \"own\"\npath = \"/own\"\n",
        &limits,
    )?;
    let passed = rush(gateway.address())?;
    let sum: u64 = passed.iter().sum();
    verdict.add(
        Figure::count(
            "17 limits, 1,600 requests of 10 clients: passed",
            sum as f64,
        )
        .exactly(WIDE as f64),
    );
    let over = passed.iter().filter(|&&passed| passed > NARROW).count();
    verdict.add(Figure::count("clients with more than their own 20", over as f64).exactly(0.0));
    let mut unequal = 0;
    for number in 0..LIMITS - 1 {
        let spent = told(&gateway, &wide(number), "/requests/passed")?;
        unequal += u64::from(spent != WIDE);
    }
    verdict.add(
        Figure::count(
            "wide limits that were spent from for others",
            unequal as f64,
        )
        .exactly(0.0),
    );
    // What each client has left of its own limit shows what the refusals took of it.
    let mut missing = 0;
    for (number, passed) in (0..CLIENTS).zip(&passed) {
        // Where no other limit applies.
        let left = left(gateway.address(), "/own", &address(number))?;
        missing += NARROW.abs_diff(left + passed);
    }
    verdict.add(
        Figure::count(
            "tokens of clients that others' refusals took",
            missing as f64,
        )
        .exactly(0.0),
    );
    Ok(())
}

/// A limit of two in the shadow, between limits that refuse.
pub(super) fn shadow(verdict: &mut Verdict, shop: SocketAddr) -> anyhow::Result<()> {
    let limits = "[[limit]]\nname = \"tight\"\nrate = \"2/day\"\nshadow = true\n\
        [[limit]]\nname = \"real\"\nrate = \"500/day\"\n";
    let gateway = gateway(shop, Peers::Trusted, "workers = 64", limits)?;
    let passed = passed(gateway.address(), 1_000, |_| "203.0.113.1".to_owned())?;
    verdict.add(
        Figure::count(
            "a shadow limit of 2 beside one of 500: passed",
            passed as f64,
        )
        .exactly(500.0),
    );
    let vetoes = told(&gateway, "tight", "/requests/refused")?;
    verdict.add(Figure::count("refused by the shadow", vetoes as f64).exactly(0.0));
    let counted = told(&gateway, "tight", "/requests/shadow_refused")?;
    verdict.add(Figure::count("counted by the shadow as over it", counted as f64).at_least(498.0));
    Ok(())
}

/// Requests that pass their limit and do not reach the application: no slot is free, or nobody listens.
pub(super) fn refused_later(verdict: &mut Verdict) -> anyhow::Result<()> {
    let limit = "[[limit]]\nname = \"client\"\nrate = \"5/day\"\n";
    let shop = ShopProcess::open(&ShopSetup::new(1, 1_500))?;
    let full = gateway(
        shop.address(),
        Peers::Trusted,
        "workers = 1\nqueue_max = 0",
        limit,
    )?;
    let address = full.address();
    let holding = thread::spawn(move || ask_often(address, 1));
    wait_for("the only slot is taken", || Ok(shop.stats()?.busy == 1))?;
    let refused = ask_often(address, 100)?;
    let held = holding.join().expect("a client does not panic")?;
    anyhow::ensure!(held == [(StatusCode::OK, String::new())], "{held:?}");
    back(verdict, &full, "no slot was free", &refused, "queue_full")?;
    // One of five is spent, so four pass.
    let left = left(address, "/", "203.0.113.1")?;
    verdict.add(Figure::count("of its 5 a client then has", left as f64).exactly(4.0));

    let nobody = loopback(free_port()?);
    let gone = gateway(nobody, Peers::Trusted, "workers = 64", limit)?;
    let failed = ask_often(gone.address(), 100)?;
    back(
        verdict,
        &gone,
        "the application was not reached",
        &failed,
        "",
    )
}

/// Holds what came of requests against what was given back.
fn back(
    verdict: &mut Verdict,
    gateway: &Gateway,
    why: &str,
    answers: &[(StatusCode, String)],
    reason: &str,
) -> anyhow::Result<()> {
    let later = |(status, said): &&(StatusCode, String)| {
        status.is_server_error() && (reason.is_empty() || said == reason)
    };
    let count = answers.iter().filter(later).count() as f64;
    verdict.add(
        Figure::count(
            format!("{why}: answered so, of 100 over a limit of 5"),
            count,
        )
        .exactly(100.0),
    );
    let given_back = told(gateway, "client", "/requests/given_back")?;
    verdict.add(Figure::count("of them got their token back", given_back as f64).exactly(100.0));
    Ok(())
}

fn ask_often(target: SocketAddr, count: u32) -> anyhow::Result<Vec<(StatusCode, String)>> {
    runtime()?.block_on(async {
        let mut client = Client::new(target);
        let mut answers = Vec::new();
        for _ in 0..count {
            answers.push(client.ask("/", "203.0.113.1").await?);
        }
        Ok(answers)
    })
}

/// All of the clients' requests; how many of each passed.
fn rush(target: SocketAddr) -> anyhow::Result<Vec<u64>> {
    runtime()?.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in (0..CLIENTS).flat_map(|number| (0..AT_A_TIME).map(move |_| number)) {
            tasks.spawn(async move {
                let (mut client, from) = (Client::new(target), address(number));
                let mut passed = 0;
                for _ in 0..EACH {
                    passed += u64::from(client.passes("/browse", &from).await?);
                }
                anyhow::Ok((number, passed))
            });
        }
        let mut passed = vec![0; CLIENTS as usize];
        while let Some(done) = tasks.join_next().await {
            let (number, count) = done??;
            passed[number as usize] += count;
        }
        Ok(passed)
    })
}

fn address(number: u64) -> String {
    format!("203.0.113.{}", number + 1)
}

fn wide(number: u64) -> String {
    format!("wide-{number}")
}

fn limits() -> String {
    let mut limits = format!("[[limit]]\nname = \"own\"\nrate = \"{NARROW}/day\"\n");
    let kinds = ["bucket", "window"].into_iter().cycle();
    for (number, algorithm) in (0..LIMITS - 1).zip(kinds) {
        let (name, most) = (wide(number), if number == 7 { WIDE } else { 1_000 });
        limits += &format!(
            "[[limit]]\nname = \"{name}\"\nrate = \"{most}/day\"\nalgorithm = \"{algorithm}\"\n\
             key = []\nroutes = [\"shop\"]\n"
        );
    }
    limits
}
