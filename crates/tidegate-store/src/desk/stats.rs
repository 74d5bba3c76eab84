//! What a desk counts.

use crate::janitor::JanitorStats;

/// What was counted since the start, and how things stand. Every field is a count unless it says
/// otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Openings that the store answered.
    pub opened: u64,
    /// Of those: the local copy was still right.
    pub opened_unchanged: u64,
    /// Openings that joined one under way.
    pub opened_joined: u64,
    /// Openings answered by a copy without asking, by the plan's `trust`.
    pub opened_trusted: u64,
    /// Openings that found nothing.
    pub opened_gone: u64,
    /// Of those: remembered as unknown, without asking.
    pub opened_unknown: u64,
    /// Openings answered from the local copy, a ticket or a local session: the store is away.
    pub opened_degraded: u64,
    /// Openings that nothing here could answer: the store is away.
    pub opened_away: u64,
    /// Calls that paid a timeout.
    pub timed_out: u64,
    /// Sessions refused because their user had signed out everywhere.
    pub epoch_refused: u64,
    /// Sessions created.
    pub created: u64,
    /// Patches made.
    pub patched: u64,
    /// Patches sent again after a timeout or a broken connection.
    pub patch_retried: u64,
    /// Patches that turned out to have been made before.
    pub patch_repeated: u64,
    /// Patches that met another value than they expected.
    pub patch_conflicts: u64,
    /// Patches over a ceiling.
    pub patch_too_large: u64,
    /// Patches refused for another reason.
    pub patch_refused: u64,
    /// Patches that found too many of the same session waiting.
    pub patch_busy: u64,
    /// Patches made in a copy: the store is away.
    pub patch_degraded: u64,
    /// Writes that fewer replicas acknowledged than wanted.
    pub short_replication: u64,
    /// Values put out of line.
    pub blobs_written: u64,
    /// Values fetched from out of line.
    pub blobs_read: u64,
    /// Sign-ins.
    pub signed_in: u64,
    /// Sign-ins that took up what the user had left behind.
    pub resumed: u64,
    /// Changes of id as a habit.
    pub rotated: u64,
    /// Sessions ended.
    pub destroyed: u64,
    /// Sign-outs everywhere.
    pub signed_out_everywhere: u64,
    /// Capsules written.
    pub capsules_written: u64,
    /// Writes of capsules and indexes that failed.
    pub side_writes_failed: u64,
    /// Writes that the store had acknowledged and then did not know any more.
    pub lost_writes: u64,
    /// Of those: written again from the local copy.
    pub lost_writes_repaired: u64,
    /// What the janitor of this desk has noticed.
    pub janitor: JanitorStats,
    /// Local copies, now.
    pub l1_entries: u64,
    /// Bytes of local copies, now.
    pub l1_bytes: u64,
    /// Sessions that go on here until the store is told of them, now.
    pub away_sessions: u64,
    /// Sessions and users that were signed out here without the store knowing, now.
    pub away_endings: u64,
    /// Bytes of sessions that go on here and of writes that the store has not seen, now.
    pub op_log_bytes: u64,
    /// Writes dropped because the log was full.
    pub op_log_dropped: u64,
    /// Writes brought to the store after it was away.
    pub healed: u64,
    /// Changes that gave way then to what the store had: it was written later, or decides.
    pub heal_gave_way: u64,
    /// Writes that the store refused then: over a ceiling, of the wrong kind, overtaken too often.
    pub heal_refused: u64,
    /// Writes dropped then because their session had ended.
    pub heal_forgotten: u64,
    /// Sessions created again then that the store did not have any more.
    pub heal_recreated: u64,
}
