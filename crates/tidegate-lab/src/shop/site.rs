//! The shop's HTTP side: which path is which work.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::body::SiteBody;
use super::slots::{Product, Slots, Work};

/// What hyper may buffer of one answer; small, so that a client that does not read is felt.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// The pause after an accept that failed, which is mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Serves everybody who connects, for ever.
pub(super) async fn serve(listener: TcpListener, slots: Arc<Slots>) {
    let answer = Bytes::from(vec![b'.'; slots.plan().answer_bytes]);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(converse(stream, Arc::clone(&slots), answer.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection, counted while it lasts.
struct Connected(Arc<Slots>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.disconnected();
    }
}

async fn converse(stream: TcpStream, slots: Arc<Slots>, answer: Bytes) {
    slots.connected();
    let connected = Connected(slots);
    // Without it a refusal to set the option costs some latency, nothing else.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let (slots, answer) = (Arc::clone(&connected.0), answer.clone());
        async move { Ok::<_, Infallible>(respond(&slots, request, answer).await) }
    });
    // A client that leaves or talks nonsense is no event here.
    let _ = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    slots: &Arc<Slots>,
    request: Request<Incoming>,
    answer: Bytes,
) -> Response<SiteBody> {
    let query = request.uri().query().unwrap_or("").to_owned();
    let work = match request.uri().path() {
        "/stats" => return json(&slots.stats()),
        "/control" => return control(slots, &query),
        "/times" => return text(times(slots, &query)),
        "/headers" => return text(header_lines(&request)),
        "/echo" => return Response::new(SiteBody::Echo(request.into_body())),
        "/hang" => Work::Hang(Duration::from_millis(
            number(&query, "ms").unwrap_or(30_000),
        )),
        "/burn" => Work::Burn(Duration::from_micros(number(&query, "us").unwrap_or(2_000))),
        "/page" => Work::Page(number(&query, "bytes").unwrap_or(262_144)),
        path if path.starts_with("/recommend") => Work::Recommend,
        path if path.starts_with("/product") => Work::Product,
        _ => Work::Serve,
    };

    let inside = slots.enter(request.uri().path());
    let mut body = request.into_body();
    // A worker reads the whole request before it works; what it reads is of no interest here.
    while let Some(frame) = body.frame().await {
        if frame.is_err() {
            return status(StatusCode::BAD_REQUEST);
        }
    }
    match (slots.take_on(work, inside).await, work) {
        (Ok(Product::Page(pieces)), Work::Page(bytes)) => Response::new(SiteBody::Page {
            pieces,
            left: bytes as u64,
        }),
        (Ok(_), _) => text(answer),
        // Only a shop that closes drops a job.
        (Err(_), _) => status(StatusCode::SERVICE_UNAVAILABLE),
    }
}

fn control(slots: &Arc<Slots>, query: &str) -> Response<SiteBody> {
    if let Some(count) = number(query, "slots") {
        slots.set_slots(count);
    }
    if let Some(factor) = number(query, "recommend_factor") {
        slots.set_recommend_factor(factor);
    }
    if let Some(address) = number(query, "recommendations") {
        slots.set_recommendations(address);
    }
    if let Some(millis) = number(query, "stall_ms") {
        slots.stall(Duration::from_millis(millis));
    }
    json(&slots.stats())
}

fn times(slots: &Slots, query: &str) -> String {
    let work = if query == "work=recommend" {
        Work::Recommend
    } else {
        Work::Serve
    };
    let mut lines = String::new();
    for time in slots.times(work) {
        // Writing to a String does not fail.
        let _ = writeln!(lines, "{}", time.as_micros());
    }
    lines
}

/// The value of `name=…` in `query`, if it is there and a number, or an address, of the wanted type.
fn number<N: std::str::FromStr>(query: &str, name: &str) -> Option<N> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.parse().ok())
}

fn header_lines(request: &Request<Incoming>) -> String {
    let mut lines = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        // Writing to a String does not fail.
        let _ = writeln!(
            lines,
            "{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        );
    }
    lines
}

fn text(body: impl Into<Bytes>) -> Response<SiteBody> {
    let mut response = Response::new(SiteBody::whole(body));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain"),
    );
    response
}

fn json(value: &impl serde::Serialize) -> Response<SiteBody> {
    let body = serde_json::to_vec(value).expect("counters serialise");
    let mut response = Response::new(SiteBody::whole(body));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

fn status(status: StatusCode) -> Response<SiteBody> {
    let mut response = Response::new(SiteBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}
