//! Listens, accepts, and holds every request to its bounds before the API sees it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, EXPECT};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate_http::framing::Framing;
use tidegate_http::local::{Bound, Listen, ListenError, SocketFile};
use tidegate_http::page::{host_address, is_from_page};
use tidegate_store::Fleet;
use tidegate_store::desk::Desk;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::agent::Board;
use crate::api::{Api, EVENTS_PATH, Problem, WAIT_MS_MAX};
use crate::counts::{Counts, Tally};
use crate::drain::drain;
use crate::mint::Mint;
use crate::permits::PermitDoor;
use crate::plan::SidecarPlan;
use crate::stream::{Arrival, Watched};

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Header fields of a request.
const HEADERS_MAX: usize = 64;
/// What a client may still send after its last answer, in bytes.
const LINGER_BYTES_MAX: u64 = 256 * 1024;
/// How long to wait after the system refused a connection: it has no files left, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running sidecar. Dropping it ends it.
#[derive(Debug)]
pub struct Sidecar {
    listen: Listen,
    counts: Arc<Counts>,
    board: Board,
    /// Held for as long as it runs.
    _alive: oneshot::Sender<()>,
    _file: Option<SocketFile>,
}

/// Why a sidecar does not start.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system gives no thread.
    #[error("the sidecar's thread does not start")]
    Thread(#[source] io::Error),
}

/// What every connection shares.
struct Shared {
    router: Router,
    requests: Semaphore,
    /// Requests that wait for the ends of sessions are counted apart: each takes long and costs
    /// little. They leave connections for others.
    polls: Semaphore,
    connections: Arc<Semaphore>,
    plan: SidecarPlan,
    counts: Arc<Counts>,
}

enum Listener {
    Socket(UnixListener),
    Loopback(TcpListener),
}

impl Sidecar {
    /// Starts serving, in a thread of its own, what a desk knows, if there are sessions (new ones get ids of the mint),
    /// what is behind `permits`, and the `nodes` of a fleet, if they are known.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn start(
        plan: SidecarPlan,
        sessions: Option<(Desk, Mint)>,
        permits: PermitDoor,
        nodes: Option<Fleet>,
    ) -> Result<Self, SidecarError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(SidecarError::Thread)?;
        let bound = {
            // A listener belongs to the runtime that it was made in.
            let _guard = runtime.enter();
            bind(&plan.listen)
        };
        let (listener, listen) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                // The caller may be in a runtime of its own, where this one must not be waited for.
                runtime.shutdown_background();
                return Err(error.into());
            }
        };
        let file = listen.file();
        let counts = Arc::new(Counts::default());
        let board = Board::new(std::time::Instant::now());
        let shared = Arc::new(Shared {
            router: Api::new(sessions, permits, nodes, board.clone(), plan.timeout).router(),
            requests: Semaphore::new(plan.requests_max),
            polls: Semaphore::new((plan.connections_max / 2).max(1)),
            connections: Arc::new(Semaphore::new(plan.connections_max)),
            plan,
            counts: counts.clone(),
        });
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("tidegate-sidecar".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, shared) => {}
                        _ = ended => {}
                    }
                });
                runtime.shutdown_background();
            })
            .map_err(SidecarError::Thread)?;
        Ok(Self {
            listen,
            counts,
            board,
            _alive: alive,
            _file: file,
        })
    }

    /// Where it listens; with the port that the system chose, where it was asked to choose.
    pub const fn listen(&self) -> &Listen {
        &self.listen
    }

    /// Where readings are that applications have posted.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// What was counted since the start.
    pub fn tally(&self) -> Tally {
        self.counts.tally()
    }

    /// Tells what was counted since the start, as often as it is asked, also after the end.
    pub fn teller(&self) -> impl Fn() -> Tally + Send + Sync + use<> {
        let counts = Arc::clone(&self.counts);
        move || counts.tally()
    }
}

fn bind(listen: &Listen) -> Result<(Listener, Listen), ListenError> {
    let (bound, at) = listen.bind()?;
    let listener = match bound {
        Bound::Socket(listener) => UnixListener::from_std(listener).map(Listener::Socket),
        Bound::Loopback(listener) => TcpListener::from_std(listener).map(Listener::Loopback),
    };
    match listener {
        Ok(listener) => Ok((listener, at)),
        Err(source) => Err(ListenError::Refused { listen: at, source }),
    }
}

