//! Doing what an application wants to have done to a session.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::session::{
    Attribute, Expect, Fields, Gone, Name, Op, SessionId, Value, Version,
};
use tidegate_store::Reason;
use tidegate_store::desk::{
    Desk, DeskError, DeskPatched, Patch, Seen, SignIn, Standing, Ticket, Visit,
};

use crate::session::commands::{Change, Commands, Rotate, SignOut};
use crate::session::cookie::Cookies;
use crate::session::guest::{Known, Led, State};
use crate::session::keys::Purpose;
use crate::session::orders::{Settled, Since};
use crate::session::outcome::{CookieSet, Done, Dropped, dropped};
use crate::session::ticket::{Issued, is_stale};
use crate::session::token::Token;

/// Longest time that a change of a session takes, waiting for replicas included.
const CHANGE_BUDGET: Duration = Duration::from_millis(80);

/// Longest time that a sign-in or a sign-out takes, waiting for replicas included.
const SIGN_BUDGET: Duration = Duration::from_millis(200);

/// How often an id is drawn. That even one is taken is a sign of a broken source of randomness.
const DRAWS_MAX: u32 = 3;

/// A session while its application's wishes are carried out.
pub(super) struct Work {
    known: Arc<Known>,
    desk: Desk,
    /// The session now; `None` when there is none.
    current: Option<Current>,
    /// The token of the session that somebody signed in with before this request was there.
    replaced: Option<Token>,
    /// Whether something was written that other gateways do not see yet.
    wrote_here: bool,
    /// What has changed of what the ticket says.
    ticket_changes: Vec<Name>,
    unstored: bool,
}

struct Current {
    token: Token,
    /// What is known of it; `None` when the store is away and nothing here knows it.
    seen: Option<Seen>,
    /// Whether the browser has to learn its token.
    fresh: bool,
}

impl Work {
    pub(super) fn new(known: Arc<Known>) -> Self {
        let current = |token: &Token, seen| Current {
            token: *token,
            seen,
            fresh: known.moved,
        };
        let current = match &known.state {
            State::Open { token, seen } => Some(current(token, Some(seen.clone()))),
            State::Away { token } => Some(current(token, None)),
            State::Replaced { .. } | State::Dead => None,
        };
        let replaced = match &known.state {
            State::Replaced { token } => Some(*token),
            State::Open { .. } | State::Away { .. } | State::Dead => None,
        };
        Self {
            desk: known.desk().clone(),
            known,
            current,
            replaced,
            wrote_here: false,
            ticket_changes: Vec::new(),
            unstored: false,
        }
    }

    /// Whether the session is to get another id, since it has had this one for long.
    pub(super) fn is_rotation_due(&self) -> bool {
        let plan = self.known.plan();
        let (Some(every), Some(issued)) = (plan.rotate_every, &self.known.issued) else {
            return false;
        };
        let current = self.current.as_ref().filter(|current| !current.fresh);
        let seen = current.and_then(|current| current.seen.as_ref());
        seen.is_some_and(|seen| {
            seen.standing == Standing::Live && seen.now.since(issued.born) >= every
        })
    }

    /// Does what is commanded: endings first, so that what follows begins anew; then the sign-in;
    /// then the changes, which are the new session's.
    pub(super) async fn carry_out(mut self, commands: Commands) -> Settled {
        match &commands.sign_out {
            Some(SignOut::All) => self.sign_out_all().await,
            Some(SignOut::User(uid)) => {
                let out = self.desk.sign_out_everywhere(uid, None, SIGN_BUDGET).await;
                self.count(Done::SignedOut, out.err());
                if self.seen().and_then(|seen| seen.session.uid()) == Some(uid) {
                    self.end();
                }
            }
            Some(SignOut::Others) | None => {}
        }
        if commands.destroy {
            self.destroy().await;
        }
        if let Some(rotate) = &commands.rotate {
            self.sign_in(rotate).await;
        }
        if !commands.changes.is_empty() {
            self.change(&commands.changes).await;
        }
        if commands.sign_out == Some(SignOut::Others) {
            self.sign_out_others().await;
        }
        if self.is_rotation_due() {
            self.rotate().await;
        }
        self.settle(commands.malformed)
    }

    /// What it comes to, with so many lines that made no sense.
    pub(super) fn settle(mut self, malformed: u64) -> Settled {
        for _ in 0..malformed {
            self.drop_for(Dropped::Malformed);
        }
        Settled {
            cookies: self.cookies(),
            unstored: self.unstored,
            since: self.since(),
        }
    }

    /// What the browser's session is from this answer on.
    fn since(&self) -> Since {
        match &self.current {
            Some(current) if current.fresh => Since::Is(current.token.id()),
            Some(_) => Since::Same,
            None if matches!(self.known.state, State::Replaced { .. }) => Since::Same,
            None if self.known.has_cookie => Since::Gone,
            None => Since::Same,
        }
    }

