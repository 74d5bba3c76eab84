//! One room at one gateway, tick by tick.

mod tell;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::room::{self, Brake, Denied, part};
use tidegate_core::time::Mono;
use tidegate_store::rooms::{Notice, RoomError};
use tidegate_store::{Held, Node, STORE_GRAIN, Taken};
use tokio::time::timeout;

use super::away::{Away, Solo, admitted};
use super::learner::{Learner, Sighting};
use super::news::News;
use super::sight::Sight;
use super::state::StateFile;
use super::term::{Ended, LEASE, RENEW_EVERY, Scene, Term, resign};
use super::word::{Figures, Report, Told, Word};
use super::{CALL, CLOSE_WITHIN, Pulse, TICK};
use crate::heard::Heard;
use crate::room::Standing;
use crate::room::hall::Hall;
use crate::room::herald::RoomEvent;
use crate::session::keys::random;

/// How often the room is looked at.
const SECOND: Duration = Duration::from_secs(1);
/// What is due within half a tick is done now: ticks are not exact.
const SOON: Duration = Duration::from_millis(125);
/// What is seen in less than that says nothing of a second.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Nobody is called by what was seen longer ago.
const SEEN_WITHIN: Duration = Duration::from_secs(3);

/// What one gateway knows of one room, and does for it.
pub(super) struct Lead {
    node: Node,
    /// Whether it may lead.
    leads: bool,
    heard: Arc<Heard>,
    file: Option<StateFile>,
    sight: Sight,
    learner: Learner,
    away: Away,
    told: Option<Told>,
    /// What was said last, by whoever leads, and when.
    figures: Figures,
    said: Mono,
    term: Option<Term>,
    news: News,
    /// The store has forgotten what all were to know.
    has_lost_notes: bool,
    report: Report,
    due: Due,
}

/// What comes round, and when.
#[derive(Clone, Copy, Debug)]
struct Due {
    second: Mono,
    lease: Mono,
    /// When it was last counted who is inside.
    reported: Mono,
}

impl Lead {
    /// One that has seen nothing of the room yet. Reads what an earlier process has kept.
    pub(super) fn new(hall: &Hall, node: Node, leads: bool, heard: Arc<Heard>, now: Mono) -> Self {
        let plan = &hall.plan;
        let path = plan.state.clone();
        let mut file = path.map(|path| StateFile::new(path, plan.tokens.room.clone()));
        let kept = file.as_mut().and_then(StateFile::read);
        if let Some(kept) = &kept {
            hall.clerk.suppose(kept.epoch);
            let notes = kept.notes.iter();
            let notes = notes.map(|(name, note)| (name.clone(), note.clone().into_bytes()));
            hall.clerk.hear_notes(&notes.collect());
        }
        hall.clerk.seat(node.id.clone());
        let learner = Learner::new(plan.asks);
        let least = plan.bounds.rate_min.min(plan.bounds.rate_max);
        Self {
            node,
            leads,
            heard,
            file,
            sight: Sight::new(kept.as_ref()),
            figures: Figures {
                rate: least,
                ..Figures::unknown(plan.load_each, learner.policy())
            },
            learner,
            away: Away::new(now),
            told: None,
            said: now,
            term: None,
            news: News::default(),
            has_lost_notes: false,
            report: Report::new(u64::from_le_bytes(random()), 0, 0.0, 0),
            due: Due {
                second: now,
                lease: now,
                reported: now,
            },
        }
    }

    /// A tick: four in a second, and one more where somebody has rung.
    pub(super) async fn tick(&mut self, hall: &Hall, pulse: Pulse, is_rung: bool) {
        if self
            .term
            .as_ref()
            .is_some_and(|term| !term.lasts(pulse.now))
        {
            self.step_down(hall);
        }
        self.take_lead(hall, pulse).await;
        if is_rung || self.due.second <= pulse.now + SOON {
            self.due.second = pulse.now + SECOND;
            self.second(hall, pulse).await;
        }
        let was_away = self.away.gone().is_some();
        let rate = self.rate(hall, pulse.now);
        self.away.notice(hall, pulse.now, rate);
        match self.away.gone() {
            Some(gone) => {
                if !was_away {
                    self.learner.skip();
                    self.show_away(hall, pulse.now, gone);
                }
                self.go_on_alone(hall, pulse.now);
            }
            None => {
                if let (Some(epoch), true) = hall.clerk.epoch() {
                    self.away.come_back(hall, epoch, pulse.now).await;
                }
                self.call(hall, pulse).await;
            }
        }
        self.set_door(hall, pulse.now);
    }

