//! What limits that hold across a fleet promise, over simulated time: the totals, the bounds that are printed,
//! and what they cost the store, whatever becomes of messages and nodes.

mod coordination;
mod growth;
mod membership;
mod messages;
mod permits;
mod world;
