//! What a gateway makes of what it knows of a room: the view for requests, the document for visitors, and what others are
//! told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::room::{Brake, Phase, Tier};
use tidegate_core::time::Mono;

use super::super::away::Gone;
use super::super::news;
use super::super::shown::Shown;
use super::super::word::Figures;
use super::Lead;
use crate::room::hall::{Hall, Line};

impl Lead {
    /// What was learnt here, and for the rest what was said last.
    fn learnt(&self, phase: Phase) -> Figures {
        Figures {
            policy: self.learner.policy(),
            // Where everybody passes nobody has to be called.
            paused_since_ms: (self.learner.watch().paused_since_ms())
                .filter(|_| phase != Phase::Off),
            longer: self.learner.watch().longer(),
            error: self.learner.error(),
            overshoot: 0.0,
            is_queueing: self.news.is_queueing,
            ..self.figures.clone()
        }
    }

    /// As the leader: what holds from now on, and the document for all.
    pub(super) fn lead_on(&mut self, hall: &Hall, now: Mono) -> Bytes {
        let there = hall.clerk.there(now);
        let (phase, _) = self.sight.phase(&hall.plan, there);
        self.tell_news(hall, now, phase);
        if let Some(term) = &self.term {
            self.figures = term.figures(self.learnt(phase));
            self.said = now;
        }
        let shown = self.shown(hall, now, &self.figures);
        shown.document(hall, &self.learner)
    }

    /// As one of the others: what the leader says, or what is known here where nobody leads. The document for all, if there is
    /// one.
    pub(super) fn follow(&mut self, now: Mono) -> Option<Bytes> {
        let told = self.told.as_ref().filter(|told| told.is_fresh(now));
        if let Some(told) = told {
            self.figures = told.word.figures.clone();
            self.said = told.said;
            let document = &told.word.document;
            return (!document.is_empty()).then(|| document.clone());
        }
        None
    }

    /// Makes the view, with the document that is for all, or one of its own.
    pub(super) fn show(&self, hall: &Hall, now: Mono, document: Option<Bytes>) {
        let view = match document {
            Some(document) => self.shown(hall, now, &self.figures).view(document),
            None => {
                let there = hall.clerk.there(now);
                let (phase, _) = self.sight.phase(&hall.plan, there);
                let figures = self.unled(hall, now, phase);
                let shown = self.shown(hall, now, &figures);
                shown.view(shown.document(hall, &self.learner))
            }
        };
        hall.show(view);
    }

    /// What holds where nobody says anything.
    fn unled(&self, hall: &Hall, now: Mono, phase: Phase) -> Figures {
        let (_, brake) = self.rate_and_brake(hall, now);
        Figures {
            brake,
            ..self.learnt(phase)
        }
    }

    fn shown<'a>(&'a self, hall: &'a Hall, now: Mono, figures: &'a Figures) -> Shown<'a> {
        let there = hall.clerk.there(now);
        let (phase, is_ordered) = self.sight.phase(&hall.plan, there);
        let (leader, fence) = self.leader();
        Shown {
            now,
            there,
            epoch: hall.clerk.epoch().0,
            phase,
            is_ordered,
            line: match self.sight.restores_ms() {
                Some(left_ms) => Line::Restoring { left_ms },
                None => Line::Stored,
            },
            is_open: false,
            positions: self.sight.positions().unwrap_or_default(),
            ready: self.sight.seen().map_or(0, |seen| seen.looked.census.ready),
            figures,
            rate: self.rate(hall, now),
            leader,
            fence,
            notes: hall.clerk.notes(),
        }
    }

    /// Who leads, as far as was heard last, and by which fence.
    fn leader(&self) -> (Option<Arc<str>>, u64) {
        match (&self.term, &self.told) {
            (Some(term), _) => (Some(self.node.id.as_str().into()), term.fence.0),
            (None, Some(told)) => (Some(Arc::clone(&told.word.by)), told.fence.0),
            (None, None) => (None, 0),
        }
    }

    /// Makes the view while the store is away.
    pub(super) fn show_away(&self, hall: &Hall, now: Mono, gone: Gone) {
        let there = hall.clerk.there(now);
        let epoch = hall.clerk.epoch().0;
        let (phase, _) = self.sight.phase(&hall.plan, there);
        let gateways = self.figures.gateways;
        let rate = f64::from(gateways) * self.away.rate(&hall.plan, gateways);
        let is_held = rate <= 0.0 || !phase.releases();
        let figures = Figures {
            brake: Brake::Lost,
            paused_since_ms: is_held.then_some(gone.since_ms),
            ..self.learnt(phase)
        };
        let before = self.sight.positions();
        let (positions, own) = match epoch {
            Some(epoch) => self.away.positions(
                hall,
                epoch,
                (now, there),
                before.as_deref(),
                figures.policy.beat,
            ),
            None => Default::default(),
        };
        let shown = Shown {
            line: Line::Away { since: gone.since },
            is_open: self.away.is_open(&hall.plan, now, phase),
            positions: Arc::new(positions),
            ready: own.ready,
            rate,
            ..self.shown(hall, now, &figures)
        };
        let document = shown.document(hall, &self.learner);
        hall.show(shown.view(document));
    }

    fn tell_news(&mut self, hall: &Hall, now: Mono, phase: Phase) {
        let Some(seen) = self.sight.seen() else {
            return;
        };
        let there = seen.looked.now;
        let now_ms = there.as_micros() / 1_000;
        let is_meant = phase.releases() && self.sight.restores_ms().is_none();
        let paused = (self.learner.watch().paused_since_ms()).filter(|_| is_meant);
        let newcomer = seen.epoch.place(there);
        let state = news::State {
            now,
            waiting: seen.positions.waiting(),
            stalled: paused.map(|since| Duration::from_millis(now_ms.saturating_sub(since))),
            newcomer: (self.learner.outlook()).wait(Tier::Anonymous, newcomer),
        };
        for event in self.news.of(&state) {
            hall.herald.tell(event);
        }
    }
}
