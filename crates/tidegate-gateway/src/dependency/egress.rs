//! The listener that applications call a dependency through.
//!
//! Only this machine reaches it. Each thread of the gateway accepts by itself, from one socket that all of them have.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_http::local::{Bound, ListenError, SocketFile};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::time::sleep_until;
use tracing::warn;

use super::call::call;
use super::callers::{Caller, Callers};
use super::{Dependency, EgressPlan};
use crate::context::Thread;
use crate::farewell;
use crate::framed::Framed;
use crate::serve::{Due, Timeouts, Tracked};
use tidegate_http::framing::{Framing, FramingLog, Phase};

/// Bytes of a call's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Header fields of a call.
const HEADERS_MAX: usize = 128;
/// Longest idle time between two calls: longer than clients keep idle connections, so that none is
/// closed just as it is used.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Pause after the system could not give us a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listener for calls to one dependency. Dropping it takes its socket away.
pub(crate) struct Egress {
    dependency: usize,
    bound: Bound,
    callers: Arc<Callers>,
    _file: Option<SocketFile>,
}

/// The same in one thread's runtime.
enum Listener {
    Socket(UnixListener),
    Loopback(TcpListener),
}

/// What ends a connection.
enum End {
    Engine(hyper::Result<()>),
    /// A head that the engine does not see is to be refused.
    Refused,
    /// It is over without a word.
    Cut,
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
            callers: Arc::new(Callers::new(plan.connections_max)),
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
        runtime.spawn(accept(listener, Arc::clone(&self.callers), calls));
        Ok(())
    }
}

/// Calls to one dependency, on one thread.
#[derive(Clone)]
struct Calls {
    thread: Arc<Thread>,
    dependency: usize,
}

async fn accept(listener: Listener, callers: Arc<Callers>, calls: Calls) {
    let clock = calls.thread.shared.clock;
    loop {
        // It waits here if there is no room, and those behind it in the backlog.
        let accepted = match &listener {
            Listener::Socket(listener) => match listener.accept().await {
                Ok((stream, _)) => {
                    calls.serve(stream, callers.admit(clock).await);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Listener::Loopback(listener) => match listener.accept().await {
                Ok((stream, _)) => {
                    // Without it answers come a little later, nothing else.
                    let _ = stream.set_nodelay(true);
                    calls.serve(stream, callers.admit(clock).await);
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = accepted {
            warn!(%error, "an egress listener cannot accept");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

impl Calls {
    /// Serves one connection in a task of its own.
    fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, caller: Caller) {
        let calls = self.clone();
        tokio::spawn(async move { calls.serve_all(stream, &caller).await });
    }

    /// Makes the calls of one connection until it ends. It ends by itself when it is idle for too long, or when a head does not come
    /// in time, its first in particular.
    async fn serve_all(&self, stream: impl AsyncRead + AsyncWrite + Unpin, caller: &Caller) {
        let (clock, link) = (self.thread.shared.clock, caller.link());
        let timeouts = Timeouts {
            head: self.thread.shared.plan.listener.head_timeout,
            keep_alive: IDLE_TIMEOUT,
        };
        let (framing, log) = Framing::new(HEAD_BYTES_MAX, HEADERS_MAX);
        let stream = Framed::new(stream, framing, Arc::clone(link), clock);
        let service = service_fn(|request| {
            let exchange = link.begin(clock);
            let log = &log;
            async move {
                let mut response = call(&self.thread, self.dependency, log, request).await;
                if log.is_out_of_step() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(response.map(|body| Tracked::new(body, exchange)))
            }
        });
        let mut connection = http1::Builder::new()
            .header_read_timeout(None)
            // One more than the scanner allows, which is to be the one that refuses.
            .max_header_size(HEAD_BYTES_MAX + 1)
            .max_buf_size(HEAD_BYTES_MAX + 1)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut timer = pin!(sleep_until(clock.instant(clock.now())));
        let (mut attended, mut head_seen, mut closing) = (false, false, None);
        let end = poll_fn(|cx| {
            if !attended {
                link.attend(cx.waker());
                attended = true;
            }
            loop {
                if link.is_close_asked() && closing.is_none() {
                    closing = Some(clock.now());
                    Pin::new(&mut connection).graceful_shutdown();
                }
                if let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx) {
                    return Poll::Ready(End::Engine(ended));
                }
                if log.head_fault().is_some() && link.is_done() {
                    return Poll::Ready(End::Refused);
                }
                // The engine waits for a first call whatever it is told.
                let is_silent = link.idle_since() == Some(link.opened_at());
                if closing.is_some() && is_silent && link.head_since().is_none() {
                    return Poll::Ready(End::Cut);
                }
                // The timer was set when no head was on its way; that is due sooner.
                let head_begins = link.head_since().is_some() && !head_seen;
                head_seen = link.head_since().is_some();
                if !head_begins && timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                match timeouts.due(link, closing, clock.now()) {
                    Due::At(at) => timer.as_mut().reset(clock.instant(at)),
                    Due::Cut(_) => return Poll::Ready(End::Cut),
                    Due::Close => {
                        closing = Some(clock.now());
                        Pin::new(&mut connection).graceful_shutdown();
                    }
                }
            }
        })
        .await;
        let framed = connection.into_parts().io.into_inner();
        self.conclude(end, framed, &log).await;
    }

    /// Counts what was wrong with the connection's last request, and sees to it that its caller reads so.
    async fn conclude(
        &self,
        end: End,
        framed: Framed<impl AsyncRead + AsyncWrite + Unpin>,
        log: &FramingLog,
    ) {
        let engine = match &end {
            End::Engine(ended) => ended.as_ref().err(),
            End::Refused => None,
            End::Cut => return,
        };
        let fault = farewell::fault_of(engine, log);
        if let Some(fault) = fault {
            self.thread.recorder.bad_request(fault);
        }
        let has_left = matches!(end, End::Engine(Err(_))) && fault.is_none();
        let unread = framed.phase() != Phase::Between && !has_left;
        let mut stream = framed.stream;
        if let (End::Refused, Some(fault)) = (end, fault) {
            farewell::refuse(&mut stream, fault).await;
        }
        if unread {
            farewell::linger(&mut stream).await;
        }
    }
}
