//! One decision on one node, with all that it came from, so that it can be written down and taken again.

use super::fleet::NodeId;
use super::node::{Context, Input, Memory, Outcome};
use super::settings::Settings;
use crate::time::Mono;

/// A decision. Plain data: what goes into it, what was known before, and what came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// When it was taken.
    pub at: Mono,
    /// On which node.
    pub node: NodeId,
    /// What was told of it.
    pub input: Input,
    /// What was remembered of it.
    pub before: Memory,
    /// What the fleet had to say.
    pub context: Context,
    /// What was decided.
    pub outcome: Outcome,
}

/// Takes `decision` again from what it says it came from: the same outcome, or somebody has changed something.
pub fn replay(settings: &Settings, decision: &Decision) -> Outcome {
    let mut memory = decision.before;
    let turn = memory.observe(settings, decision.at, &decision.input);
    memory.draw(&decision.input, &decision.context);
    memory.settle(decision.at, &decision.input, &decision.context, turn)
}
