//! A desk whose way to the store breaks, beside one that still reaches it.

use tidegate_core::session::{Gone, MergePolicy, Op};
use tidegate_lab::patience::until_so;
use tidegate_lab::peers::{FaultProxy, RedisServer, Reply, Toward};

use super::*;
use crate::Reason;
use crate::desk::{AttributePlan, Attributes, Standing};

/// Long enough for a quick server on a busy machine, short enough to wait for.
const OPERATION: Duration = Duration::from_millis(150);

/// Two desks on one server: one behind a proxy, one beside it.
pub(super) struct Split {
    pub(super) here: Desk,
    pub(super) there: Desk,
    proxy: FaultProxy,
    server: RedisServer,
}

impl Split {
    fn start(plan: &DeskPlan) -> Self {
        let server = RedisServer::plain().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let desk = |address: std::net::SocketAddr| {
            let address = Address::parse(&address.to_string()).unwrap();
            let mut redis = RedisPlan::usual(Arrangement::Standalone(address));
            redis.operation_timeout = OPERATION;
            let background = Background::start().unwrap();
            let store = SessionStore::Redis(Redis::start(&redis, Use::Sessions, &background));
            Desk::on(plan.clone(), store, background).unwrap()
        };
        Self {
            here: desk(proxy.address()),
            there: desk(server.address()),
            proxy,
            server,
        }
    }

    /// Breaks the way from here to the store.
    pub(super) fn part(&self) {
        self.proxy.hang();
    }

    /// Mends it, and waits until the store knows what has happened here.
    pub(super) async fn meet(&self) {
        self.proxy.heal();
        self.wait_until_healed().await;
    }

    async fn wait_until_healed(&self) {
        until_so("the store knows what has happened here", || {
            let stats = self.here.stats();
            stats.away_sessions + stats.away_endings == 0
        })
        .await;
    }

    /// The store's clock, which says when a write there was made.
    fn store_time(&self) -> Wall {
        let time = self.server.ask(&["TIME"]).unwrap();
        let Reply::Array(parts) = &time else {
            panic!("{time:?}")
        };
        let [Reply::Text(seconds), Reply::Text(micros)] = &parts[..] else {
            panic!("{time:?}")
        };
        let (seconds, micros): (u64, u64) = (seconds.parse().unwrap(), micros.parse().unwrap());
        Wall::from_micros(seconds * 1_000_000 + micros)
    }

    /// Waits until a write on either side is later than all there were so far, on both sides. When
    /// one was made here is what this desk takes the store's clock for, and that may lag.
    async fn later(&self) {
        let so_far = self.store_time().max(self.here.now());
        until_so("both clocks are past it", || {
            so_far < self.store_time() && so_far < self.here.now()
        })
        .await;
    }

    async fn wait_until_ready(&self) {
        for desk in [&self.here, &self.there] {
            until("the store answers", async || {
                desk.sessions_of(&uid("nobody"), BUDGET).await.ok()
            })
            .await;
        }
    }
}

pub(super) fn impatient() -> DeskPlan {
    let named = |merge, carry| AttributePlan {
        merge,
        carry,
        ticket: true,
        ..AttributePlan::default()
    };
    let rows = [
        (name("cart"), named(MergePolicy::Union, true)),
        (name("role"), named(MergePolicy::StoreWins, false)),
    ];
    DeskPlan {
        operation: OPERATION,
        attributes: Attributes::new(rows.into(), AttributePlan::default()),
        ..plan()
    }
}

