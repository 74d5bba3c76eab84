//! The operator's listener, on a thread of its own so that it answers when the others are busy.

use std::convert::Infallible;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_http::page::{host_address, is_from_page};
use tokio::sync::watch;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::connections::Connections;
use crate::context::{Shared, Thread};
use crate::metrics::{CONTENT_TYPE as METRICS_TYPE, Exposition};
use crate::own::{state_json, verdict_answer};
use crate::rate::{inspect, tick};
use crate::room::admin::{BODY_BYTES_MAX, BODY_WITHIN, Rooms};
use crate::status::Status;
use crate::threads::{Stage, runtime, stopped};

/// Connections at once; one more takes the place of the one that has been idle longest.
const CONNECTIONS_MAX: usize = 64;

/// Longest time for a head, idle time before it included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest life of a connection, so that no peer can hold one for ever.
const LIFETIME_MAX: Duration = Duration::from_secs(3600);

/// Pause after the system could not give us a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const INDEX: &str =
    "Tidegate\n\n/metrics\n/status.json\n/healthz\n/readyz\n/verdict\n/limits/NAME\n/rooms\n";

/// What the admin listener shows.
pub(crate) struct Admin {
    pub(crate) threads: Vec<Arc<Thread>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) exposition: Exposition,
}

/// Those who are connected.
#[derive(Default)]
struct Visitors(Vec<Visitor>);

struct Visitor {
    /// When it last asked for something, or connected.
    asked_at: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Admin {
    /// Serves `socket` on a new thread until the last stage.
    pub(crate) fn start(
        self,
        socket: TcpListener,
        stage: watch::Receiver<Stage>,
    ) -> io::Result<JoinHandle<()>> {
        let runtime = runtime()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let rooms = Rooms::new(&self.shared().halls, self.shared().clock);
        let main = async move {
            tokio::spawn(Arc::clone(&rooms).note());
            tokio::spawn(Arc::new(self).accept(listener, rooms));
            stopped(stage).await;
        };
        let run = move || runtime.block_on(main);
        thread::Builder::new()
            .name("tidegate-admin".to_owned())
            .spawn(run)
    }

    async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener, rooms: Arc<Rooms>) {
        let mut visitors = Visitors::default();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    warn!(%error, "the admin listener cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if visitors.make_room() {
                // Whoever came just before gets a turn before its own place is taken.
                yield_now().await;
            }
            let asked_at = Arc::new(AtomicU64::new(self.now()));
            let visitor_asked_at = Arc::clone(&asked_at);
            let (admin, rooms) = (Arc::clone(&self), Arc::clone(&rooms));
            let here = stream.local_addr().map(|address| address.ip()).ok();
            let is_here = is_here(peer, here);
            let task = tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    asked_at.store(admin.now(), Ordering::Relaxed);
                    let (admin, rooms) = (Arc::clone(&admin), Arc::clone(&rooms));
                    async move {
                        let path = request.uri().path();
                        let answer = if path == "/rooms" || path.starts_with("/rooms/") {
                            room(&rooms, request, is_here).await
                        } else {
                            admin.answer(&request, is_here).await
                        };
                        Ok::<_, Infallible>(answer)
                    }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    // Of the balancers that may ask for a verdict here, one minds how its header is written.
                    .title_case_headers(true)
                    .serve_connection(TokioIo::new(stream), service);
                // How an operator's connection ends is of no interest.
                drop(timeout(LIFETIME_MAX, connection).await);
            });
            visitors.0.push(Visitor {
                asked_at: visitor_asked_at,
                task: task.abort_handle(),
            });
        }
    }

    fn shared(&self) -> &Shared {
        &self.threads.first().expect("a gateway has a thread").shared
    }

    fn now(&self) -> u64 {
        self.shared().clock.now().as_nanos()
    }

    /// The answer to somebody who is on this machine, or is not.
    async fn answer(&self, request: &Request<Incoming>, is_here: bool) -> Response<Full<Bytes>> {
        if let Some(path) = request.uri().path().strip_prefix("/limits/") {
            return self.limits(request, path, is_here).await;
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let shared = self.shared();
        match request.uri().path() {
            "/" => page(StatusCode::OK, "text/plain", INDEX),
            "/metrics" => page(StatusCode::OK, METRICS_TYPE, self.exposition.text()),
            "/status.json" => {
                let status = Status::of(&self.threads, &self.connections);
                let json = serde_json::to_vec(&status).expect("a status is plain data");
                page(StatusCode::OK, "application/json", json)
            }
            "/healthz" => {
                let alive = shared.health.is_alive(shared.clock.now());
                page(up(alive), "application/json", state_json(shared))
            }
            "/readyz" => page(
                up(!shared.is_draining()),
                "application/json",
                state_json(shared),
            ),
            // The second is how it is called at the client listener, which not every process has.
            "/verdict" | "/.tidegate/verdict" => {
                verdict_answer(shared, request.uri().query()).map(Full::new)
            }
            _ => page(StatusCode::NOT_FOUND, "text/plain", INDEX),
        }
    }

    /// What is asked of rate limits. It is about people, and a key can be reset: for this machine alone.
    async fn limits(
        &self,
        request: &Request<Incoming>,
        path: &str,
        is_here: bool,
    ) -> Response<Full<Bytes>> {
        let shared = self.shared();
        let (status, said) = match stranger(request.headers(), is_here, "limits") {
            Some(refused) => refused,
            None => {
                let query = request.uri().query().unwrap_or_default();
                let now = tick(shared.clock.now());
                inspect::answer(&shared.rates, request.method(), path, query, now).await
            }
        };
        page(status, "application/json", said.to_string())
    }
}

