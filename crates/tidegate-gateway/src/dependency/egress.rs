//! The listener that applications call a dependency through.
//!
//! Only this machine reaches it. Each thread of the gateway accepts by itself, from one socket that all of them have.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_http::local::{Bound, ListenError, SocketFile};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::call::call;
use super::{Dependency, EgressPlan};
use crate::context::Thread;

/// Bytes of a call's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Header fields of a call.
const HEADERS_MAX: usize = 128;
/// Longest time for a head, idle time before it included: longer than clients keep idle connections, so that none is
/// closed just as it is used.
const HEAD_TIMEOUT: Duration = Duration::from_secs(300);
/// Pause after the system could not give us a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listener for calls to one dependency. Dropping it takes its socket away.
pub(crate) struct Egress {
    dependency: usize,
    bound: Bound,
    connections: Arc<Semaphore>,
    _file: Option<SocketFile>,
}

/// The same in one thread's runtime.
enum Listener {
    Socket(UnixListener),
    Loopback(TcpListener),
}

impl Egress {
    /// Listens as `plan` has it for the dependency at this place.
    pub(crate) fn bind(
        plan: &EgressPlan,
        at: usize,
        dependency: &Dependency,
    ) -> Result<Self, ListenError> {
        let (bound, listens) = plan.listen.bind()?;
        let file = listens.file();
        let first = dependency.listens.set(listens);
        debug_assert!(first.is_ok(), "a dependency listens once");
        Ok(Self {
            dependency: at,
            bound,
            connections: Arc::new(Semaphore::new(plan.connections_max)),
            _file: file,
        })
    }

    /// Accepts on `runtime`, that of `thread`, until it ends.
    pub(crate) fn accept_on(&self, runtime: &Runtime, thread: &Arc<Thread>) -> io::Result<()> {
        let listener = {
            let _entered = runtime.enter();
            match &self.bound {
                Bound::Socket(socket) => {
                    Listener::Socket(UnixListener::from_std(socket.try_clone()?)?)
                }
                Bound::Loopback(socket) => {
                    Listener::Loopback(TcpListener::from_std(socket.try_clone()?)?)
                }
            }
        };
        let calls = Calls {
            thread: Arc::clone(thread),
            dependency: self.dependency,
        };
        runtime.spawn(accept(listener, Arc::clone(&self.connections), calls));
        Ok(())
    }
}

/// Calls to one dependency, on one thread.
#[derive(Clone)]
struct Calls {
    thread: Arc<Thread>,
    dependency: usize,
}

async fn accept(listener: Listener, connections: Arc<Semaphore>, calls: Calls) {
    loop {
        // Before the connection: one that cannot be served is for another thread, or waits in the backlog.
        let place = Arc::clone(&connections).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let accepted = match &listener {
            Listener::Socket(listener) => {
                let accepted = listener.accept().await;
                accepted.map(|(stream, _)| calls.serve(stream, place))
            }
            Listener::Loopback(listener) => {
                let accepted = listener.accept().await;
                accepted.map(|(stream, _)| {
                    // Without it answers come a little later, nothing else.
                    let _ = stream.set_nodelay(true);
                    calls.serve(stream, place);
                })
            }
        };
        if let Err(error) = accepted {
            warn!(%error, "an egress listener cannot accept");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

impl Calls {
    /// Serves one connection in a task of its own, which gives its `place` back.
    fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        place: OwnedSemaphorePermit,
    ) {
        let calls = self.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(|request| {
                let calls = calls.clone();
                async move {
                    let response = call(&calls.thread, calls.dependency, request).await;
                    Ok::<_, Infallible>(response)
                }
            });
            // An error is an application that left or that speaks no HTTP: nothing that we could answer.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .max_headers(HEADERS_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