    /// The end: what may outlive the process is written, and somebody else may lead at once.
    pub(super) async fn end(&mut self, hall: &Hall) {
        let kept = self.sight.kept(&hall.clerk.notes().raw);
        if let (Some(file), Some(kept)) = (&mut self.file, kept) {
            file.keep(&kept).await;
            file.close().await;
            // While another one was being written the last is still to be.
            file.keep(&kept).await;
            file.close().await;
        }
        if let Some(term) = self.term.take() {
            let resigned = resign(hall, term.fence, CLOSE_WITHIN / 4);
            // It is over by itself soon.
            let _ = timeout(CLOSE_WITHIN / 4, resigned).await;
        }
    }

    /// Whether it leads.
    #[cfg(test)]
    pub(super) fn is_leading(&self) -> bool {
        self.term.is_some()
    }

    /// Asks for the lease when it is time, or to keep it.
    async fn take_lead(&mut self, hall: &Hall, pulse: Pulse) {
        if !self.leads || self.due.lease > pulse.now + SOON {
            return;
        }
        // Before the store is asked: by its count the lease ends no earlier.
        let asked = pulse.now();
        let room = hall.clerk.room();
        let taken = async {
            let taken = room.lead(&self.node, LEASE, CALL).await;
            taken.map_err(RoomError::from)
        };
        match hall.clerk.ask(taken).await {
            Ok(Taken::Held(held)) => {
                hall.clerk.answered_at(asked);
                self.due.lease = asked + RENEW_EVERY;
                self.lead(hall, held, asked);
            }
            Ok(Taken::Others { left, .. }) => {
                hall.clerk.answered_at(asked);
                // When it is over somebody has to be there soon.
                self.due.lease = asked + RENEW_EVERY.min(left + STORE_GRAIN);
                if self.term.is_some() {
                    self.step_down(hall);
                }
            }
            Err(_) => self.due.lease = asked + TICK,
        }
    }

    fn lead(&mut self, hall: &Hall, held: Held, asked: Mono) {
        if let Some(term) = &mut self.term
            && term.fence == held.fence
        {
            term.renew(asked);
            return;
        }
        let before = Figures {
            rate: self.rate(hall, asked),
            ..self.figures.clone()
        };
        let there = hall.clerk.there(asked);
        let bounds = hall.plan.bounds;
        self.term = Some(Term::begin(held, (asked, there), bounds, &before));
        self.news.is_queueing = self.figures.is_queueing;
        // It calls nobody before it has seen how the line is.
        self.due.second = asked;
        hall.herald.tell(RoomEvent::Leads {
            fence: held.fence.0,
        });
    }

    fn step_down(&mut self, hall: &Hall) {
        self.term = None;
        hall.herald.tell(RoomEvent::Deposed);
    }

    /// Looks at the room, tells the others, hears them, and makes the view.
    async fn second(&mut self, hall: &Hall, pulse: Pulse) {
        let now = pulse.now();
        let is_seen = (self.sight)
            .look(hall, now, self.figures.policy.grace)
            .await;
        self.count_inside(hall, now);
        self.stand(hall);
        if let Some(file) = &mut self.file
            && let Some(kept) = self.sight.kept(&hall.clerk.notes().raw)
        {
            file.keep(&kept).await;
        }
        if !is_seen {
            if let Some(gone) = self.away.gone() {
                self.show_away(hall, now, gone);
            }
            return;
        }
        self.learn(hall, now);
        if self.term.is_some() {
            self.set_again(hall).await;
            let document = self.lead_on(hall, now);
            self.exchange(hall, now, Some(document.clone())).await;
            self.show(hall, now, Some(document));
        } else {
            self.exchange(hall, now, None).await;
            let document = self.follow(now);
            self.show(hall, now, document);
        }
        self.stand(hall);
    }

