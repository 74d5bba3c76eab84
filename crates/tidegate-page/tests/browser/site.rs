//! A site with a room in front: a real server on this machine that answers as a gateway does.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, COOKIE, RETRY_AFTER, SET_COOKIE,
};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use axum::routing::{get, post};
use tidegate_core::room::{Epoch, Order, Phase, Place, Positions, RoomName, Stage, Tier};
use tidegate_page::document::{Event, Me, Missed, Poll, Reason, Room, VERSION, tiers};
use tidegate_page::{Pages, Theme, Variation};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::browser::PATIENCE;

/// The cookie with a place.
const PLACE_COOKIE: &str = "__Host-tgq-shop";
/// The store's clock when the server starts: not what any clock of this machine says.
pub(crate) const START_MS: u64 = 1_790_000_000_000;
pub(crate) const EPOCH: Epoch = Epoch(START_MS - 600_000);

/// A site that runs. Dropping it ends it.
pub(crate) struct Site {
    shared: Arc<Shared>,
    port: u16,
    /// Kept for its threads.
    _runtime: Runtime,
}

struct Shared {
    world: Mutex<World>,
    changed: Condvar,
    pages: Pages,
}

/// What there is, for the tests to change.
pub(crate) struct World {
    started: Instant,
    pub(crate) phase: Phase,
    pub(crate) positions: Positions,
    pub(crate) eta: Vec<[u64; 4]>,
    pub(crate) paused_since_ms: Option<u64>,
    pub(crate) reason: Option<Reason>,
    pub(crate) message: Option<BTreeMap<tidegate_page::Language, String>>,
    pub(crate) stock: Option<u64>,
    pub(crate) event: Option<Event>,
    pub(crate) poll: Poll,
    /// Where newcomers come.
    pub(crate) newcomer: (Tier, Place),
    pub(crate) people: Vec<Person>,
    pub(crate) heard: Vec<Heard>,
    /// Bodies of the forms that reached the application.
    pub(crate) orders: Vec<String>,
    /// Whether the documents are answered.
    pub(crate) is_up: bool,
    /// Whether whoever wants in is told to wait a moment at the door.
    pub(crate) claims_are_late: bool,
    /// Whether the cookie with a place gets lost.
    pub(crate) loses_cookies: bool,
    /// How many are ahead, where it was looked up.
    pub(crate) ahead: Option<u64>,
}

/// Somebody with a place.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) stage: Stage,
    pub(crate) tier: Tier,
    pub(crate) place: Place,
    pub(crate) until: Option<Instant>,
    pub(crate) extensions_left: u8,
    pub(crate) missed: bool,
}

/// A request for a document.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) at: Instant,
    /// `room`, `me`, or the verb of a `POST`.
    pub(crate) what: String,
    pub(crate) is_visible: bool,
}

impl Site {
    pub(crate) fn start() -> Self {
        Self::themed(&Theme {
            name: "Harbour Records".to_owned(),
            ..Theme::default()
        })
    }

    pub(crate) fn themed(theme: &Theme) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shared = Arc::new(Shared {
            world: Mutex::new(World::new()),
            changed: Condvar::new(),
            pages: Pages::new(&RoomName::new("shop").unwrap(), theme).unwrap(),
        });
        let router = Router::new()
            .route("/.tidegate/v1/room/shop.json", get(room))
            .route("/.tidegate/v1/me/shop", get(me))
            .route("/.tidegate/v1/nojs/shop", get(still))
            .route("/.tidegate/v1/{verb}/shop", post(act))
            .route("/.tidegate/w/shop/page.html", get(hosted))
            .route("/elsewhere", get(elsewhere))
            .fallback(any)
            .with_state(shared.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            shared,
            port,
            _runtime: runtime,
        }
    }

    /// A name, as a browser lets secure cookies be set for `localhost` without TLS.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap()
    }

    /// Waits until `is_so`; what the server hears wakes it.
    pub(crate) fn until(
        &self,
        what: &str,
        mut is_so: impl FnMut(&World) -> bool,
    ) -> MutexGuard<'_, World> {
        let (world, timeout) = self
            .shared
            .changed
            .wait_timeout_while(self.world(), PATIENCE, |world| !is_so(world))
            .unwrap();
        assert!(!timeout.timed_out(), "{what} did not happen");
        world
    }

    /// Forgets what was heard, and waits for `count` more of `what`.
    pub(crate) fn hears(&self, what: &str, count: usize) {
        self.world().heard.clear();
        drop(self.until(what, |world| world.count(what) >= count));
    }
}

