//! Limits through the real gateway: whose limit it is, several at once, and what comes back.

mod several;
mod whose;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use http::StatusCode;
use serde_json::Value;
use tidegate_lab::load::{Request, raw};

use crate::harness::{
    Args, Drill, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict, runtime,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-keys",
    promise: "a /64 is one client, lies about addresses are not believed, many limits are all or nothing, and a refusal costs nothing",
    takes: Duration::from_secs(30),
    run,
};

/// A shop that answers at once, so that limits are all that refuses.
const SHOP: ShopSetup = ShopSetup::new(64, 0);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let shop = ShopProcess::open(&SHOP)?;
    whose::one_network(&mut verdict, shop.address())?;
    whose::lies(&mut verdict, shop.address())?;
    several::narrow_and_wide(&mut verdict, shop.address())?;
    several::shadow(&mut verdict, shop.address())?;
    several::refused_later(&mut verdict)?;
    Ok(verdict)
}

/// Whether the gateway believes this machine about addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peers {
    Trusted,
    Strangers,
}

/// A gateway before `upstream` with these limits; `app` has further lines of `[[app]]` and its routes.
fn gateway(upstream: SocketAddr, peers: Peers, app: &str, limits: &str) -> anyhow::Result<Gateway> {
    let mut setup = GatewaySetup::app(upstream, app);
    let trust = match peers {
        Peers::Trusted => "[trust]\nproxies = [\"127.0.0.0/8\"]\n\n",
        Peers::Strangers => "",
    };
    setup.sections = format!("{trust}{}\n{limits}\n", setup.sections);
    Gateway::start(&setup)
}

/// A client of the gateway that asks one thing after the other over one connection, which it opens anew when that was closed.
struct Client {
    target: SocketAddr,
    connection: Option<raw::Client>,
}

impl Client {
    const fn new(target: SocketAddr) -> Self {
        Self {
            target,
            connection: None,
        }
    }

    /// `GET path` with this `X-Forwarded-For`: the status of the answer, and why it was refused.
    async fn ask(&mut self, path: &str, from: &str) -> anyhow::Result<(StatusCode, String)> {
        let mut request = Request::get(path);
        let header = ("X-Forwarded-For".to_owned(), from.to_owned());
        request.headers.push(header);
        let kept = self.connection.take().filter(raw::Client::is_idle);
        let mut connection = match kept {
            Some(kept) => kept,
            None => raw::Client::connect(self.target).await?,
        };
        let answer = connection.ask(&request).await?;
        self.connection = Some(connection);
        let reason = answer.headers.get("tidegate-reason");
        let reason = reason
            .and_then(|reason| reason.to_str().ok())
            .unwrap_or_default();
        Ok((answer.status, reason.to_owned()))
    }

    /// Whether it passes. Anything but 200 and a rate limit's refusal is an error.
    async fn passes(&mut self, path: &str, from: &str) -> anyhow::Result<bool> {
        match self.ask(path, from).await? {
            (StatusCode::OK, _) => Ok(true),
            (StatusCode::TOO_MANY_REQUESTS, reason) if reason == "rate_limited" => Ok(false),
            (status, reason) => anyhow::bail!("{path} was answered {status} {reason}"),
        }
    }
}

/// How many of `count` requests pass, one after the other, each with the `X-Forwarded-For` that `from` says.
fn passed(
    target: SocketAddr,
    count: u64,
    mut from: impl FnMut(u64) -> String,
) -> anyhow::Result<u64> {
    runtime()?.block_on(async {
        let mut client = Client::new(target);
        let mut passed = 0;
        for number in 0..count {
            passed += u64::from(client.passes("/", &from(number)).await?);
        }
        Ok(passed)
    })
}

/// How many requests pass before one is refused.
fn left(target: SocketAddr, path: &str, from: &str) -> anyhow::Result<u64> {
    runtime()?.block_on(async {
        let mut client = Client::new(target);
        let mut passed = 0;
        while client.passes(path, from).await? {
            passed += 1;
        }
        Ok(passed)
    })
}

/// What `/status.json` says of the limit `name`: a number at this path.
fn told(gateway: &Gateway, name: &str, path: &str) -> anyhow::Result<u64> {
    let status: Value = serde_json::from_slice(&gateway.told("/status.json")?)?;
    let limits = status["limits"].as_array().context("no limits")?;
    let limit = limits.iter().find(|limit| limit["name"] == name);
    let number = limit.and_then(|limit| limit.pointer(path)?.as_u64());
    number.with_context(|| format!("nothing is said of {name}{path}"))
}
