//! `services`: what load balancers are made for.
//!
//! Cluster IPs and node ports follow from namespace and name instead of an allocator, so that one
//! service never changes the address of another; two services may share one.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::objects::{
    FieldErrors, GroupResource, NameRule, ResourceDef, SelectableField, Strategy, fields, meta,
};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FIRST_NODE_PORT: u16 = 30_000;
const N_NODE_PORTS: u16 = 2_768;

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("services"),
        version: "v1".into(),
        kind: "Service".into(),
        singular: "service".into(),
        short_names: &["svc"],
        categories: &["all"],
        namespaced: true,
        confidential: false,
        returns_deleted: true,
        status: true,
        registry: "services/specs".into(),
        custom: None,
        deprecation: "",
        selectable: const {
            &[
                SelectableField { name: "spec.clusterIP", pointer: "/spec/clusterIP", default: "" },
                SelectableField { name: "spec.type", pointer: "/spec/type", default: "" },
            ]
        },
        strategy: Strategy {
            names: NameRule::Label1035,
            create_on_update: true,
            begin: |service| {
                fields::as_map(service).shift_remove("status");
            },
            default,
            carry_over,
            validate,
            validate_update,
            ..Strategy::PLAIN
        },
    }
}

fn default(service: &mut Value) {
    let seed = format!("{}/{}", meta::text(service, "namespace"), meta::text(service, "name"));
    let spec = fields::map_mut(service, "spec");
    fields::default_to(spec, "type", "ClusterIP");
    fields::default_to(spec, "sessionAffinity", "None");
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        if spec.get("clusterIP").and_then(Value::as_str).is_none_or(str::is_empty) {
            let [a, b, c] = digest(&seed);
            let ip = format!("10.{}.{b}.{}", 96 + a % 16, 1 + c % 254);
            spec.insert("clusterIP".into(), ip.into());
        }
        let ip = spec.get("clusterIP").cloned().unwrap_or_default();
        fields::default_to(spec, "clusterIPs", json!([ip]));
        fields::default_to(spec, "ipFamilies", json!(["IPv4"]));
        fields::default_to(spec, "ipFamilyPolicy", "SingleStack");
        fields::default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    let is_external = matches!(kind.as_str(), "LoadBalancer" | "NodePort");
    if is_external {
        fields::default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fields::default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
    let allocates = is_external && spec.get("allocateLoadBalancerNodePorts") != Some(&false.into());
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let port = fields::as_map(port);
        fields::default_to(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        fields::default_to(port, "targetPort", number.clone());
        if allocates {
            let [a, b, _] = digest(&format!("{seed}/{number}"));
            let offset = u16::from_be_bytes([a, b]) % N_NODE_PORTS;
            fields::default_to(port, "nodePort", FIRST_NODE_PORT + offset);
        }
    }
    let status = fields::map_mut(service, "status");
    fields::default_to(status, "loadBalancer", json!({}));
}

/// Addresses stay if an update leaves them out.
fn carry_over(old: &Value, new: &mut Value) {
    if new["spec"]["type"] == "ExternalName" {
        return;
    }
    let spec = fields::map_mut(new, "spec");
    for field in ["clusterIP", "clusterIPs"] {
        if !old["spec"][field].is_null() {
            fields::default_to(spec, field, old["spec"][field].clone());
        }
    }
}

fn validate(service: &Value, errors: &mut FieldErrors) {
    let kind = fields::text(service, "/spec/type");
    if !TYPES.contains(&kind) {
        errors.not_supported("spec.type", kind, &TYPES);
    }
    let ports = fields::list(service, "/spec/ports");
    let is_headless = fields::text(service, "/spec/clusterIP") == "None";
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        if ports.len() > 1 && fields::text(port, "/name").is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        if !port["port"].as_i64().is_some_and(|number| (1..=65_535).contains(&number)) {
            let number = port["port"].as_i64().unwrap_or_default();
            errors.invalid(
                format!("{path}.port"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            );
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let (before, after) = (&old["spec"]["clusterIP"], &new["spec"]["clusterIP"]);
    if before != after
        && new["spec"]["type"] != "ExternalName"
        && old["spec"]["type"] != "ExternalName"
    {
        errors.invalid("spec.clusterIP", after, "field is immutable");
    }
}

fn digest(text: &str) -> [u8; 3] {
    let digest = Sha256::digest(text.as_bytes());
    [digest[0], digest[1], digest[2]]
}
