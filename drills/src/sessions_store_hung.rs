//! The store hangs: it stays connected and answers nothing. Twenty times in the middle of traffic;
//! once for long, with new visitors behind a balancer; and for one gateway of two alone, while both
//! write to the same sessions. Beside it sessions kept as one value each, by a client with the timeout
//! that such clients have.

mod cut_off;
mod for_long;
mod freezes;

use std::time::Duration;

use crate::harness::{Args, Drill, Verdict};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-store-hung",
    promise: "a store that hangs costs a few requests one timeout of 8 ms, and nobody a login, a cart or an error",
    takes: Duration::from_secs(180),
    run,
};

/// How long visitors wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    for_long::show(&mut verdict)?;
    freezes::show(&mut verdict)?;
    cut_off::show(&mut verdict)?;
    Ok(verdict)
}
