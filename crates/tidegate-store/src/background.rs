//! The thread behind a store: connections are driven there, and whatever goes on without a request.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A thread with a runtime of its own. A clone is the same thread; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct Background {
    runtime: Handle,
    /// Held by every clone; the thread ends when it is dropped.
    _alive: Arc<oneshot::Sender<()>>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the system has no thread or no event queue left.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, gone) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("tidegate-store".to_owned())
            .spawn(move || {
                // An error means that the last clone is gone: the end.
                let _ = runtime.block_on(gone);
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            _alive: Arc::new(alive),
        })
    }

    /// Runs `task` there until it ends, is aborted, or the thread ends. A task must not hold a
    /// `Background`, or the thread would never end.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime.spawn(task)
    }

    /// The runtime itself, which a task may hold.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }
}