impl World {
    fn new() -> Self {
        let evenly = |count: u64, step: u64| -> Vec<Place> {
            (0..count)
                .step_by(step as usize)
                .map(|at| Place(at * 1_000))
                .collect()
        };
        let mut positions = Positions {
            order: Order::Strict,
            ..Positions::default()
        };
        positions.tiers[2].waiting = 10_000;
        positions.tiers[2].step = 100;
        positions.tiers[2].places = evenly(10_000, 100);
        Self {
            started: Instant::now(),
            phase: Phase::Auto,
            positions,
            eta: vec![
                [0, 0, 0, 0],
                [1_000, 144, 168, 192],
                [10_000, 1_440, 1_680, 1_920],
            ],
            paused_since_ms: None,
            reason: None,
            message: None,
            stock: None,
            event: None,
            poll: Poll {
                least_s: 0.3,
                most_s: 0.3,
                part: 20.0,
                floor_s: 0.1,
                jitter: 0.0,
                spread_s: 0.0,
                beat_s: 600.0,
                near: 50,
            },
            newcomer: (Tier::Anonymous, Place(5_000_000)),
            people: Vec::new(),
            heard: Vec::new(),
            orders: Vec::new(),
            is_up: true,
            claims_are_late: false,
            loses_cookies: false,
            ahead: None,
        }
    }

    /// As it was at first, but for the time.
    pub(crate) fn anew(&self) -> Self {
        Self {
            started: self.started,
            ..Self::new()
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        START_MS + u64::try_from(self.started.elapsed().as_millis()).unwrap()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.heard.iter().filter(|heard| heard.what == what).count()
    }

    /// Calls everybody, for so long.
    pub(crate) fn call(&mut self, keep: Duration) {
        for person in &mut self.people {
            person.stage = Stage::Ready;
            person.until = Some(Instant::now() + keep);
        }
    }

    fn room(&self) -> Room {
        let (credit_ms, tiers) = tiers(&self.positions);
        Room {
            v: VERSION,
            room: "shop".to_owned(),
            server_now_ms: self.now_ms(),
            phase: self.phase,
            epoch: EPOCH,
            credit_ms,
            tiers,
            called_per_min: 60.0,
            eta: self.eta.clone(),
            paused_since_ms: self.paused_since_ms,
            reason: self.reason,
            message: self.message.clone(),
            stock: self.stock,
            event: self.event.clone(),
            min_iat_ms: None,
            poll: self.poll,
        }
    }

    fn me(&mut self, who: Option<usize>) -> Me {
        let now = Instant::now();
        let person = who.map(|who| &mut self.people[who]);
        if let Some(person) = person {
            if person.stage == Stage::Provisional {
                person.stage = Stage::Waiting;
            }
            if person.stage == Stage::Ready && person.until.is_some_and(|until| until < now) {
                person.stage = Stage::Waiting;
                person.missed = true;
            }
        }
        let person = who.map(|who| &self.people[who]);
        let ready = person.filter(|person| person.stage == Stage::Ready);
        let left = ready
            .and_then(|person| person.until)
            .map(|until| until - now);
        Me {
            v: VERSION,
            server_now_ms: self.now_ms(),
            state: person.map_or(Stage::Nobody, |person| person.stage),
            epoch: EPOCH,
            place: person.map(|person| person.place),
            tier: person.map(|person| person.tier),
            ahead: self.ahead,
            left_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap()),
            extensions_left: person.map_or(0, |person| person.extensions_left),
            poll_s: None,
            beat_s: None,
            reason: person
                .filter(|person| person.missed)
                .map(|_| Missed::Missed),
        }
    }

    fn join(&mut self) -> usize {
        let (tier, place) = self.newcomer;
        self.people.push(Person {
            stage: Stage::Provisional,
            tier,
            place,
            until: None,
            extensions_left: 2,
            missed: false,
        });
        self.people.len() - 1
    }
}

impl Shared {
    fn hear(&self, what: &str, is_visible: bool) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap();
        world.heard.push(Heard {
            at: Instant::now(),
            what: what.to_owned(),
            is_visible,
        });
        self.changed.notify_all();
        world
    }

    fn page(
        &self,
        headers: &HeaderMap,
        status: StatusCode,
        variation: Variation,
    ) -> Response<Body> {
        let accept = headers
            .get(ACCEPT_LANGUAGE)
            .and_then(|value| value.to_str().ok());
        let page = self.pages.of(self.pages.language(accept), variation);
        let zips = headers
            .get(ACCEPT_ENCODING)
            .is_some_and(|value| value.to_str().unwrap().contains("gzip"));
        let answer = Response::builder()
            .status(status)
            .header(CONTENT_TYPE, "text/html; charset=utf-8")
            .header(CONTENT_SECURITY_POLICY, self.pages.policy())
            .header(CACHE_CONTROL, "private, no-store");
        if zips {
            let answer = answer.header(CONTENT_ENCODING, "gzip");
            answer.body(Body::from(page.gzip.clone())).unwrap()
        } else {
            answer.body(Body::from(page.plain.clone())).unwrap()
        }
    }
}

