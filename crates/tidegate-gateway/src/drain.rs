//! The way out: finish what is there, take nothing new, be gone in bounded time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::connections::Connections;
use crate::context::Shared;
use crate::threads::Stage;

/// How often it is looked whether all is finished.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a drain works on.
pub(crate) struct Drain {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) stage: watch::Sender<Stage>,
    /// The task that accepts connections; it ends with the backlog empty.
    pub(crate) listener: JoinHandle<()>,
}

impl Drain {
    /// Waits until `asked`, then takes the gateway through all stages to the last.
    ///
    /// Readiness has failed already when this begins: whoever asks sees to that.
    pub(crate) async fn run(self, mut asked: watch::Receiver<bool>) {
        // An error means that nobody is left to ask; then the stage tells all tasks to stop.
        if asked.wait_for(|asked| *asked).await.is_err() {
            return;
        }
        let plan = self.shared.plan.drain;
        info!(
            delay_ms = plan.delay.as_millis(),
            "draining: not ready any more"
        );
        sleep(plan.delay).await;

        self.stage.send_replace(Stage::Closing);
        // An error means that the task is gone, and the listener with it.
        drop(self.listener.await);
        info!("draining: the listener is closed");
        self.connections.drain();

        let deadline = Instant::now() + plan.timeout;
        while !self.connections.is_empty() || !is_idle(&self.shared) {
            if Instant::now() >= deadline {
                warn!(
                    timeout_ms = plan.timeout.as_millis(),
                    "draining: cutting what is left"
                );
                break;
            }
            sleep(LOOK_INTERVAL).await;
        }
        self.stage.send_replace(Stage::Stopped);
    }
}

/// Whether no request is queued or inside an application, those without a client included.
fn is_idle(shared: &Shared) -> bool {
    shared.applications().iter().all(|app| {
        let gate = app.gate.snapshot();
        gate.in_flight == 0 && gate.queued == 0
    })
}
