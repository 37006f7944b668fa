//! Checks leadership: of several replicas, only the one that holds the lease may write.

use std::time::Duration;

use sim::Class;
use sim::world::objects::{GroupResource, Key};
use sim::world::{Event, Time};

use super::{Invariant, Violation};
use crate::lab::{Identities, LEASE, Run, unknown_leader_reason};

/// One version of the lease.
#[derive(Debug)]
pub(crate) struct LeaseVersion<'a> {
    /// Time from which the lease has this version.
    pub(crate) from: Time,
    /// Identity of the holder; empty if the lease is free.
    pub(crate) holder: &'a str,
    /// Label of the replica that holds the lease; `None` if the holder is not a replica.
    replica: Option<String>,
    /// Duration for which the lease is valid without a renewal.
    pub(crate) lasts: Duration,
    /// Time of the last renewal as the holder wrote it; empty if the lease has none.
    pub(crate) renewed: &'a str,
}

impl LeaseVersion<'_> {
    /// Returns the label of the replica that holds the lease, or the holder if it is not a replica.
    pub(crate) fn label(&self) -> &str {
        self.replica.as_deref().unwrap_or(self.holder)
    }

    /// True if this version of the lease alone allows the caller to write at `at`.
    fn allows(&self, caller: &str, at: Time) -> bool {
        self.replica.as_deref() == Some(caller) && at.since(self.from) < self.lasts
    }
}

/// Returns the writes of replicas that did not hold a valid lease when the write arrived.
///
/// A leader that can no longer renew the lease must stop before the lease runs out, so the check
/// needs no tolerance for clocks. Every replica may write leases, because it becomes leader that
/// way, and events, which are reports. The function returns no violations if the run has a single
/// replica or no log of the world. For a provider on the real clock, it also returns none if the
/// ledger does not show which replica leads; the lab has then noted the reason, which makes the run
/// inconclusive.
pub(super) fn violations(run: &Run) -> Vec<Violation> {
    let mut found = Vec::new();
    if run.scenario.provider.replicas < 2 || run.log.base().is_none() {
        return found;
    }
    if run.hosted && run.scenario.provider.elects() && unknown_leader_reason(&run.ledger).is_some()
    {
        return found;
    }
    let terms = terms(run);
    let writes = run.calls().filter(|call| {
        call.is_cluster_call()
            && call.class == Some(Class::Write)
            && call.client.client.starts_with("provider")
            && !call.op.contains("leases")
            && !call.op.contains("events")
    });
    for write in writes {
        let caller = write.client.client.as_str();
        // At the moment of a change, both the old and the new version count.
        let next = terms.partition_point(|term| term.from <= write.t);
        let before = terms.partition_point(|term| term.from < write.t);
        let now = &terms[before.saturating_sub(1)..next];
        if !now.iter().any(|term| term.allows(caller, write.t)) {
            let holder = now.last().map_or("", |term| term.holder);
            let text =
                format!("{caller} writes without a valid lease (holder: {holder:?}): {write}");
            found.push(Violation { invariant: Invariant::OnlyLeaderWrites, at: write.t, text });
        }
    }
    found
}

/// Returns the number of times that the lease passed from one holder to another one, with or
/// without a release in between.
pub fn takeovers(run: &Run) -> usize {
    let holders: Vec<&str> =
        terms(run).iter().map(|term| term.holder).filter(|it| !it.is_empty()).collect();
    holders.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Returns every version of the lease, in order.
pub(crate) fn terms(run: &Run) -> Vec<LeaseVersion<'_>> {
    let (namespace, name) = LEASE;
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    let key = Key::new(leases, namespace, name);
    let written = run.hosted.then(|| Identities::from_records(&run.ledger));
    let replica = |holder: &str| match &written {
        // The identity of our provider in this process begins with its label.
        None => holder.rsplit_once('@').map(|(label, _)| label.to_owned()),
        Some(written) => written.label(holder).map(str::to_owned),
    };
    run.log
        .entries()
        .filter_map(|(at, event)| match event {
            Event::Cluster(event) if event.key == key => {
                let spec = &event.object["spec"];
                let holder = spec["holderIdentity"].as_str().unwrap_or_default();
                Some(LeaseVersion {
                    from: *at,
                    holder,
                    replica: replica(holder),
                    lasts: Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or(0)),
                    renewed: spec["renewTime"].as_str().unwrap_or_default(),
                })
            }
            _ => None,
        })
        .collect()
}
