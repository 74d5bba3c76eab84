//! Somebody who comes to a site with a room as a browser does: keeps cookies, waits, claims, and is inside.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tidegate_core::rng::Rng;
use tidegate_core::room::{Place, Tier};
use tidegate_lab::load::Request;
use tidegate_lab::load::raw::Answer;
use tokio::time::{Instant, sleep};

use super::ROOM;
use super::document::Document;
use super::pool::Pool;
use crate::harness::Jar;

/// How long somebody waits after an answer that was none.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// For how long somebody asks for their own document who has to know, and how often.
const ASKS_FOR: Duration = Duration::from_secs(20);
const ASKS_EVERY: Duration = Duration::from_millis(200);
/// How often somebody whose gateway is gone is sent to another one.
const TRIES_MAX: usize = 3;
/// How much later than it has to a page looks again, by chance.
const JITTER: f64 = 0.3;

/// What a browser sends that goes to a page.
const NAVIGATES: [(&str, &str); 4] = [
    ("Accept", "text/html,*/*;q=0.8"),
    ("Accept-Encoding", "gzip"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "none"),
];
/// What the script of a page sends.
const FETCHES: [(&str, &str); 3] = [
    ("Accept", "application/json"),
    ("Sec-Fetch-Mode", "cors"),
    ("Sec-Fetch-Site", "same-origin"),
];

/// Gateways that people come to, as a balancer in front of them has it, and the document as a CDN has it.
#[derive(Default)]
pub(crate) struct Front {
    pools: RwLock<Vec<Arc<Pool>>>,
    document: Mutex<Arc<Document>>,
}

/// Somebody.
pub(crate) struct Guest {
    /// Their cookies.
    pub(crate) jar: Jar,
    number: usize,
    rng: Rng,
    place: Option<(Tier, Place)>,
}

/// What came of going to a page.
pub(crate) enum Page {
    /// The application answered.
    Shown,
    /// The room's page.
    Waits,
    /// Another answer.
    Refused {
        /// Its status.
        status: StatusCode,
        /// After how many seconds to come again.
        after_s: Option<u64>,
    },
    /// None.
    Nothing,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Somebody is inside.
    LetIn,
    /// Patience was over.
    GaveUp,
}

/// One's own document.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Own {
    /// Where one is on the way.
    pub(crate) state: String,
    /// One's place.
    pub(crate) place: Option<u64>,
    /// One's tier.
    pub(crate) tier: Option<u64>,
    /// How many are ahead, where that was looked up.
    pub(crate) ahead: Option<u64>,
    poll_s: Option<f64>,
    beat_s: Option<f64>,
}

impl Front {
    /// Before these gateways.
    pub(crate) fn of(pools: Vec<Arc<Pool>>) -> Arc<Self> {
        Arc::new(Self {
            pools: RwLock::new(pools),
            document: Mutex::default(),
        })
    }

    /// Sends people to these gateways from now on.
    pub(crate) fn set(&self, pools: Vec<Arc<Pool>>) {
        *self.pools.write().unwrap_or_else(PoisonError::into_inner) = pools;
    }

    /// Where somebody goes; after as many failures, somewhere else.
    pub(crate) fn pool(&self, number: usize) -> Arc<Pool> {
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&pools[number % pools.len()])
    }

    /// The document, as it was read last.
    pub(crate) fn document(&self) -> Arc<Document> {
        Arc::clone(&self.lock())
    }

    /// Reads the document once a second, as a cache in front does, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut number = 0;
        loop {
            match Document::read(&self.pool(number)).await {
                Ok(document) => *self.lock() = Arc::new(document),
                Err(_) => number += 1,
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Document>> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown => write!(f, "a page"),
            Self::Waits => write!(f, "the room's page"),
            Self::Refused { status, .. } => write!(f, "{status}"),
            Self::Nothing => write!(f, "nothing"),
        }
    }
}

impl Guest {
    /// Number `number`, who comes without any cookie.
    pub(crate) fn new(number: usize) -> Self {
        Self {
            jar: Jar::default(),
            number,
            rng: Rng::new(number as u64 + 1),
            place: None,
        }
    }

    /// A number from 0 up to 1.
    pub(crate) const fn chance(&mut self) -> f64 {
        self.rng.unit()
    }

    /// How many are ahead by the document; `None` for who has no place.
    pub(crate) fn ahead(&self, document: &Document) -> Option<u64> {
        self.place.map(|place| document.ahead(place))
    }

    /// Comes to another gateway from now on.
    pub(crate) const fn turn(&mut self) {
        self.number += 1;
    }