    async fn sign_out_all(&mut self) {
        let Some(uid) = self.seen().and_then(|seen| seen.session.uid()).cloned() else {
            return self.drop_for(Dropped::Anonymous);
        };
        let out = self.desk.sign_out_everywhere(&uid, None, SIGN_BUDGET).await;
        self.count(Done::SignedOut, out.err());
        self.end();
    }

    async fn sign_out_others(&mut self) {
        let seen = self.seen();
        let Some((uid, id)) = seen.and_then(|seen| Some((seen.session.uid()?.clone(), seen.id)))
        else {
            return self.drop_for(Dropped::Anonymous);
        };
        let out = self.desk.sign_out_everywhere(&uid, Some(&id), SIGN_BUDGET);
        let out = out.await;
        self.count(Done::SignedOut, out.err());
    }

    async fn destroy(&mut self) {
        // A sign-in after this begins anew, whatever came before.
        self.replaced = None;
        let Some(current) = &self.current else {
            return;
        };
        let uid = current.seen.as_ref().and_then(|seen| seen.session.uid());
        let reason = match uid {
            Some(_) => Reason::SignedOut,
            None => Reason::Destroyed,
        };
        let id = current.token.id();
        let destroyed = self.desk.destroy(&id, reason, SIGN_BUDGET).await;
        self.count(Done::Destroyed, destroyed.err());
        self.end();
    }

    async fn sign_in(&mut self, rotate: &Rotate) {
        // Of two clicks the second comes with an id that is dead by then. The desk knows what that
        // is still worth to the same user.
        let current = self.current.as_ref().map(|current| current.token);
        let old = current.or(self.replaced);
        let mut result = Err(DeskError::Taken);
        for _ in 0..DRAWS_MAX {
            let token = old.map_or_else(Token::draw, |old| Token::draw_on(old.tag()));
            let sign_in = SignIn {
                old: old.map(|old| old.id()),
                new: token.id(),
                uid: rotate.uid.clone(),
                tier: rotate.tier.clone(),
            };
            let ticket = self.ticket_of(sign_in.old);
            let signed_in = self.desk.sign_in_with(sign_in, ticket, SIGN_BUDGET).await;
            match signed_in {
                Err(DeskError::Taken) => {}
                Ok(seen) => {
                    result = Ok(());
                    self.begin(token, Some(seen));
                    break;
                }
                Err(error) => {
                    // The session is there all the same, and its user has only this chance to
                    // learn of it.
                    if matches!(error, DeskError::NotReplicated { .. }) {
                        self.begin(token, None);
                    }
                    result = Err(error);
                    break;
                }
            }
        }
        self.count(Done::SignedIn, result.err());
    }

    async fn change(&mut self, changes: &[Change]) {
        if matches!(self.known.state, State::Replaced { .. }) && self.current.is_none() {
            // A session of its own would put its cookie over the one that the sign-in has set.
            return self.drop_for(Dropped::Replaced);
        }
        let Some(ops) = self.ops(changes) else {
            return self.drop_for(Dropped::Conflict);
        };
        let Some((id, token)) = self.current.as_ref().map(|now| (now.token.id(), now.token)) else {
            return self.create(ops).await;
        };
        match self.patch(&id, ops.clone()).await {
            Ok(DeskPatched::Gone(Gone::Rotated { successor })) => {
                // It got its new id while the application was at work.
                let kept = self.known.plan().keys.open(Purpose::Successor, &successor);
                let next = kept.and_then(|kept| Token::of_kept(&kept)).unwrap_or(token);
                let patched = self.patch(&next.id(), ops.clone()).await;
                self.patched(patched, &ops);
            }
            // Nothing here knows the session, and what the visitor does now has to be kept
            // somewhere.
            Err(DeskError::Away) if self.seen().is_none() => self.create(ops).await,
            patched => self.patched(patched, &ops),
        }
    }

    async fn patch(&self, id: &SessionId, ops: Vec<Op>) -> Result<DeskPatched, DeskError> {
        let patch = Patch::of(ops);
        let ticket = self.ticket_of(Some(*id));
        self.desk.patch(id, ticket, patch, CHANGE_BUDGET).await
    }

    /// The visitor's ticket, if it is that of `id`.
    fn ticket_of(&self, id: Option<SessionId>) -> Option<&Ticket> {
        let issued = self.known.issued.as_ref();
        let ticket = issued.map(|issued| &issued.ticket);
        ticket.filter(|ticket| Some(ticket.id) == id)
    }

