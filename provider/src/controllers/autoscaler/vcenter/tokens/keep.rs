//! Renews and deletes the tokens of clones, as the journal and the Nodes say.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        super::tokens::{MachineKey, Nodes, Side, TokenSecret, Workload, reason},
        AT_A_TIME, VcenterMachines,
        journal::Intent,
        state::State,
    },
    key,
    plan::{Standing, Step, next},
};

/// Interval at which the plans are made again. Plans cost no request.
const LOOK: Duration = Duration::from_secs(5);
/// Shortest time between two passes.
const REST: Duration = Duration::from_secs(1);
/// Longest pause after failures; much shorter than half of the shortest life of a token.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl VcenterMachines {
    /// Keeps the tokens until the stop, from the first group with `token` on.
    pub(in super::super) async fn keep_tokens(&self, of: &Workload, stop: &CancellationToken) {
        stop.run_until_cancelled(of.used()).await;
        let mut wait = LOOK;
        while !stop.is_cancelled() {
            let steps = self.token_steps(of);
            let writes = futures::stream::iter(steps).map(|step| carry_out(of, step));
            let writes = writes.buffer_unordered(AT_A_TIME);
            let is_done =
                writes.fold(true, |all, is_done| std::future::ready(all && is_done)).await;
            stop.run_until_cancelled(tokio::time::sleep(REST)).await;
            if is_done {
                wait = LOOK;
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = of.wake().notified() => {}
                    () = stop.cancelled() => {}
                }
            } else {
                stop.run_until_cancelled(tokio::time::sleep(wait)).await;
                wait = (wait * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Returns the next write for each token that needs one; none if another server owns the journal.
    fn token_steps(&self, of: &Workload) -> Vec<(TokenSecret, Step)> {
        let tokens = of.tokens().unwrap_or_default();
        if tokens.is_empty() {
            return Vec::new();
        }
        let (nodes, now) = (of.nodes(), of.now());
        let state = self.state();
        if state.lost.is_some() {
            return Vec::new();
        }
        let intents: BTreeMap<MachineKey, &Intent> =
            state.journal.machines().iter().map(|it| (key(it), it)).collect();
        let step = |token: TokenSecret| {
            let standing = match intents.get(&token.key) {
                Some(intent) => of_intent(intent, &state, &nodes),
                // The machine may exist: another server of the journal makes it, or the journal is older
                // than the machine.
                None => Standing::Unknown,
            };
            next(&token, standing, now).map(|step| (token, step))
        };
        tokens.into_iter().filter_map(step).collect()
    }
}

fn of_intent<'a>(intent: &Intent, state: &'a State, nodes: &Nodes) -> Standing<'a> {
    if !intent.counts() {
        return Standing::Ended;
    }
    // The Node has the UUID that the machine really got.
    let actual = MachineKey { name: intent.name.clone(), bios_uuid: intent.bios };
    let own = state.work.get(&intent.instance).and_then(|it| it.token.as_deref());
    Standing::Counts { is_node: nodes.has(&actual), own }
}

/// Carries out a step. Returns false if it failed, and logs why.
async fn carry_out(of: &Workload, (token, step): (TokenSecret, Step)) -> bool {
    let (what, result) = match step {
        Step::Renew(ttl) => ("renew a token", of.renew(&token, ttl).await.map(drop)),
        Step::Revoke => ("delete a token", of.revoke(&token).await),
    };
    if let Err(err) = &result {
        tracing::warn!(machine = %token.key.name, error = %reason(Side::Workload, err), "cannot {what}; retrying");
    }
    result.is_ok()
}
