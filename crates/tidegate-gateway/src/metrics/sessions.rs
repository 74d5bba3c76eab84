//! Metrics of sessions: what requests came with, and what the desk says.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tidegate_store::Reason;
use tidegate_store::desk::Stats;

use super::exposition::{Source, counter, gauge, metric};
use super::histogram::Histogram;
use super::recorder::{Cell, SessionCells};
use crate::session::{BadCookie, CookieSet, Done, Dropped, Outcome};

/// One count of the desk: its name after `tidegate_session_`, what it is, where it stands.
type Row = (&'static str, &'static str, fn(&Stats) -> u64);

/// What the desk has counted since the start.
pub(crate) const DESK_COUNTS: [Row; 37] = [
    ("opened", "Openings that the store answered", |it| it.opened),
    (
        "opened_unchanged",
        "Openings whose local copy was still right",
        |it| it.opened_unchanged,
    ),
    (
        "opened_joined",
        "Openings that joined one under way",
        |it| it.opened_joined,
    ),
    (
        "opened_trusted",
        "Openings answered by the local copy without asking",
        |it| it.opened_trusted,
    ),
    ("opened_gone", "Openings that found nothing", |it| {
        it.opened_gone
    }),
    (
        "opened_unknown",
        "Openings of ids remembered as unknown",
        |it| it.opened_unknown,
    ),
    (
        "opened_degraded",
        "Openings answered while the store was away",
        |it| it.opened_degraded,
    ),
    (
        "opened_away",
        "Openings that nothing could answer while the store was away",
        |it| it.opened_away,
    ),
    ("timed_out", "Calls that paid a timeout", |it| it.timed_out),
    (
        "epoch_refused",
        "Sessions refused as their user had signed out everywhere",
        |it| it.epoch_refused,
    ),
    ("created", "Sessions created", |it| it.created),
    ("patched", "Patches made", |it| it.patched),
    ("patch_retried", "Patches sent again", |it| it.patch_retried),
    (
        "patch_repeated",
        "Patches that had been made before",
        |it| it.patch_repeated,
    ),
    (
        "patch_conflicts",
        "Patches that met another value than they expected",
        |it| it.patch_conflicts,
    ),
    ("patch_too_large", "Patches over a ceiling", |it| {
        it.patch_too_large
    }),
    (
        "patch_refused",
        "Patches refused for another reason",
        |it| it.patch_refused,
    ),
    (
        "patch_busy",
        "Patches that found too many of the same session waiting",
        |it| it.patch_busy,
    ),
    (
        "patch_degraded",
        "Patches made in a copy while the store was away",
        |it| it.patch_degraded,
    ),
    (
        "short_replication",
        "Writes that fewer replicas acknowledged than wanted",
        |it| it.short_replication,
    ),
    ("blobs_written", "Values put out of line", |it| {
        it.blobs_written
    }),
    ("blobs_read", "Values fetched from out of line", |it| {
        it.blobs_read
    }),
    ("signed_in", "Sign-ins", |it| it.signed_in),
    (
        "resumed",
        "Sign-ins that took up what the user had left behind",
        |it| it.resumed,
    ),
    ("rotated", "Changes of id as a habit", |it| it.rotated),
    ("destroyed", "Sessions ended", |it| it.destroyed),
    ("signed_out_everywhere", "Sign-outs everywhere", |it| {
        it.signed_out_everywhere
    }),
    (
        "capsules_written",
        "Writes of what is kept for users' next sessions",
        |it| it.capsules_written,
    ),
    (
        "side_writes_failed",
        "Writes of capsules and indexes that failed",
        |it| it.side_writes_failed,
    ),
    (
        "lost_writes",
        "Acknowledged writes that the store did not know any more",
        |it| it.lost_writes,
    ),
    (
        "lost_writes_repaired",
        "Lost writes that were written again",
        |it| it.lost_writes_repaired,
    ),
    (
        "op_log_dropped",
        "Writes dropped as the log of the time without store was full",
        |it| it.op_log_dropped,
    ),
    (
        "healed",
        "Writes brought to the store after it was away",
        |it| it.healed,
    ),
    (
        "heal_gave_way",
        "Changes made without the store that gave way to what it had",
        |it| it.heal_gave_way,
    ),
    (
        "heal_refused",
        "Writes made without the store that it refused afterwards",
        |it| it.heal_refused,
    ),
    (
        "heal_forgotten",
        "Writes made without the store whose session had ended",
        |it| it.heal_forgotten,
    ),
    (
        "heal_recreated",
        "Sessions in use that the store had not any more and was given again",
        |it| it.heal_recreated,
    ),
];

/// How things stand at the desk.
pub(crate) const DESK_GAUGES: [Row; 5] = [
    ("l1_entries", "Local copies of sessions", |it| it.l1_entries),
    ("l1_bytes", "Bytes of local copies of sessions", |it| {
        it.l1_bytes
    }),
    (
        "away_sessions",
        "Sessions that go on here until the store is told of them",
        |it| it.away_sessions,
    ),
    (
        "away_endings",
        "Sessions and users signed out here without the store knowing",
        |it| it.away_endings,
    ),
    (
        "op_log_bytes",
        "Bytes of writes that the store has not seen",
        |it| it.op_log_bytes,
    ),
];