    fn patched(&mut self, patched: Result<DeskPatched, DeskError>, ops: &[Op]) {
        let patched = match patched {
            Ok(patched) => patched,
            Err(error) => return self.drop_for(Dropped::from(&error)),
        };
        if let Some(why) = dropped(&patched) {
            return self.drop_for(why);
        }
        let away =
            matches!(&patched, DeskPatched::Applied { standing, .. } if standing.is_degraded());
        self.wrote_here |= away;
        self.done(if away {
            Done::ChangedAway
        } else {
            Done::Changed
        });
        if let DeskPatched::Applied {
            version, counters, ..
        } = patched
        {
            self.remember(ops, version, &counters);
        }
    }

    /// Notes what was written, for the ticket that goes out with this answer.
    fn remember(&mut self, ops: &[Op], version: Version, counters: &[(Name, i64)]) {
        let plan = &self.desk.plan().attributes;
        let names = ops.iter().map(Op::name);
        let changes: Vec<Name> = names.filter(|name| plan.of(name).ticket).cloned().collect();
        let current = self.current.as_mut();
        let Some(seen) = current.and_then(|current| current.seen.as_mut()) else {
            return;
        };
        if changes.is_empty() {
            return;
        }
        self.ticket_changes = changes;
        let session = Arc::make_mut(&mut seen.session);
        session.head.version = version;
        let found = &mut session.found;
        for op in ops {
            found.attributes.retain(|(name, _)| name != op.name());
            found.counters.retain(|(name, _)| name != op.name());
            if let Op::Set { name, value, .. } = op {
                let value = value.clone();
                let attribute = Attribute { version, value };
                found.attributes.push((name.clone(), attribute));
            }
        }
        found.counters.extend_from_slice(counters);
    }

