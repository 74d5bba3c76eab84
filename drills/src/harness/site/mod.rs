//! A small stateful application: it signs visitors in, keeps their carts, and says in every answer
//! what it knows of its caller. It does so in one of three ways, to be compared with each other.
//!
//! | path | what it does |
//! |---|---|
//! | `/sign-in?uid=U` | makes the caller the user U |
//! | `/sign-out`, `/sign-out-everywhere` | ends the caller's session, or all of the user's |
//! | `/add?item=N` | puts N into the cart |
//! | `/count` | adds 1 to the counter `hits` |
//! | `/put?name=A&bytes=N` | gives the attribute A a value of N bytes |
//! | any other | nothing |
//!
//! With `ms=N` in the query it takes N ms over it, and with `limit=N` it refuses with 503 what comes
//! while N others are in work.
//!
//! It is a process of its own (this binary once more), so that it can be killed like one.

mod keep;
mod serve;

use std::net::SocketAddr;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::measure::Child;

pub(crate) use keep::{Blobs, Known};
pub(crate) use serve::serve;

/// Longest time from start to the line that says it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
const READY: &str = "site: listening on ";

/// Where the application has its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Tidegate keeps them; the application reads and sets them through headers.
    InTidegate,
    /// In its own memory, under a cookie of its own.
    InHeap,
    /// Each as one value in Redis, read at the beginning of every request and written at its end
    /// when it has changed, under a cookie of its own: what session libraries do.
    AsBlob(SocketAddr),
}

/// A running application. Dropping it stops it.
pub(crate) struct Site {
    child: Child,
    address: SocketAddr,
}

impl FromStr for Keeps {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once('=') {
            None if text == "tidegate" => Ok(Self::InTidegate),
            None if text == "heap" => Ok(Self::InHeap),
            Some(("blob", store)) => Ok(Self::AsBlob(store.parse()?)),
            _ => anyhow::bail!("{text} is none of tidegate, heap, blob=ADDRESS"),
        }
    }
}

impl Keeps {
    fn text(self) -> String {
        match self {
            Self::InTidegate => "tidegate".to_owned(),
            Self::InHeap => "heap".to_owned(),
            Self::AsBlob(store) => format!("blob={store}"),
        }
    }
}

impl Site {
    /// Starts one and waits until it listens.
    pub(crate) fn start(name: &str, keeps: Keeps) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([name, "--site", &keeps.text()]);
        let child = Child::start(command, READY, READY_TIMEOUT)?;
        let line = child.ready_line();
        let address = line
            .strip_prefix(READY)
            .and_then(|address| address.trim().parse().ok())
            .with_context(|| format!("not a line of readiness: {line}"))?;
        Ok(Self { child, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.child.kill()?;
        Ok(())
    }
}