pub(super) fn split<F: Future<Output = ()>>(plan: &DeskPlan, test: impl Fn(Arc<Split>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let split = Arc::new(Split::start(plan));
    runtime.block_on(async {
        split.wait_until_ready().await;
        test(split.clone()).await;
    });
}

async fn shown(desk: &Desk, id: &SessionId) -> Seen {
    match desk.show(id, BUDGET).await {
        Visit::Open(seen) => seen,
        other => panic!("{other:?}"),
    }
}

/// What the store says of a session, once it is asked again.
pub(super) async fn live(desk: &Desk, id: &SessionId) -> Result<Seen, Gone> {
    until("the store is asked again", async || {
        match open(desk, id).await {
            Visit::Open(seen) if !seen.standing.is_degraded() => Some(Ok(seen)),
            Visit::Gone(gone) => Some(Err(gone)),
            _ => None,
        }
    })
    .await
}

fn counted(seen: &Seen, key: &str) -> Option<i64> {
    seen.session.counter(&name(key))
}

#[test]
fn every_write_made_on_either_side_is_there_by_the_merge_table() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let id = create(here, &[("role", "guest")]).await.id;
        patch(here, &id, set("cart", json("[1]"))).await;
        patch(here, &id, set("later-here", text("old"))).await;
        patch(here, &id, set("gone-here", text("old"))).await;
        see(here, &id).await;

        split.part();
        patch(here, &id, set("later-there", text("here"))).await;
        split.later().await;
        patch(there, &id, set("later-there", text("there"))).await;
        patch(there, &id, set("later-here", text("there"))).await;
        split.later().await;
        patch(here, &id, set("later-here", text("here"))).await;
        patch(here, &id, set("cart", json("[1,2]"))).await;
        split.later().await;
        patch(there, &id, set("cart", json("[1,3]"))).await;
        patch(there, &id, set("role", text("buyer"))).await;
        patch(here, &id, set("role", text("admin"))).await;
        for _ in 0..3 {
            patch(here, &id, add("hits", 1)).await;
            patch(there, &id, add("hits", 10)).await;
        }
        let delete = Op::Delete {
            name: name("gone-here"),
            expect: Expect::Any,
        };
        patch(here, &id, Patch::of(vec![delete])).await;
        let meanwhile = see(here, &id).await;
        assert_eq!(meanwhile.standing, Standing::Cached);
        assert_eq!(counted(&meanwhile, "hits"), Some(3));
        split.meet().await;

        for desk in [here, there] {
            let seen = live(desk, &id).await.unwrap();
            assert_eq!(seen.standing, Standing::Live);
            assert_eq!(value_of(&seen, "cart").as_deref(), Some("[1,2,3]"));
            assert_eq!(value_of(&seen, "role").as_deref(), Some("buyer"));
            assert_eq!(value_of(&seen, "later-there").as_deref(), Some("there"));
            assert_eq!(value_of(&seen, "later-here").as_deref(), Some("here"));
            assert_eq!(value_of(&seen, "gone-here"), None);
            assert_eq!(counted(&seen, "hits"), Some(33));
        }
        assert_eq!(here.stats().heal_gave_way, 2);
    });
}

#[test]
fn a_write_whose_reply_did_not_come_is_made_once() {
    split(&impatient(), async |split| {
        let here = &split.here;
        let id = create(here, &[]).await.id;

        split.proxy.hold(Toward::Client);
        let first = patch(here, &id, add("hits", 1)).await;
        let second = patch(here, &id, add("hits", 1)).await;
        split.proxy.release(Toward::Client);
        split.wait_until_healed().await;

        for patched in [first, second] {
            let DeskPatched::Applied { standing, .. } = patched else {
                panic!("{patched:?}");
            };
            assert_eq!(standing, Standing::Cached);
        }
        assert_eq!(counted(&shown(here, &id).await, "hits"), Some(2));
    });
}

#[test]
fn what_was_ended_on_either_side_does_not_come_back() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let ended_there = create(here, &[]).await.id;
        let ended_here = create(here, &[]).await.id;
        for id in [&ended_there, &ended_here] {
            see(here, id).await;
            see(there, id).await;
        }

        split.part();
        let reason = Reason::SignedOut;
        there.destroy(&ended_there, reason, BUDGET).await.unwrap();
        patch(here, &ended_there, set("cart", json("[1]"))).await;
        assert!(here.destroy(&ended_here, reason, BUDGET).await.unwrap());
        assert_eq!(live(here, &ended_here).await, Err(Gone::Destroyed));
        patch(there, &ended_here, set("cart", json("[1]"))).await;
        split.meet().await;

        for desk in [here, there] {
            for id in [&ended_there, &ended_here] {
                assert_eq!(live(desk, id).await, Err(Gone::Destroyed));
            }
        }
        assert_eq!(here.stats().heal_forgotten, 1);
    });
}

