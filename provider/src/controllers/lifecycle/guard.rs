//! Memory of the lifecycle controller about nodes whose machines are gone: the held nodes, and the
//! refused deletions. Pure data; [`plan`](super::plan) and `run` read and update it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::model::{Node, NodeUid};

/// Minimum time between the first proof of a held node and the second one, which releases it.
pub(super) const HOLD_DURATION: Duration = Duration::from_secs(30);
/// Maximum age of a proof that a backend may answer from memory. Right before a deletion the
/// controller renews a proof that is older than [`super::plan::MAX_PROOF_AGE`].
const PROOF_AGE: Duration = Duration::from_secs(60);
/// Number of refusals in a row that cause no wait unless the server requests one: the controller
/// tries to delete the node again in the next round. After each further refusal it waits longer, up
/// to [`MAX_WAIT`].
const FREE_RETRIES: u32 = 2;
/// Longest wait before the next attempt to delete a node. Each attempt costs a proof.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The held nodes with the instant of their first proof, and the nodes with refused deletions, by
/// UID.
#[derive(Debug, Default)]
pub(super) struct Guard {
    pub(super) held: BTreeMap<NodeUid, Instant>,
    refused: BTreeMap<NodeUid, Refusal>,
}

/// Number of refused deletions of one node, and the end of the wait before the next attempt.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    times: u32,
    until: Instant,
}

impl Guard {
    /// Returns the earliest instant of a proof that counts for this node: 60 s before `now`. For a
    /// held node whose first proof is at least 30 s old, the instant 30 s after that proof, if that
    /// is later.
    pub(super) fn proof_after(&self, uid: &NodeUid, now: Instant) -> Instant {
        let ordinary = now.checked_sub(PROOF_AGE).unwrap_or(now);
        match self.held.get(uid) {
            Some(since) if now >= *since + HOLD_DURATION => (*since + HOLD_DURATION).max(ordinary),
            _ => ordinary,
        }
    }

    /// Notes that a deletion of this node failed or was not confirmed. A provider without the right
    /// to delete Nodes must not make proofs all day: after the third failure in a row the wait is
    /// twice `period`, and each further failure doubles it, up to 60 s. The wait is at least
    /// `asked`, the pause that the server requested (at most 60 s).
    pub(super) fn refused(
        &mut self,
        uid: &NodeUid,
        now: Instant,
        period: Duration,
        asked: Duration,
    ) {
        let times = self.refused.get(uid).map_or(1, |refused| refused.times.saturating_add(1));
        let doublings = times.saturating_sub(FREE_RETRIES).min(16);
        let wait = match doublings {
            0 => Duration::ZERO,
            _ => period.saturating_mul(1 << doublings).min(MAX_WAIT),
        };
        let wait = wait.max(asked.min(MAX_WAIT));
        self.refused.insert(uid.clone(), Refusal { times, until: now + wait });
    }

    /// True if the controller may try to delete this node now.
    pub(super) fn may_try(&self, uid: &NodeUid, now: Instant) -> bool {
        self.refused.get(uid).is_none_or(|refused| refused.until <= now)
    }

    /// Forgets all nodes except those in `gone`, whose machines are still gone.
    pub(super) fn retain(&mut self, gone: &[(&Arc<Node>, Instant)]) {
        let uids: BTreeSet<&NodeUid> = gone.iter().map(|(node, _)| &node.uid).collect();
        self.held.retain(|uid, _| uids.contains(uid));
        self.refused.retain(|uid, _| uids.contains(uid));
    }

    /// Number of nodes that the guard holds now.
    pub(super) fn n_held(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_deletions_wait_longer_from_the_third_refusal_on() {
        let (mut guard, period) = (Guard::default(), Duration::from_secs(5));
        let now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..7 {
            guard.refused(&"a".into(), now, period, Duration::ZERO);
            let is_over = |wait: &u64| guard.may_try(&"a".into(), now + Duration::from_secs(*wait));
            waits.extend((0..=60).find(is_over));
        }
        assert_eq!(waits, [0, 0, 10, 20, 40, 60, 60]);
        guard.refused(&"b".into(), now, period, Duration::from_secs(7));
        assert!(
            !guard.may_try(&"b".into(), now + Duration::from_secs(6)),
            "the server requested 7 s"
        );
        assert!(guard.may_try(&"b".into(), now + Duration::from_secs(7)));
        assert!(guard.may_try(&"c".into(), now));
    }
}