/// What is asked of waiting rooms, and ordered: for this machine alone.
async fn room(rooms: &Rooms, request: Request<Incoming>, is_here: bool) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = async {
        // One that says so itself need not come first.
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            return None;
        }
        let whole = Limited::new(body, BODY_BYTES_MAX).collect();
        let whole = timeout(BODY_WITHIN, whole).await.ok()?.ok()?;
        Some(whole.to_bytes())
    };
    let (status, said) = match stranger(&parts.headers, is_here, "waiting rooms") {
        Some(refused) => refused,
        None => match body.await {
            Some(body) => rooms.answer(&parts.method, parts.uri.path(), &body).await,
            None => {
                let detail =
                    format!("a body has {BODY_BYTES_MAX} bytes at most, and comes in 5 seconds");
                inspect::problem(StatusCode::BAD_REQUEST, "no_body", &detail)
            }
        },
    };
    page(status, "application/json", said.to_string())
}

/// Why somebody with these headers is told nothing of `what`: who is not on this machine, or may be a page in a browser.
fn stranger(headers: &HeaderMap, is_here: bool, what: &str) -> Option<inspect::Reply> {
    if !is_here {
        let detail = format!("{what} are shown to this machine alone; ask from a shell on it");
        return Some(inspect::problem(StatusCode::FORBIDDEN, "not_here", &detail));
    }
    if is_from_page(headers) || host_address(headers).is_none() {
        let detail =
            "a page in a browser has no business here; write an address or localhost as the host";
        let refused = inspect::problem(StatusCode::FORBIDDEN, "not_for_browsers", detail);
        return Some(refused);
    }
    None
}

impl Visitors {
    /// Ends the connection that has been idle longest if there are as many as there may be, and
    /// says whether it did.
    fn make_room(&mut self) -> bool {
        if self.0.len() < CONNECTIONS_MAX {
            return false;
        }
        self.0.retain(|visitor| !visitor.task.is_finished());
        if self.0.len() < CONNECTIONS_MAX {
            return false;
        }
        let asked_at = |visitor: &Visitor| visitor.asked_at.load(Ordering::Relaxed);
        let idlest = (0..self.0.len()).min_by_key(|&at| asked_at(&self.0[at]));
        if let Some(at) = idlest {
            self.0.swap_remove(at).task.abort();
        }
        true
    }
}

/// Whether `peer` is on this machine, which it has reached at `here`.
fn is_here(peer: IpAddr, here: Option<IpAddr>) -> bool {
    peer.to_canonical().is_loopback() || Some(peer) == here
}

fn up(is_up: bool) -> StatusCode {
    if is_up {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

fn page(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