/// Who has a place, by the cookie.
fn who(world: &World, headers: &HeaderMap) -> Option<usize> {
    let cookies = headers.get(COOKIE)?.to_str().ok()?;
    let mut pairs = cookies.split("; ").filter_map(|pair| pair.split_once('='));
    let number: usize = pairs
        .find(|(name, _)| *name == PLACE_COOKIE)?
        .1
        .parse()
        .ok()?;
    (number < world.people.len()).then_some(number)
}

fn cookie(number: usize) -> String {
    format!("{PLACE_COOKIE}={number}; Secure; HttpOnly; SameSite=Lax; Path=/; Max-Age=86400")
}

fn json(document: &impl serde::Serialize, cache: &str) -> Response<Body> {
    Response::builder()
        .header(CONTENT_TYPE, "application/json")
        .header(CACHE_CONTROL, cache)
        .body(Body::from(serde_json::to_vec(document).unwrap()))
        .unwrap()
}

fn refused(status: StatusCode) -> Response<Body> {
    let answer = Response::builder().status(status).header(RETRY_AFTER, "1");
    answer.body(Body::empty()).unwrap()
}

async fn room(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let world = shared.hear("room", true);
    if world.is_up {
        json(&world.room(), "no-cache")
    } else {
        refused(StatusCode::SERVICE_UNAVAILABLE)
    }
}

async fn me(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response<Body> {
    let mut world = shared.hear("me", query["vis"] == "1");
    if !world.is_up {
        return refused(StatusCode::SERVICE_UNAVAILABLE);
    }
    let who = who(&world, &headers);
    json(&world.me(who), "no-store")
}

async fn act(
    State(shared): State<Arc<Shared>>,
    Path(verb): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    let mut world = shared.hear(&verb, true);
    let known = who(&world, &headers);
    let lapsed = known.is_some_and(|who| world.people[who].stage == Stage::Ghost);
    if verb == "join" && (known.is_none() || lapsed) {
        let number = world.join();
        let mut answer = json(&world.me(Some(number)), "no-store");
        if !world.loses_cookies {
            let cookie = cookie(number).parse().unwrap();
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        return answer;
    }
    let Some(known) = known else {
        return refused(StatusCode::CONFLICT);
    };
    let late = world.claims_are_late;
    let person = &mut world.people[known];
    match verb.as_str() {
        "claim" if late => return refused(StatusCode::TOO_MANY_REQUESTS),
        "claim" if person.stage == Stage::Ready => person.stage = Stage::Passed,
        "claim" if person.stage != Stage::Passed => return refused(StatusCode::CONFLICT),
        "more-time" if person.extensions_left > 0 => {
            person.extensions_left -= 1;
            person.until = person.until.map(|until| until + Duration::from_secs(120));
        }
        "leave" => person.stage = Stage::Ghost,
        _ => {}
    }
    json(&world.me(Some(known)), "no-store")
}

async fn still(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response<Body> {
    shared.page(&headers, StatusCode::OK, Variation::Still)
}

async fn hosted(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response<Body> {
    let mut answer = shared.page(&headers, StatusCode::OK, Variation::Hosted);
    let cache = "public, max-age=31536000, immutable".parse().unwrap();
    answer.headers_mut().insert(CACHE_CONTROL, cache);
    answer
}

/// A page that nobody waits for.
async fn elsewhere() -> Response<Body> {
    let page = "<!doctype html><title>Elsewhere</title><form method=post action=/order>\
                <input name=what value=7><button>Order</button></form>";
    let answer = Response::builder().header(CONTENT_TYPE, "text/html");
    answer.body(Body::from(page)).unwrap()
}

async fn any(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    if uri.path() == "/favicon.ico" {
        return refused(StatusCode::NOT_FOUND);
    }
    let mut world = shared.hear("page", true);
    let known = who(&world, &headers);
    let is_in = world.phase == Phase::Off
        || known.is_some_and(|who| world.people[who].stage == Stage::Passed);
    if is_in {
        if method == Method::POST {
            world.orders.push(String::from_utf8(body.to_vec()).unwrap());
        }
        let page = format!(
            "<!doctype html><title>The shop</title><h1 id=shop>{}</h1>",
            uri.path()
        );
        let answer = Response::builder().header(CONTENT_TYPE, "text/html");
        return answer.body(Body::from(page)).unwrap();
    }
    let posted = method == Method::POST;
    let variation = if posted {
        Variation::Unsent
    } else {
        Variation::Waiting
    };
    let mut answer = shared.page(&headers, StatusCode::SERVICE_UNAVAILABLE, variation);
    if known.is_none() {
        let number = world.join();
        answer
            .headers_mut()
            .insert(SET_COOKIE, cookie(number).parse().unwrap());
    }
    answer
}
