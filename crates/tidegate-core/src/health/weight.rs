//! How much of the traffic a node gets: in proportion to what it can do, never to what it has left.
//!
//! With weight by headroom, a node that has more left gets more, has less left, gets less: a loop whose gain is
//! utilisation ÷ (1 − utilisation), and above half it swings. Capacity does not change with the load, so there is no loop.

/// The least weight of a node that is in, of 100. It keeps what is known of it fresh.
pub const WEIGHT_MIN: u8 = 5;
/// The most.
pub const WEIGHT_MAX: u8 = 100;
/// What a stressed node's weight is multiplied by until it has recovered.
pub const STRESSED_FACTOR: f64 = 0.7;
/// How much a weight may fall and rise in one tick.
const STEP_DOWN: f64 = 0.6;
const STEP_UP: f64 = 1.15;
/// Where a new or returned node begins, of the fleet's median.
const RAMP_FROM: f64 = 0.1;
/// By how much it grows in a tick: twofold in two.
const RAMP_STEP: f64 = std::f64::consts::SQRT_2;
/// A weight changes only by at least so many points.
const CHANGE_MIN: u8 = 2;

/// A node's part of the traffic before it is scaled, in requests per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pull {
    /// The part; `None` for a node that has had none.
    pub rps: Option<f64>,
    /// The bound while it is new, or back from being out.
    pub ramp: Option<f64>,
}

impl Pull {
    /// That of a node that is new or returns to a fleet with this median.
    pub const fn arriving(median: f64) -> Self {
        Self {
            rps: None,
            // Its first step takes it to a tenth.
            ramp: Some(median * RAMP_FROM / RAMP_STEP),
        }
    }

    /// One tick nearer to `wanted`.
    pub fn step(&mut self, wanted: f64) {
        if let Some(ramp) = self.ramp {
            let ramp = ramp * RAMP_STEP;
            self.ramp = (ramp < wanted).then_some(ramp);
            self.rps = Some(ramp.min(wanted));
            return;
        }
        let next = match self.rps {
            Some(rps) => wanted.clamp(rps * STEP_DOWN, rps * STEP_UP),
            None => wanted,
        };
        self.rps = Some(next);
    }

    /// The weight of 100 in a fleet whose largest part is `top`.
    pub fn weight(&self, top: f64) -> u8 {
        match self.rps {
            Some(rps) if top > 0.0 => {
                let points = (rps / top * f64::from(WEIGHT_MAX)).round();
                points.clamp(f64::from(WEIGHT_MIN), f64::from(WEIGHT_MAX)) as u8
            }
            _ => WEIGHT_MAX,
        }
    }
}

/// Whether going from `before` to `after` is worth telling a balancer.
pub(super) const fn is_change(before: u8, after: u8) -> bool {
    before.abs_diff(after) >= CHANGE_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_falls_by_two_fifths_and_rises_by_a_seventh_at_most() {
        let mut pull = Pull::default();
        pull.step(100.0);
        assert_eq!(pull.rps, Some(100.0), "the first is taken as it is");

        pull.step(10.0);
        assert_eq!(pull.rps, Some(60.0));
        pull.step(100.0);
        assert!((pull.rps.unwrap() - 69.0).abs() < 1e-9);
        pull.step(70.0);
        assert_eq!(pull.rps, Some(70.0));
    }

    #[test]
    fn a_new_node_begins_at_a_tenth_and_doubles_every_two_ticks() {
        let mut pull = Pull::arriving(100.0);

        let parts: Vec<f64> = (0..9)
            .map(|_| {
                pull.step(100.0);
                pull.rps.unwrap().round()
            })
            .collect();

        assert_eq!(
            parts,
            [10.0, 14.0, 20.0, 28.0, 40.0, 57.0, 80.0, 100.0, 100.0]
        );
        assert_eq!(pull.ramp, None);
    }

    #[test]
    fn weights_are_scaled_to_the_largest_and_keep_a_floor() {
        let pull = |rps| Pull {
            rps: Some(rps),
            ramp: None,
        };

        assert_eq!(pull(80.0).weight(80.0), 100);
        assert_eq!(pull(40.0).weight(80.0), 50);
        assert_eq!(pull(0.1).weight(80.0), WEIGHT_MIN);
        assert_eq!(Pull::default().weight(80.0), WEIGHT_MAX);
        assert_eq!(pull(0.0).weight(0.0), WEIGHT_MAX);
    }

    #[test]
    fn a_point_is_no_change() {
        assert!(!is_change(70, 71));
        assert!(is_change(70, 68));
    }
}
