//! Tidegate's decisions, and nothing else.
//!
//! Everything in here is a pure function or a small state machine: time, random numbers and events
//! come in as arguments, what to do comes out. There is no I/O, no clock, no entropy, no thread and
//! no async, so the gateway, the simulator and the load tester all run this very code.

pub mod admission;
pub mod breaker;
pub mod bulkhead;
mod codel;
pub mod deadline;
pub mod facts;
pub mod health;
pub mod journal;
pub mod limit;
pub mod queue;
pub mod rate;
pub mod retry;
pub mod rng;
pub mod room;
mod service;
pub mod session;
pub mod time;
