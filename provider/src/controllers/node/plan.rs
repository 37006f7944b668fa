//! What to do about one node. Pure: a node and what is known of its machine in, writes out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::provided_ip;
use crate::{
    controllers::{UNINITIALIZED_TAINT, taints::taints_json},
    model::{
        Address, AddressKind, Lookup, MACHINE_ANNOTATION, MachineReference, Metadata, Node, Unknown,
    },
    mutant::{Active, mutant},
};

/// Beta labels and the labels that follow them; the beta one wins (`ccm-framework` 1.7).
const LABEL_PAIRS: [(&str, &str); 3] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// What to do about a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    /// Nothing to do.
    Nothing,
    /// Not now, and why.
    Wait(Unknown),
    /// These writes, in order.
    Write(Writes),
}

/// Writes to one node, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Writes {
    /// Strategic merge patch of the status: addresses first, so that no initialized node lacks them.
    pub status: Option<Value>,
    /// Strategic merge patch of the node: provider ID, labels, reference and taints in one version.
    pub node: Option<Value>,
    /// Whether these writes initialize the node.
    pub initializes: bool,
}

/// Decides about an uninitialized node.
pub(crate) fn initialize(
    node: &Node,
    lookup: &Lookup<Metadata>,
    extra_labels: &BTreeMap<String, String>,
    active: Active,
) -> Plan {
    let metadata = match lookup {
        Lookup::Found(metadata) => metadata,
        // A machine that is gone initializes nothing; whether its node goes too is not decided here.
        Lookup::Gone { .. } => return Plan::Wait(Unknown::NotSeen),
        Lookup::Unknown(why) => return Plan::Wait(why.clone()),
    };
    let hurry = mutant!(active, TaintBeforeAddresses);
    let addresses = match &metadata.addresses {
        Ok(addresses) => addresses.as_slice(),
        Err(_) if hurry => &[],
        Err(why) => return Plan::Wait(why.clone()),
    };
    let zone = match &metadata.zone {
        Ok(zone) => zone.as_ref(),
        Err(_) if hurry => None,
        Err(why) => return Plan::Wait(why.clone()),
    };
    // During initialization the annotation is checked against what the cloud says, nothing added.
    if let Some(annotation) = &node.provided_node_ip
        && let Err(text) = provided_ip::apply(annotation, addresses)
        && !hurry
    {
        return Plan::Wait(Unknown::Incomplete(format!(
            "provided node ip for node {:?} is not valid: {text}",
            node.name
        )));
    }
    let status = match published(node, addresses) {
        Ok(published) => status_patch(node, &published, None, active),
        Err(text) if !hurry => return Plan::Wait(Unknown::Incomplete(text)),
        Err(_) => None,
    };
    let mut labels = BTreeMap::new();
    let values = [
        zone.map(|z| z.zone.as_str()),
        zone.map(|z| z.region.as_str()),
        metadata.instance_type.as_deref(),
    ];
    for ((beta, stable), value) in LABEL_PAIRS.iter().zip(values) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            labels.insert((*beta).to_owned(), value.to_owned());
            labels.insert((*stable).to_owned(), value.to_owned());
        }
    }
    for (key, value) in extra_labels {
        if is_reserved(key) {
            tracing::warn!(label = %key, "labels of Kubernetes itself are not set");
        } else if !node.labels.contains_key(key) {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    labels.retain(|key, value| node.labels.get(key) != Some(value));
    let taints = node.taints_without(|taint| taint.key() == UNINITIALIZED_TAINT);
    let mut body = json!({"spec": {"taints": taints_json(&taints)}});
    body["metadata"] = metadata_json(node, &labels, news(node, metadata));
    if node.provider_id.is_none() {
        body["spec"]["providerID"] = Value::String(metadata.provider_id.to_string());
    }
    Plan::Write(Writes { status, node: Some(body), initializes: true })
}

/// Decides about the labels of an initialized node. `lookup` is asked for only when something is written anyway.
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
        Lookup::Found(metadata) => news(node, metadata),
        Lookup::Gone { .. } | Lookup::Unknown(_) => None,
    };
    let body = json!({"metadata": metadata_json(node, &labels, reference)});
    Plan::Write(Writes { node: Some(body), ..Writes::default() })
}

/// Decides about the addresses of an initialized node, and about the reference when its machine has moved.
///
/// A node that never had a reference (upstream initialized it) gets one only with a write that is due anyway.
pub(crate) fn refresh(node: &Node, lookup: &Lookup<Metadata>, active: Active) -> Plan {
    let moved = match lookup {
        Lookup::Found(metadata) if node.reference.is_some() => news(node, metadata),
        _ => None,
    };
    match (refresh_addresses(node, lookup, active), moved) {
        (Plan::Nothing | Plan::Wait(_), Some(reference)) => {
            let body = json!({"metadata": metadata_json(node, &BTreeMap::new(), Some(reference))});
            Plan::Write(Writes { node: Some(body), ..Writes::default() })
        }
        (plan, _) => plan,
    }
}

