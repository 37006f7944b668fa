//! A kubelet's life, told in commands.

use std::time::Duration;

use serde_json::Value;

use super::{GRACE_PERIOD, Heartbeats, Kubelet, LEASE_PERIOD, Machine};
use crate::objects::{Command, GroupResource, Key, Store};
use crate::{Ids, Time};

struct Lab {
    store: Store,
    at: Time,
}

impl Lab {
    fn now(&self) -> jiff::Timestamp {
        self.at.timestamp("2026-03-01T08:00:00Z".parse().unwrap())
    }

    fn apply(&mut self, commands: Vec<Command>) {
        for command in commands {
            let decision = self.store.decide(self.now(), command).unwrap();
            for event in &decision.events {
                self.store.fold(event);
            }
        }
    }

    fn node(&self) -> &Value {
        self.store.get(&Key::node("node-1")).unwrap()
    }

    fn ready(&self) -> (&str, &str) {
        let conditions = self.node()["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
        (ready["status"].as_str().unwrap(), ready["reason"].as_str().unwrap())
    }

    fn taints(&self) -> Vec<String> {
        let taints = self.node()["spec"]["taints"].as_array();
        taints
            .into_iter()
            .flatten()
            .map(|it| format!("{}:{}", it["key"].as_str().unwrap(), it["effect"].as_str().unwrap()))
            .collect()
    }
}

fn lab() -> (Lab, Kubelet) {
    let lab = Lab { store: Store::new(Ids::new(7)), at: Time::ZERO };
    let machine = Machine::new("node-1", "421a7c0e-1111-4222-8333-abcdefabcdef");
    (lab, Kubelet::new(machine, Heartbeats::On))
}

#[test]
fn a_started_kubelet_registers_a_tainted_node() {
    let (mut lab, mut kubelet) = lab();
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    insta::assert_json_snapshot!(lab.node());
}

#[test]
fn a_node_ip_is_reported_and_handed_to_the_cloud_provider() {
    let (mut lab, mut kubelet) = lab();
    kubelet.machine.node_ips = vec!["10.0.0.7".into()];
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    let node = lab.node();
    assert_eq!(node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"], "10.0.0.7");
    assert_eq!(node["status"]["addresses"][0]["address"], "10.0.0.7");
    assert_eq!(node["status"]["addresses"][1]["type"], "Hostname");
}

#[test]
fn silence_is_noticed_and_forgiven() {
    let (mut lab, mut kubelet) = lab();
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    assert_eq!(lab.ready(), ("True", "KubeletReady"));

    kubelet.stop(lab.at);
    assert_eq!(kubelet.next_timer(), Some(lab.at + GRACE_PERIOD));
    lab.at = lab.at + GRACE_PERIOD;
    let commands = kubelet.due(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    assert_eq!(lab.ready(), ("Unknown", "NodeStatusUnknown"));
    assert_eq!(
        lab.taints(),
        [
            "node.cloudprovider.kubernetes.io/uninitialized:NoSchedule",
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute",
        ]
    );
    assert_eq!(kubelet.next_timer(), None);

    lab.at = lab.at + Duration::from_secs(5);
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    assert_eq!(lab.ready(), ("True", "KubeletReady"));
    assert_eq!(lab.taints(), ["node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"]);
}

#[test]
fn the_lease_is_renewed_while_the_kubelet_runs() {
    let (mut lab, mut kubelet) = lab();
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    let node = lab.node()["metadata"]["resourceVersion"].clone();
    for _ in 0..4 {
        lab.at = kubelet.next_timer().unwrap();
        let commands = kubelet.due(&lab.store, lab.at, lab.now());
        lab.apply(commands);
    }
    assert_eq!(lab.at, Time::ZERO + LEASE_PERIOD * 3);
    let lease =
        Key::new(GroupResource::of("coordination.k8s.io", "leases"), "kube-node-lease", "node-1");
    assert_eq!(lab.store.get(&lease).unwrap()["spec"]["renewTime"], "2026-03-01T08:00:30.000000Z");
    assert_eq!(lab.node()["metadata"]["resourceVersion"], node, "leases do not touch nodes");
}

#[test]
fn a_deleted_node_stays_deleted_until_its_kubelet_starts_again() {
    let (mut lab, mut kubelet) = lab();
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    lab.apply(vec![Command::delete(Key::node("node-1"))]);
    for _ in 0..40 {
        lab.at = kubelet.next_timer().unwrap();
        let commands = kubelet.due(&lab.store, lab.at, lab.now());
        lab.apply(commands);
    }
    assert_eq!(lab.store.get(&Key::node("node-1")), None);
    assert_eq!(lab.store.count(&GroupResource::of("coordination.k8s.io", "leases")), 0);
    let commands = kubelet.start(&lab.store, lab.at, lab.now());
    lab.apply(commands);
    assert_eq!(lab.ready().0, "True");
}
