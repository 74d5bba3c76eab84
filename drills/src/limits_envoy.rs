//! Does a real Envoy hold our limits: exactly, all or none of a request's, and with what it is told to do when nobody
//! answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::HeaderMap;
use tidegate_lab::load::{Request, raw};
use tidegate_lab::peers::RedisServer;

use crate::harness::{
    Args, Drill, EnvoySetup, Figure, Gateway, GatewaySetup, Invalid, Peer, Verdict, free_port,
    loopback, runtime, wait_for,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-envoy",
    promise: "a real Envoy holds our limits exactly, and opens or closes as it is told when nobody answers",
    takes: Duration::from_secs(5),
    run,
};

const REQUESTS: usize = 1_000;
/// Clients at once, each on a connection of its own.
const CLIENTS: usize = 8;
/// Requests sent while nobody answers.
const UNANSWERED: usize = 200;
/// How long a limit of 100/h takes for another token.
const TOKEN: Duration = Duration::from_secs(36);
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What became of some requests.
#[derive(Default)]
struct Answers {
    by_status: BTreeMap<u16, usize>,
    /// The headers of a refusal, and its body.
    refusal: Option<(HeaderMap, String)>,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let backend = Peer::answering(64, None)?;
    exact(&mut verdict, backend.address())?;
    all_or_none(&mut verdict, backend.address())?;
    unanswered(&mut verdict, backend.address())?;
    store_lost(&mut verdict, backend.address())?;
    Ok(verdict)
}

/// One limit, 1,000 requests at once from eight clients; and a shadow beside it.
fn exact(verdict: &mut Verdict, backend: SocketAddr) -> anyhow::Result<()> {
    let rls = loopback(free_port()?);
    let limits = "[[rls.limit]]\nname = \"user\"\ndescriptor = [{ key = \"user\" }]\nrate = \"100/h\"\n\
                  [[rls.limit]]\nname = \"shadow\"\ndescriptor = [{ key = \"generic_key\", value = \"all\" }]\n\
                  rate = \"10/h\"\nshadow = true\n";
    let gateway = gateway(backend, rls, "", limits)?;
    let envoy = envoy(backend, rls, false)?;

    let begun = Instant::now();
    let anna = send(envoy.address(), REQUESTS, |_| "anna".to_owned())?;
    in_time(begun)?;

    verdict.add(Figure::count("of 1,000 at 100/h, passed", anna.of(200)).exactly(100.0));
    verdict.add(Figure::count("refused with 429", anna.of(429)).exactly(900.0));
    let (headers, body) = anna.refusal.as_ref().context("nothing was refused")?;
    let told = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    for name in [
        "retry-after",
        "ratelimit",
        "ratelimit-policy",
        "x-ratelimit-limit",
        "content-type",
    ] {
        let value = told(name).unwrap_or("nothing");
        verdict.say(format!("a refused client is told {name}: {value}"));
    }
    let wait: f64 = told("retry-after").unwrap_or("0").parse()?;
    verdict.add(Figure::count("seconds to come back in", wait).at_most(TOKEN.as_secs_f64()));
    let is_problem = body.contains("quota-exceeded") && body.contains("\"user\"");
    verdict.add(Figure::count("bodies that name the limit", f64::from(is_problem)).exactly(1.0));
    let metrics = gateway.metrics()?;
    let counted = |limit: &str, outcome: &str| {
        let labels = [("limit", limit), ("outcome", outcome)];
        metrics.sum("tidegate_rls_limit_calls_total", &labels)
    };
    verdict.add(Figure::count("counted as refused", counted("user", "refused")).exactly(900.0));
    let shadowed = counted("shadow", "shadow_refused");
    verdict
        .add(Figure::count("the shadow would have refused, and has not", shadowed).at_least(90.0));
    gateway.stop()
}

/// A narrow and a wide limit: who is over the narrow one has not used up the wide one.
fn all_or_none(verdict: &mut Verdict, backend: SocketAddr) -> anyhow::Result<()> {
    let rls = loopback(free_port()?);
    let limits = "[[rls.limit]]\nname = \"user\"\ndescriptor = [{ key = \"user\" }]\nrate = \"20/h\"\n\
                  [[rls.limit]]\nname = \"all\"\ndescriptor = [{ key = \"generic_key\", value = \"all\" }]\n\
                  rate = \"100/h\"\n";
    let gateway = gateway(backend, rls, "", limits)?;
    let envoy = envoy(backend, rls, false)?;

    let begun = Instant::now();
    let greedy = send(envoy.address(), REQUESTS, |_| "greedy".to_owned())?;
    let others = send(envoy.address(), 200, |number| {
        format!("user{}", number % 10)
    })?;
    in_time(begun)?;

    verdict
        .add(Figure::count("of 1,000 of a user with 20/h, passed", greedy.of(200)).exactly(20.0));
    verdict.add(
        Figure::count(
            "left of 100/h for ten others, who ask 200 times",
            others.of(200),
        )
        .exactly(80.0),
    );
    gateway.stop()
}

