//! Writes of the last while, kept to be done again should the store lose them.
//!
//! A write is kept from the moment it is sent: whoever sent it may go away before the answer. It is
//! taken out again when the answer says that nothing was written. What is kept is harmless when it
//! is done twice: a patch has a number by which the store knows it again, a creation finds the id
//! taken, an ending finds the session ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::Cmd;
use tidegate_core::time::Mono;

use super::counts::Count;
use super::script::Run;

/// For how long writes are kept: longer than it takes to find a primary dead and to promote another.
pub(super) const KEPT: Duration = Duration::from_secs(30);
/// Most bytes of writes that are kept; beyond it the oldest go.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The writes of the last while, in the order in which they were sent.
#[derive(Default)]
pub(super) struct Ring {
    entries: Mutex<Entries>,
    pub(super) counts: Counts,
}

/// What became of writes that were kept.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Dropped because there was no room, before their time was over.
    pub(super) crowded_out: Count,
    /// Done again: the store had lost them.
    pub(super) repaired: Count,
    /// Found to be there.
    pub(super) present: Count,
    /// Refused: the session is gone, or another write has come between.
    pub(super) refused: Count,
}

#[derive(Default)]
struct Entries {
    /// By number; the numbers grow.
    kept: BTreeMap<u64, Entry>,
    next: u64,
    bytes: usize,
}

struct Entry {
    at: Mono,
    slot: u16,
    write: Write,
}

/// A write that may be done again.
#[derive(Clone)]
pub(super) enum Write {
    /// By a script, that the server has to know.
    Run(Arc<Run>),
    /// By a command.
    Command(Arc<Cmd>),
}

/// A write that is kept.
pub(super) struct Kept<'a> {
    ring: &'a Ring,
    number: u64,
}

impl Ring {
    /// Keeps `write`, which is one to `slot`.
    pub(super) fn keep(&self, now: Mono, slot: u16, write: Write) -> Kept<'_> {
        let mut entries = self.entries();
        let number = entries.next;
        entries.next += 1;
        entries.bytes += write.bytes();
        let at = now;
        entries.kept.insert(number, Entry { at, slot, write });
        entries.expire(now);
        while entries.bytes > BYTES_MAX {
            entries.drop_first();
            self.counts.crowded_out.one();
        }
        Kept { ring: self, number }
    }

    /// What is kept of the slots that `has` picks, in order.
    pub(super) fn kept(&self, now: Mono, has: impl Fn(u16) -> bool) -> Vec<Write> {
        let mut entries = self.entries();
        entries.expire(now);
        let picked = entries.kept.values().filter(|entry| has(entry.slot));
        picked.map(|entry| entry.write.clone()).collect()
    }

    /// How many are kept, and their bytes.
    pub(super) fn size(&self, now: Mono) -> (usize, usize) {
        let mut entries = self.entries();
        entries.expire(now);
        (entries.kept.len(), entries.bytes)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("nobody panics while holding it")
    }
}

impl Write {
    /// What is sent.
    pub(super) fn command(&self) -> Cmd {
        match self {
            Self::Run(run) => run.by_hash(),
            Self::Command(command) => Cmd::clone(command),
        }
    }

    /// Its name, for messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Run(run) => run.script.name(),
            Self::Command(_) => "a command",
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Run(run) => run.bytes(),
            Self::Command(command) => command.get_packed_command().len() + size_of::<Cmd>(),
        }
    }
}

impl Entries {
    fn expire(&mut self, now: Mono) {
        let old = |entry: &Entry| now.since(entry.at) > KEPT;
        while self
            .kept
            .first_key_value()
            .is_some_and(|(_, entry)| old(entry))
        {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, entry)) = self.kept.pop_first() {
            self.bytes -= entry.write.bytes();
        }
    }
}

impl Kept<'_> {
    /// Keeps it no longer: it was not written.
    pub(super) fn forget(self) {
        let mut entries = self.ring.entries();
        if let Some(entry) = entries.kept.remove(&self.number) {
            entries.bytes -= entry.write.bytes();
        }
    }

    /// Keeps `run` in its place: what was written is known better now.
    pub(super) fn replace(self, run: Run) {
        let mut entries = self.ring.entries();
        let write = Write::Run(Arc::new(run));
        let bytes = write.bytes();
        if let Some(entry) = entries.kept.get_mut(&self.number) {
            let before = std::mem::replace(&mut entry.write, write).bytes();
            entries.bytes = entries.bytes + bytes - before;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::script::Script;
    use super::*;

    static NOTHING: LazyLock<Script> = LazyLock::new(|| Script::new("nothing", "return 0"));

    fn run(arg: &str) -> Write {
        Write::Run(Arc::new(Run::of(&NOTHING).key("k").arg(arg)))
    }

    fn args(writes: &[Write]) -> Vec<String> {
        let text = |write: &Write| match write {
            Write::Run(run) => String::from_utf8(run.args[0].clone()).unwrap(),
            Write::Command(_) => String::new(),
        };
        writes.iter().map(text).collect()
    }

    #[test]
    fn writes_are_kept_in_order_until_their_time_is_over() {
        let ring = Ring::default();
        let at = Mono::from_millis;
        ring.keep(at(0), 1, run("a"));
        ring.keep(at(20_000), 2, run("b"));
        ring.keep(at(20_000), 1, run("c"));

        assert_eq!(args(&ring.kept(at(30_000), |slot| slot == 1)), ["a", "c"]);
        assert_eq!(args(&ring.kept(at(30_001), |_| true)), ["b", "c"]);
        assert_eq!(ring.size(at(60_000)), (0, 0));
    }

    #[test]
    fn what_was_not_written_is_not_kept() {
        let ring = Ring::default();
        let first = ring.keep(Mono::default(), 1, run("a"));
        let second = ring.keep(Mono::default(), 1, run("b"));

        first.forget();
        second.replace(Run::of(&NOTHING).key("k").arg("known better"));

        let kept = ring.kept(Mono::default(), |_| true);
        assert_eq!(args(&kept), ["known better"]);
        assert_eq!(ring.size(Mono::default()).1, kept[0].bytes());
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let ring = Ring::default();
        let large = "x".repeat(BYTES_MAX / 3);
        for _ in 0..4 {
            ring.keep(Mono::default(), 1, run(&large));
        }

        let (count, bytes) = ring.size(Mono::default());

        assert_eq!(count, 2);
        assert!(bytes <= BYTES_MAX);
        assert_eq!(ring.counts.crowded_out.read(), 2);
    }
}