    /// Which passes are good.
    fn stand(&self, hall: &Hall) {
        let (epoch, is_told) = hall.clerk.epoch();
        // While nobody knows it those of any epoch are read.
        let epoch = epoch.filter(|_| is_told);
        let notes = hall.clerk.notes();
        let standing = hall.tokens.standing();
        if standing.epoch != epoch || standing.revoked != notes.revoked {
            hall.tokens.stand(Standing {
                keys: standing.keys.clone(),
                epoch,
                revoked: notes.revoked.clone(),
            });
        }
    }

    /// What this gateway says of those who are inside.
    fn count_inside(&mut self, hall: &Hall, now: Mono) {
        let span = now.since(self.due.reported);
        if span < REPORT_EVERY {
            return;
        }
        self.due.reported = now;
        let inside = hall.inside.take(now);
        let rps = inside.requests as f64 / span.as_secs_f64();
        let let_in = admitted(hall) + hall.clerk.with_own(|own| own.let_in());
        self.report = Report::new(self.report.life, inside.active, rps, let_in);
        hall.clerk.report(&self.report.encode());
    }

    fn learn(&mut self, hall: &Hall, now: Mono) {
        let rate = self.rate(hall, now);
        let Some(seen) = self.sight.seen() else {
            return;
        };
        let (phase, _) = self.sight.phase(&hall.plan, seen.looked.now);
        let told = self.told.as_ref().filter(|told| told.is_fresh(now));
        let swept = match (&self.term, told) {
            (Some(term), _) => Some((term.fence, term.slept)),
            (None, Some(told)) => Some((told.fence, told.word.figures.slept)),
            (None, None) => None,
        };
        self.learner.see(&Sighting {
            now,
            there: seen.looked.now,
            epoch: seen.epoch,
            census: &seen.looked.census,
            positions: &seen.positions,
            moves: phase.releases() && self.sight.restores_ms().is_none(),
            swept,
            rate,
            gateways: self.figures.gateways,
        });
        if let Some(term) = &mut self.term {
            term.count(now, &seen.looked.census);
        }
    }

    /// As the leader, sets what an operator had set and the store has forgotten.
    async fn set_again(&self, hall: &Hall) {
        let (Some(phase), Some(seen)) = (self.sight.forgotten(), self.sight.seen()) else {
            return;
        };
        let set = (hall.clerk.room()).set_phase(seen.epoch, Some(phase), CALL);
        // If that is not done now it is in a second.
        let _ = hall.clerk.ask(set).await;
    }

    /// Tells what this gateway says of itself, and as the leader its word with `document` in it; hears everybody.
    async fn exchange(&mut self, hall: &Hall, now: Mono, document: Option<Bytes>) {
        let Some(epoch) = self.sight.seen().map(|seen| seen.epoch) else {
            return;
        };
        let by = self.node.id.as_str();
        let word = (self.term.as_mut()).zip(document).map(|(term, document)| {
            term.words += 1;
            let word = Word {
                number: term.words,
                by: by.into(),
                figures: self.figures.clone(),
                document,
            };
            (term.fence, word.encode())
        });
        let report = self.report.encode();
        // What all were to know, and the store has forgotten.
        let known = hall.clerk.notes();
        let lost = known
            .raw
            .iter()
            .filter(|_| word.is_some() && self.has_lost_notes);
        let notes: Vec<(&str, Option<&[u8]>)> = lost
            .map(|(name, note)| (name.as_str(), Some(note.as_slice())))
            .collect();
        let notice = Notice {
            node: &self.node.id,
            report: &report,
            word: word.as_ref().map(|(fence, word)| (*fence, word.as_slice())),
            notes: &notes,
            wants_reports: word.is_some(),
        };
        let exchanged = hall.clerk.room().exchange(epoch, &notice, CALL);
        match hall.clerk.ask(exchanged).await {
            Ok(board) => {
                hall.clerk.answered_at(now);
                // With the line everything else was forgotten as well, until it is said again.
                let is_lost = self.sight.is_lost() && board.notes.is_empty();
                self.has_lost_notes = is_lost && !known.raw.is_empty();
                if !self.has_lost_notes {
                    hall.clerk.hear_notes(&board.notes);
                }
                if let Some(term) = self.term.as_mut().filter(|_| word.is_some()) {
                    term.crowd.hear(&board.reports);
                }
                if let Some(word) = board.word
                    && Told::hear(&mut self.told, now, board.now, word)
                {
                    self.take_seat(hall);
                }
            }
            Err(RoomError::Denied(Denied::Epoch(other))) => hall.clerk.learn(other),
            Err(RoomError::Denied(Denied::Deposed { .. })) => {
                hall.counts.deposed.add(1);
                if self.term.is_some() {
                    self.step_down(hall);
                }
            }
            Err(_) => hall.counts.unanswered.add(1),
        }
    }

