//! Waiting for something to become so.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a drill's own clients run on, one thread of it.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime)
}

/// Waits until `is_so`; `what` is how that reads when it never comes.
pub(crate) fn wait_for(
    what: &str,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let until = Instant::now() + WAIT_MAX;
    while !is_so()? {
        anyhow::ensure!(Instant::now() < until, "waited in vain until {what}");
        sleep(LOOK_INTERVAL);
    }
    Ok(())
}
