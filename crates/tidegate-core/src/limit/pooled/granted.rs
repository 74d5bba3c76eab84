//! What a leaf may be using: shares on their way to it count until it says that it holds them, or a
//! later one.

use std::collections::VecDeque;

/// Shares on the way that are remembered one by one; the oldest of more count as one.
const SENT_MAX: usize = 16;

/// The shares that a leaf may be using, in thousandths of a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Granted {
    /// What it said it uses.
    used: u64,
    /// What it may use any moment now, by number, the oldest first.
    sent: VecDeque<(u64, u64)>,
}

impl Granted {
    /// A leaf that uses `milli`, whoever gave it that.
    pub(super) fn using(milli: u64) -> Self {
        Self {
            used: milli,
            sent: VecDeque::new(),
        }
    }

    /// The most it may be using.
    pub(super) fn most(&self) -> u64 {
        let sent = self.sent.iter().map(|&(_, milli)| milli);
        sent.fold(self.used, u64::max)
    }

    /// Share number `sequence` is on its way.
    pub(super) fn send(&mut self, sequence: u64, milli: u64) {
        if self.sent.len() == SENT_MAX
            && let Some((_, oldest)) = self.sent.pop_front()
            && let Some((_, next)) = self.sent.front_mut()
        {
            *next = oldest.max(*next);
        }
        self.sent.push_back((sequence, milli));
    }

    /// It says that it uses `milli`, and will take no share up to number `sequence` any more.
    pub(super) fn acknowledge(&mut self, sequence: u64, milli: u64) {
        self.used = milli;
        while self.sent.front().is_some_and(|&(sent, _)| sent <= sequence) {
            self.sent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_share_counts_in_full_until_it_is_acknowledged() {
        let mut granted = Granted::using(9000);

        granted.send(1, 4000);
        assert_eq!(granted.most(), 9000);

        granted.acknowledge(1, 4000);
        assert_eq!(granted.most(), 4000);
    }

    #[test]
    fn an_acknowledgement_says_nothing_of_what_was_sent_later() {
        let mut granted = Granted::using(1000);
        granted.send(1, 5000);
        granted.send(2, 2000);
        granted.send(3, 3000);

        granted.acknowledge(2, 2000);

        assert_eq!(granted.most(), 3000);
    }

    #[test]
    fn shares_that_nobody_acknowledges_are_forgotten_but_not_their_size() {
        let mut granted = Granted::using(100);
        granted.send(1, 9000);

        for sequence in 2..100 {
            granted.send(sequence, 100);
            assert_eq!(granted.most(), 9000);
        }

        granted.acknowledge(99, 100);
        assert_eq!(granted.most(), 100);
    }
}
