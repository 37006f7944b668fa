//! `sim serve`: builds a world, opens its listeners, prints their addresses, and serves until a
//! signal arrives.

mod inventory;
mod mount;
mod prepared;
mod record;
mod report;
mod running;
mod signals;
mod state;

use std::io;
use std::path::Path;

use jiff::Timestamp;
use sim_world::Command;
use tokio::task::JoinSet;

use super::CliError;
use super::args::{Serve, Switch};
use crate::Sim;
use crate::cli::serve::record::Recording;
use crate::cli::serve::signals::Signals;
use crate::cli::serve::state::StateDirectory;
use crate::faults::Rule;
use crate::ledger::Ledger;
use prepared::Prepared;
use running::{Plan, serve};

/// Runs `sim serve` until a signal arrives, or until the start fails.
pub(super) fn run(options: &Serve, now: Timestamp) -> Result<(), CliError> {
    let mut prepared = Prepared::read(options, now)?;
    // Other sims must not use the files before the runtime has ended, so these outlive it.
    let _locks = std::mem::take(&mut prepared.locks);
    let state = prepared.state.take();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CliError::failed(format!("cannot start a runtime: {error}"), "try again")
        })?;
    runtime.block_on(start_and_serve(options, prepared, state.as_ref()))
}

/// Starts the world and serves it until a signal arrives. Then saves the world to `state`, if set,
/// and completes the files of `--ledger` and `--record`. A second signal aborts the shutdown with
/// an error.
async fn start_and_serve(
    options: &Serve,
    prepared: Prepared<'_>,
    state: Option<&StateDirectory>,
) -> Result<(), CliError> {
    let Prepared { builder, listen, kubelets, rules, origin, record, spill, .. } = prepared;
    let mut signals = Signals::new()?;
    let sim = builder.start();
    // Aborts its tasks at the end of this function.
    let mut beside = JoinSet::new();
    let ledger_path = spill.as_ref().map(|(_, path)| *path);
    if let Some((file, path)) = spill {
        let begun = sim.ledger().spill_to(file);
        begun.map_err(|error| CliError::file("--ledger", path, &error))?;
        let ledger = sim.ledger().clone();
        beside.spawn(async move { ledger.spill_open().await });
    }
    let recording = record.map(|target| target.begin(&sim)).transpose()?;
    apply_settings(options, &sim)?;
    add_rules(options, &sim, rules)?;
    let env = options.env.as_deref();
    let plan = Plan { listen, kubelets, state, origin, env, mounts: options.supervisor.as_deref() };
    let served = serve(&sim, plan, &mut signals).await;
    // Writes the ledger even if the world cannot be saved.
    let kept = match (&served, state) {
        (Ok(()), Some(state)) => state.keep_world(&sim),
        _ => Ok(()),
    };
    let ledger = sim.ledger().clone();
    tokio::select! {
        // Polls the signal first, so that a second signal aborts a clean shutdown.
        biased;
        () = signals.next() => {
            return Err(CliError::failed("ended at once by a second signal", ""));
        }
        () = sim.shutdown() => {}
    }
    let recorded = end_recording(recording).await;
    if let Some(path) = ledger_path {
        end_ledger(ledger, path).await?;
    }
    served.and(kept).and(recorded)
}

/// Applies the options that are settings of a running world.
///
/// # Errors
/// An option that needs a Supervisor, in a world without one, or heartbeats that the world refuses
/// to stop, which would be a bug.
fn apply_settings(options: &Serve, sim: &Sim) -> Result<(), CliError> {
    if options.heartbeats == Switch::Off {
        let off = Command::SetHeartbeats { every: None };
        sim.world()
            .apply(off)
            .map_err(|error| CliError::failed(error.to_string(), "report this as a bug of sim"))?;
    }
    if options.rbac {
        sim.access().require_rbac();
    }
    match (sim.supervisor(), options.supervisor_profile) {
        (Some(supervisor), Some(profile)) => supervisor.grant(profile.into()),
        (None, Some(_)) => return Err(no_supervisor("--supervisor-profile")),
        (None, None) if options.supervisor.is_some() => {
            return Err(no_supervisor("--supervisor"));
        }
        _ => {}
    }
    Ok(())
}

fn add_rules(options: &Serve, sim: &Sim, rules: Vec<Rule>) -> Result<(), CliError> {
    let added = sim.fault_all(rules).map_err(|error| {
        let path = options.faults.as_deref().unwrap_or(Path::new(""));
        let what = format!("--faults {}: {error}", path.display());
        CliError::input(what, "correct the rule")
    })?;
    added.keep();
    Ok(())
}

async fn end_recording(recording: Option<Recording>) -> Result<(), CliError> {
    let recorded = tokio::task::spawn_blocking(move || recording.map_or(Ok(()), Recording::end));
    recorded.await.unwrap_or_else(|panic| {
        Err(CliError::failed(format!("--record: {panic}"), "report this as a bug of sim"))
    })
}

async fn end_ledger(ledger: Ledger, path: &Path) -> Result<(), CliError> {
    let written = tokio::task::spawn_blocking(move || ledger.end_spill());
    let written = written.await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    written.map_err(|error| CliError::file("--ledger", path, &error))
}

/// Returns the error for an option that needs a Supervisor, in a world without one.
fn no_supervisor(option: &str) -> CliError {
    let what = format!("{option}: this world has no Supervisor");
    CliError::input(
        what,
        "add --supervisor DIR; a world saved with --state keeps its settings, so choose another directory for --state too",
    )
}