    /// Which of all gateways it is, so that no two give the same place without the store.
    fn take_seat(&self, hall: &Hall) {
        let told = self.told.as_ref();
        let seat = told.and_then(|told| told.word.figures.seat(self.node.id.as_str()));
        if let Some((index, gateways)) = seat {
            hall.clerk.with_own(|own| own.reseat(index, gateways));
        }
    }

    /// Visitors per second at all gateways. What was said holds for a while.
    fn rate(&self, hall: &Hall, now: Mono) -> f64 {
        self.rate_and_brake(hall, now).0
    }

    /// The same, with what keeps it from being more.
    fn rate_and_brake(&self, hall: &Hall, now: Mono) -> (f64, Brake) {
        let Figures { rate, brake, .. } = self.figures;
        room::unled(rate, brake, now.since(self.said), &hall.plan.bounds)
    }

    /// As the leader, calls people and takes out who does not come.
    async fn call(&mut self, hall: &Hall, pulse: Pulse) {
        let (Some(term), Some(seen)) = (&mut self.term, self.sight.seen()) else {
            return;
        };
        if pulse.now.since(seen.at) >= SEEN_WITHIN || !term.lasts(pulse.now()) {
            return;
        }
        let there = hall.clerk.there(pulse.now);
        let grace = self.figures.policy.grace;
        let scene = Scene {
            epoch: seen.epoch,
            order: hall.plan.order,
            bounds: hall.plan.bounds,
            releases: self.sight.phase(&hall.plan, there).0.releases(),
            grace,
            aged: room::aged(seen.epoch.place(there), grace),
            enough: self.sight.enough(),
            fleet: self.heard.fleet(pulse.now),
        };
        match term.tick(hall, pulse, &scene).await {
            Ended::Well | Ended::Early => {}
            Ended::Deposed => self.step_down(hall),
            Ended::Epoch(other) => hall.clerk.learn(other),
        }
    }

    /// Moves the own line while the store is away.
    fn go_on_alone(&mut self, hall: &Hall, now: Mono) {
        let there = hall.clerk.there(now);
        let solo = Solo {
            now,
            there,
            phase: self.sight.phase(&hall.plan, there).0,
            gateways: self.figures.gateways,
            grace_ms: u64::try_from(self.figures.policy.grace.as_millis()).unwrap_or(u64::MAX),
        };
        if let (Some(epoch), _) = hall.clerk.epoch() {
            self.away.go_on(hall, epoch, &solo);
        }
    }

    /// How many may come in here.
    fn set_door(&self, hall: &Hall, now: Mono) {
        let gateways = self.figures.gateways;
        let part = if self.away.gone().is_some() {
            self.away.rate(&hall.plan, gateways)
        } else if self.sight.restores_ms().is_some() {
            // Nobody goes past those who are still to come back.
            0.0
        } else {
            part(self.rate(hall, now), gateways)
        };
        hall.door.set(now, part);
    }
}