#[test]
fn a_session_that_began_here_is_everybody_s_after() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        split.part();
        let born = create(here, &[("cart", "a")]).await;
        assert_eq!(born.standing, Standing::Local);
        patch(here, &born.id, add("hits", 2)).await;
        patch(here, &born.id, set("note", text("n"))).await;
        patch(here, &born.id, set("note", text("m"))).await;

        split.meet().await;

        let seen = see(there, &born.id).await;
        assert_eq!(value_of(&seen, "cart").as_deref(), Some("a"));
        assert_eq!(value_of(&seen, "note").as_deref(), Some("m"));
        assert_eq!(counted(&seen, "hits"), Some(2));
        let (then, now) = (born.session.head.absolute, seen.session.head.absolute);
        assert!(then.since(now).max(now.since(then)) < Duration::from_secs(1));
        assert_eq!(here.stats().heal_gave_way, 0);
    });
}

#[test]
fn a_sign_in_meanwhile_is_a_fresh_session_and_ends_the_old_one() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let old = create(here, &[("admin", "planted")]).await.id;
        patch(here, &old, set("cart", json("[1]"))).await;
        see(here, &old).await;

        split.part();
        patch(there, &old, set("cart", json("[1,3]"))).await;
        patch(here, &old, set("cart", json("[1,2]"))).await;
        let signed_in = sign_in(here, Some(old), "ann").await;
        assert_eq!(signed_in.standing, Standing::Local);
        assert_eq!(value_of(&signed_in, "cart").as_deref(), Some("[1,2]"));
        assert_eq!(live(here, &old).await, Err(Gone::Replaced));
        patch(here, &signed_in.id, set("address", text("x"))).await;
        split.meet().await;

        let seen = see(there, &signed_in.id).await;
        assert_eq!(seen.session.uid(), Some(&uid("ann")));
        assert_eq!(value_of(&seen, "cart").as_deref(), Some("[1,3,2]"));
        assert_eq!(value_of(&seen, "address").as_deref(), Some("x"));
        assert_eq!(value_of(&seen, "admin"), None);
        assert!(matches!(
            live(there, &old).await,
            Err(Gone::Replaced | Gone::Destroyed)
        ));
        there.close(BUDGET).await;
        here.close(BUDGET).await;
        let listed = there.sessions_of(&uid("ann"), BUDGET).await.unwrap();
        assert_eq!(listed.len(), 1);
    });
}

#[test]
fn a_sign_out_everywhere_bites_here_at_once_and_there_after() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let ours = sign_in(here, None, "ann").await.id;
        let theirs = sign_in(there, None, "ann").await.id;
        let spared = sign_in(here, None, "ann").await.id;
        for id in [&ours, &spared] {
            see(here, id).await;
        }

        split.part();
        let ann = uid("ann");
        let out = here.sign_out_everywhere(&ann, Some(&spared), BUDGET);
        assert!(out.await.unwrap().pending);
        assert_eq!(live(here, &ours).await, Err(Gone::Destroyed));
        see(here, &spared).await;
        let again = sign_in(here, None, "ann").await.id;
        split.meet().await;
        here.close(BUDGET).await;

        until("their session is over", async || {
            matches!(open(there, &theirs).await, Visit::Gone(_)).then_some(())
        })
        .await;
        for desk in [here, there] {
            for id in [&ours, &theirs] {
                assert!(live(desk, id).await.is_err());
            }
            for id in [&spared, &again] {
                live(desk, id).await.unwrap();
            }
        }
    });
}

#[test]
fn a_sign_out_everywhere_there_ends_what_signed_in_here_if_nobody_knows_which_was_first() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        sign_in(here, None, "ann").await;

        split.part();
        let signed_in = sign_in(here, None, "ann").await.id;
        let ann = uid("ann");
        let out = there.sign_out_everywhere(&ann, None, BUDGET);
        out.await.unwrap();
        split.meet().await;

        for desk in [here, there] {
            assert!(live(desk, &signed_in).await.is_err());
        }
    });
}

