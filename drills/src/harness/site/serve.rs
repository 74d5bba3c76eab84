//! The application's HTTP side.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::keep::{Blobs, Change, Heap, Known};
use super::{Keeps, READY};

/// The cookie of an application that keeps its sessions by itself.
const OWN_COOKIE: &str = "SID";

struct Application {
    node: String,
    keeper: Keeper,
    /// Numbers the sessions of this process.
    next: AtomicU64,
    /// Requests in work now.
    inside: AtomicU64,
}

/// Counts a request as in work.
struct Inside<'a>(&'a AtomicU64);

impl<'a> Inside<'a> {
    fn enter(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Keeper {
    Tidegate,
    Heap(Heap),
    Blobs(Blobs),
}

/// Serves for ever on a free port, which is printed.
pub(crate) fn serve(node: &str, keeps: Keeps) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let keeper = match keeps {
            Keeps::InTidegate => Keeper::Tidegate,
            Keeps::InHeap => Keeper::Heap(Heap::default()),
            Keeps::AsBlob(store) => Keeper::Blobs(Blobs::new(store)?),
        };
        let application = Arc::new(Application {
            node: node.to_owned(),
            keeper,
            next: AtomicU64::new(1),
            inside: AtomicU64::new(0),
        });
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        println!("{READY}{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            // Without it answers are slower, nothing else.
            let _ = stream.set_nodelay(true);
            let application = Arc::clone(&application);
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let application = Arc::clone(&application);
                    async move { Ok::<_, Infallible>(application.respond(request).await) }
                });
                // A client that leaves is no event here.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

impl Application {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        if body.collect().await.is_err() {
            return status(StatusCode::BAD_REQUEST);
        }
        let query = pairs(parts.uri.query().unwrap_or_default());
        let number = |name: &str| query.get(name).and_then(|value| value.parse().ok());
        let _inside = Inside::enter(&self.inside);
        let answer = match &self.keeper {
            Keeper::Tidegate => Ok(self.in_tidegate(parts.uri.path(), &query, &parts.headers)),
            Keeper::Heap(heap) => Ok(self.in_heap(heap, parts.uri.path(), &query, &parts.headers)),
            Keeper::Blobs(blobs) => {
                self.as_blob(blobs, parts.uri.path(), &query, &parts.headers)
                    .await
            }
        };
        // Session libraries come before anything that an application does itself.
        if number("limit").is_some_and(|limit| self.inside.load(Ordering::Relaxed) > limit) {
            return status(StatusCode::SERVICE_UNAVAILABLE);
        }
        if let Some(millis) = number("ms") {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        answer.unwrap_or_else(|_| status(StatusCode::INTERNAL_SERVER_ERROR))
    }

    fn in_tidegate(
        &self,
        path: &str,
        query: &BTreeMap<String, String>,
        headers: &HeaderMap,
    ) -> Response<Full<Bytes>> {
        let text = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let mut known = Known {
            uid: text("tidegate-uid"),
            session: text("tidegate-session"),
            state: text("tidegate-session-state"),
            ..Known::default()
        };
        for (name, value) in headers {
            if let Some(name) = name.as_str().strip_prefix("tidegate-attr-") {
                let value = String::from_utf8_lossy(value.as_bytes());
                known.attributes.insert(name.to_owned(), value.into_owned());
            }
        }
        let change = change(path, query, &known);
        let mut response = self.page(known);
        if let Some((name, value)) = order(&change) {
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn in_heap(
        &self,
        heap: &Heap,
        path: &str,
        query: &BTreeMap<String, String>,
        headers: &HeaderMap,
    ) -> Response<Full<Bytes>> {
        let id = own_id(headers);
        let known = id.as_deref().and_then(|id| heap.load(id));
        let mut after = known.clone().unwrap_or_default();
        let change = change(path, query, &after);
        let mut response = self.page(after.clone());
        if change == Change::Nothing {
            return response;
        }
        let mut id = id.filter(|_| known.is_some());
        if let (Some(old), Change::SignIn(_) | Change::SignOut) = (&id, &change) {
            heap.remove(old);
            id = None;
        }
        if after.apply(&change) {
            let id = id.unwrap_or_else(|| self.new_id());
            heap.save(&id, &after);
            set_own_id(&mut response, &id);
        }
        response
    }

    async fn as_blob(
        &self,
        blobs: &Blobs,
        path: &str,
        query: &BTreeMap<String, String>,
        headers: &HeaderMap,
    ) -> redis::RedisResult<Response<Full<Bytes>>> {
        let id = own_id(headers);
        let known = match &id {
            Some(id) => blobs.load(id).await?,
            None => None,
        };
        let mut after = known.clone().unwrap_or_default();
        let change = change(path, query, &after);
        let mut response = self.page(after.clone());
        if change == Change::Nothing {
            return Ok(response);
        }
        let mut id = id.filter(|_| known.is_some());
        if let (Some(old), Change::SignIn(_) | Change::SignOut) = (&id, &change) {
            blobs.remove(old).await?;
            id = None;
        }
        if after.apply(&change) {
            let id = id.unwrap_or_else(|| self.new_id());
            blobs.save(&id, &after).await?;
            set_own_id(&mut response, &id);
        }
        Ok(response)
    }

    fn page(&self, mut known: Known) -> Response<Full<Bytes>> {
        known.node.clone_from(&self.node);
        let body = serde_json::to_vec(&known).expect("it serialises");
        Response::new(Full::new(body.into()))
    }

    /// Not for anybody to guess: this application is for drills, and its ids only have to differ.
    fn new_id(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{number}", self.node, std::process::id())
    }
}

fn change(path: &str, query: &BTreeMap<String, String>, known: &Known) -> Change {
    let value = |name: &str| query.get(name).cloned().unwrap_or_default();
    match path {
        "/sign-in" => Change::SignIn(value("uid")),
        "/sign-out" => Change::SignOut,
        "/sign-out-everywhere" => Change::SignOutEverywhere,
        "/count" => Change::Count("hits".to_owned()),
        "/put" => {
            let bytes = value("bytes").parse().unwrap_or(0);
            Change::Set(value("name"), "v".repeat(bytes))
        }
        "/add" => {
            let mut cart = known.cart();
            cart.extend(value("item").parse::<u32>());
            let cart = serde_json::to_string(&cart).expect("it serialises");
            Change::Set("cart".to_owned(), cart)
        }
        _ => Change::Nothing,
    }
}

/// The header field by which Tidegate is told of a change.
fn order(change: &Change) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = match change {
        Change::Nothing => return None,
        Change::SignIn(uid) => ("tidegate-rotate", format!("uid={uid}")),
        Change::SignOut => ("tidegate-destroy", "?1".to_owned()),
        Change::SignOutEverywhere => ("tidegate-signout-user", "all".to_owned()),
        Change::Set(name, value) => {
            // A list is one for whoever puts two histories of a session together, too.
            let kind = if value.starts_with('[') {
                "json"
            } else {
                "text"
            };
            ("tidegate-set", format!("{name}=\"{value}\";as={kind}"))
        }
        Change::Count(name) => ("tidegate-incr", format!("{name}=1")),
    };
    let value = HeaderValue::from_str(&value).ok()?;
    Some((HeaderName::from_static(name), value))
}

fn own_id(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split("; "))
        .filter_map(|cookie| cookie.split_once('='))
        .find(|(name, _)| *name == OWN_COOKIE)
        .map(|(_, id)| id.to_owned())
}

fn set_own_id(response: &mut Response<Full<Bytes>>, id: &str) {
    let cookie = format!("{OWN_COOKIE}={id}; Path=/; HttpOnly");
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
