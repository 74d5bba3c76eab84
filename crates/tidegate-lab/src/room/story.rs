//! What happens to a room.

use tidegate_core::room::{Order, Tier};

/// Who comes to a room, how fast its line moves, and what goes on meanwhile. Times are seconds from the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Story {
    /// What it is called by.
    pub name: &'static str,
    /// Who goes before whom.
    pub order: Order,
    /// Of those who come.
    pub crowd: Crowd,
    /// So many come in the first minute.
    pub first: f64,
    /// So many come per second after it.
    pub coming: f64,
    /// So many can be let in per second.
    pub rate: f64,
    /// Where the rate, and what comes with it, goes.
    pub ramp: Option<Ramp>,
    /// From when until when the rate is what part of it.
    pub dip: Option<(u64, u64, f64)>,
    /// From when until when nobody is called because an operator says so.
    pub hold: Option<(u64, u64)>,
    /// Who signs in all at once.
    pub wave: Option<Wave>,
    /// Whether anybody is swept who is not heard of any more, and passed over when it is their turn.
    pub sweeps: bool,
    /// When waits are told that are judged.
    pub told: (u64, u64),
    /// The end, if not everybody who was told a wait has been called before.
    pub ends: u64,
}

/// Little by little, in a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// When it begins.
    pub from: u64,
    /// When it is over.
    pub until: u64,
    /// What the rate is multiplied by in the end.
    pub rate: f64,
    /// What those who come are multiplied by in the end.
    pub coming: f64,
}

/// People who wait anonymously and sign in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    /// When the first do.
    pub from: u64,
    /// When the last do.
    pub until: u64,
    /// What part of those who wait anonymously when it begins.
    pub part: f64,
}

/// Those who come to a room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// What part takes no cookie and never comes back with its place.
    pub cookieless: f64,
    /// What part of the others looks at the line and leaves, within about [`BOUNCE_S`].
    pub bounces: f64,
    /// What part of the rest closes the page some time, without a word. Their patience is log-normal.
    pub closes: f64,
    /// Its median in seconds.
    pub patience: f64,
    /// The deviation of its logarithm.
    pub spread: f64,
    /// What part of those who are still there does not see that it is their turn.
    pub misses: f64,
    /// What part of those who come is in which tier.
    pub tiers: [f64; Tier::COUNT],
}

/// Seconds that those who only have a look stay on average.
pub const BOUNCE_S: f64 = 20.0;

/// Twenty minutes of warming up, and an hour in which waits are told.
const TOLD: (u64, u64) = (1_200, 4_800);
const ENDS: u64 = 10_800;

impl Crowd {
    /// A quarter only has a look, and of those who stay three in ten close the page.
    pub const USUAL: Self = Self {
        cookieless: 0.1,
        bounces: 0.25,
        closes: 0.3,
        patience: 900.0,
        spread: 1.0,
        misses: 0.05,
        tiers: [0.06, 0.14, 0.8],
    };

    /// Nobody leaves and nobody misses anything.
    pub const PATIENT: Self = Self {
        cookieless: 0.0,
        bounces: 0.0,
        closes: 0.0,
        misses: 0.0,
        ..Self::USUAL
    };
}

impl Story {
    /// A line of about a quarter of an hour that goes on all the same.
    pub const STEADY: Self = Self {
        name: "steady",
        order: Order::Strict,
        crowd: Crowd::USUAL,
        first: 5_000.0,
        coming: 7.0,
        rate: 4.0,
        ramp: None,
        dip: None,
        hold: None,
        wave: None,
        sweeps: true,
        told: TOLD,
        ends: ENDS,
    };

    /// For five minutes the rate is a quarter of it.
    pub const DIP: Self = Self {
        name: "dip",
        dip: Some((2_700, 3_000, 0.25)),
        ..Self::STEADY
    };

    /// The rate grows to two and a half times as much within forty minutes, and so do those who come.
    pub const RAMP_UP: Self = Self {
        name: "ramp up",
        ramp: Some(Ramp {
            from: 1_800,
            until: 4_200,
            rate: 2.5,
            coming: 2.5,
        }),
        ..Self::STEADY
    };

    /// The rate falls to two fifths within forty minutes, and those who come to three fifths.
    pub const RAMP_DOWN: Self = Self {
        name: "ramp down",
        ramp: Some(Ramp {
            from: 1_800,
            until: 4_200,
            rate: 0.4,
            coming: 0.6,
        }),
        ..Self::STEADY
    };

    /// Within three minutes one in seven of those who wait anonymously signs in.
    pub const WAVE: Self = Self {
        name: "promotion wave",
        wave: Some(Wave {
            from: 2_700,
            until: 2_880,
            part: 0.15,
        }),
        ..Self::STEADY
    };

    /// For five minutes nobody is called.
    pub const PAUSE: Self = Self {
        name: "pause",
        hold: Some((2_700, 3_000)),
        ..Self::STEADY
    };

    /// All that the estimate is judged by.
    pub const ALL: [Self; 6] = [
        Self::STEADY,
        Self::DIP,
        Self::RAMP_UP,
        Self::RAMP_DOWN,
        Self::WAVE,
        Self::PAUSE,
    ];

    /// What can be let in per second then.
    pub fn rate_at(&self, second: u64) -> f64 {
        let dip = self.dip.filter(|dip| (dip.0..dip.1).contains(&second));
        self.rate * self.grown(second, |ramp| ramp.rate) * dip.map_or(1.0, |dip| dip.2)
    }

    /// How many come in that second on average.
    pub fn coming_at(&self, second: u64) -> f64 {
        if second < 60 {
            self.first / 60.0
        } else {
            self.coming * self.grown(second, |ramp| ramp.coming)
        }
    }

    /// Whether nobody is called then.
    pub fn is_held(&self, second: u64) -> bool {
        self.hold
            .is_some_and(|hold| (hold.0..hold.1).contains(&second))
    }

    fn grown(&self, second: u64, upto: impl Fn(&Ramp) -> f64) -> f64 {
        self.ramp.as_ref().map_or(1.0, |ramp| {
            let gone = second.clamp(ramp.from, ramp.until) - ramp.from;
            let part = gone as f64 / (ramp.until - ramp.from) as f64;
            1.0 + (upto(ramp) - 1.0) * part
        })
    }
}
