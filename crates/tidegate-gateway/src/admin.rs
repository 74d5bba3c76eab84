//! The operator's listener, on a thread of its own so that it answers when the others are busy.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::connections::Connections;
use crate::context::Thread;
use crate::metrics::{CONTENT_TYPE as METRICS_TYPE, Exposition};
use crate::own::state_json;
use crate::status::Status;
use crate::threads::{Stage, runtime, stopped};

/// Connections at once; more are closed at once.
const CONNECTIONS_MAX: usize = 64;

/// Longest time for a head, idle time before it included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest life of a connection, so that no peer can hold one for ever.
const LIFETIME_MAX: Duration = Duration::from_secs(3600);

/// Pause after the system could not give us a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const INDEX: &str = "Tidegate\n\n/metrics\n/status.json\n/healthz\n/readyz\n";

/// What the admin listener shows.
pub(crate) struct Admin {
    pub(crate) threads: Vec<Arc<Thread>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) exposition: Exposition,
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
        let main = async move {
            tokio::spawn(Arc::new(self).accept(listener));
            stopped(stage).await;
        };
        let run = move || runtime.block_on(main);
        thread::Builder::new()
            .name("tidegate-admin".to_owned())
            .spawn(run)
    }

    async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "the admin listener cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                continue;
            };
            let admin = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let response = admin.answer(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                // How an operator's connection ends is of no interest.
                drop(timeout(LIFETIME_MAX, connection).await);
                drop(slot);
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let shared = &self.threads.first().expect("a gateway has a thread").shared;
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
            _ => page(StatusCode::NOT_FOUND, "text/plain", INDEX),
        }
    }
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
