//! Labels of nodes: the labels to add, the stable labels that follow beta labels, and the check of
//! label keys.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Plan, Writes, metadata_json, new_reference};
use crate::model::{Lookup, Metadata, Node, Zone};

/// Each beta label, and the stable label that follows it: if the values differ, that of the beta
/// label wins (`ccm-framework` 1.7).
const LABEL_PAIRS: [(&str, &str); 3] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Returns the labels that initialization adds or changes: zone, region and instance type, as far
/// as known, in the beta and the stable spelling, and those extra labels of the command line that
/// the node does not have.
pub(super) fn initial_labels(
    node: &Node,
    zone: Option<&Zone>,
    metadata: &Metadata,
    extra_labels: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let values = [
        zone.map(|z| z.zone.as_str()),
        zone.and_then(|z| z.region.as_deref()),
        metadata.instance_type.as_deref(),
    ];
    for ((beta, stable), value) in LABEL_PAIRS.iter().zip(values) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            labels.insert((*beta).to_owned(), value.to_owned());
            labels.insert((*stable).to_owned(), value.to_owned());
        }
    }
    for (key, value) in extra_labels {
        if !node.labels.contains_key(key) {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    labels.retain(|key, value| node.labels.get(key) != Some(value));
    labels
}

/// Returns zone and region labels for an initialized node whose machine got its zone later. Leaves
/// out a label that the node has in its beta or stable spelling. Empty if the zone is unknown or
/// the machine has none.
pub(super) fn late_zone_labels(node: &Node, lookup: &Lookup<Metadata>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Lookup::Found(Metadata { zone: Ok(Some(zone)), .. }) = lookup else { return labels };
    let values = [Some(&zone.zone), zone.region.as_ref()];
    for ((beta, stable), value) in LABEL_PAIRS.iter().zip(values) {
        let Some(value) = value else { continue };
        let is_labelled = [beta, stable].iter().any(|key| node.labels.contains_key(**key));
        if !value.is_empty() && !is_labelled {
            labels.insert((*beta).to_owned(), value.clone());
            labels.insert((*stable).to_owned(), value.clone());
        }
    }
    labels
}

/// Decides about the stable labels of an initialized node: each gets the value of its beta label,
/// if the node has that. Calls `lookup` only if a label must be written; that write also carries a
/// new reference.
pub(crate) fn reconcile_labels(node: &Node, lookup: impl FnOnce() -> Lookup<Metadata>) -> Plan {
    let mut labels = BTreeMap::new();
    for (beta, stable) in LABEL_PAIRS {
        if let Some(value) = node.labels.get(beta)
            && node.labels.get(stable) != Some(value)
        {
            labels.insert(stable.to_owned(), value.clone());
        }
    }
    if labels.is_empty() {
        return Plan::Nothing;
    }
    let lookup = lookup();
    let reference = match &lookup {
        Lookup::Found(metadata) => new_reference(node, metadata),
        Lookup::Gone { .. } | Lookup::Unknown(_) => None,
    };
    let body = json!({"metadata": metadata_json(node, &labels, reference)});
    Plan::Write(Writes { node: Some(body), ..Writes::default() })
}

/// Returns the labels without those that are reserved for Kubernetes, and logs each of the latter.
pub(crate) fn without_reserved(labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_kept = |(key, _): &(String, String)| {
        let is_reserved = is_reserved(key);
        if is_reserved {
            tracing::warn!(label = %key, "not adding this label of --node-labels, because it is reserved for Kubernetes");
        }
        !is_reserved
    };
    labels.into_iter().filter(is_kept).collect()
}

/// True if a label key is reserved for Kubernetes: `(^|\.)(kubernetes|k8s)\.io/`.
fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"].iter().any(|domain| {
        prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// True if a label key is a qualified name, as Kubernetes defines it.
pub(crate) fn valid_label(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_name = |text: &str| {
        let bytes = text.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes[0].is_ascii_alphanumeric()
            && bytes[bytes.len() - 1].is_ascii_alphanumeric()
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    let is_domain = |text: &str| {
        text.len() <= 253
            && text.split('.').all(|label| {
                let bytes = label.as_bytes();
                !bytes.is_empty()
                    && bytes[0] != b'-'
                    && bytes[bytes.len() - 1] != b'-'
                    && bytes
                        .iter()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
            })
    };
    is_name(name) && prefix.is_none_or(is_domain)
}
