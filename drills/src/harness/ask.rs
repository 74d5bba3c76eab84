//! One question to a server that is no part of the measurement.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::load::{Request, raw};

/// Longest wait for an answer: a server at ten times its load answers late, but it answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// `GET path` at `target`: the body of its answer, which must be a 200.
pub(crate) fn ask(target: SocketAddr, path: &str) -> anyhow::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let request = Request::get(path);
    let answer = runtime
        .block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, raw::ask(target, &request)).await });
    let answer = answer
        .with_context(|| format!("no answer from http://{target}{path}"))?
        .with_context(|| format!("cannot ask http://{target}{path}"))?;
    anyhow::ensure!(
        answer.status == 200,
        "http://{target}{path} answered {}",
        answer.status
    );
    Ok(answer.body)
}
