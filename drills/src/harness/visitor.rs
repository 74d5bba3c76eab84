//! A visitor of the application of the drills: fills a cart, signs in, and notices when either has
//! gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_core::rng::Rng;
use tidegate_lab::load::Request;
use tidegate_lab::load::raw::{Answer, Client};
use tokio::time::timeout;

use super::{Jar, Known};

/// Things a visitor puts into the cart before it only looks on.
const CART_MAX: u32 = 40;

/// One visitor, and what it has been told.
pub(crate) struct Visitor {
    /// Its name, which it signs in under.
    pub(crate) name: String,
    /// Its cookies.
    pub(crate) jar: Jar,
    /// One connection to every server it has been to.
    clients: BTreeMap<SocketAddr, Client>,
    rng: Rng,
    standing: Standing,
    /// What is certainly in the cart: the answer said so.
    cart: BTreeSet<u32>,
    next_item: u32,
    /// What the counter comes to by the counts acknowledged; `None` until it has been seen.
    hits: Option<u64>,
    /// Counts of which nobody knows.
    hits_unsure: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Stranger,
    SignedIn,
    /// The answer to a sign-in got lost: what the visitor has is whatever it is.
    Unsure,
}

/// What a visitor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Looks at a page.
    Look,
    /// Puts this into the cart.
    Add(u32),
    /// Adds to a counter.
    Count,
    /// Signs in.
    SignIn,
}

/// How one step went.
#[derive(Clone, Debug)]
pub(crate) struct Visited {
    /// From the first byte sent to the last one received.
    pub(crate) took: Duration,
    /// What came of it.
    pub(crate) outcome: Outcome,
    /// What had gone.
    pub(crate) losses: Vec<Loss>,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An answer of the application, and what it knows.
    Answered(Known),
    /// An answer that is none of the application's.
    Status(u16),
    /// None: the connection broke, or the visitor's patience did.
    Nothing,
}

/// What a visitor has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It was signed in and is not.
    Login,
    /// Something that it had put into the cart is not there.
    Cart,
    /// A counter is lower than it was counted up, or higher than it can be.
    Count,
}

impl Visited {
    /// Whether the application answered.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered(_))
    }
}

impl Visitor {
    /// A stranger who will be called `name`; `seed` decides what it does.
    pub(crate) fn new(name: impl Into<String>, seed: u64) -> Self {
        Self {
            name: name.into(),
            jar: Jar::default(),
            clients: BTreeMap::new(),
            rng: Rng::new(seed),
            standing: Standing::Stranger,
            cart: BTreeSet::new(),
            next_item: 1,
            hits: None,
            hits_unsure: 0,
        }
    }

    /// Whether it has been signed in.
    pub(crate) fn is_signed_in(&self) -> bool {
        self.standing == Standing::SignedIn
    }

    /// What it does next if nobody says otherwise: it fills its cart, signs in, and goes on with
    /// all of it, mostly looking.
    pub(crate) fn next_step(&mut self) -> Step {
        match self.standing {
            Standing::Unsure => Step::SignIn,
            Standing::Stranger if self.next_item < 3 => Step::Add(self.next_item),
            Standing::Stranger => Step::SignIn,
            Standing::SignedIn => match self.rng.next_u64() % 10 {
                0 if self.next_item < CART_MAX => Step::Add(self.next_item),
                1 => Step::Count,
                _ => Step::Look,
            },
        }
    }

    /// Does `step` at `target`, for which it has `patience`, and compares what the answer knows
    /// with what it has been told before.
    pub(crate) async fn visit(
        &mut self,
        target: SocketAddr,
        step: Step,
        patience: Duration,
    ) -> Visited {
        let request = match step {
            Step::Look => Request::get("/page"),
            Step::Add(item) => {
                self.next_item = self.next_item.max(item + 1);
                Request::post(&format!("/add?item={item}"), 0)
            }
            Step::Count => Request::post("/count", 0),
            Step::SignIn => Request::post(&format!("/sign-in?uid={}", self.name), 0),
        };
        let begun = Instant::now();
        let answer = timeout(patience, self.ask(target, request)).await;
        let took = begun.elapsed();
        let outcome = match answer {
            Ok(Ok(answer)) if answer.status == 200 => {
                match serde_json::from_slice::<Known>(&answer.body) {
                    Ok(known) => Outcome::Answered(known),
                    Err(_) => Outcome::Status(200),
                }
            }
            Ok(Ok(answer)) => Outcome::Status(answer.status.as_u16()),
            Ok(Err(_)) | Err(_) => {
                // What the server makes of the rest of a broken exchange is no answer.
                self.disconnect();
                Outcome::Nothing
            }
        };
        let losses = match &outcome {
            Outcome::Answered(known) => self.compare(known),
            Outcome::Status(_) | Outcome::Nothing => Vec::new(),
        };
        self.learn(step, &outcome, &losses);
        Visited {
            took,
            outcome,
            losses,
        }
    }