    /// Begins a session with what is changed of nothing.
    async fn create(&mut self, ops: Vec<Op>) {
        let (mut attributes, mut counters) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Set {
                    expect: Expect::At(_),
                    ..
                } => return self.drop_for(Dropped::Conflict),
                Op::Set { name, value, .. } => attributes.push((name, value)),
                Op::Increment { name, by: number } | Op::Max { name, to: number } => {
                    counters.push((name, number));
                }
                Op::Delete { .. } => {}
            }
        }
        if attributes.is_empty() && counters.is_empty() {
            return;
        }
        let result = self.create_with(attributes, counters).await;
        self.count(Done::Created, result.err());
    }

    async fn create_with(
        &mut self,
        attributes: Vec<(Name, Value)>,
        counters: Vec<(Name, i64)>,
    ) -> Result<(), DeskError> {
        for _ in 0..DRAWS_MAX {
            let token = Token::draw();
            let (attributes, counters) = (attributes.clone(), counters.clone());
            let created = self
                .desk
                .create(token.id(), attributes, counters, CHANGE_BUDGET);
            match created.await {
                Ok(seen) => {
                    self.begin(token, Some(seen));
                    return Ok(());
                }
                Err(DeskError::Taken) => {}
                Err(error) => {
                    if matches!(error, DeskError::NotReplicated { .. }) {
                        self.begin(token, None);
                    }
                    return Err(error);
                }
            }
        }
        Err(DeskError::Taken)
    }

    /// Gives the session another id as a habit. The store keeps the new secret for those who come
    /// with the old one, sealed.
    async fn rotate(&mut self) {
        let Some(old) = self.current.as_ref().map(|current| current.token) else {
            return;
        };
        let new = Token::draw_on(old.tag());
        let keys = &self.known.plan().keys;
        let successor = keys.seal(Purpose::Successor, &new.kept());
        let (old, id) = (old.id(), new.id());
        // If another request was first, or the store is away: the cookie comes with that request's
        // answer, or the rotation is due again with the next.
        let rotated = self.desk.rotate(&old, id, successor, CHANGE_BUDGET);
        if let Ok(Visit::Open(seen)) = rotated.await {
            self.begin(new, Some(seen));
            self.done(Done::Rotated);
        }
    }

    /// The changes, with what the application was told in place of `seen`; `None` when it was not
    /// told of an attribute that it means.
    fn ops(&self, changes: &[Change]) -> Option<Vec<Op>> {
        let told = self.known.seen();
        let as_told = |name: &Name| match told {
            None => Some(Expect::Absent),
            Some(_) if !self.known.is_told(name) => None,
            Some(seen) => Some(match seen.session.attribute(name) {
                Some(attribute) => Expect::At(attribute.version),
                None => Expect::Absent,
            }),
        };
        let op = |change: &Change| {
            let mut op = change.op.clone();
            if let (true, Op::Set { name, expect, .. } | Op::Delete { name, expect }) =
                (change.if_seen, &mut op)
            {
                *expect = as_told(name)?;
            }
            Some(op)
        };
        changes.iter().map(op).collect()
    }

    fn seen(&self) -> Option<&Seen> {
        self.current.as_ref()?.seen.as_ref()
    }

    fn begin(&mut self, token: Token, seen: Option<Seen>) {
        self.current = Some(Current {
            token,
            seen,
            fresh: true,
        });
    }

    fn end(&mut self) {
        self.current = None;
    }

    fn count(&mut self, done: Done, error: Option<DeskError>) {
        match error {
            None => self.done(done),
            Some(error) => self.drop_for(Dropped::from(&error)),
        }
    }

    fn done(&self, done: Done) {
        let recorder = &self.known.thread.recorder;
        recorder.session_done(self.known.app, done);
    }

    fn drop_for(&mut self, why: Dropped) {
        let recorder = &self.known.thread.recorder;
        recorder.session_dropped(self.known.app, why, 1);
        self.unstored = true;
    }

    /// What the browser has to learn.
    fn cookies(&self) -> Cookies {
        let mut cookies = Cookies::default();
        match &self.current {
            Some(current) => self.go_on(current, &mut cookies),
            // Whoever has signed in meanwhile has a newer cookie, and keeps it.
            None if matches!(self.known.state, State::Replaced { .. }) => {}
            None => self.clear(&mut cookies),
        }
        cookies
    }

    fn go_on(&self, current: &Current, cookies: &mut Cookies) {
        let Known { issued, .. } = &*self.known;
        let plan = self.known.plan();
        let rest = current.seen.as_ref().map(|seen| {
            let absolute = seen.session.head.absolute;
            absolute.since(seen.now)
        });
        // Without knowing better, as long as the shortest of them lives.
        let rest = rest.unwrap_or_else(|| self.desk.plan().lives.signed_in.idle);
        if current.fresh {
            cookies.session(plan, &current.token.write(&plan.keys), rest);
            self.set(CookieSet::Session);
        }
        let Some(seen) = &current.seen else {
            return;
        };
        let goes_with_it = issued.as_ref().filter(|issued| issued.ticket.id == seen.id);
        let due = current.fresh
            || !self.ticket_changes.is_empty()
            || goes_with_it.is_none_or(|issued| is_stale(&issued.ticket, seen.now));
        let mut ticket = (plan.tickets && due)
            .then(|| self.desk.ticket(seen))
            .flatten();
        if let (Some(ticket), Some(issued)) = (&mut ticket, goes_with_it) {
            self.keep_unread(&issued.ticket, seen, ticket);
        }
        let born = goes_with_it.map_or(seen.now, |issued| issued.born);
        match ticket.and_then(|ticket| Issued { ticket, born }.seal(&plan.keys)) {
            Some(sealed) => {
                cookies.ticket(plan, &sealed, rest);
                self.set(CookieSet::Ticket);
            }
            // The one that it has is another session's.
            None if current.fresh && self.known.has_ticket => {
                cookies.no_ticket(plan);
                self.set(CookieSet::Cleared);
            }
            None => {}
        }
        let is_here_alone = self.wrote_here || seen.standing == Standing::Local;
        match (&plan.affinity, self.known.led) {
            (Some(affinity), Led::Nowhere | Led::Elsewhere) if is_here_alone => {
                cookies.affinity(plan, affinity);
                self.set(CookieSet::Affinity);
            }
            (_, Led::Here | Led::Elsewhere) if !seen.standing.is_degraded() && !is_here_alone => {
                cookies.no_affinity(plan);
                self.set(CookieSet::Cleared);
            }
            _ => {}
        }
    }

    /// Takes over from the `old` ticket into the `new` one what was not read this time.
    fn keep_unread(&self, old: &Ticket, seen: &Seen, new: &mut Ticket) {
        let unread = |name: &Name| match &seen.session.fields {
            Fields::All => false,
            Fields::Only(names) => !names.contains(name) && !self.ticket_changes.contains(name),
        };
        let attributes = old.attributes.iter().filter(|(name, _)| unread(name));
        new.attributes.extend(attributes.cloned());
        let counters = old.counters.iter().filter(|(name, _)| unread(name));
        new.counters.extend(counters.cloned());
    }

    /// Takes away what leads nowhere any more.
    fn clear(&self, cookies: &mut Cookies) {
        let plan = self.known.plan();
        if self.known.has_cookie {
            cookies.no_session(plan);
            self.set(CookieSet::Cleared);
        }
        if self.known.has_ticket {
            cookies.no_ticket(plan);
            self.set(CookieSet::Cleared);
        }
        if self.known.led != Led::Nowhere {
            cookies.no_affinity(plan);
            self.set(CookieSet::Cleared);
        }
    }

    fn set(&self, cookie: CookieSet) {
        let recorder = &self.known.thread.recorder;
        recorder.session_cookie(self.known.app, cookie);
    }
}
