//! Leader election over a Lease, as `k8s.io/client-go: tools/leaderelection` does it.
//!
//! Every write is a PUT with the resourceVersion that the candidate read, so two candidates cannot
//! both win. The election does not trust the timestamps in the Lease: another holder counts as
//! alive until its lease duration has passed on the clock of *this* process since this process last
//! saw the Lease change.

use std::{sync::Arc, time::Duration};

use provider_vcenter::{Chain, Jitter};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::LeaderElection;
use crate::{
    cluster::{Cluster, ClusterError, Moment, Subject, WritePermission, send_event},
    model::Clock,
    telemetry::Telemetry,
};

/// Component that the events name as their source, as in upstream.
const COMPONENT: &str = "cloud-controller-manager";

/// This replica as a candidate for the Lease.
pub(super) struct Candidate {
    cluster: Cluster,
    election: LeaderElection,
    identity: String,
    clock: Clock,
    /// The permission to write that all clients of this process check.
    lease: WritePermission,
    jitter: Jitter,
    /// The Lease object as last seen, and the instant at which this process first saw its current
    /// `spec`; `None` until it has seen one.
    seen: Option<(Value, Instant)>,
    telemetry: Arc<Telemetry>,
}

impl Candidate {
    pub(super) fn new(
        kube: kube::Client,
        election: LeaderElection,
        identity: String,
        clock: Clock,
        seed: u64,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let deadline = (election.renew_deadline / 2).max(Duration::from_secs(1));
        let jitter = Jitter::new(seed, &format!("leader/{identity}"));
        let cluster = Cluster::unpaced(kube, deadline).with_counter(telemetry.cluster_requests());
        let lease = WritePermission::new(clock.clone(), election.renew_deadline);
        Self { cluster, election, identity, clock, lease, jitter, seen: None, telemetry }
    }

    /// Returns the permission to write, which ends one renew deadline after the start of the last
    /// renewal.
    pub(super) fn lease(&self) -> WritePermission {
        self.lease.clone()
    }

    /// Tries to acquire the Lease until this candidate holds it.
    pub(super) async fn acquire(&mut self) {
        loop {
            match self.try_once().await {
                Ok(true) => return,
                // Another replica holds the Lease: this replica stands by and is ready.
                Ok(false) => self.telemetry.set_settled(),
                Err(err) => {
                    tracing::warn!(error = %Chain(&err), "acquiring the lease failed; retrying")
                }
            }
            let pause = self.jitter.stretch(self.election.retry_period, 1.2);
            tokio::time::sleep(pause).await;
        }
    }