/// The service is stopped: what Envoy is told to do then holds.
fn unanswered(verdict: &mut Verdict, backend: SocketAddr) -> anyhow::Result<()> {
    let rls = loopback(free_port()?);
    let limits =
        "[[rls.limit]]\nname = \"user\"\ndescriptor = [{ key = \"user\" }]\nrate = \"5/h\"\n";
    let service = gateway(backend, rls, "", limits)?;
    let (open, closed) = (envoy(backend, rls, false)?, envoy(backend, rls, true)?);
    let before = [&open, &closed].map(|envoy| send(envoy.address(), 10, |_| "anna".to_owned()));
    let [open_before, closed_before] = before;
    let passed = open_before?.of(200) + closed_before?.of(200);
    verdict.add(Figure::count("of 20 at 5/h through two Envoys, passed", passed).exactly(5.0));

    service.stop()?;
    let open_after = send(open.address(), UNANSWERED, |_| "anna".to_owned())?;
    let closed_after = send(closed.address(), UNANSWERED, |_| "anna".to_owned())?;

    let all = UNANSWERED as f64;
    verdict.add(
        Figure::count("service stopped, open: of 200 passed", open_after.of(200)).exactly(all),
    );
    verdict.add(
        Figure::count(
            "service stopped, closed: of 200 refused with 500",
            closed_after.of(500),
        )
        .exactly(all),
    );
    let again = gateway(backend, rls, "", limits)?;
    wait_for("Envoy asks the service again", || {
        let answers = send(closed.address(), 1, |_| "bert".to_owned())?;
        Ok(answers.of(200) == 1.0)
    })?;
    again.stop()
}

/// The store behind the service is gone: the limit says what holds, and Envoy what follows.
fn store_lost(verdict: &mut Verdict, backend: SocketAddr) -> anyhow::Result<()> {
    let mut redis = RedisServer::plain()?;
    let rls = loopback(free_port()?);
    let store = format!("[store]\nurl = \"redis://{}\"\n", redis.address());
    let limits = "[[rls.limit]]\nname = \"user\"\ndescriptor = [{ key = \"user\" }]\nrate = \"100/h\"\n\
                  on_store_loss = \"closed\"\n";
    let gateway = gateway(backend, rls, &store, limits)?;
    let (open, closed) = (envoy(backend, rls, false)?, envoy(backend, rls, true)?);
    let begun = Instant::now();
    let anna = send(open.address(), REQUESTS, |_| "anna".to_owned())?;
    in_time(begun)?;
    let outcome = [("outcome", "unavailable")];
    let lost = gateway
        .metrics()?
        .sum("tidegate_rls_requests_total", &outcome);
    if lost > 0.0 {
        // Redis did not get a core for 8 ms, and Envoy let pass what it had no answer for.
        anyhow::bail!(Invalid(format!("{lost} calls did not find the store")));
    }
    verdict.add(
        Figure::count("counted in Redis: of 1,000 at 100/h, passed", anna.of(200)).exactly(100.0),
    );

    redis.kill()?;
    let bert = |_| "bert".to_owned();
    let open_after = send(open.address(), UNANSWERED, bert)?;
    let closed_after = send(closed.address(), UNANSWERED, bert)?;

    let all = UNANSWERED as f64;
    verdict.add(
        Figure::count(
            "store gone, limit closed, Envoy open: of 200 passed",
            open_after.of(200),
        )
        .exactly(all),
    );
    verdict.add(
        Figure::count(
            "store gone, limit closed, Envoy closed: of 200 refused",
            closed_after.of(500),
        )
        .exactly(all),
    );
    gateway.stop()
}

fn gateway(
    backend: SocketAddr,
    rls: SocketAddr,
    sections: &str,
    limits: &str,
) -> anyhow::Result<Gateway> {
    let mut setup = GatewaySetup::app(backend, "workers = 8");
    setup.sections = format!(
        "{}{sections}[rls]\nlisten = \"{rls}\"\ndomains = [\"edge\"]\n{limits}",
        setup.sections
    );
    Gateway::start(&setup)
}

fn envoy(backend: SocketAddr, rls: SocketAddr, failure_mode_deny: bool) -> anyhow::Result<Peer> {
    Peer::envoy(&EnvoySetup {
        upstream: backend,
        rls,
        failure_mode_deny,
    })
}

/// Sends `count` requests from [`CLIENTS`] clients at once; `user` says who the request with a number is of.
fn send(
    target: SocketAddr,
    count: usize,
    user: impl Fn(usize) -> String,
) -> anyhow::Result<Answers> {
    let runtime = runtime()?;
    let requests = |client: usize| -> Vec<Request> {
        (client..count)
            .step_by(CLIENTS)
            .map(|number| {
                let mut request = Request::get("/");
                request.headers.push(("x-user".to_owned(), user(number)));
                request
            })
            .collect()
    };
    let local = tokio::task::LocalSet::new();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| local.spawn_local(ask_all(target, requests(client))))
        .collect();
    let mut all = Answers::default();
    for client in clients {
        let answers = runtime.block_on(local.run_until(client))??;
        for (status, count) in answers.by_status {
            *all.by_status.entry(status).or_default() += count;
        }
        all.refusal = all.refusal.or(answers.refusal);
    }
    Ok(all)
}

async fn ask_all(target: SocketAddr, requests: Vec<Request>) -> anyhow::Result<Answers> {
    let mut answers = Answers::default();
    for request in requests {
        let answer = tokio::time::timeout(ANSWER_WITHIN, raw::ask(target, &request)).await;
        let answer = answer.context("Envoy does not answer")??;
        *answers.by_status.entry(answer.status.as_u16()).or_default() += 1;
        if answer.status == 429 {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            answers.refusal.get_or_insert((answer.headers, body));
        }
    }
    Ok(answers)
}

/// A token more would have come meanwhile, and the count is another.
fn in_time(begun: Instant) -> anyhow::Result<()> {
    if begun.elapsed() >= TOKEN {
        let late = format!("the requests took {:?}", begun.elapsed());
        anyhow::bail!(Invalid(late));
    }
    Ok(())
}

impl Answers {
    fn of(&self, status: u16) -> f64 {
        self.by_status.get(&status).copied().unwrap_or_default() as f64
    }
}
