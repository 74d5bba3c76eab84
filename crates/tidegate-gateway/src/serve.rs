//! A client's connection, from the hand-over of its socket to its end.
//!
//! The engine has no timers of its own here: it knows one timeout for heads and idle connections
//! and sets a timer for each. A connection has one timer that is looked at when it fires.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_core::time::Mono;
use tidegate_http::verdict::report_load;
use tokio::net::TcpStream;
use tokio::time::sleep_until;

use crate::body::{Body, BodyError};
use crate::connections::{Kind, Permit};
use crate::context::{Conn, Thread};
use crate::farewell;
use crate::io::Socket;
use crate::link::{Exchange, Link};
use crate::plan::ListenerPlan;
use crate::request;
use tidegate_http::framing::{Framing, FramingLog, Phase};

/// Header fields that the engine takes without being told, and cheaper than when told.
const ENGINE_HEADERS_MAX: usize = 100;

/// Bytes of a connection's read buffer; also the most that the engine writes at once.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How long a connection lives that is over a cap.
const OVERFLOW_LIFETIME: Duration = Duration::from_secs(2);

/// Serves the connections of one thread.
pub(crate) struct Server {
    thread: Arc<Thread>,
    http: http1::Builder,
}

/// How a client connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By agreement: the client closed it, or one side had said that it would be closed.
    Closed,
    /// It broke, or the client left before its answer.
    Broken,
    /// A request on it could not be trusted.
    BadRequest,
    /// Nothing came for longer than an idle connection is kept.
    Idle,
    /// A head was not there in time.
    HeadTimeout,
    /// The client took no byte of its answer for too long.
    WriteStalled,
    /// It was over a cap and its short life was over.
    OverflowTimeout,
    /// It was idle and another connection needed its place.
    Evicted,
    /// The gateway is about to end.
    Drained,
}

/// What ends the engine's work on a connection.
enum End {
    Engine(hyper::Result<()>),
    Cut(Ending),
}

/// When a connection has to be looked at again, or what must happen to it now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Then.
    At(Mono),
    /// It is to close as soon as it can.
    Close,
    /// It ends now.
    Cut(Ending),
}

/// The times that hold for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For a head, once a part of it is there or the connection is new.
    pub(crate) head: Duration,
    /// Between two requests.
    pub(crate) keep_alive: Duration,
}

/// What every request of a connection needs.
struct Client {
    thread: Arc<Thread>,
    conn: Conn,
    link: Arc<Link>,
}

/// An answer's body that keeps the connection busy until it ends.
pub(crate) struct Tracked {
    body: Body,
    _exchange: Exchange,
}

impl Ending {
    /// Every ending.
    pub const ALL: [Self; 9] = [
        Self::Closed,
        Self::Broken,
        Self::BadRequest,
        Self::Idle,
        Self::HeadTimeout,
        Self::WriteStalled,
        Self::OverflowTimeout,
        Self::Evicted,
        Self::Drained,
    ];

    /// Position in [`Ending::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Broken => "broken",
            Self::BadRequest => "bad_request",
            Self::Idle => "idle",
            Self::HeadTimeout => "head_timeout",
            Self::WriteStalled => "write_stalled",
            Self::OverflowTimeout => "overflow_timeout",
            Self::Evicted => "evicted",
            Self::Drained => "drained",
        }
    }
}

impl Server {
    pub(crate) fn new(thread: Arc<Thread>) -> Self {
        let listener = &thread.shared.plan.listener;
        let mut http = http1::Builder::new();
        http.half_close(listener.half_close)
            .header_read_timeout(None)
            // One more than the scanner allows, which is to be the one that refuses.
            .max_header_size(listener.head_bytes_max + 1)
            .max_buf_size(BUFFER_BYTES_MAX.max(listener.head_bytes_max + 1));
        if listener.headers_max != ENGINE_HEADERS_MAX {
            http.max_headers(listener.headers_max);
        }
        Self { thread, http }
    }

