//! `tidegate check --online`: asks the servers of the store for what matters to us, and says what to
//! change.

mod advice;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tidegate_store::redis::{Inspection, RedisPlan, Use, inspect};

use crate::config::{Setup, place};
use crate::secrets;
use advice::{Advice, Needs, Weight};

/// How long a server is waited for. Nobody's request depends on it.
const WITHIN: Duration = Duration::from_secs(2);

/// Asks and prints. Fails when something has to be changed before the store will do.
pub(crate) fn check(setup: &Setup) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let mut page = String::new();
    let mut sound = true;
    for (uses, plan) in plans(setup)? {
        let names: Vec<&str> = uses.iter().map(|which| which.name()).collect();
        writeln!(page, "\n{}: {}", names.join(", "), place(&plan))?;
        let needs = Needs::of(&uses, &plan, setup);
        for inspection in runtime.block_on(inspect(&plan, WITHIN)) {
            sound &= report(&mut page, &inspection, &needs)?;
        }
    }
    if page.is_empty() {
        page.push_str("\nno server is named: there is nothing to ask");
    }
    crate::print(page.trim_end())?;
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The servers with the uses that they are for, with passwords.
fn plans(setup: &Setup) -> anyhow::Result<Vec<(Vec<Use>, RedisPlan)>> {
    let mut plans: Vec<(Vec<Use>, RedisPlan)> = Vec::new();
    for which in Use::ALL {
        let Some(servers) = setup.store.servers(which) else {
            continue;
        };
        let plan = secrets::with_passwords(servers)?;
        match plans.iter_mut().find(|(_, other)| *other == plan) {
            Some((uses, _)) => uses.push(which),
            None => plans.push((vec![which], plan)),
        }
    }
    Ok(plans)
}

/// Writes what there is to say about one server; whether it will do.
fn report(page: &mut String, inspection: &Inspection, needs: &Needs) -> anyhow::Result<bool> {
    let address = &inspection.address;
    let found = match &inspection.found {
        Ok(found) => found,
        Err(why) => {
            writeln!(page, "  {address}: error: {why}")?;
            return Ok(false);
        }
    };
    let role = if found.role == "slave" {
        "replica"
    } else {
        "master"
    };
    writeln!(
        page,
        "  {address}: {} {}, {role}",
        found.product, found.version
    )?;
    let advice = advice::advice(found, needs);
    for Advice { weight, text, fix } in &advice {
        let heading = match weight {
            Weight::Must => "error",
            Weight::Should => "warning",
        };
        writeln!(page, "    {heading}: {text}\n      help: {fix}")?;
    }
    Ok(!advice.iter().any(|advice| advice.weight == Weight::Must))
}
