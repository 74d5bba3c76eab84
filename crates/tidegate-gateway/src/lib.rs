//! The data path: everything between a client's socket and the application's.

pub mod body;
pub mod breaker;
pub mod classify;
pub mod cohort;
pub mod context;
pub mod dependency;
pub mod forward;
mod framed;
pub mod gate;
pub mod health;
pub mod metrics;
pub mod own;
pub mod plan;
pub mod rate;
pub mod request;
pub mod room;
pub mod serve;
pub mod session;
pub mod slot;
pub mod status;
pub mod upstream;
pub mod work;

mod admin;
mod connections;
mod drain;
mod farewell;
mod gateway;
mod heard;
mod io;
mod journal;
mod link;
mod listener;
mod log;
mod parts;
mod threads;
mod warm;

pub use crate::gateway::{Gateway, StartError};
pub use crate::heard::{FleetWord, FollowPlan};
