//! The simulated Kubernetes API held against a real kube-apiserver, request by request.
//!
//! A [`sequence`] is data: requests in order, with values saved from one answer for a later request. [`play`]
//! sends it to a [`target`], [`normal`] replaces what no two servers share, [`compare`] says what differs.
//! Answers of the real server are kept beside the sequences, so that a plain `cargo test` needs no Go; what is
//! known to differ stands in `known-differences.yaml`, and is held to it exactly.

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

use normal::Answer;
use sequence::Sequence;
use target::Target;

/// The version of Kubernetes that the simulated API server emulates, and the only one to compare it with.
pub const VERSION: &str = "v1.36.3";

/// Plays a sequence against a simulated cluster of its own, in virtual time.
///
/// # Errors
/// When the sequence cannot be sent; what the server answers is never an error.
pub fn simulated(sequence: &Sequence) -> anyhow::Result<Vec<Answer>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("a runtime without I/O needs nothing from the system; try again")?;
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
        let target = Target::Simulated(sim.cluster().service(""));
        answers(sequence, &target, "kd-sim").await
    })
}

/// Plays a sequence and normalises the answers. `id` is the name of its own namespace there.
///
/// # Errors
/// When the target cannot be reached.
pub async fn answers(
    sequence: &Sequence,
    target: &Target,
    id: &str,
) -> anyhow::Result<Vec<Answer>> {
    let raw = play::play(sequence, target, id)
        .await
        .with_context(|| format!("while playing the sequence {}", sequence.name))?;
    Ok(normal::normalise(raw, id, sequence.managed_fields))
}