async fn accept(listener: Listener, shared: Arc<Shared>) {
    loop {
        let slot = shared.connections.clone().acquire_owned().await;
        let slot = slot.expect("the semaphore is never closed");
        let accepted = match &listener {
            Listener::Socket(listener) => {
                let accepted = listener.accept().await;
                accepted.map(|(stream, _)| spawn(stream, &shared, slot))
            }
            Listener::Loopback(listener) => {
                let accepted = listener.accept().await;
                accepted.map(|(stream, _)| {
                    let _ = stream.set_nodelay(true);
                    spawn(stream, &shared, slot);
                })
            }
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "the sidecar cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Serves one connection in a task of its own, which gives its `slot` back.
fn spawn(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    shared: &Arc<Shared>,
    slot: OwnedSemaphorePermit,
) {
    let shared = shared.clone();
    tokio::spawn(async move {
        let _slot = slot;
        let timeout = shared.plan.timeout;
        let arrival = Arrival::new();
        let (framing, log) = Framing::new(HEAD_BYTES_MAX, HEADERS_MAX);
        let stream = Watched::new(stream, framing, timeout, arrival.clone());
        let service = service_fn(|request| {
            let (shared, arrival) = (shared.clone(), arrival.clone());
            async move {
                let begun = arrival.is_here();
                let response = handle(&shared, begun, request).await;
                arrival.is_answered();
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection = http1::Builder::new()
            // The stream looks after that: this one also counts idle time, and is set anew for every
            // request.
            .header_read_timeout(None)
            // One more than the scanner allows, which is to be the one that refuses.
            .max_header_size(HEAD_BYTES_MAX + 1)
            .max_buf_size(HEAD_BYTES_MAX + 1)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        // An error without a fault in a head is a client that left: nothing that we could answer.
        let _ = (&mut connection).await;
        if let Some(fault) = log.head_fault() {
            shared.counts.requests.count();
            shared.counts.refused.count();
            let stream = connection.into_parts().io.into_inner();
            part(stream.into_inner(), &fault.answer(), timeout).await;
        }
    });
}

/// Says something last to a client, and reads on for a moment, so that what it still sends does not take the answer from it.
async fn part(mut stream: impl AsyncRead + AsyncWrite + Unpin, last: &[u8], within: Duration) {
    let parting = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut rest = stream.take(LINGER_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Whoever does not take it has left.
    let _ = tokio::time::timeout(within, parting).await;
}

/// Answers a request that `begun` then to come, within the bounds of the plan.
async fn handle(shared: &Shared, begun: Instant, request: Request<Incoming>) -> Response {
    shared.counts.requests.count();
    let (parts, mut body) = request.into_parts();
    let refused = match take_in(shared, begun, &parts, &mut body).await {
        Ok((_slot, whole)) => return answer(shared, Request::from_parts(parts, whole)).await,
        Err(refused) => refused,
    };
    let mut response = refused.into_response();
    if !body.is_end_stream() {
        let closes = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, closes);
        // Who asks before it sends will not send it now.
        if !parts.headers.contains_key(EXPECT) {
            tokio::spawn(drain(body, shared.plan.timeout));
        }
    }
    response
}

/// A place among the requests that are under way, and all of the body.
async fn take_in<'s>(
    shared: &'s Shared,
    begun: Instant,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<(SemaphorePermit<'s>, Body), Problem> {
    let counts = &shared.counts;
    check(parts, body, &shared.plan).inspect_err(|_| counts.refused.count())?;
    let slots = if is_poll(&parts.method, &parts.uri) {
        &shared.polls
    } else {
        &shared.requests
    };
    let Ok(slot) = slots.try_acquire() else {
        counts.busy.count();
        return Err(Problem::away("busy", "too many requests are under way"));
    };
    let whole = read(begun, body, &shared.plan).await;
    let whole = whole.inspect_err(|_| counts.refused.count())?;
    Ok((slot, whole))
}

fn is_poll(method: &Method, uri: &Uri) -> bool {
    method == Method::GET && uri.path() == EVENTS_PATH
}

/// What the API answers in time.
async fn answer(shared: &Shared, request: Request<Body>) -> Response {
    let mut budget = shared.plan.timeout;
    if is_poll(request.method(), request.uri()) {
        budget += Duration::from_millis(WAIT_MS_MAX);
    }
    let router = TowerToHyperService::new(shared.router.clone());
    let answer = hyper::service::Service::call(&router, request);
    match tokio::time::timeout(budget, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            shared.counts.late.count();
            Problem::away(
                "late",
                "it took too long; it may have been done, or may still be",
            )
            .into_response()
        }
    }
}

/// Refuses what a page in somebody's browser could send: on a loopback address it reaches us.
fn check(parts: &Parts, body: &Incoming, plan: &SidecarPlan) -> Result<(), Problem> {
    let forbidden = |field, detail| {
        Err(Problem::new(StatusCode::FORBIDDEN, "not_for_browsers", detail).about(field))
    };
    let headers = &parts.headers;
    if is_from_page(headers) {
        return forbidden("Origin", "a page in a browser has no business here");
    }
    let is_here = |address: std::net::IpAddr| address.is_loopback();
    if matches!(plan.listen, Listen::Loopback(_)) && !host_address(headers).is_some_and(is_here) {
        return forbidden(
            "Host",
            "the request is for another host; write 127.0.0.1, [::1] or localhost",
        );
    }
    let length = body.size_hint().lower();
    if length > plan.body_bytes_max as u64 {
        return Err(too_large(plan.body_bytes_max));
    }
    let is_put = parts.method == Method::PUT;
    let json = headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    });
    if !body.is_end_stream() && !is_put && !json {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body is to be application/json",
        )
        .about("Content-Type"));
    }
    Ok(())
}

/// All of the body of a request that `begun` then to come. It must come in time and not be too
/// large.
async fn read(begun: Instant, body: &mut Incoming, plan: &SidecarPlan) -> Result<Body, Problem> {
    let whole = Limited::new(body, plan.body_bytes_max).collect();
    match tokio::time::timeout_at(begun + plan.timeout, whole).await {
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "slow_body",
            "the body did not come in time",
        )),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(plan.body_bytes_max)),
        Ok(Err(error)) => Err(Problem::invalid("body", error.to_string())),
        Ok(Ok(whole)) => Ok(Body::from(whole.to_bytes())),
    }
}

fn too_large(most: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("a body may have {most} bytes"),
    )
    .about("body")
}