/// The machine's reference, when the node does not say it yet.
fn news<'a>(node: &Node, metadata: &'a Metadata) -> Option<&'a MachineReference> {
    metadata.reference.as_ref().filter(|reference| node.reference.as_ref() != Some(reference))
}

/// Whatever is not known leaves the addresses as they are.
fn refresh_addresses(node: &Node, lookup: &Lookup<Metadata>, active: Active) -> Plan {
    let (addresses, reference) = match lookup {
        Lookup::Found(metadata) => match &metadata.addresses {
            Ok(addresses) => (addresses, news(node, metadata)),
            Err(why) => return Plan::Wait(why.clone()),
        },
        Lookup::Gone { .. } => return Plan::Wait(Unknown::NotSeen),
        Lookup::Unknown(why) => return Plan::Wait(why.clone()),
    };
    match published(node, addresses) {
        Ok(published) => match status_patch(node, &published, reference, active) {
            Some(status) => Plan::Write(Writes { status: Some(status), ..Writes::default() }),
            None if mutant!(active, EmptyClearsAddresses) && published.is_empty() => {
                let status = json!({"status": {"addresses": [{"$patch": "replace"}]}});
                Plan::Write(Writes { status: Some(status), ..Writes::default() })
            }
            None => Plan::Nothing,
        },
        Err(text) => Plan::Wait(Unknown::Incomplete(text)),
    }
}

/// What is published for a node: the cloud's addresses, the node's own host name if the cloud has none, and the
/// choice that kubelet was given.
fn published(node: &Node, addresses: &[Address]) -> Result<Vec<Address>, String> {
    let mut addresses = addresses.to_vec();
    if !addresses.is_empty() && !addresses.iter().any(|a| a.kind == AddressKind::Hostname) {
        let own = node.addresses.iter().filter(|a| a.kind == AddressKind::Hostname);
        addresses.extend(own.cloned());
    }
    match &node.provided_node_ip {
        Some(annotation) if !addresses.is_empty() => provided_ip::apply(annotation, &addresses),
        _ => Ok(addresses),
    }
}

/// A patch of the status, or nothing when the set of addresses is the same or empty.
///
/// The status subresource of nodes takes annotations too (kubelet uses that), so a reference needs no write of its own.
fn status_patch(
    node: &Node,
    addresses: &[Address],
    reference: Option<&MachineReference>,
    active: Active,
) -> Option<Value> {
    if addresses.is_empty() {
        return None;
    }
    let sorted = |list: &[Address]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    if sorted(addresses) == sorted(&node.addresses) && !mutant!(active, AlwaysWriteAddresses) {
        return None;
    }
    let mut list: Vec<Value> = addresses.iter().map(Address::to_json).collect();
    if !node.addresses.is_empty() {
        // The list merges by type otherwise, and a type with two addresses would lose one.
        list.push(json!({"$patch": "replace"}));
    }
    let mut patch = json!({"metadata": {"uid": node.uid}, "status": {"addresses": list}});
    if let Some(reference) = reference {
        patch["metadata"]["annotations"] = annotations(reference);
    }
    Some(patch)
}

fn annotations(reference: &MachineReference) -> Value {
    json!({ MACHINE_ANNOTATION: reference.to_string() })
}

fn metadata_json(
    node: &Node,
    labels: &BTreeMap<String, String>,
    reference: Option<&MachineReference>,
) -> Value {
    let mut metadata = Map::new();
    metadata.insert("uid".to_owned(), Value::String(node.uid.clone()));
    metadata.insert("resourceVersion".to_owned(), Value::String(node.resource_version.clone()));
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(labels));
    }
    if let Some(reference) = reference {
        metadata.insert("annotations".to_owned(), annotations(reference));
    }
    Value::Object(metadata)
}