impl Source {
    /// Every metric of sessions; none at all where none are kept.
    pub(super) fn sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(desk) = self.desk() else {
            return Ok(());
        };
        self.requests_with_sessions(encoder)?;
        self.changes_of_sessions(encoder)?;
        let stats = desk.stats();
        for (name, help, of) in DESK_COUNTS {
            let name = format!("tidegate_session_{name}");
            counter(encoder, &name, help)?.count(&[], of(&stats))?;
        }
        for (name, help, of) in DESK_GAUGES {
            let name = format!("tidegate_session_{name}");
            gauge(encoder, &name, help)?.gauge(&[], of(&stats))?;
        }
        ends(&stats, encoder)
    }

    fn requests_with_sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests of routes with sessions, by what became of theirs";
        let mut rows = counter(encoder, "tidegate_session_requests", help)?;
        for (app, _, name) in self.apps_with_sessions() {
            for outcome in Outcome::ALL {
                let count = self.session_sum(app, |cells| &cells.outcomes[outcome.index()]);
                rows.count(&[("app", name), ("outcome", outcome.label())], count)?;
            }
        }
        let help = "Time that requests with a cookie waited for their session";
        let name = "tidegate_session_open_seconds";
        let mut rows = metric(encoder, name, help, MetricType::Histogram)?;
        for (app, _, name) in self.apps_with_sessions() {
            let threads = self.threads.iter();
            let parts = threads.map(|thread| &thread.recorder.apps[app].sessions.asked);
            rows.histogram(&[("app", name)], &Histogram::total(parts))?;
        }
        let help = "Cookies of ours that were of no use";
        let mut rows = counter(encoder, "tidegate_session_bad_cookies", help)?;
        for (app, _, name) in self.apps_with_sessions() {
            for bad in BadCookie::ALL {
                let count = self.session_sum(app, |cells| &cells.bad_cookies[bad.index()]);
                rows.count(&[("app", name), ("reason", bad.label())], count)?;
            }
        }
        let help = "Attributes that did not fit into the headers for the application";
        let mut rows = counter(encoder, "tidegate_session_attributes_omitted", help)?;
        for (app, _, name) in self.apps_with_sessions() {
            let count = self.session_sum(app, |cells| &cells.omitted);
            rows.count(&[("app", name)], count)?;
        }
        Ok(())
    }

    fn changes_of_sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What was done to sessions by headers of answers, or as a habit";
        let mut rows = counter(encoder, "tidegate_session_changes", help)?;
        for (app, _, name) in self.apps_with_sessions() {
            for done in Done::ALL {
                let count = self.session_sum(app, |cells| &cells.done[done.index()]);
                rows.count(&[("app", name), ("kind", done.label())], count)?;
            }
        }
        let help = "What was asked for by headers of answers and not done, by reason";
        let mut rows = counter(encoder, "tidegate_session_changes_dropped", help)?;
        for (app, _, name) in self.apps_with_sessions() {
            for why in Dropped::ALL {
                let count = self.session_sum(app, |cells| &cells.dropped[why.index()]);
                rows.count(&[("app", name), ("reason", why.label())], count)?;
            }
        }
        let help = "Cookies that were set or cleared";
        let mut rows = counter(encoder, "tidegate_session_cookies_set", help)?;
        for (app, _, name) in self.apps_with_sessions() {
            for cookie in CookieSet::ALL {
                let count = self.session_sum(app, |cells| &cells.cookies[cookie.index()]);
                rows.count(&[("app", name), ("cookie", cookie.label())], count)?;
            }
        }
        Ok(())
    }

    fn apps_with_sessions(&self) -> impl Iterator<Item = (usize, &crate::context::App, &str)> {
        self.apps()
            .filter(|(_, app, _)| app.plan.sessions.is_some())
    }

    fn session_sum(&self, app: usize, of: impl Fn(&SessionCells) -> &Cell) -> u64 {
        self.sum(|recorder| of(&recorder.apps[app].sessions))
    }
}

/// What the janitor does: it finds sessions that ended by themselves, and tells of it.
fn ends(stats: &Stats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let janitor = &stats.janitor;
    let help = "Ends of sessions that this process found and told, by reason";
    let mut rows = counter(encoder, "tidegate_session_ends_told", help)?;
    for reason in Reason::ALL {
        rows.count(&[("reason", reason.name())], janitor.told[reason.index()])?;
    }
    let help = "Due entries of the expiry index, by what was found: alive, moved, failed";
    let mut rows = counter(encoder, "tidegate_session_due", help)?;
    for (found, count) in [
        ("alive", janitor.alive),
        ("moved", janitor.moved),
        ("failed", janitor.failed),
    ] {
        rows.count(&[("found", found)], count)?;
    }
    let help = "Parts of the expiry index that this process looks after";
    gauge(encoder, "tidegate_session_index_parts", help)?.gauge(&[], janitor.held)
}