    /// Renews the Lease until no renewal has succeeded for the renew deadline, or another candidate
    /// holds it.
    pub(super) async fn renew_until_lost(&mut self) {
        let mut renewed_at = Instant::now();
        self.telemetry.lease_renewed();
        loop {
            tokio::time::sleep(self.election.retry_period).await;
            let deadline = renewed_at + self.election.renew_deadline;
            // After a stop of the process (SIGSTOP) the deadline may have passed, and another
            // process may hold the Lease.
            match tokio::time::timeout_at(deadline, self.renew()).await {
                Ok(Ok(true)) => {
                    renewed_at = Instant::now();
                    self.telemetry.lease_renewed();
                }
                Ok(Ok(false)) => return,
                Ok(Err(err)) => {
                    tracing::warn!(error = %Chain(&err), "renewing the lease failed; retrying")
                }
                Err(_) => {}
            }
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    /// Returns a future that writes the event `<identity> <what>` about the Lease, as client-go
    /// does when leadership begins and ends.
    ///
    /// The future only logs a failure, because the Lease itself shows the leader. The future does
    /// nothing if this candidate has never seen the Lease. Cancel safe.
    pub(super) fn announce(&self, what: &str) -> impl Future<Output = ()> + Send + 'static {
        let (cluster, at) = (self.cluster.clone(), self.clock.now());
        let message = format!("{} {what}", self.identity);
        let subject = self.seen.as_ref().map(|(lease, _)| Subject::lease(lease));
        async move {
            let Some(subject) = subject else { return };
            let sent = send_event(&cluster, COMPONENT, subject, "LeaderElection", message, at);
            if let Err(err) = sent.await {
                tracing::warn!(error = %Chain(&err), "writing the event LeaderElection failed; dropping the event");
            }
        }
    }

    /// Releases the Lease if this candidate held it when it last saw the Lease. If the release
    /// fails, the next leader waits until the Lease expires.
    pub(super) async fn release(&mut self) {
        let Some((lease, _)) = &self.seen else { return };
        if holder(lease) != self.identity {
            return;
        }
        let mut lease = lease.clone();
        lease["spec"]["holderIdentity"] = Value::String(String::new());
        lease["spec"]["leaseDurationSeconds"] = 1.into();
        lease["spec"]["renewTime"] = self.now().into();
        if let Err(err) = self.cluster.put(&self.path(), &lease).await {
            tracing::warn!(error = %Chain(&err), "releasing the lease failed; the next leader waits until the lease expires");
        }
    }

    /// Renews the Lease once: writes the object as last seen; if that fails, reads the Lease and
    /// tries again. Returns false if another candidate holds the Lease.
    async fn renew(&mut self) -> Result<bool, ClusterError> {
        if let Some((lease, _)) = &self.seen {
            let mut lease = lease.clone();
            lease["spec"]["renewTime"] = self.now().into();
            let begun = Moment::now(&self.clock);
            match self.cluster.put(&self.path(), &lease).await {
                Ok(written) => {
                    self.lease.renewed(begun);
                    self.seen = Some((written, Instant::now()));
                    return Ok(true);
                }
                Err(err) => {
                    tracing::debug!(error = %Chain(&err), "renewing the lease without reading it first failed; reading the lease and trying again")
                }
            }
        }
        self.try_once().await
    }

    /// Reads the Lease. Creates, takes or renews it, unless another candidate holds it and the
    /// lease has not expired. Returns true if this candidate holds the Lease then.
    async fn try_once(&mut self) -> Result<bool, ClusterError> {
        let lease = match self.cluster.get(&self.path()).await {
            Ok(lease) => lease,
            Err(err) if err.is_not_found() => return self.create().await,
            Err(err) => return Err(err),
        };
        let now = Instant::now();
        let since = match &self.seen {
            Some((seen, since)) if seen.get("spec") == lease.get("spec") => *since,
            _ => now,
        };
        self.seen = Some((lease.clone(), since));
        let holder = holder(&lease);
        let is_ours = holder == self.identity;
        if !holder.is_empty() && !is_ours {
            let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
            let duration = seconds.map_or(self.election.lease_duration, Duration::from_secs);
            if now < since + duration {
                return Ok(false);
            }
        }
        let mut taken = lease.clone();
        if !taken.get("spec").is_some_and(Value::is_object) {
            taken["spec"] = json!({});
        }
        let spec = &mut taken["spec"];
        spec["holderIdentity"] = self.identity.as_str().into();
        spec["leaseDurationSeconds"] = self.election.lease_duration.as_secs().into();
        spec["renewTime"] = self.now().into();
        if !is_ours {
            let transitions = spec.get("leaseTransitions").and_then(Value::as_u64).unwrap_or(0);
            spec["leaseTransitions"] = (transitions + 1).into();
            spec["acquireTime"] = self.now().into();
        }
        let begun = Moment::now(&self.clock);
        match self.cluster.put(&self.path(), &taken).await {
            Ok(written) => {
                self.lease.renewed(begun);
                self.seen = Some((written, Instant::now()));
                Ok(true)
            }
            // If this candidate was the holder at the read, a conflict is an error, not a loss: an
            // earlier write of its own may have arrived late.
            Err(err) if err.is_conflict() && !is_ours => Ok(false),
            Err(err) => Err(err),
        }
    }

    async fn create(&mut self) -> Result<bool, ClusterError> {
        let LeaderElection { namespace, name, lease_duration, .. } = &self.election;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": lease_duration.as_secs(),
                "acquireTime": self.now(),
                "renewTime": self.now(),
                "leaseTransitions": 0,
            },
        });
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let begun = Moment::now(&self.clock);
        match self.cluster.post(&path, &lease).await {
            Ok(written) => {
                self.lease.renewed(begun);
                self.seen = Some((written, Instant::now()));
                Ok(true)
            }
            Err(err) if err.is_conflict() && !self.was_ours() => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// True if this candidate was the holder when it last saw the Lease.
    fn was_ours(&self) -> bool {
        self.seen.as_ref().is_some_and(|(lease, _)| holder(lease) == self.identity)
    }

    fn path(&self) -> String {
        let LeaderElection { namespace, name, .. } = &self.election;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }

    /// The current wall time in the form of Kubernetes' `MicroTime`.
    fn now(&self) -> String {
        self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }
}

fn holder(lease: &Value) -> &str {
    lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default()
}
