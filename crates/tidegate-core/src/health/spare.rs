//! What the whole fleet has to spare, in one number for those who let requests in.

/// How much of a node should be used, 0 to 1. A little less than where it becomes stressed.
pub const TARGET_USED: f64 = 0.5;

/// A node that is in and known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// How much of it is used, 0 to 1.
    pub used: f64,
    /// What it can do, in requests per second; `None` when nobody knows.
    pub capacity: Option<f64>,
}

/// What there is over all nodes that are in and known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spare {
    /// What could come in addition, in requests per second: Σ max(0, target − used) × capacity. `None` when no capacity
    /// is known.
    pub rps: Option<f64>,
    /// What they can do together, in requests per second.
    pub capacity_rps: Option<f64>,
    /// How full they are, 0 to 1, each by its capacity; what an autoscaler may take as it is. `None` when nothing is known:
    /// an autoscaler keeps what it has then.
    pub utilisation: Option<f64>,
}

impl Spare {
    /// Of `shares`, at `target` used.
    pub fn of(shares: impl Iterator<Item = Share>, target: f64) -> Self {
        let mut nodes = 0_u32;
        let (mut capacity, mut spare, mut used, mut plain) = (0.0, 0.0, 0.0, 0.0);
        for share in shares {
            nodes += 1;
            plain += share.used;
            if let Some(can) = share.capacity {
                capacity += can;
                spare += (target - share.used).max(0.0) * can;
                used += share.used * can;
            }
        }
        let is_known = capacity > 0.0;
        Self {
            rps: is_known.then_some(spare),
            capacity_rps: is_known.then_some(capacity),
            utilisation: match nodes {
                0 => None,
                _ if is_known => Some(used / capacity),
                _ => Some(plain / f64::from(nodes)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &[(f64, Option<f64>)]) -> Spare {
        let shares = nodes
            .iter()
            .map(|&(used, capacity)| Share { used, capacity });
        Spare::of(shares, 0.5)
    }

    #[test]
    fn a_node_over_the_target_takes_nothing_from_what_others_have() {
        let spare = of(&[(0.25, Some(100.0)), (0.9, Some(300.0))]);

        assert_eq!(spare.rps, Some(25.0));
        assert_eq!(spare.capacity_rps, Some(400.0));
        assert!((spare.utilisation.unwrap() - 0.7375).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_known_is_not_nothing() {
        assert_eq!(of(&[]), Spare::default());
        let spare = of(&[(0.2, None), (0.4, None)]);

        assert_eq!(spare.rps, None);
        assert!((spare.utilisation.unwrap() - 0.3).abs() < 1e-12);
    }
}