#[test]
fn what_was_in_use_here_outlives_an_outage_longer_than_its_idle_time() {
    let idle = Duration::from_millis(1_500);
    let mut plan = impatient();
    plan.lives.anonymous.idle = idle;
    split(&plan, async |split| {
        let (here, there) = (&split.here, &split.there);
        let used = create(here, &[("cart", "a")]).await.id;
        let unused = create(here, &[("cart", "b")]).await.id;
        see(here, &used).await;

        split.part();
        let parted = split.store_time();
        until("both are over for the store", async || {
            see(here, &used).await;
            (split.store_time().since(parted) > idle).then_some(())
        })
        .await;
        split.proxy.heal();
        until("the one in use goes on there", async || {
            let seen = see(here, &used).await;
            (!seen.standing.is_degraded()).then_some(())
        })
        .await;

        let seen = see(there, &used).await;
        assert_eq!(value_of(&seen, "cart").as_deref(), Some("a"));
        assert_eq!(live(there, &unused).await, Err(Gone::Missing));
        assert_eq!(here.stats().heal_recreated, 1);
    });
}

#[test]
fn a_store_that_comes_back_empty_is_given_what_was_in_use_here() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let read = sign_in(here, None, "ann").await.id;
        let written = create(here, &[("cart", "b")]).await.id;
        for id in [&read, &written] {
            see(here, id).await;
        }

        split.part();
        see(here, &read).await;
        patch(here, &written, add("hits", 1)).await;
        split.server.ask(&["FLUSHALL"]).unwrap();
        split.meet().await;

        let seen = see(there, &read).await;
        assert_eq!(seen.session.uid(), Some(&uid("ann")));
        let seen = see(there, &written).await;
        assert_eq!(value_of(&seen, "cart").as_deref(), Some("b"));
        assert_eq!(counted(&seen, "hits"), Some(1));
        assert_eq!(here.stats().heal_recreated, 2);
    });
}

#[test]
fn when_the_log_is_full_the_oldest_of_nobody_go_first_and_are_counted() {
    let mut plan = impatient();
    plan.op_log_bytes = 20_000;
    split(&plan, async |split| {
        let here = &split.here;
        split.part();
        let user = sign_in(here, None, "ann").await.id;
        let mut born = Vec::new();
        for _ in 0..40 {
            born.push(create(here, &[("cart", "a")]).await.id);
        }

        let stats = here.stats();
        assert!(stats.op_log_dropped > 0, "{stats:?}");
        assert!(stats.op_log_bytes <= 20_000, "{stats:?}");
        see(here, &user).await;
        see(here, born.last().unwrap()).await;
        assert_eq!(open(here, &born[0]).await, Visit::Away);
        assert_eq!(stats.away_sessions + stats.op_log_dropped, 41);
        split.meet().await;
    });
}

#[test]
fn healing_keeps_to_its_pace() {
    const SESSIONS: usize = 300;
    split(&impatient(), async |split| {
        let (here, server) = (&split.here, &split.server);
        split.part();
        let mut ids = Vec::new();
        for _ in 0..SESSIONS {
            ids.push(create(here, &[("cart", "a")]).await.id);
        }
        let calls = || -> u64 {
            let calls = server.calls().unwrap();
            let scripts = calls.iter().filter(|(name, _)| name == "evalsha");
            scripts.map(|(_, calls)| calls).sum()
        };
        let before = calls();
        split.proxy.heal();
        // The last moment at which the store had not been told of any.
        let mut start = Instant::now();
        until_so("healing begins", || {
            let looked = Instant::now();
            let begins = here.stats().away_sessions < SESSIONS as u64;
            if !begins {
                start = looked;
            }
            begins
        })
        .await;
        split.wait_until_healed().await;

        let per_second = (calls() - before) as f64 / start.elapsed().as_secs_f64();
        assert!(per_second < 3_000.0, "{per_second}");
        for id in &ids {
            shown(&split.there, id).await;
        }
    });
}

#[test]
fn a_sign_in_meanwhile_takes_up_afterwards_what_its_user_left_behind() {
    let mut plan = impatient();
    plan.attributes = DeskPlan::default().attributes;
    split(&plan, async |split| {
        let (here, there) = (&split.here, &split.there);
        let before = sign_in(there, None, "ann").await.id;
        patch(there, &before, set("cart", json("[1]"))).await;
        there.close(BUDGET).await;

        split.part();
        let signed_in = sign_in(here, None, "ann").await.id;
        patch(here, &signed_in, set("cart", json("[2]"))).await;
        split.meet().await;

        until("both carts are one", async || {
            let cart = value_of(&live(there, &signed_in).await.unwrap(), "cart")?;
            ["[1,2]", "[2,1]"].contains(&&cart[..]).then_some(())
        })
        .await;
    });
}
