//! A large session costs what is asked of it: sessions of 15 KB, of which a route wants two fields; a
//! value of 100 KB, which lies beside its session; and what is over a ceiling. Beside it sessions kept
//! as one value each.

mod ceilings;
mod fields;

use std::time::Duration;

use crate::harness::{Args, Drill, Verdict};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-big-attributes",
    promise: "of a session of 15 KB a route that wants two fields moves less than 1 KB, and large values lie outside",
    takes: Duration::from_secs(20),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    fields::show(&mut verdict)?;
    ceilings::show(&mut verdict)?;
    Ok(verdict)
}
