//! Connections that no accept queue had room for.

/// What the kernel has counted since this part of the network began.
///
/// It counts each attempt of a client anew, over all listeners: six clients that found no room were six after a
/// third of a second and 24 after 3.5 s. So that it grows says something; by how much does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overflows {
    /// A queue was full when a connection was complete.
    full: u64,
    /// A connection was dropped before it reached a queue.
    dropped: u64,
}

impl Overflows {
    /// Reads `/proc/net/netstat`, where each group has a line of names above one of numbers.
    pub(super) fn parse(netstat: &str) -> Option<Self> {
        let mut lines = netstat
            .lines()
            .filter_map(|line| line.strip_prefix("TcpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let mut overflows = Self::default();
        let mut found = false;
        let pairs = names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace());
        for (name, value) in pairs {
            match name {
                "ListenOverflows" => {
                    overflows.full = value.parse().ok()?;
                    found = true;
                }
                "ListenDrops" => overflows.dropped = value.parse().ok()?,
                _ => {}
            }
        }
        found.then_some(overflows)
    }

    /// Connections that were complete and found their queue full, each attempt counted.
    pub(super) const fn full(&self) -> u64 {
        self.full
    }

    /// Whether somebody found no room since `earlier`.
    pub(super) const fn grew_since(&self, earlier: &Self) -> bool {
        self.full > earlier.full || self.dropped > earlier.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\n";

    #[test]
    fn that_it_grows_is_all_that_is_told() {
        let read = |values: &str| {
            let netstat = format!("{NAMES}TcpExt: {values}\nIpExt: InNoRoutes\nIpExt: 4\n");
            Overflows::parse(&netstat).unwrap()
        };

        assert!(read("0 7 7").grew_since(&read("9 6 6")));
        assert_eq!(read("9 6 5").full(), 6);
        assert!(!read("9 6 6").grew_since(&read("0 6 6")));
        assert_eq!(Overflows::parse("IpExt: a\nIpExt: 1\n"), None);
        assert_eq!(Overflows::parse("TcpExt: a\nTcpExt: 1\n"), None);
    }
}
