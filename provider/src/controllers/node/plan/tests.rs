//! Tests of the decisions about nodes.

use tokio::time::Instant;

use super::*;
use crate::model::{Address, AddressKind, AddressOrder, Zone};

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
        order: AddressOrder::Any,
        provider_id: "vsphere://421a7c0e-1111-4222-8333-abcdefabcdef".to_owned(),
        reference: Some(reference("vm-17")),
        instance_type: Some("type".into()),
        addresses: Ok(vec![
            Address::new(AddressKind::Hostname, "n1"),
            Address::new(AddressKind::InternalIp, "10.0.0.1"),
        ]),
        zone: Ok(Some(Zone { zone: "a".into(), region: Some("eu".into()) })),
    }
}

fn init(node: &Node, lookup: Lookup<Metadata>) -> Plan {
    initialize(node, &lookup, &BTreeMap::new(), Active::default())
}

#[test]
fn initialization_writes_addresses_first_and_the_rest_in_one_patch() {
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
            },
            {
              "$patch": "replace"
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
fn a_node_without_complete_metadata_is_not_initialized() {
    let why = Unknown::Incomplete("not yet".into());
    let proved_at = Instant::now();
    let wrong_ip =
        json!({"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.9.9.9"}}});
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
        refresh(node, &Lookup::Found(metadata), LateZone::LeftOut, Active::default())
    };
    assert_eq!(refresh(&same, metadata()), Plan::Record(reference("vm-17")));
    let kept = || Metadata { order: AddressOrder::Kept, ..metadata() };
    assert!(matches!(refresh(&same, kept()), Plan::Write(_)), "the order has a meaning");
    let in_order = with(json!([
        {"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"},
    ]));
    assert_eq!(refresh(&in_order, kept()), Plan::Record(reference("vm-17")));
    let Plan::Write(writes) = refresh(&other, metadata()) else { panic!() };
    let list = writes.status.unwrap()["status"]["addresses"].clone();
    assert_eq!(list[2], json!({"$patch": "replace"}));
    let nameless = Metadata {
        addresses: Ok(vec![Address::new(AddressKind::InternalIp, "10.0.0.2")]),
        ..metadata()
    };
    let Plan::Write(writes) = refresh(&other, nameless) else { panic!() };
    let list = writes.status.unwrap()["status"]["addresses"].clone();
    assert_eq!(list[1], json!({"type": "Hostname", "address": "n1"}), "the Node's host name stays");
    let empty = Metadata { addresses: Err(Unknown::NotSeen), ..metadata() };
    assert_eq!(
        refresh(&other, empty),
        Plan::Record(reference("vm-17")),
        "the reference is recorded without addresses"
    );
    let nowhere = Metadata { addresses: Err(Unknown::NotSeen), reference: None, ..metadata() };
    assert_eq!(refresh(&other, nowhere), Plan::Wait(Unknown::NotSeen));
}

#[test]
fn a_reference_that_the_node_does_not_have_is_recorded() {
    let base = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"},
    ]}});
    let noted = |text: &str| {
        let mut base = base.clone();
        base["metadata"] = json!({"annotations": {MACHINE_ANNOTATION: text}});
        node(base)
    };
    let refreshed = |node: &Node, metadata: Metadata| {
        let plan = refresh(node, &Lookup::Found(metadata), LateZone::LeftOut, Active::default());
        match plan {
            Plan::Record(reference) => Some(reference.to_string()),
            Plan::Nothing | Plan::Wait(_) => None,
            Plan::Write(_) => panic!("{plan:?}"),
        }
    };
    let incomplete = || Metadata { addresses: Err(Unknown::NotSeen), ..metadata() };
    let (same, other) = (reference("vm-17").to_string(), reference("vm-9").to_string());
    for (name, node, metadata, want) in [
        ("the same", noted(&same), metadata(), None),
        ("none, as upstream leaves it", node(base.clone()), metadata(), Some(same.clone())),
        ("unreadable", noted("vm-17"), metadata(), Some(same.clone())),
        ("another", noted(&other), metadata(), Some(same.clone())),
        ("another, addresses unknown", noted(&other), incomplete(), Some(same.clone())),
        ("unknown now", noted(&other), Metadata { reference: None, ..metadata() }, None),
    ] {
        assert_eq!(refreshed(&node, metadata), want, "{name}");
    }
    // A write of the addresses carries the reference too.
    let plan =
        refresh(&node(json!({})), &Lookup::Found(metadata()), LateZone::LeftOut, Active::default());
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
fn extra_labels_are_added_unless_they_are_reserved_for_kubernetes() {
    let extra =
        ["a.example/x", "b.example/y", "foo.kubernetes.io/z", "k8s.io/z", "mykubernetes.io/z"]
            .map(|key| (key.to_owned(), "1".to_owned()));
    let node = node(json!({"metadata": {"labels": {"b.example/y": "9"}}}));
    let lookup = Lookup::Found(metadata());
    let extra = without_reserved(extra.into());
    let plan = initialize(&node, &lookup, &extra, Active::default());
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
fn label_keys_are_valid_if_kubernetes_accepts_them() {
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

#[test]
fn late_zone_labels_are_added_if_enabled_and_replace_no_label() {
    let bare = json!({"spec": {"taints": []}});
    let labelled =
        |key: &str| json!({"spec": {"taints": []}, "metadata": {"labels": {key: "old"}}});
    let both = "failure-domain.beta.kubernetes.io/region=eu failure-domain.beta.kubernetes.io/zone=a \
                topology.kubernetes.io/region=eu topology.kubernetes.io/zone=a";
    let region = "failure-domain.beta.kubernetes.io/region=eu topology.kubernetes.io/region=eu";
    let zoneless = Metadata { zone: Ok(None), ..metadata() };
    let unread = Metadata { zone: Err(Unknown::Pending), ..metadata() };
    for (name, object, metadata, late_zone, want) in [
        ("not wanted", bare.clone(), metadata(), LateZone::LeftOut, ""),
        ("added", bare.clone(), metadata(), LateZone::Added, both),
        ("there", labelled("topology.kubernetes.io/zone"), metadata(), LateZone::Added, region),
        (
            "in beta",
            labelled("failure-domain.beta.kubernetes.io/zone"),
            metadata(),
            LateZone::Added,
            region,
        ),
        ("none", bare.clone(), zoneless, LateZone::Added, ""),
        ("not readable", bare.clone(), unread, LateZone::Added, ""),
    ] {
        let plan = refresh(&node(object), &Lookup::Found(metadata), late_zone, Active::default());
        let Plan::Write(writes) = plan else { panic!("{name}: {plan:?}") };
        assert!(writes.status.is_some(), "{name}: no addresses");
        let labels = writes.node.map(|body| body["metadata"]["labels"].clone()).unwrap_or_default();
        let text = labels.as_object().into_iter().flatten();
        let text: Vec<String> = text.map(|(k, v)| format!("{k}={}", v.as_str().unwrap())).collect();
        assert_eq!(text.join(" "), want, "{name}");
    }
}
