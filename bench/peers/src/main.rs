//! Keyed limits of Tidegate, governor and limitador in one process: decisions in a second of CPU time, in rounds by turns,
//! and memory for each key. Prints JSON.
//!
//! Each decides by the same strings in the same order, on one thread. `./drill limits-cost` runs it and holds it against
//! its bars.

mod memory;
mod peer;
mod speed;

use std::error::Error;

use serde_json::json;

/// Rounds when nothing is said.
const ROUNDS: usize = 7;
/// Fewest rounds that say anything.
const ROUNDS_MIN: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        // A process of its own for each, so that what one has freed is no room for the next.
        ["memory", who] => println!("{}", memory::bytes_per_key(who)?),
        // For a profiler: nothing but ours.
        ["ours"] => speed::ours_alone(),
        [] => measure(ROUNDS)?,
        ["--rounds", rounds] => measure(rounds.parse()?)?,
        _ => return Err("tidegate-peers [--rounds N] | memory WHO | ours".into()),
    }
    Ok(())
}

fn measure(rounds: usize) -> Result<(), Box<dyn Error>> {
    let speed = speed::in_turns(rounds.max(ROUNDS_MIN))?;
    let result = json!({
        "speed": speed,
        "bytes_per_key": memory::of_all()?,
        "keys_in_memory": memory::KEYS,
    });
    println!("{result:#}");
    Ok(())
}
