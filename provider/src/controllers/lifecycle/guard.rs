//! Memory of the lifecycle controller for nodes whose machines are gone: the held nodes, and the refused deletions.
//! Pure; [`plan`](super::plan) and `run` read and update it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::model::Node;

/// The second proof of a held node must be at least this much younger than the first.
pub(super) const HOLD: Duration = Duration::from_secs(30);
/// Maximum age of a remembered proof. No deletion relies on an old proof: the controller renews the proof right before
/// the deletion ([`super::plan::FRESH`]).
const PROOF_AGE: Duration = Duration::from_secs(60);
/// Number of refused deletions of one node that are tried again in the next round; further ones wait longer and longer.
const PROMPT: u32 = 2;
/// Longest wait between two deletions of one node. Each deletion costs a proof.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Held nodes with the time of their first proof, and refused deletions, by UID.
#[derive(Debug, Default)]
pub(super) struct Guard {
    pub(super) held: BTreeMap<String, Instant>,
    refused: BTreeMap<String, Refused>,
}

/// Deletions of one node that were refused.
#[derive(Clone, Copy, Debug)]
struct Refused {
    times: u32,
    until: Instant,
}

impl Guard {
    /// Returns the instant after which a proof for this node must have been made.
    pub(super) fn proof_after(&self, uid: &str, now: Instant) -> Instant {
        let ordinary = now.checked_sub(PROOF_AGE).unwrap_or(now);
        match self.held.get(uid) {
            Some(since) if now >= *since + HOLD => (*since + HOLD).max(ordinary),
            _ => ordinary,
        }
    }

    /// Notes that the API server refused to delete this node. A provider that may not delete must not prove absences
    /// all day: after [`PROMPT`] tries the wait doubles from `period` on. The wait is at least `asked`, the pause that
    /// the server wants.
    pub(super) fn refused(&mut self, uid: &str, now: Instant, period: Duration, asked: Duration) {
        let times = self.refused.get(uid).map_or(1, |refused| refused.times.saturating_add(1));
        let doublings = times.saturating_sub(PROMPT).min(16);
        let wait = match doublings {
            0 => Duration::ZERO,
            _ => period.saturating_mul(1 << doublings).min(MAX_WAIT),
        };
        let wait = wait.max(asked.min(MAX_WAIT));
        self.refused.insert(uid.to_owned(), Refused { times, until: now + wait });
    }

    /// True if the deletion of this node may be tried (again) now.
    pub(super) fn may_try(&self, uid: &str, now: Instant) -> bool {
        self.refused.get(uid).is_none_or(|refused| refused.until <= now)
    }

    /// Forgets the nodes that are not gone any more.
    pub(super) fn retain(&mut self, gone: &[(&Arc<Node>, Instant)]) {
        let uids: BTreeSet<&str> = gone.iter().map(|(node, _)| node.uid.as_str()).collect();
        self.held.retain(|uid, _| uids.contains(uid.as_str()));
        self.refused.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// Number of nodes that are held now.
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
            guard.refused("a", now, period, Duration::ZERO);
            let is_over = |wait: &u64| guard.may_try("a", now + Duration::from_secs(*wait));
            waits.extend((0..=60).find(is_over));
        }
        assert_eq!(waits, [0, 0, 10, 20, 40, 60, 60]);
        guard.refused("b", now, period, Duration::from_secs(7));
        assert!(!guard.may_try("b", now + Duration::from_secs(6)), "the server asked for more");
        assert!(guard.may_try("b", now + Duration::from_secs(7)));
        assert!(guard.may_try("c", now));
    }
}
