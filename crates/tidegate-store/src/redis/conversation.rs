//! What is sent on a connection, and what comes back.

use redis::{Cmd, Value};
use tidegate_core::session::Wait;
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::link::Link;
use super::script::Run;
use super::shard::Request;

/// Why a server gave no answer.
pub(super) enum Failure {
    /// It was not there in time.
    Timeout,
    /// The connection broke.
    Broken(String),
}

/// Sends `request`, after `ASKING` if `asking`, and waits for the answer until `deadline`.
pub(super) async fn converse(
    link: &Link,
    request: Request<'_>,
    asking: bool,
    deadline: Instant,
) -> Result<Answer, Failure> {
    let conversation = async {
        match request {
            Request::Command(command) => ask(link, command, asking).await,
            Request::Run(run) => match ask(link, &run.by_hash(), asking).await? {
                Answer::UnknownScript => ask(link, &run.by_text(), asking).await,
                answer => Ok(answer),
            },
        }
    };
    match timeout_at(deadline, conversation).await {
        Ok(answer) => answer.map_err(Failure::Broken),
        Err(_) => Err(Failure::Timeout),
    }
}

async fn ask(link: &Link, command: &Cmd, asking: bool) -> Result<Answer, String> {
    let said = if asking {
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let said = link.send_all(&both).await?;
        said.into_iter().next_back().unwrap_or_default()
    } else {
        link.send(command).await?
    };
    Ok(Answer::of(said, link.address()))
}

/// Runs a script and waits for replicas; how many have it.
pub(super) async fn write_and_wait(
    link: &Link,
    run: &Run,
    asking: bool,
    wait: Wait,
    deadline: Instant,
) -> Result<(Answer, u8), Failure> {
    let conversation = async {
        let mut spoken = speak_and_wait(link, run.by_hash(), asking, wait).await?;
        if spoken.0 == Answer::UnknownScript {
            spoken = speak_and_wait(link, run.by_text(), asking, wait).await?;
        }
        Ok(spoken)
    };
    match timeout_at(deadline + wait.within, conversation).await {
        Ok(spoken) => spoken.map_err(Failure::Broken),
        Err(_) => Err(Failure::Timeout),
    }
}

async fn speak_and_wait(
    link: &Link,
    command: Cmd,
    asking: bool,
    wait: Wait,
) -> Result<(Answer, u8), String> {
    let mut both = redis::pipe();
    if asking {
        both.cmd("ASKING");
    }
    // 0 would wait for ever.
    let within_ms = wait.within.as_millis().max(1) as u64;
    both.add_command(command);
    both.cmd("WAIT").arg(wait.replicas).arg(within_ms);
    let mut said = link.send_all(&both).await?;
    let (replicas, said) = (said.pop(), said.pop());
    let replicas = match replicas {
        Some(Value::Int(replicas)) => u8::try_from(replicas).unwrap_or(u8::MAX),
        _ => 0,
    };
    let answer = Answer::of(said.unwrap_or_default(), link.address());
    Ok((answer, replicas))
}