    /// Serves a connection in a task of its own, on the runtime that this is called from.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        permit: Permit,
    ) {
        let server = Arc::clone(self);
        match TcpStream::from_std(stream) {
            Ok(stream) => drop(tokio::spawn(async move {
                server.serve(stream, peer, permit).await
            })),
            // It cannot be watched, for want of memory or watches: there is nothing else to do.
            Err(_) => self.thread.recorder.connection_ended(Ending::Broken),
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, permit: Permit) {
        let listener = &self.thread.shared.plan.listener;
        let clock = self.thread.shared.clock;
        let link = Arc::clone(permit.link());
        let (framing, log) = Framing::new(listener.head_bytes_max, listener.headers_max);
        let socket = Socket::new(
            stream,
            framing,
            listener.write_timeout,
            Arc::clone(&link),
            clock,
        );
        let mut conn = Conn::new(peer, log.clone());
        conn.trusted = permit.is_trusted();
        conn.probe = permit.kind() == Kind::Probe;
        conn.overflow = permit.kind() == Kind::Overflow;
        let client = Arc::new(Client {
            thread: Arc::clone(&self.thread),
            conn,
            link: Arc::clone(&link),
        });
        let service = service_fn(move |request| {
            let client = Arc::clone(&client);
            // From here on the connection is busy, whether or not the future is ever polled.
            let exchange = client.link.begin(clock);
            async move { Ok::<_, Infallible>(client.answer(request, exchange).await) }
        });

        let mut connection = self.http.serve_connection(TokioIo::new(socket), service);
        let mut timer = pin!(sleep_until(clock.instant(clock.now())));
        let timeouts = Timeouts::of(listener);
        let mut attended = false;
        let mut closing = None;
        let mut head_seen = false;
        let end = poll_fn(|cx| {
            if !attended {
                link.attend(cx.waker());
                attended = true;
            }
            loop {
                // Before the engine, so that an answer that is ready says it is the last.
                if link.is_close_asked() && closing.is_none() {
                    closing = Some(clock.now());
                    Pin::new(&mut connection).graceful_shutdown();
                }
                if let Poll::Ready(result) = Pin::new(&mut connection).poll(cx) {
                    return Poll::Ready(End::Engine(result));
                }
                if log.head_fault().is_some() && link.is_done() {
                    return Poll::Ready(End::Cut(Ending::BadRequest));
                }
                // The timer was set when no head was on its way; that is due sooner.
                let head_begins = link.head_since().is_some() && !head_seen;
                head_seen = link.head_since().is_some();
                if !head_begins && timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                match timeouts.due(&link, closing, clock.now()) {
                    Due::At(at) => timer.as_mut().reset(clock.instant(at)),
                    Due::Cut(ending) => return Poll::Ready(End::Cut(ending)),
                    Due::Close => {
                        closing = Some(clock.now());
                        Pin::new(&mut connection).graceful_shutdown();
                    }
                }
            }
        })
        .await;
        let socket = connection.into_parts().io.into_inner();
        self.conclude(end, closing.is_some(), socket, &log, &link)
            .await;
    }

    /// Counts how the connection ended, and sees to it that the client reads what it was told last.
    async fn conclude(
        &self,
        end: End,
        closing: bool,
        socket: Socket,
        log: &FramingLog,
        link: &Link,
    ) {
        let recorder = &self.thread.recorder;
        let engine = match &end {
            End::Engine(ended) => ended.as_ref().err(),
            End::Cut(_) => None,
        };
        let fault = farewell::fault_of(engine, log);
        if let Some(fault) = fault {
            recorder.bad_request(fault);
        }
        let ending = match &end {
            End::Cut(ending) => *ending,
            End::Engine(_) if socket.is_stalled() => Ending::WriteStalled,
            End::Engine(_) if fault.is_some() || log.is_out_of_step() => Ending::BadRequest,
            End::Engine(Err(_)) => Ending::Broken,
            End::Engine(Ok(())) if link.is_evicted() => Ending::Evicted,
            End::Engine(Ok(())) if link.is_close_asked() => Ending::Drained,
            End::Engine(Ok(())) if closing => Ending::Idle,
            End::Engine(Ok(())) => Ending::Closed,
        };
        recorder.connection_ended(ending);

        let unread = socket.phase() != Phase::Between;
        let mut stream = socket.into_stream();
        if let (End::Cut(Ending::BadRequest), Some(fault)) = (&end, fault) {
            farewell::refuse(&mut stream, fault).await;
        }
        match ending {
            Ending::HeadTimeout if unread => farewell::say_too_late(&mut stream).await,
            Ending::Closed | Ending::BadRequest | Ending::Drained if unread => {
                farewell::linger(&mut stream).await;
            }
            _ => {}
        }
    }
}

