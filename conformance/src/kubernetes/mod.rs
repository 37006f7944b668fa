//! Compares the simulated Kubernetes API with a real kube-apiserver, request by request.
//!
//! A [`sequence`] is data: requests in order, of which later ones can use values that earlier
//! answers contain. [`play`] sends the requests to a [`target`], [`normal`] replaces values that
//! differ on every server, and [`compare`] finds the differences. Files beside the sequences
//! contain the real server's answers, so that a plain `cargo test` needs no Go.
//! `known-differences.yaml` lists the known differences and must match the actual ones exactly.

pub mod command;
pub mod compare;
pub mod fuzz;
pub mod known;
pub mod normal;
pub mod peer;
pub mod play;
pub mod sequence;
pub mod store;
pub mod target;

use anyhow::Context as _;

use normal::StepAnswer;
use sequence::Sequence;
use target::TargetServer;

/// Version of Kubernetes that the simulated API server emulates, and the only one to compare it
/// with.
pub const VERSION: &str = "v1.36.3";

/// Plays a sequence on a new simulated cluster, in virtual time, and returns the normalized
/// answers.
///
/// # Errors
/// Fails if the runtime cannot be made, or as [`answers`] does. An answer with an error status is
/// not an error.
pub fn simulated(sequence: &Sequence) -> anyhow::Result<Vec<StepAnswer>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("cannot make the async runtime of the simulated API server")?;
    runtime.block_on(async {
        let topology = sim::world::Topology::zones(1).machines(0);
        let sim = sim::Sim::builder().topology(topology).start();
        for (user, token) in target::USERS {
            let identity = if *user == "admin" {
                sim::Identity::admin()
            } else {
                let groups = vec!["system:authenticated".to_owned()];
                sim::Identity { user: (*user).to_owned(), groups }
            };
            sim.tokens().issue(token, identity, None);
        }
        sim.access().require_rbac();
        let target = TargetServer::Simulated(sim.cluster().service(""), sim.world().clone());
        answers(sequence, &target, "kd-sim").await
    })
}

/// Plays a sequence in a new namespace with the name `id`, and normalizes the answers.
///
/// # Errors
/// Fails as [`play::play`] does. An answer with an error status is not an error.
pub async fn answers(
    sequence: &Sequence,
    target: &TargetServer,
    id: &str,
) -> anyhow::Result<Vec<StepAnswer>> {
    let raw = play::play(sequence, target, id)
        .await
        .with_context(|| format!("cannot play the sequence {}", sequence.name))?;
    Ok(normal::normalise(raw, id, sequence.managed_fields))
}
