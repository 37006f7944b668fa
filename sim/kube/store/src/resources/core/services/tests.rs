//! Tests of the values that the store assigns to services, and of the fields that belong to each
//! type.

use serde_json::{Value, json};

use crate::Ids;
use crate::{Command, GroupResource, Key, PatchKind, Status, Store};

struct Lab(Store);

impl Lab {
    fn new() -> Self {
        Self(Store::new(Ids::new(7)))
    }

    fn run(&mut self, command: Command) -> Result<Value, Status> {
        let decision = self.0.decide("2026-03-01T08:00:00Z".parse().unwrap(), command)?;
        decision.events.iter().for_each(|event| self.0.fold(event));
        Ok(decision.reply.object.as_ref().clone())
    }

    fn create(&mut self, name: &str, spec: Value) -> Result<Value, Status> {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.run(Command::create(GroupResource::core("services"), "default", object))
    }

    fn patch(&mut self, name: &str, spec: Value) -> Result<Value, Status> {
        let key = Key::new("services", "default", name);
        self.run(Command::patch(key, PatchKind::Merge, json!({"spec": spec})))
    }
}

#[test]
fn each_service_gets_an_address_and_a_node_port_of_its_own() {
    let mut lab = Lab::new();
    let mut ips = std::collections::BTreeSet::new();
    let mut ports = std::collections::BTreeSet::new();
    for n in 0..300 {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
        let service = lab.create(&format!("s{n}"), spec).unwrap();
        assert!(ips.insert(service["spec"]["clusterIP"].to_string()), "{n}");
        assert!(ports.insert(service["spec"]["ports"][0]["nodePort"].to_string()), "{n}");
    }
}

#[test]
fn a_service_gets_the_address_and_port_that_it_requests_or_an_error() {
    let mut lab = Lab::new();
    let spec = json!({"type": "NodePort", "clusterIP": "10.96.7.7", "ports": [{"port": 80, "nodePort": 30007}]});
    let first = lab.create("first", spec).unwrap();
    assert_eq!(first["spec"]["clusterIPs"], json!(["10.96.7.7"]));
    for (name, spec, want) in [
        (
            "an address that is taken",
            json!({"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}),
            r#"Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.96.7.7"]: failed to allocate IP 10.96.7.7: provided IP is already allocated"#,
        ),
        (
            "an address outside of the range",
            json!({"clusterIP": "192.0.2.7", "ports": [{"port": 80}]}),
            r#"Service "s" is invalid: spec.clusterIPs: Invalid value: ["192.0.2.7"]: failed to allocate IP 192.0.2.7: the provided network does not match the current range"#,
        ),
        (
            "a port that is taken",
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]}),
            r#"Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated"#,
        ),
        (
            "a port out of range",
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            r#"Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"#,
        ),
        (
            "two families in a cluster with one",
            json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}),
            r#"Service "s" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
        ),
        (
            "a family that the cluster does not have",
            json!({"ipFamilies": ["IPv6"], "ports": [{"port": 80}]}),
            r#"Service "s" is invalid: spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
        ),
    ] {
        assert_eq!(lab.create("s", spec).unwrap_err().message, want, "{name}");
    }
    // The address of a deleted Service is free again.
    lab.run(Command::delete(Key::new("services", "default", "first"))).unwrap();
    lab.create("s", json!({"clusterIP": "10.96.7.7", "ports": [{"port": 80}]})).unwrap();
}

#[test]
fn a_service_loses_the_fields_of_its_old_type_on_a_type_change() {
    let mut lab = Lab::new();
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a.b/c", "ports": [{"port": 80}]});
    let before = lab.create("s", spec).unwrap();
    assert!(before["spec"]["healthCheckNodePort"].is_number());
    let after = lab.patch("s", json!({"type": "ClusterIP"})).unwrap();
    assert_eq!(after["spec"]["clusterIP"], before["spec"]["clusterIP"]);
    for field in [
        "healthCheckNodePort",
        "loadBalancerClass",
        "externalTrafficPolicy",
        "allocateLoadBalancerNodePorts",
    ] {
        assert!(after["spec"][field].is_null(), "{field}");
    }
    assert!(after["spec"]["ports"][0]["nodePort"].is_null());
    let named = lab.patch("s", json!({"type": "ExternalName", "externalName": "a.b"})).unwrap();
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert!(named["spec"][field].is_null(), "{field}");
    }
    let again = lab.patch("s", json!({"type": "NodePort"})).unwrap();
    assert!(again["spec"]["clusterIP"].is_string());
    assert!(again["spec"]["ports"][0]["nodePort"].is_number());
}
