//! What `tidegate agent probe` sees, as an operator runs it.

use std::process::Command;

use serde_json::Value;

use super::binary;

/// Looks with these `flags` for `seconds`, and says what was seen at the end.
pub(crate) fn probe(flags: &[&str], seconds: u32) -> anyhow::Result<Value> {
    let output = Command::new(binary()?)
        .args([
            "agent",
            "probe",
            "--json",
            "--seconds",
            &seconds.to_string(),
        ])
        .args(flags)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "the probe failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}
