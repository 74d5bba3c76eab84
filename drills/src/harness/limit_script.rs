//! The script that keeps limits in a store, called as docs/store-keys.md says, past everything that Tidegate does.

use tidegate_core::rate::Spec;

/// The script.
pub(crate) const LIMIT: &str =
    include_str!("../../../crates/tidegate-store/src/redis/scripts/limit.lua");
/// Where it looks at the clock.
pub(crate) const CLOCK: &str = "local t = redis.call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n";

/// What one limit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Microseconds to wait, 0 where it passes; `None` if it never will.
    pub(crate) wait_us: Option<u64>,
    /// Whole tokens that are left.
    pub(crate) remaining: u64,
}

/// What the script is told of one limit.
pub(crate) struct Told<'a> {
    /// The limit.
    pub(crate) spec: &'a Spec,
    /// The tokens to take.
    pub(crate) cost: u64,
    /// Whether it only counts.
    pub(crate) shadow: bool,
}

/// The arguments to take or to ask.
pub(crate) fn taking(op: &str, told: &[Told<'_>]) -> Vec<String> {
    let mut arguments = vec![op.to_owned()];
    for it in told {
        describe(it.spec, &mut arguments);
        let (unit, most) = units(it.spec);
        let amount = (u128::from(it.cost) * u128::from(unit)).min(u128::from(most) + 1);
        arguments.push(amount.to_string());
        arguments.push(u8::from(it.shadow).to_string());
    }
    arguments
}

/// The arguments to settle what one limit was taken from at `at`: so many tokens `more` were used, or fewer.
pub(crate) fn settling(spec: &Spec, more: i64, at: u64) -> Vec<String> {
    let mut arguments = vec!["settle".to_owned()];
    describe(spec, &mut arguments);
    let (unit, most) = units(spec);
    let all = 2 * i128::from(most) + 1;
    let more = (i128::from(more) * i128::from(unit)).clamp(-all, all);
    arguments.extend([more.to_string(), at.to_string()]);
    arguments
}

/// What the script says of each limit, from its reply.
///
/// # Panics
///
/// When the reply is not as docs/store-keys.md says.
pub(crate) fn said(reply: &[i64]) -> Vec<Said> {
    // Third is when there is more, which nobody asks for here.
    let limits = reply.get(2..).unwrap_or_default().chunks_exact(3);
    assert!(limits.remainder().is_empty(), "{reply:?} is no reply");
    limits
        .map(|of| Said {
            wait_us: u64::try_from(of[0]).ok(),
            remaining: u64::try_from(of[1]).unwrap_or(u64::MAX),
        })
        .collect()
}

/// In what a limit is counted, for each token, and how much of it there is at most.
const fn units(spec: &Spec) -> (u64, u64) {
    match spec {
        Spec::Bucket(spec) => (spec.credits_per_token(), spec.credits_when_full() as u64),
        Spec::Log(spec) => (1, spec.limit()),
        Spec::Window(spec) => (1, spec.limit()),
        Spec::Deny => (0, 0),
    }
}

fn describe(spec: &Spec, arguments: &mut Vec<String>) {
    let (letter, measures) = match spec {
        Spec::Bucket(it) => (
            "b",
            [it.credits_per_us(), it.credits_per_token(), units(spec).1],
        ),
        Spec::Log(it) => ("l", [it.window_us(), 0, it.limit()]),
        Spec::Window(it) => ("w", [it.window_us(), it.grain_us(), it.limit()]),
        Spec::Deny => ("d", [0; 3]),
    };
    arguments.push(letter.to_owned());
    arguments.extend(measures.map(|measure| measure.to_string()));
}
