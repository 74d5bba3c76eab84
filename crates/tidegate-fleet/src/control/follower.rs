//! A node's side: what holds for it now, whoever is silent.

use std::time::Duration;

use tidegate_core::health::{Headroom, Local, Settings, VERDICT_LEASE, Verdict, prevailing};
use tidegate_core::time::{Mono, Wall};
use tidegate_store::{Fence, Mine};

use super::verdict::{Drained, Told, Word};

/// What holds for this node: the leader's verdict while it is valid, then the node's own, then healthy.
#[derive(Clone, Debug)]
pub struct Follower {
    settings: Settings,
    local: Local,
    own: Option<Verdict>,
    control: Option<Control>,
    drain: Option<(Drained, Option<Mono>)>,
}

/// The last that was heard of a leader.
#[derive(Clone, Debug)]
struct Control {
    fence: Fence,
    generation: u64,
    until: Mono,
    told: Option<Told>,
    word: Option<Word>,
}

/// Who says what holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The leader.
    Control,
    /// The node itself.
    Local,
    /// Nobody: silence means healthy.
    Nobody,
}

impl Source {
    /// The name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Local => "local",
            Self::Nobody => "nobody",
        }
    }
}

/// What holds for a node at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// What balancers are to be told. When it is drained, nothing new beside that.
    pub verdict: Verdict,
    /// Who says so.
    pub source: Source,
    /// What the node holds itself for, while that is valid: it holds from the moment on when the verdict is over.
    pub own: Option<Verdict>,
    /// An operator's order to drain the node, which is carried out.
    pub drain: Option<Drained>,
    /// What the leader says of the fleet, while that is valid.
    pub word: Option<Word>,
    /// Until when that is.
    pub word_until: Mono,
}

impl Standing {
    /// When nobody has said anything.
    pub const SILENCE: Self = Self {
        verdict: Verdict::UNKNOWN,
        source: Source::Nobody,
        own: None,
        drain: None,
        word: None,
        word_until: Mono::from_nanos(0),
    };
}

impl Follower {
    /// Of a node that has heard nothing yet.
    pub const fn new(settings: Settings, local: Local) -> Self {
        Self {
            settings,
            local,
            own: None,
            control: None,
            drain: None,
        }
    }

    /// Takes in what the node itself has left, once a tick, whether or not anybody leads.
    pub fn observe(&mut self, now: Mono, headroom: &Headroom) {
        self.own = Some(self.local.observe(&self.settings, now, headroom));
    }

    /// What the node holds itself for.
    pub const fn own(&self) -> Option<&Verdict> {
        self.own.as_ref()
    }

    /// Takes in what the store said at `now`, which was `store_now` there.
    ///
    /// What was heard before is no news and lasts no longer for being repeated: a store that goes on answering
    /// does not keep a dead leader's word alive, whatever its clock does. A lower fence is a former leader's, and counts
    /// only after the later one has fallen silent: a store that lost everything gives lower ones.
    pub fn hear(&mut self, now: Mono, store_now: Wall, mine: &Mine) {
        let stamp = &mine.stamp;
        if let Some(control) = &self.control {
            let heard = (control.fence, control.generation);
            let is_news = (stamp.fence, stamp.generation) > heard;
            let is_former = (stamp.fence, stamp.generation) < heard;
            let is_over = control.until <= now;
            if !(is_news || is_former && is_over) {
                return;
            }
        }
        let whole = stamp.until.since(stamp.at).min(VERDICT_LEASE);
        let left = stamp.until.since(store_now).min(whole);
        let told = mine.verdict.as_deref().and_then(Told::decode);
        if left > Duration::ZERO {
            self.take_drain(now, told.as_ref());
        }
        self.control = Some(Control {
            fence: stamp.fence,
            generation: stamp.generation,
            until: now + left,
            told,
            word: Word::decode(&mine.fleet),
        });
    }