impl Timeouts {
    fn of(listener: &ListenerPlan) -> Self {
        Self {
            head: listener.head_timeout,
            keep_alive: listener.keep_alive_timeout,
        }
    }

    /// What is due for a connection that may have been told to close at `closing`.
    pub(crate) fn due(self, link: &Link, closing: Option<Mono>, now: Mono) -> Due {
        if link.kind() == Kind::Overflow {
            let end = link.opened_at() + OVERFLOW_LIFETIME;
            if end <= now {
                return Due::Cut(Ending::OverflowTimeout);
            }
            return Due::At(end);
        }
        let Some(idle_since) = link.idle_since() else {
            return Due::At(now + self.head.min(self.keep_alive));
        };
        let (end, due) = match (link.head_since(), closing) {
            // A head that came while the answer before it was on its way counts from then on.
            (Some(since), _) => (
                since.max(idle_since) + self.head,
                Due::Cut(Ending::HeadTimeout),
            ),
            (None, Some(since)) => (since.max(idle_since) + self.head, Due::Cut(Ending::Idle)),
            (None, None) if idle_since == link.opened_at() => {
                (idle_since + self.head, Due::Cut(Ending::HeadTimeout))
            }
            (None, None) => (idle_since + self.keep_alive, Due::Close),
        };
        if end <= now { due } else { Due::At(end) }
    }
}

impl Client {
    async fn answer(&self, request: Request<Incoming>, exchange: Exchange) -> Response<Tracked> {
        let mut response = request::handle(&self.thread, &self.conn, request).await;
        let shared = &self.thread.shared;
        if shared.plan.reports_load {
            report_load(response.headers_mut(), shared.board.report());
        }
        if self.conn.overflow || self.conn.framing.is_out_of_step() {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.map(|body| Tracked::new(body, exchange))
    }
}

impl Tracked {
    /// `body`, during which `exchange` lasts.
    pub(crate) const fn new(body: Body, exchange: Exchange) -> Self {
        Self {
            body,
            _exchange: exchange,
        }
    }
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        head: Duration::from_secs(10),
        keep_alive: Duration::from_secs(60),
    };

    fn at(seconds: u64) -> Mono {
        Mono::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_new_connection_has_the_time_of_a_head() {
        let link = Link::new(0, Kind::Normal, at(5));

        assert_eq!(TIMEOUTS.due(&link, None, at(6)), Due::At(at(15)));
        assert_eq!(
            TIMEOUTS.due(&link, None, at(15)),
            Due::Cut(Ending::HeadTimeout)
        );
    }

    #[test]
    fn an_idle_connection_is_kept_longer_but_a_head_on_it_is_not() {
        let link = Arc::new(Link::new(0, Kind::Normal, at(0)));
        let clock = crate::context::Clock::start();
        drop(link.begin(clock));
        let idle_since = link.idle_since().unwrap();

        let kept_until = idle_since + TIMEOUTS.keep_alive;
        assert_eq!(TIMEOUTS.due(&link, None, at(1)), Due::At(kept_until));
        assert_eq!(TIMEOUTS.due(&link, None, kept_until), Due::Close);

        link.begin_head(at(30));
        assert_eq!(TIMEOUTS.due(&link, None, at(31)), Due::At(at(40)));
        assert_eq!(
            TIMEOUTS.due(&link, None, at(40)),
            Due::Cut(Ending::HeadTimeout)
        );
    }

    #[test]
    fn a_busy_connection_is_never_due() {
        let link = Arc::new(Link::new(0, Kind::Normal, at(0)));
        let _exchange = link.begin(crate::context::Clock::start());

        assert_eq!(TIMEOUTS.due(&link, None, at(1_000)), Due::At(at(1_010)));
    }

    #[test]
    fn over_the_cap_a_connection_lives_two_seconds_whatever_it_does() {
        let link = Arc::new(Link::new(0, Kind::Overflow, at(0)));
        let _exchange = link.begin(crate::context::Clock::start());

        assert_eq!(TIMEOUTS.due(&link, None, at(1)), Due::At(at(2)));
        assert_eq!(
            TIMEOUTS.due(&link, None, at(2)),
            Due::Cut(Ending::OverflowTimeout)
        );
    }
}
