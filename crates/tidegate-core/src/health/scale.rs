//! From a reading to how much of a node is used: where a dimension begins to hurt, and where it is at its end.

use super::signal::Dimension;

/// How far a dimension may take a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// To saturated: the node itself is full.
    Saturated,
    /// To stressed and no further: it hurts, but taking the node out would rest on too little.
    Stressed,
    /// Nowhere: it is not looked at.
    Off,
}

/// The most that a dimension counts as used when it may not saturate a node. Its headroom of 0.25 is below where a
/// node is stressed (0.45) and above where it is saturated (0.20).
pub const USED_STRESSED_MAX: f64 = 0.75;

/// How readings of one dimension count: nothing up to `soft`, all from `hard`, and in proportion between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    soft: f64,
    hard: f64,
    reach: Reach,
}

/// A scale that would not rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleError;

impl std::fmt::Display for ScaleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a scale needs 0 <= soft < hard")
    }
}

impl std::error::Error for ScaleError {}

impl Scale {
    /// From `soft` to `hard`, both ratios of value to limit; 0 ≤ `soft` < `hard`.
    pub fn new(soft: f64, hard: f64, reach: Reach) -> Result<Self, ScaleError> {
        if soft.is_finite() && hard.is_finite() && 0.0 <= soft && soft < hard {
            Ok(Self { soft, hard, reach })
        } else {
            Err(ScaleError)
        }
    }

    /// How far the dimension may take a node.
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// The same scale with another reach.
    pub const fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// What `ratio` of value to limit uses of the node, 0 to 1; `None` for a dimension that is not looked at.
    pub fn used(&self, ratio: f64) -> Option<f64> {
        let most = match self.reach {
            Reach::Saturated => 1.0,
            Reach::Stressed => USED_STRESSED_MAX,
            Reach::Off => return None,
        };
        Some(((ratio - self.soft) / (self.hard - self.soft)).clamp(0.0, most))
    }
}

/// The scales of all dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales([Scale; Dimension::COUNT]);

impl Default for Scales {
    fn default() -> Self {
        Self(Dimension::ALL.map(default_scale))
    }
}

impl Scales {
    /// The defaults for a node that is a container. Pressure, steal and load are then those of the host, which has other
    /// tenants, and are not looked at.
    pub fn in_container() -> Self {
        let mut scales = Self::default();
        for dimension in Dimension::ALL {
            if dimension.is_of_the_host() {
                scales.set(dimension, scales.of(dimension).reaching(Reach::Off));
            }
        }
        scales
    }

    /// The scale of `dimension`.
    pub const fn of(&self, dimension: Dimension) -> Scale {
        self.0[dimension.index()]
    }

    /// Reads `dimension` by `scale` from now on.
    pub const fn set(&mut self, dimension: Dimension, scale: Scale) {
        self.0[dimension.index()] = scale;
    }
}

impl Dimension {
    /// Whether it tells of the machine below rather than of the application.
    pub const fn is_of_the_host(self) -> bool {
        matches!(
            self,
            Self::PsiCpu | Self::PsiMemory | Self::PsiIo | Self::Steal | Self::Load
        )
    }
}

/// Where each dimension begins to count, and where it is full.
///
/// Workers, queues, pools, the gateway's own count, latency and GC count from nothing to their limit or budget, and load to
/// 1.5 × the cores. The others have a stretch in which they cost nobody anything.
const fn default_scale(dimension: Dimension) -> Scale {
    let (soft, hard, reach) = match dimension {
        Dimension::Threads
        | Dimension::Queue
        | Dimension::Pool
        | Dimension::Inflight
        | Dimension::Latency
        | Dimension::Gc => (0.0, 1.0, Reach::Saturated),
        // What survives a collection may well be more than half. Near the end nothing but collections happens.
        Dimension::OldGen => (0.6, 0.95, Reach::Saturated),
        // Half of the processor is an idle afternoon: queueing behind it begins above that.
        Dimension::Cpu => (0.5, 1.0, Reach::Saturated),
        Dimension::PsiCpu | Dimension::PsiIo => (0.2, 0.8, Reach::Stressed),
        // Who waits for memory waits for the disk.
        Dimension::PsiMemory => (0.05, 0.3, Reach::Stressed),
        Dimension::Steal => (0.05, 0.3, Reach::Stressed),
        Dimension::Load => (0.0, 1.5, Reach::Stressed),
        // What fails behind a node fails behind its neighbour as well; taking the node out mends nothing.
        Dimension::Downstream => (0.05, 0.5, Reach::Stressed),
    };
    Scale { soft, hard, reach }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(dimension: Dimension, ratio: f64) -> f64 {
        Scales::default().of(dimension).used(ratio).unwrap()
    }

    #[test]
    fn what_has_a_limit_counts_in_proportion_to_it() {
        for dimension in [
            Dimension::Threads,
            Dimension::Queue,
            Dimension::Pool,
            Dimension::Inflight,
            Dimension::Latency,
            Dimension::Gc,
        ] {
            assert_eq!(used(dimension, 0.25), 0.25, "{dimension:?}");
            assert_eq!(used(dimension, 1.2), 1.0, "{dimension:?}");
        }
        assert_eq!(used(Dimension::Load, 0.75), 0.5);
    }

    #[test]
    fn what_is_free_of_charge_counts_nothing() {
        assert_eq!(used(Dimension::OldGen, 0.6), 0.0);
        assert_eq!(used(Dimension::Cpu, 0.5), 0.0);
        assert_eq!(used(Dimension::Cpu, 0.75), 0.5);
        assert_eq!(used(Dimension::Steal, 0.04), 0.0);
    }

    #[test]
    fn the_host_and_what_is_behind_never_fill_a_node() {
        let capped: Vec<Dimension> = Dimension::ALL
            .into_iter()
            .filter(|&it| used(it, 100.0) < 1.0)
            .collect();

        assert_eq!(
            capped,
            [
                Dimension::PsiCpu,
                Dimension::PsiMemory,
                Dimension::PsiIo,
                Dimension::Steal,
                Dimension::Load,
                Dimension::Downstream
            ]
        );
        assert!(
            capped
                .iter()
                .all(|&it| used(it, 100.0) == USED_STRESSED_MAX)
        );
    }

    #[test]
    fn a_container_does_not_look_at_its_host() {
        let scales = Scales::in_container();

        for dimension in Dimension::ALL {
            let seen = scales.of(dimension).used(1.0).is_some();
            assert_eq!(seen, !dimension.is_of_the_host(), "{dimension:?}");
        }
    }

    #[test]
    fn a_scale_rises_or_does_not_exist() {
        assert!(Scale::new(0.0, 1.5, Reach::Saturated).is_ok());
        for (soft, hard) in [(0.5, 0.5), (-0.1, 1.0), (0.0, f64::NAN), (0.9, 0.1)] {
            assert_eq!(Scale::new(soft, hard, Reach::Off), Err(ScaleError));
        }
    }
}
