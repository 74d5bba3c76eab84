//! The agent alone, for a node whose proxy is something else: what `tidegate run` has beside its data path.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tidegate_fleet::{PermitDoor, Sidecar};
use tidegate_gateway::Gateway;
use tidegate_gateway::plan::DrainPlan;
use tokio::time::sleep;

use crate::balancer::Balancers;
use crate::config::{Setup, farewell};
use crate::control::{self, Control};
use crate::loaded::Loaded;
use crate::run::{self, Signals};

/// Runs the agent of `setup` until a signal, and says goodbye. A second signal stops at once.
pub(super) fn run(setup: Setup, loaded: Loaded) -> anyhow::Result<ExitCode> {
    run::block_on_signals(serve(setup, loaded))
}

async fn serve(mut setup: Setup, loaded: Loaded) -> anyhow::Result<ExitCode> {
    // Before anybody can ask, so that no signal can slip through between.
    let mut signals = Signals::listen(loaded.clone())?;
    let goodbye = farewell(&setup);
    // The farewell comes before the end: then nobody is waited for.
    setup.gateway.drain = DrainPlan {
        delay: Duration::ZERO,
        timeout: Duration::ZERO,
    };
    let nodes = run::start_fleet(&setup)?;
    let fleet = nodes.as_ref().map(|nodes| nodes.fleet.clone());
    let sidecar = run::start_sidecar(&setup, None, &PermitDoor::default(), fleet.clone())?;
    let gateway = Gateway::start(setup.gateway)?;
    let (balancers, control) = run::start_beside(
        &setup.balancer,
        setup.fleet.as_ref().zip(fleet),
        setup.agent.as_ref(),
        sidecar.as_ref(),
        &gateway,
        &loaded,
    )?;
    announce(&gateway, sidecar.as_ref(), &balancers);

    let name = signals.next().await;
    tracing::info!(
        signal = name,
        span_ms = goodbye.as_millis(),
        "leaving: balancers are told that all is well; a second signal stops at once"
    );
    tokio::select! {
        () = leave(&gateway, control, balancers, goodbye) => {
            gateway.drain();
            let ended = tokio::task::spawn_blocking(move || gateway.join());
            ended.await.context("the agent's thread has failed")?;
            drop(sidecar);
            tracing::info!("gone");
            Ok(ExitCode::SUCCESS)
        }
        name = signals.next() => {
            tracing::warn!(signal = name, "stopped before all balancers were told");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Has everybody who asks told for `goodbye` that the node has all its weight, unless an operator has taken it out. The agent goes and
/// not the node: what a balancer hears last may hold for ever, and nobody watches the node from then on.
async fn leave(
    gateway: &Gateway,
    control: Option<Control>,
    balancers: Balancers,
    goodbye: Duration,
) {
    let board = gateway.board();
    let silence = async {
        // First of all nobody may put up another verdict.
        control::leave(control).await;
        board.post(board.current().last_word(), goodbye);
    };
    tokio::join!(silence, balancers.leave(), sleep(goodbye));
}

/// Says where everything listens. Nobody reading is no reason not to serve.
fn announce(gateway: &Gateway, sidecar: Option<&Sidecar>, balancers: &Balancers) {
    let mut stdout = std::io::stdout();
    let admin = run::admin_place(gateway);
    let _ = writeln!(stdout, "tidegate: agent alone, admin {admin}");
    run::announce_beside(&mut stdout, sidecar, balancers);
    let _ = stdout.flush();
}
