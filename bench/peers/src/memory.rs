//! Memory for each key: what is resident after many of them, less what was before.

use std::error::Error;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::peer::{Allowance, InMemory, Ours, governor};
use crate::speed::key;

/// Keys that come in.
pub const KEYS: u64 = 400_000;
/// So that one decision leaves something to remember for a day.
const ALLOWANCE: Allowance = Allowance(10);
const WHO: [&str; 3] = ["ours", "governor", "limitador"];

/// Each in a process of its own.
pub fn of_all() -> Result<Value, Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let mut figures = serde_json::Map::new();
    for who in WHO {
        let output = Command::new(&this).args(["memory", who]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let bytes: f64 = text.trim().parse()?;
        figures.insert(who.to_owned(), json!(bytes));
    }
    Ok(figures.into())
}

/// Bytes for each key of one of them, in this process.
pub fn bytes_per_key(who: &str) -> Result<f64, Box<dyn Error>> {
    match who {
        "ours" => {
            let ours = Ours::new(ALLOWANCE, 2 * KEYS)?;
            grown(|key| ours.passes(key))
        }
        "governor" => {
            let theirs = governor(ALLOWANCE);
            grown(|key| theirs.check_key(&key.to_owned()).is_ok())
        }
        "limitador" => {
            let theirs = InMemory::new(ALLOWANCE, 2 * KEYS)?;
            grown(|key| theirs.passes(key))
        }
        _ => Err(format!("nobody is {who}").into()),
    }
}

/// By how much this process grows for each key.
fn grown(passes: impl Fn(&str) -> bool) -> Result<f64, Box<dyn Error>> {
    let before = resident()?;
    for number in 0..KEYS {
        if !passes(&key(number)) {
            return Err("a first request has to pass".into());
        }
    }
    Ok((resident()? - before) / KEYS as f64)
}

fn resident() -> Result<f64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no VmRSS")?.parse::<f64>()? * 1_024.0)
}