    /// Goes to a page.
    pub(crate) async fn go(&mut self, front: &Front, path: &str) -> Page {
        self.send(front, Request::get(path)).await
    }

    /// Sends any request as a page does that was navigated to. A gateway that is gone is none: the balancer has another one.
    pub(crate) async fn send(&mut self, front: &Front, request: Request) -> Page {
        let Ok(answer) = self.ask(front, request, &NAVIGATES).await else {
            return Page::Nothing;
        };
        let header = |name: &str| {
            answer
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let is_page = header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        if answer.status == 200 {
            Page::Shown
        } else if answer.status == 503 && (is_page || header("tidegate-reason") == Some("room")) {
            Page::Waits
        } else {
            Page::Refused {
                status: answer.status,
                after_s: header("retry-after").and_then(|after| after.parse().ok()),
            }
        }
    }

    /// One's own document.
    pub(crate) async fn me(&mut self, front: &Front) -> anyhow::Result<Own> {
        let request = Request::get(&format!("/.tidegate/v1/me/{ROOM}?vis=1"));
        let answer = self.ask(front, request, &FETCHES).await?;
        self.own(&answer)
    }

    /// The same as soon as it is answered: who asks too often is told to wait for a moment, and does.
    pub(crate) async fn me_at_last(&mut self, front: &Front) -> anyhow::Result<Own> {
        let until = Instant::now() + ASKS_FOR;
        loop {
            match self.me(front).await {
                Err(_) if Instant::now() < until => sleep(ASKS_EVERY).await,
                answered => return answered,
            }
        }
    }

    /// A `POST` of the page: join, claim, leave.
    pub(crate) async fn post(&mut self, front: &Front, verb: &str) -> anyhow::Result<Own> {
        let request = Request::post(&format!("/.tidegate/v1/{verb}/{ROOM}"), 0);
        let answer = self.ask(front, request, &FETCHES).await?;
        self.own(&answer)
    }

    /// Waits as the page does until it is inside, or `patience` is over.
    pub(crate) async fn wait(&mut self, front: &Front, patience: Duration) -> Waited {
        let until = Instant::now() + patience;
        let mut beat_due = Instant::now();
        while Instant::now() < until {
            let document = front.document();
            let ahead = self.ahead(&document);
            let is_near = ahead.is_none_or(|ahead| document.is_near(ahead));
            let mut pause = document.interval(ahead.unwrap_or(0));
            if is_near || beat_due <= Instant::now() {
                match self.look(front).await {
                    Ok(me) if me.state == "passed" => return Waited::LetIn,
                    Ok(me) => {
                        let beat = me
                            .beat_s
                            .map_or_else(|| document.beat(), Duration::from_secs_f64);
                        beat_due = Instant::now() + beat;
                        if let Some(poll_s) = me.poll_s {
                            pause = Duration::from_secs_f64(poll_s.clamp(0.1, 300.0));
                        }
                    }
                    Err(_) => pause = AFTER_FAILURE,
                }
            }
            let later = 1.0 + JITTER * self.chance();
            sleep(pause.mul_f64(later).min(until - Instant::now())).await;
        }
        Waited::GaveUp
    }

    /// Looks at one's own document, and does what follows from it.
    async fn look(&mut self, front: &Front) -> anyhow::Result<Own> {
        let me = self.me(front).await?;
        match me.state.as_str() {
            "ready" => self.post(front, "claim").await,
            "nobody" | "ghost" => self.post(front, "join").await,
            _ => Ok(me),
        }
    }

    fn own(&mut self, answer: &Answer) -> anyhow::Result<Own> {
        anyhow::ensure!(answer.status == 200, "answered {}", answer.status);
        let me: Own = serde_json::from_slice(&answer.body)?;
        let tier = me.tier.and_then(Tier::of_number);
        self.place = tier.zip(me.place.map(Place));
        Ok(me)
    }

    async fn ask(
        &mut self,
        front: &Front,
        mut request: Request,
        headers: &[(&str, &str)],
    ) -> io::Result<Answer> {
        let fields = headers.iter();
        let fields = fields.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        request.headers.extend(fields);
        if let Some(cookies) = self.jar.field() {
            request.headers.push(("Cookie".to_owned(), cookies));
        }
        let mut tried = 0;
        loop {
            match front.pool(self.number + tried).ask(&request).await {
                Ok(answer) => {
                    self.jar.learn(&answer.headers);
                    return Ok(answer);
                }
                Err(error) if tried + 1 == TRIES_MAX => return Err(error),
                Err(_) => tried += 1,
            }
        }
    }
}
