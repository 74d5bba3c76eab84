//! Open files, of which every connection is one.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files this process may have open to as many as `wanted`, as far as it is
/// allowed to, and says how many that came to.
pub fn raise_file_limit(wanted: u64) -> io::Result<u64> {
    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(current);
    }
    let hard = now.maximum.unwrap_or(u64::MAX);
    if hard < wanted {
        let both = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        // Only root may; everybody else gets what the hard limit allows.
        if setrlimit(Resource::Nofile, both).is_ok() {
            return Ok(wanted);
        }
    }
    let reachable = wanted.min(hard);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(reachable),
            maximum: now.maximum,
        },
    )?;
    Ok(reachable)
}
