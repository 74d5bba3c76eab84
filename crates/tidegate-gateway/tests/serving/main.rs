//! Client connections over real sockets: what is served, what is refused, and how they end.

mod admin;
mod caps;
mod drain;
mod framing;
mod support;
mod timeouts;
mod verdict;