    /// An order is an operator's word and no evidence: it does not end because the leader falls silent, but when it
    /// is over or taken back.
    fn take_drain(&mut self, now: Mono, told: Option<&Told>) {
        let Some(told) = told else {
            return;
        };
        let drain = told.drain.as_ref().filter(|drain| drain.is_done);
        self.drain = drain.map(|drain| {
            let left = drain.left_ms.map(Duration::from_millis);
            (drain.clone(), left.map(|left| now + left))
        });
    }

    /// What holds at `now`.
    pub fn standing(&self, now: Mono) -> Standing {
        let valid = (self.control.as_ref()).filter(|control| now < control.until);
        let told = valid.and_then(|control| Some((control.told.as_ref()?, control.until)));
        let control = told.map(|(told, until)| told.verdict(until));
        let own = self.own.as_ref().and_then(|own| own.at(now));
        let source = match (&control, own) {
            (Some(_), _) => Source::Control,
            (None, Some(_)) => Source::Local,
            (None, None) => Source::Nobody,
        };
        let drain = self.drain.as_ref();
        let drain = drain.filter(|(_, until)| until.is_none_or(|until| now < until));
        Standing {
            verdict: prevailing(control.as_ref(), own, now),
            source,
            own: own.copied(),
            drain: drain.map(|(drain, _)| drain.clone()),
            word: valid.and_then(|control| control.word.clone()),
            word_until: valid.map_or_else(Mono::default, |control| control.until),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::{Dimension, Readings, Scales, Signal, State};
    use tidegate_store::Stamp;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn wall(ms: u64) -> Wall {
        Wall::from_micros(1_790_000_000_000_000 + ms * 1_000)
    }

    fn said(fence: u64, generation: u64, told: &Told, at: Wall) -> Mine {
        Mine {
            stamp: Stamp {
                fence: Fence(fence),
                generation,
                at,
                until: Wall::from_micros(at.as_micros() + 3_000_000),
            },
            fleet: Word::default().encode(),
            verdict: Some(told.encode()),
        }
    }

    fn full(now: Mono) -> Headroom {
        let signal = Signal::read(Dimension::Threads, 200.0, 200.0, now);
        Readings::of(&Scales::default(), &[signal], now).headroom(now)
    }

    fn follower() -> Follower {
        Follower::new(Settings::default(), Local::default())
    }

    #[test]
    fn silence_goes_from_the_leader_to_the_node_to_healthy() {
        let mut node = follower();
        for second in 1..=5 {
            node.observe(at(second * 1_000), &full(at(second * 1_000)));
        }
        let saturated = Told::of(State::Saturated, 0);
        node.hear(at(5_000), wall(500), &said(7, 1, &saturated, wall(0)));

        let told = node.standing(at(5_001));
        assert_eq!(
            (told.verdict.state, told.source),
            (State::Saturated, Source::Control)
        );
        assert!(told.word.is_some());
        let behind = told.own.unwrap();
        assert_eq!((behind.state, behind.weight), (State::Stressed, 70));
        assert!(behind.valid_until > told.verdict.valid_until);
        // Half a second of the three had passed when it was heard.
        assert_eq!(node.standing(at(7_499)).source, Source::Control);
        let own = node.standing(at(7_500));
        assert_eq!(
            (own.verdict.state, own.source),
            (State::Stressed, Source::Local)
        );
        assert_eq!(own.verdict, behind);
        let silent = node.standing(at(8_000));
        assert_eq!(
            (silent.verdict.state, silent.source),
            (State::Unknown, Source::Nobody)
        );
        assert_eq!(silent.verdict.weight, 100);
        assert_eq!(silent, Standing::SILENCE);
    }

    #[test]
    fn a_dead_leaders_word_does_not_last_though_the_store_repeats_it() {
        for jump_ms in [0_i64, 3_600_000, -3_600_000] {
            let mut node = follower();
            let saturated = said(7, 1, &Told::of(State::Saturated, 0), wall(0));
            for tick in 0..20_u64 {
                // The store's clock is moved after the first reading.
                let moved = if tick == 0 { 0 } else { jump_ms };
                let store = wall(0).as_micros() as i64 + tick as i64 * 1_000_000 + moved * 1_000;
                node.hear(
                    at(tick * 1_000),
                    Wall::from_micros(store as u64),
                    &saturated,
                );
                let state = node.standing(at(tick * 1_000)).verdict.state;
                let lasts = tick < 3;
                assert_eq!(
                    state == State::Saturated,
                    lasts,
                    "{jump_ms} ms, tick {tick}"
                );
            }
        }
    }

    #[test]
    fn a_stores_clock_that_jumps_costs_a_moment() {
        let mut node = follower();
        let healthy = Told::of(State::Healthy, 90);
        node.hear(at(0), wall(0), &said(7, 1, &healthy, wall(0)));

        // Published before the jump, read after it.
        let later = Wall::from_micros(wall(1_000).as_micros() + HOUR.as_micros() as u64);
        node.hear(at(1_000), later, &said(7, 2, &healthy, wall(1_000)));
        assert_eq!(node.standing(at(1_000)).source, Source::Nobody);
        let next = Wall::from_micros(later.as_micros() + 1_000_000);
        node.hear(at(2_000), next, &said(7, 3, &healthy, next));
        assert_eq!(node.standing(at(2_000)).verdict.weight, 90);

        // And back: no verdict lasts longer than it would have.
        node.hear(at(3_000), wall(0), &said(7, 4, &healthy, next));
        assert_eq!(node.standing(at(5_999)).source, Source::Control);
        assert_eq!(node.standing(at(6_000)).source, Source::Nobody);
    }

    #[test]
    fn a_former_leader_counts_only_when_the_later_one_is_silent() {
        let mut node = follower();
        let (new, old) = (Told::of(State::Healthy, 80), Told::of(State::Saturated, 0));
        node.hear(at(0), wall(0), &said(9, 1, &new, wall(0)));

        node.hear(at(1_000), wall(1_000), &said(8, 50, &old, wall(1_000)));
        assert_eq!(node.standing(at(1_000)).verdict.weight, 80);

        // The store lost everything, and its clock is an hour behind.
        let restarted = Told::of(State::Healthy, 60);
        node.hear(at(3_000), wall(10), &said(2, 1, &restarted, wall(0)));
        assert_eq!(node.standing(at(3_000)).verdict.weight, 60);
    }

    #[test]
    fn an_order_outlasts_the_leader_but_not_its_time() {
        let mut node = follower();
        let mut told = Told::of(State::Healthy, 100);
        let drain = Drained {
            by: "kim".to_owned(),
            why: None,
            since_ms: None,
            left_ms: Some(10_000),
            is_done: true,
        };
        told.drain = Some(drain.clone());
        node.hear(at(0), wall(0), &said(1, 1, &told, wall(0)));

        assert_eq!(node.standing(at(9_999)).drain, Some(drain.clone()));
        assert_eq!(node.standing(at(9_999)).source, Source::Nobody);
        assert_eq!(node.standing(at(10_000)).drain, None);

        told.drain = Some(Drained {
            left_ms: None,
            ..drain.clone()
        });
        node.hear(at(20_000), wall(0), &said(1, 2, &told, wall(0)));
        assert!(node.standing(at(9_000_000)).drain.is_some());
        // Said again by a leader that does not know the node: nothing is known, and nothing taken back.
        let mut silent = said(1, 3, &told, wall(0));
        silent.verdict = None;
        node.hear(at(21_000), wall(0), &silent);
        assert!(node.standing(at(21_000)).drain.is_some());
        told.drain = None;
        node.hear(at(22_000), wall(0), &said(1, 4, &told, wall(0)));
        assert_eq!(node.standing(at(22_000)).drain, None);
    }
}
