//! Tests of machines that join the workload cluster by cloud-init.

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::{self, GroupResource, Key};
use crate::supervisor::vmoperator::machines;
use crate::{Command, Event, Time, Topology, World};

const TOKEN: &str = "abcdef.0123456789abcdef";
const NODE: &str = "workers-1";

/// Returns a Secret with a bootstrap token, changed by `change`.
fn token(change: impl FnOnce(&mut Value)) -> Value {
    let mut data = json!({
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "expiration": "2026-01-01T01:00:00Z",
    });
    change(&mut data);
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef"}, "stringData": data,
    })
}

fn join(flags: &str) -> String {
    format!("#cloud-config\nruncmd:\n- kubeadm join 192.0.2.1:6443 --token {TOKEN} {flags}\n")
}

fn at(seconds: u64) -> Time {
    Time::after_start(Duration::from_secs(seconds))
}

/// Makes a machine with this user data by a VirtualMachine, in a cluster with this token, after
/// `begin` seconds, and lets it boot.
fn booted(token: Option<Value>, user_data: &str, begin: u64) -> (World, Vec<Event>) {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut world = Topology::zones(1).machines(0).supervisor().build(epoch, 7);
    let secrets = GroupResource::core("secrets");
    if let Some(token) = token {
        let create = objects::Command::create(secrets.clone(), "kube-system", token);
        world.apply(at(0), Command::Cluster(create)).unwrap();
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap"},
        "stringData": {"user-data": user_data},
    });
    let machine = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha6", "kind": "VirtualMachine",
        "metadata": {"name": NODE},
        "spec": {
            "className": "best-effort-small", "storageClass": "default", "powerState": "PoweredOn",
            "image": {"kind": "ClusterVirtualMachineImage", "name": "vmi-0123456789abcdef0"},
            "bootstrap": {"cloudInit": {"rawCloudConfig": {"name": "bootstrap", "key": "user-data"}}},
        },
    });
    for (resource, object) in [(secrets, secret), (machines(), machine)] {
        let create = objects::Command::create(resource, "workloads", object);
        world.apply(at(begin), Command::Supervisor(create)).unwrap();
    }
    let events = world.advance(at(begin + 120));
    (world, events)
}

fn node(world: &World) -> Option<Value> {
    world.cluster.get(&Key::node(NODE)).map(|it| it.as_ref().clone())
}

/// Returns the reasons of refused joins.
fn refusals(events: &[Event]) -> Vec<&str> {
    let mut found = Vec::new();
    for event in events {
        if let Event::JoinRefused { why, .. } = event {
            found.push(why.as_str());
        }
    }
    found
}

#[test]
fn a_machine_with_a_valid_token_joins_with_the_labels_and_taints_of_its_kubelet() {
    let flags = "--node-labels=tier=batch --register-with-taints=batch=yes:NoSchedule";
    let (world, events) = booted(Some(token(|_| {})), &join(flags), 10);
    let node = node(&world).expect("the machine joined");
    assert_eq!(node["metadata"]["labels"]["tier"], "batch");
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|it| it["key"] == "batch" && it["value"] == "yes"), "{taints:?}");
    assert_eq!(refusals(&events), Vec::<&str>::new());
}

#[test]
fn a_machine_whose_token_is_missing_wrong_or_expired_never_joins() {
    let begin = 4000;
    for (name, secret, data, want) in [
        ("no Secret", None, join(""), "Secret bootstrap-token-abcdef does not exist"),
        (
            "another secret",
            Some(token(|it| it["token-secret"] = "fedcba9876543210".into())),
            join(""),
            "Secret bootstrap-token-abcdef has another token-secret",
        ),
        (
            "no use",
            Some(token(|it| it["usage-bootstrap-authentication"] = "false".into())),
            join(""),
            "Secret bootstrap-token-abcdef does not permit authentication",
        ),
        (
            "expired",
            Some(token(|_| {})),
            join(""),
            "the token of Secret bootstrap-token-abcdef has expired",
        ),
        (
            "no token",
            Some(token(|_| {})),
            "kubeadm join".to_owned(),
            "the user data names no token",
        ),
    ] {
        let (mut world, events) = booted(secret, &data, begin);
        assert_eq!(node(&world), None, "{name}");
        assert_eq!(refusals(&events), [want], "{name}");
        world.apply(at(begin + 130), Command::Reset(NODE.into())).unwrap();
        world.advance(at(begin + 300));
        assert_eq!(node(&world), None, "{name}: cloud-init runs only at the first boot");
    }
}

#[test]
fn a_machine_whose_user_data_joins_no_cluster_has_no_node() {
    let (world, events) = booted(Some(token(|_| {})), "#cloud-config\nruncmd: [reboot]\n", 10);
    assert_eq!((node(&world), refusals(&events)), (None, Vec::new()));
}
