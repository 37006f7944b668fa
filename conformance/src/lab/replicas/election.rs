//! Finds the replica that holds the lease, among replicas that do not run in this process.
//!
//! A process chooses its identity in the lease by itself, often from the host name and a random
//! number. So the holder is the replica that wrote this identity to the lease. The ledger shows who
//! wrote it: the label of the connection identifies the replica. A replica in this process needs no
//! ledger, because the lab chooses its identity.

use std::collections::BTreeMap;

use sim::Class;
use sim::ledger::Record;

use crate::lab::provider::LEASE;

/// Key of an identity in the ledger's excerpt of a lease.
const HOLDER: &str = "\"holderIdentity\":";
/// Last character of an excerpt that the ledger has cut.
const CUT: char = '…';

/// Identities of the replicas, as they wrote them to the lease.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    /// Each identity, with the label of a replica that wrote it.
    labels: Vec<(LeaseHolder, String)>,
}

/// An identity as the ledger shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeaseHolder {
    text: String,
    /// True if the ledger has only the beginning of the identity.
    is_cut: bool,
}

impl LeaseHolder {
    /// Returns the identity that a call writes to the lease, or `None` if it writes none.
    fn written_by(record: &Record) -> Option<Self> {
        if !is_write(record) || !is_to_the_lease(record) {
            return None;
        }
        let (_, rest) = record.req.detail.split_once(HOLDER)?;
        let rest = rest.trim_start().strip_prefix('"')?;
        let end = rest.find(['"', CUT]).unwrap_or(rest.len());
        let text = rest[..end].to_owned();
        (!text.is_empty()).then(|| Self { text, is_cut: !rest[end..].starts_with('"') })
    }

    fn matches(&self, holder: &str) -> bool {
        if self.is_cut { holder.starts_with(&self.text) } else { holder == self.text }
    }
}

impl Identities {
    /// Collects the identities that replicas wrote in these records.
    pub(crate) fn from_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut labels: Vec<(LeaseHolder, String)> = Vec::new();
        for record in records {
            let Some(written) = LeaseHolder::written_by(record) else { continue };
            let label = &record.client.client;
            if !labels.iter().any(|(it, of)| *it == written && of == label) {
                labels.push((written, label.clone()));
            }
        }
        Self { labels }
    }

    /// Returns the label of the first replica that wrote this identity, or `None`.
    pub(crate) fn label(&self, holder: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(written, _)| written.matches(holder));
        found.map(|(_, label)| label.as_str())
    }

    /// Returns an identity that two replicas wrote, if any.
    fn shared(&self) -> Option<&str> {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        self.labels.iter().find_map(|(written, label)| {
            let first = seen.entry(written.text.as_str()).or_insert(label);
            (*first != label).then_some(written.text.as_str())
        })
    }
}

/// Returns the reason why these records cannot show which replica leads: two replicas share an
/// identity, or the replicas use another lease. Returns `None` without such a reason.
pub(crate) fn unknown_leader_reason(records: &[Record]) -> Option<String> {
    if let Some(identity) = Identities::from_records(records).shared() {
        return Some(format!(
            "two replicas have the identity {identity:?} in the lease; give each its own, for example with $(replica)"
        ));
    }
    let mut leases = records.iter().filter(|it| is_write(it) && it.op.contains("leases"));
    if leases.clone().any(is_to_the_lease) {
        return None;
    }
    let other = &leases.next()?.target;
    let (namespace, name) = LEASE;
    let [other_namespace, other_name] =
        [&other.namespace, &other.name].map(|it| it.as_deref().unwrap_or_default());
    Some(format!(
        "the replicas elect by the lease {other_namespace}/{other_name}; have them use {namespace}/{name}, which is $(lease.namespace) and $(lease.name)"
    ))
}

/// True for a write of a replica to the workload cluster. Other clients write leases, too: each
/// kubelet renews its own.
fn is_write(record: &Record) -> bool {
    record.is_cluster_call()
        && record.class == Some(Class::Write)
        && record.client.client.starts_with("provider")
}

fn is_to_the_lease(record: &Record) -> bool {
    let (namespace, name) = LEASE;
    let target = &record.target;
    record.op.contains("leases")
        && target.name.as_deref() == Some(name)
        && target.namespace.as_deref() == Some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a write of a lease as the ledger records it.
    fn write(client: &str, op: &str, lease: (&str, &str), detail: &str) -> Record {
        let line = serde_json::json!({
            "seq": 1, "t": 0, "kind": "call", "face": "k8s.guest", "op": op, "class": "write",
            "target": {"namespace": lease.0, "name": lease.1},
            "client": {"client": client},
            "req": {"bytes": 0, "detail": detail},
        });
        Record::from_line(&line.to_string()).unwrap()
    }

    fn held(identity: &str) -> String {
        format!(r#"{{"spec":{{"holderIdentity":"{identity}","leaseDurationSeconds":15}}}}"#)
    }

    #[test]
    fn a_holder_is_the_replica_that_wrote_its_identity() {
        let records = [
            write("provider", "create leases", LEASE, &held("host_1")),
            write("provider-1", "update leases", LEASE, &held("host_2")),
            write("provider-1", "update leases", LEASE, &held("")),
            write("provider", "patch leases", LEASE, r#"{"spec":{"holderIdentity": "again"}}"#),
            write("kubelet", "update leases", LEASE, &held("node")),
        ];
        let identities = Identities::from_records(&records);
        let labels = ["host_1", "host_2", "again", "node", ""].map(|it| identities.label(it));
        assert_eq!(labels, [Some("provider"), Some("provider-1"), Some("provider"), None, None]);
        assert_eq!(unknown_leader_reason(&records), None);
    }

    #[test]
    fn an_identity_that_the_ledger_cuts_matches_by_its_beginning() {
        let cut = r#"{"spec":{"acquireTime":"2026","holderIdentity":"a-long-host…"#;
        let identities =
            Identities::from_records(&[write("provider-1", "update leases", LEASE, cut)]);
        assert_eq!(identities.label("a-long-host_1"), Some("provider-1"));
        assert_eq!(identities.label("another"), None);
    }

    #[test]
    fn a_shared_identity_and_another_lease_leave_the_leader_unknown() {
        let one = write("provider", "create leases", LEASE, &held("host"));
        let shared = [one.clone(), write("provider-1", "update leases", LEASE, &held("host"))];
        assert!(unknown_leader_reason(&shared).unwrap().contains("the identity \"host\""));
        let other = write("provider", "create leases", ("default", "mine"), &held("host"));
        let why = unknown_leader_reason(std::slice::from_ref(&other)).unwrap();
        assert!(why.contains("the lease default/mine"), "{why}");
        assert_eq!(unknown_leader_reason(&[other, one]), None);
        assert_eq!(unknown_leader_reason(&[]), None);
    }
}
