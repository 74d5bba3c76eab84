//! The drills.
fn main() {}