/// Whether a key belongs to Kubernetes: `(^|\.)(kubernetes|k8s)\.io/`.
fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"].iter().any(|domain| {
        prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Whether a key is a qualified name, as Kubernetes defines it.
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

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::model::{ProviderId, Zone};

    fn node(value: Value) -> Node {
        let mut base = json!({
            "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"},
            "spec": {"taints": [
                {"key": "a", "effect": "NoSchedule"},
                {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"},
                {"key": "b", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ]},
        });
        json_patch::merge(&mut base, &value);
        Node::from_json(&base).unwrap()
    }

    mod json_patch {
        use serde_json::Value;
        pub(super) fn merge(into: &mut Value, from: &Value) {
            match (into, from) {
                (Value::Object(into), Value::Object(from)) => {
                    for (key, value) in from {
                        merge(into.entry(key.clone()).or_insert(Value::Null), value);
                    }
                }
                (into, from) => *into = from.clone(),
            }
        }
    }

    fn reference(machine: &str) -> MachineReference {
        MachineReference { vcenter: uuid::Uuid::from_u128(7), machine: machine.into() }
    }

    fn metadata() -> Metadata {
        Metadata {
            provider_id: "vsphere://421a7c0e-1111-4222-8333-abcdefabcdef"
                .parse::<ProviderId>()
                .unwrap(),
            reference: Some(reference("vm-17")),
            instance_type: Some("type".into()),
            addresses: Ok(vec![
                Address::new(AddressKind::Hostname, "n1"),
                Address::new(AddressKind::InternalIp, "10.0.0.1"),
            ]),
            zone: Ok(Some(Zone { zone: "a".into(), region: "eu".into() })),
        }
    }

    fn init(node: &Node, lookup: Lookup<Metadata>) -> Plan {
        initialize(node, &lookup, &BTreeMap::new(), Active::default())
    }

    #[test]
    fn initializing_writes_addresses_first_and_the_rest_at_once() {
        let plan = init(&node(json!({})), Lookup::Found(metadata()));
        let Plan::Write(writes) = plan else { panic!("{plan:?}") };
        insta::assert_snapshot!(serde_json::to_string_pretty(&json!([writes.status, writes.node])).unwrap(), @r#"
        [
          {
            "metadata": {
              "uid": "u1"
            },
            "status": {
              "addresses": [
                {
                  "type": "Hostname",
                  "address": "n1"
                },
                {
                  "type": "InternalIP",
                  "address": "10.0.0.1"
                }
              ]
            }
          },
          {
            "spec": {
              "taints": [
                {
                  "key": "a",
                  "effect": "NoSchedule"
                },
                {
                  "key": "b",
                  "effect": "NoExecute",
                  "timeAdded": "2026-01-01T00:00:00Z"
                }
              ],
              "providerID": "vsphere://421a7c0e-1111-4222-8333-abcdefabcdef"
            },
            "metadata": {
              "uid": "u1",
              "resourceVersion": "7",
              "labels": {
                "beta.kubernetes.io/instance-type": "type",
                "failure-domain.beta.kubernetes.io/region": "eu",
                "failure-domain.beta.kubernetes.io/zone": "a",
                "node.kubernetes.io/instance-type": "type",
                "topology.kubernetes.io/region": "eu",
                "topology.kubernetes.io/zone": "a"
              },
              "annotations": {
                "vsphere.cloud-provider/machine": "00000000-0000-0000-0000-000000000007/vm-17"
              }
            }
          }
        ]
        "#);
    }

    #[test]
    fn nothing_is_initialized_on_half_an_answer() {
        let why = Unknown::Incomplete("not yet".into());
        let proved_at = Instant::now();
        let wrong_ip = json!({"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.9.9.9"}}});
        for (name, node, lookup) in [
            ("unknown", node(json!({})), Lookup::Unknown(Unknown::NotSeen)),
            ("gone", node(json!({})), Lookup::Gone { proved_at, matched: true }),
            (
                "no addresses",
                node(json!({})),
                Lookup::Found(Metadata { addresses: Err(why.clone()), ..metadata() }),
            ),
            (
                "no zone",
                node(json!({})),
                Lookup::Found(Metadata { zone: Err(why.clone()), ..metadata() }),
            ),
            ("another node IP", node(wrong_ip), Lookup::Found(metadata())),
        ] {
            let plan = init(&node, lookup);
            assert!(matches!(plan, Plan::Wait(_)), "{name}: {plan:?}");
        }
    }

    #[test]
    fn addresses_are_written_only_when_the_set_differs() {
        let with = |addresses: Value| node(json!({"status": {"addresses": addresses}}));
        let same = with(json!([
            {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"},
        ]));
        let other = with(json!([
            {"type": "InternalIP", "address": "10.0.0.9"}, {"type": "Hostname", "address": "n1"},
        ]));
        let refresh = |node: &Node, metadata: Metadata| {
            refresh(node, &Lookup::Found(metadata), Active::default())
        };
        assert_eq!(refresh(&same, metadata()), Plan::Nothing);
        let Plan::Write(writes) = refresh(&other, metadata()) else { panic!() };
        let list = writes.status.unwrap()["status"]["addresses"].clone();
        assert_eq!(list[2], json!({"$patch": "replace"}));
        let nameless = Metadata {
            addresses: Ok(vec![Address::new(AddressKind::InternalIp, "10.0.0.2")]),
            ..metadata()
        };
        let Plan::Write(writes) = refresh(&other, nameless) else { panic!() };
        let list = writes.status.unwrap()["status"]["addresses"].clone();
        assert_eq!(list[1], json!({"type": "Hostname", "address": "n1"}), "the own name stays");
        let empty = Metadata { addresses: Err(Unknown::NotSeen), ..metadata() };
        assert_eq!(refresh(&other, empty), Plan::Wait(Unknown::NotSeen));
    }

    #[test]
    fn a_reference_is_written_alone_only_when_the_machine_has_moved() {
        let base = json!({"status": {"addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"},
        ]}});
        let noted = |text: &str| {
            let mut base = base.clone();
            base["metadata"] = json!({"annotations": {MACHINE_ANNOTATION: text}});
            node(base)
        };
        let refreshed = |node: &Node, metadata: Metadata| {
            let plan = refresh(node, &Lookup::Found(metadata), Active::default());
            let Plan::Write(writes) = plan else { return None };
            assert_eq!(writes.status, None);
            Some(writes.node.unwrap()["metadata"]["annotations"][MACHINE_ANNOTATION].clone())
        };
        let incomplete = || Metadata { addresses: Err(Unknown::NotSeen), ..metadata() };
        let (same, other) = (reference("vm-17").to_string(), reference("vm-9").to_string());
        for (name, node, metadata, want) in [
            ("the same", noted(&same), metadata(), None),
            ("none, as upstream leaves it", node(base.clone()), metadata(), None),
            ("unreadable", noted("vm-17"), metadata(), None),
            ("another", noted(&other), metadata(), Some(same.clone())),
            ("another, addresses unknown", noted(&other), incomplete(), Some(same.clone())),
            ("unknown now", noted(&other), Metadata { reference: None, ..metadata() }, None),
        ] {
            assert_eq!(refreshed(&node, metadata), want.map(Value::String), "{name}");
        }
        // A write that is due anyway takes it along.
        let plan = refresh(&node(json!({})), &Lookup::Found(metadata()), Active::default());
        let Plan::Write(writes) = plan else { panic!("{plan:?}") };
        assert_eq!(writes.status.unwrap()["metadata"]["annotations"][MACHINE_ANNOTATION], same);
    }

    #[test]
    fn stable_labels_follow_beta_labels() {
        let labels = |value: Value| node(json!({"metadata": {"labels": value}}));
        let beta = "failure-domain.beta.kubernetes.io/zone";
        let stable = "topology.kubernetes.io/zone";
        for (name, node, want) in [
            ("missing", labels(json!({beta: "a"})), Some("a")),
            ("different", labels(json!({beta: "a", stable: "b"})), Some("a")),
            ("equal", labels(json!({beta: "a", stable: "a"})), None),
            ("only the stable one", labels(json!({stable: "b"})), None),
        ] {
            let got = match reconcile_labels(&node, || Lookup::Unknown(Unknown::Pending)) {
                Plan::Write(writes) => {
                    let node = writes.node.unwrap();
                    Some(node["metadata"]["labels"][stable].as_str().unwrap().to_owned())
                }
                _ => None,
            };
            assert_eq!(got.as_deref(), want, "{name}");
        }
    }

    #[test]
    fn extra_labels_are_added_and_never_those_of_kubernetes() {
        let extra =
            ["a.example/x", "b.example/y", "foo.kubernetes.io/z", "k8s.io/z", "mykubernetes.io/z"]
                .map(|key| (key.to_owned(), "1".to_owned()));
        let node = node(json!({"metadata": {"labels": {"b.example/y": "9"}}}));
        let lookup = Lookup::Found(metadata());
        let plan = initialize(&node, &lookup, &extra.into(), Active::default());
        let Plan::Write(writes) = plan else { panic!() };
        let labels = writes.node.unwrap()["metadata"]["labels"].clone();
        let present: Vec<&str> =
            ["a.example/x", "b.example/y", "foo.kubernetes.io/z", "k8s.io/z", "mykubernetes.io/z"]
                .into_iter()
                .filter(|key| labels.get(key).is_some())
                .collect();
        assert_eq!(present, ["a.example/x", "mykubernetes.io/z"]);
    }

    #[test]
    fn label_keys_are_checked_like_kubernetes_does() {
        for (key, want) in [
            ("a", true),
            ("a.example/x", true),
            ("A_b.c", true),
            ("", false),
            ("-a", false),
            ("a/", false),
            ("Upper.example/x", false),
            ("a/b/c", false),
        ] {
            assert_eq!(valid_label(key), want, "{key:?}");
        }
    }
}