    /// Sends any request with its cookies, on its connection, and keeps the cookies that come back.
    pub(crate) async fn ask(
        &mut self,
        target: SocketAddr,
        mut request: Request,
    ) -> std::io::Result<Answer> {
        if let Some(field) = self.jar.field() {
            request.headers.push(("Cookie".to_owned(), field));
        }
        let mut client = match self.clients.remove(&target) {
            Some(client) if client.is_idle() => client,
            _ => Client::connect(target).await?,
        };
        let answer = client.ask(&request).await?;
        self.clients.insert(target, client);
        self.jar.learn(&answer.headers);
        Ok(answer)
    }

    /// The same, and what the application knew of it as the request came; an error if it did not
    /// answer.
    pub(crate) async fn known(
        &mut self,
        target: SocketAddr,
        request: Request,
    ) -> anyhow::Result<Known> {
        let path = request.path.clone();
        let answer = self.ask(target, request).await?;
        anyhow::ensure!(
            answer.status == 200,
            "http://{target}{path} answered {}",
            answer.status
        );
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Signs in at `target`.
    pub(crate) async fn sign_in(&mut self, target: SocketAddr) -> anyhow::Result<Known> {
        let path = format!("/sign-in?uid={}", self.name);
        self.known(target, Request::post(&path, 0)).await
    }

    /// Looks at a page at `target`.
    pub(crate) async fn look(&mut self, target: SocketAddr) -> anyhow::Result<Known> {
        self.known(target, Request::get("/page")).await
    }

    /// Leaves its connections, so that the next request comes over a new one.
    pub(crate) fn disconnect(&mut self) {
        self.clients.clear();
    }

    fn compare(&self, known: &Known) -> Vec<Loss> {
        let mut losses = Vec::new();
        if self.standing == Standing::Unsure {
            return losses;
        }
        let signed_in = known.uid.as_deref() == Some(&self.name);
        if self.standing == Standing::SignedIn && !signed_in {
            losses.push(Loss::Login);
        }
        if !self.cart.is_subset(&known.cart()) {
            losses.push(Loss::Cart);
        }
        let seen = known.hits();
        let may_be = |hits: u64| (hits..=hits + self.hits_unsure).contains(&seen);
        if self.hits.is_some_and(|hits| !may_be(hits)) {
            losses.push(Loss::Count);
        }
        losses
    }

    fn learn(&mut self, step: Step, outcome: &Outcome, losses: &[Loss]) {
        if !losses.is_empty() {
            // Counted once: from here on the visitor begins again.
            self.standing = Standing::Stranger;
            self.cart.clear();
            self.forget_hits();
        }
        let Outcome::Answered(known) = outcome else {
            match step {
                Step::Count => self.hits_unsure += 1,
                Step::SignIn if *outcome == Outcome::Nothing => self.standing = Standing::Unsure,
                Step::Look | Step::Add(_) | Step::SignIn => {}
            }
            return;
        };
        // The answer knows what was there before the step.
        if self.hits.is_none() {
            self.hits = Some(known.hits());
            self.hits_unsure = 0;
        }
        match step {
            Step::Look => {}
            Step::Add(item) => {
                self.cart.insert(item);
            }
            Step::Count => self.hits = self.hits.map(|hits| hits + 1),
            Step::SignIn => {
                self.standing = Standing::SignedIn;
                // Only the cart is certain to come along.
                self.forget_hits();
            }
        }
    }

    fn forget_hits(&mut self) {
        self.hits = None;
        self.hits_unsure = 0;
    }
}
