//! The session of a request, from cookie to cookie.

use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_core::session::Name;
use tidegate_gateway::plan::Plan;
use tidegate_gateway::session::{
    CookiePlan, Exposed, Keys, Need, OnUnstored, RouteSession, SessionPlan, Transport,
};

use crate::app::App;
use crate::client::{Answer, Client};
use crate::site::{Site, plan};
use crate::within;

fn sessions() -> SessionPlan {
    SessionPlan {
        cookies: CookiePlan::new("tg", Transport::Insecure, false),
        keys: Keys::draw(),
        tickets: true,
        affinity: None,
        tiers: vec![(name("gold"), Class::Critical)],
        rotate_every: None,
        on_unstored: OnUnstored::Drop,
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A plan whose application is told of the cart.
fn with_cart(app: &App, workers: u32) -> Plan {
    let mut plan = plan(app, workers);
    plan.apps[0].routes[0].session = RouteSession {
        need: Need::Optional,
        exposed: Exposed::new(&[name("cart")]).unwrap(),
    };
    plan
}

/// One request after the other, and what the application says to it.
struct Talk<'a> {
    app: &'a App,
    client: Client,
}

impl<'a> Talk<'a> {
    async fn begin(site: &Site, app: &'a App) -> Self {
        let client = site.client().await;
        Self { app, client }
    }

    /// What the application is told, and what the visitor gets when it says `says`.
    async fn turn(&mut self, cookie: &str, says: &str) -> (String, Answer) {
        self.client.get_with("/", &cookie_line(cookie)).await;
        let mut call = self.app.call().await;
        let head = call.head.clone();
        call.write(answer(says)).await;
        (head, self.client.read().await)
    }
}

fn cookie_line(cookie: &str) -> String {
    match cookie {
        "" => String::new(),
        cookie => format!("cookie: {cookie}\r\n"),
    }
}

/// An answer without a body, after which the application closes its connection.
fn answer(says: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{says}content-length: 0\r\n\r\n")
}

/// The cookies that an answer sets, as the browser sends them back.
fn cookies(answer: &Answer) -> String {
    let lines = answer.head.lines();
    let lines = lines.filter_map(|line| line.strip_prefix("set-cookie: "));
    let pairs: Vec<&str> = lines.map(|line| line.split(';').next().unwrap()).collect();
    pairs.join("; ")
}

fn token(cookies: &str) -> &str {
    let mut pairs = cookies.split("; ");
    pairs.find(|pair| pair.starts_with("tg=")).unwrap_or("")
}

#[tokio::test]
async fn an_old_id_leads_to_the_one_that_came_after_it_as_a_habit() {
    let app = App::open().await;
    let mut sessions = sessions();
    // So that every request is due.
    sessions.rotate_every = Some(Duration::from_nanos(1));
    let site = Site::start_with(with_cart(&app, 4), sessions);
    let mut talk = Talk::begin(&site, &app).await;
    let (_, begun) = talk.turn("", "tidegate-set: cart=c9\r\n").await;
    let old = cookies(&begun);

    let (_, rotated) = talk.turn(&old, "").await;
    let new = cookies(&rotated);

    assert_ne!(token(&new), token(&old));
    assert!(new.contains("tgt="), "{new}");
    // The answer with the new cookie was lost on its way, or another request was under way.
    let (told, again) = talk.turn(&old, "tidegate-set: cart=c10\r\n").await;
    assert!(told.contains("tidegate-session-state: ok\r\n"), "{told}");
    assert!(told.contains("tidegate-attr-cart: c9\r\n"), "{told}");
    assert_eq!(token(&cookies(&again)), token(&new));
    let (told, _) = talk.turn(token(&new), "").await;
    assert!(told.contains("tidegate-attr-cart: c10\r\n"), "{told}");
}

#[tokio::test]
async fn a_change_finds_a_session_that_got_its_new_id_meanwhile() {
    let app = App::open().await;
    let mut sessions = sessions();
    sessions.rotate_every = Some(Duration::from_nanos(1));
    let site = Site::start_with(with_cart(&app, 4), sessions);
    let mut talk = Talk::begin(&site, &app).await;
    let (_, begun) = talk.turn("", "tidegate-set: cart=c9\r\n").await;
    let old = cookies(&begun);

    let mut slow = site.client().await;
    slow.get_with("/", &cookie_line(&old)).await;
    let mut slow_call = app.call().await;
    let (_, rotated) = talk.turn(&old, "").await;
    slow_call.write(answer("tidegate-set: cart=slow\r\n")).await;
    slow.read().await;

    let (told, _) = talk.turn(token(&cookies(&rotated)), "").await;
    assert!(told.contains("tidegate-attr-cart: slow\r\n"), "{told}");
}

#[tokio::test]
async fn a_session_decides_who_goes_first() {
    let app = App::open().await;
    let site = Site::start_with(plan(&app, 1), sessions());
    let mut talk = Talk::begin(&site, &app).await;
    let mut sign_in = async |says: &str| cookies(&talk.turn("", says).await.1);
    let user = sign_in("tidegate-rotate: uid=7\r\n").await;
    let gold = sign_in("tidegate-rotate: uid=8;tier=gold\r\n").await;
    let anonymous = sign_in("tidegate-set: cart=c9\r\n").await;

    let mut inside = site.client().await;
    inside.get("/inside").await;
    let call = app.call().await;
    let mut waiting = Vec::new();
    for (queued, (path, cookie)) in [
        ("/nobody", ""),
        ("/anonymous", &anonymous),
        ("/user", &user),
        ("/gold", &gold),
        // Signed in once, says the ticket; but there is no session to it.
        (
            "/ticket",
            user.split("; ")
                .find(|pair| pair.starts_with("tgt="))
                .unwrap(),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = site.client().await;
        client.get_with(path, &cookie_line(cookie)).await;
        site.settles_at(1, queued as u32 + 1).await;
        waiting.push(client);
    }

    let mut order = Vec::new();
    let mut call = Some(call);
    while let Some(mut current) = call.take() {
        let path = current.head.split(' ').nth(1).unwrap().to_owned();
        current.write(answer("")).await;
        order.push(path);
        if order.len() <= waiting.len() {
            call = Some(app.call().await);
        }
    }
    assert_eq!(order[..3], ["/inside", "/gold", "/user"], "{order:?}");
    assert_eq!(
        order[3..],
        ["/nobody", "/anonymous", "/ticket"],
        "{order:?}"
    );
}

#[tokio::test]
async fn a_full_queue_looks_at_the_ticket_before_it_says_no() {
    let app = App::open().await;
    let mut full = plan(&app, 1);
    full.apps[0].admission.queue_max = 1;
    let site = Site::start_with(full, sessions());
    let mut talk = Talk::begin(&site, &app).await;
    let user = cookies(&talk.turn("", "tidegate-rotate: uid=7\r\n").await.1);

    let mut inside = site.client().await;
    inside.get("/inside").await;
    let mut call = app.call().await;
    let mut queued = site.client().await;
    queued.get("/queued").await;
    site.settles_at(1, 1).await;

    // The session's cookie earns nothing: the ticket does.
    let mut bare = site.client().await;
    bare.get_with("/", &cookie_line(token(&user))).await;
    assert_eq!(
        bare.read().await.header("tidegate-reason"),
        Some("queue_full")
    );
    let mut known = site.client().await;
    known.get_with("/known", &cookie_line(&user)).await;
    assert_eq!(
        queued.read().await.header("tidegate-reason"),
        Some("displaced")
    );
    call.write(answer("")).await;
    let mut call = app.call().await;
    assert!(call.head.starts_with("GET /known "), "{}", call.head);
    call.write(answer("")).await;
    assert_eq!(known.read().await.status(), 200);
}

#[tokio::test]
async fn whoever_is_not_served_has_not_been_asked_about() {
    let app = App::open().await;
    let mut full = plan(&app, 1);
    full.apps[0].admission.queue_max = 2;
    let site = Site::start_with(full, sessions());
    let mut talk = Talk::begin(&site, &app).await;
    let user = cookies(&talk.turn("", "tidegate-rotate: uid=7\r\n").await.1);
    let line = cookie_line(&user);
    let mut inside = site.client().await;
    inside.get("/inside").await;
    let mut call = app.call().await;
    let asked = site.asked();

    let (mut waits, mut leaves, mut late) = (
        site.client().await,
        site.client().await,
        site.client().await,
    );
    waits.get_with("/waits", &line).await;
    site.settles_at(1, 1).await;
    leaves.get_with("/leaves", &line).await;
    site.settles_at(1, 2).await;
    late.get_with("/late", &line).await;
    assert_eq!(
        late.read().await.header("tidegate-reason"),
        Some("queue_full")
    );
    drop(leaves);
    site.settles_at(1, 1).await;
    assert_eq!(site.asked(), asked);

    call.write(answer("")).await;
    let mut call = app.call().await;
    assert!(call.head.contains("tidegate-uid: 7\r\n"), "{}", call.head);
    call.write(answer("")).await;
    assert_eq!(waits.read().await.status(), 200);
    assert_eq!(site.asked(), asked + 1);
}

#[tokio::test]
async fn a_ticket_whose_session_is_over_is_no_way_past_others() {
    let app = App::open().await;
    let site = Site::start_with(plan(&app, 1), sessions());
    let mut talk = Talk::begin(&site, &app).await;
    let user = cookies(&talk.turn("", "tidegate-rotate: uid=7\r\n").await.1);
    talk.turn(&user, "tidegate-destroy: ?1\r\n").await;
    let asked = site.asked();

    let mut inside = site.client().await;
    inside.get("/inside").await;
    let mut call = app.call().await;
    let (mut nobody, mut signed_out) = (site.client().await, site.client().await);
    nobody.get("/nobody").await;
    site.settles_at(1, 1).await;
    let line = cookie_line(&user);
    signed_out.get_with("/signed-out", &line).await;
    site.settles_at(1, 2).await;

    for path in ["/nobody", "/signed-out"] {
        call.write(answer("")).await;
        call = app.call().await;
        let begins = format!("GET {path} ");
        assert!(call.head.starts_with(&begins), "{}", call.head);
    }
    call.write(answer("")).await;
    assert_eq!(nobody.read().await.status(), 200);
    assert_eq!(signed_out.read().await.status(), 200);
    // What has been ended here is known to be over.
    assert_eq!(site.asked(), asked);
}

#[tokio::test]
async fn commands_are_carried_out_though_the_client_leaves_inside_the_answer() {
    let app = App::open().await;
    let site = Site::start_with(with_cart(&app, 4), sessions());
    let mut talk = Talk::begin(&site, &app).await;
    let begun = cookies(&talk.turn("", "tidegate-set: cart=c9\r\n").await.1);

    let mut leaves = site.client().await;
    leaves.get_with("/", &cookie_line(&begun)).await;
    let mut call = app.call().await;
    drop(leaves);
    site.settles_at(1, 0).await;
    let head =
        "HTTP/1.1 200 OK\r\nconnection: close\r\ntidegate-set: cart=left\r\ncontent-length: 4";
    call.write(format!("{head}\r\n\r\nha")).await;
    call.write("lf").await;

    within(async {
        loop {
            let (told, _) = talk.turn(&begun, "").await;
            if told.contains("tidegate-attr-cart: left\r\n") {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn in_shadow_mode_a_route_that_needs_the_session_refuses_nobody() {
    let app = App::open().await;
    let mut shadow = plan(&app, 1);
    shadow.apps[0].mode = tidegate_gateway::plan::Mode::Shadow;
    shadow.apps[0].routes[0].session.need = Need::Required;
    let site = Site::start_with(shadow, sessions());
    let mut talk = Talk::begin(&site, &app).await;

    let (told, begun) = talk.turn("", "tidegate-rotate: uid=7\r\n").await;
    assert!(told.contains("tidegate-session-state: new\r\n"), "{told}");
    let (told, _) = talk.turn(&cookies(&begun), "").await;
    assert!(told.contains("tidegate-uid: 7\r\n"), "{told}");
}
