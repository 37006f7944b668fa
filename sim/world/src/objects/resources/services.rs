//! `services`: what load balancers are made for.
//!
//! Cluster IPs and node ports follow from namespace and name instead of an allocator, so that one
//! service never changes the address of another; two services may share one.

use std::net::IpAddr;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::endpoints::validate_protocol;
use crate::objects::{
    FieldErrors, GroupResource, NameRule, ResourceDef, SelectableField, Strategy, fields, meta,
    names,
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
            default: Some(default),
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
    if spec.get("sessionAffinity") == Some(&"ClientIP".into()) {
        let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
        fields::default_to(spec, "sessionAffinityConfig", config);
    } else {
        spec.shift_remove("sessionAffinityConfig");
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        if spec.get("clusterIP").and_then(Value::as_str).is_none_or(str::is_empty) {
            let [a, b, c] = digest(&seed);
            let ip = format!("10.{}.{b}.{}", 96 + a % 16, 1 + c % 254);
            spec.insert("clusterIP".into(), ip.into());
        }
        let ip = spec.get("clusterIP").cloned().unwrap_or_default();
        // Without a selector somebody else says where it leads, in both families.
        let is_open = ip == "None" && !spec.contains_key("selector");
        fields::default_to(spec, "clusterIPs", json!([ip]));
        let families = if is_open { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        let policy = if is_open { "RequireDualStack" } else { "SingleStack" };
        fields::default_to(spec, "ipFamilies", families);
        fields::default_to(spec, "ipFamilyPolicy", policy);
        fields::default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    let is_external = matches!(kind.as_str(), "LoadBalancer" | "NodePort");
    if is_external {
        fields::default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fields::default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
    let node_port = |seed: &str| {
        let [a, b, _] = digest(seed);
        FIRST_NODE_PORT + u16::from_be_bytes([a, b]) % N_NODE_PORTS
    };
    if kind == "LoadBalancer" && spec.get("externalTrafficPolicy") == Some(&"Local".into()) {
        let port = node_port(&format!("{seed}/health"));
        fields::default_if_empty(spec, "healthCheckNodePort", port);
    }
    let allocates = is_external && spec.get("allocateLoadBalancerNodePorts") != Some(&false.into());
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let port = fields::as_map(port);
        fields::default_if_empty(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        fields::default_if_empty(port, "targetPort", number.clone());
        if allocates {
            let port_number = node_port(&format!("{seed}/{number}"));
            fields::default_if_empty(port, "nodePort", port_number);
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

/// Follows `kubernetes: pkg/apis/core/validation/validation.go`, `ValidateService`.
fn validate(service: &Value, errors: &mut FieldErrors) {
    let spec = &service["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    let kind = text("type");
    let ports = fields::list(service, "/spec/ports");
    let is_headless = text("clusterIP") == "None";
    if kind == "ExternalName" {
        if text("externalName").is_empty() {
            errors.required("spec.externalName", "");
        }
    } else if ports.is_empty() && !is_headless {
        errors.required("spec.ports", "");
    }
    for (at, port) in ports.iter().enumerate() {
        validate_port(port, ports.len() > 1, &format!("spec.ports[{at}]"), errors);
    }
    meta::validate_labels(&spec["selector"], "spec.selector", errors);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], errors);
    if !TYPES.contains(&kind) {
        errors.not_supported("spec.type", kind, &TYPES);
    }
    for (at, ip) in fields::list(spec, "/clusterIPs").iter().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        if !matches!(ip, "" | "None") && ip.parse::<IpAddr>().is_err() {
            errors.invalid(format!("spec.clusterIPs[{at}]"), &ip.into(), names::NO_ADDRESS);
        }
    }
    one_of(spec, "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
    for (at, ip) in fields::list(spec, "/externalIPs").iter().enumerate() {
        if ip.as_str().unwrap_or_default().parse::<IpAddr>().is_err() {
            errors.invalid(format!("spec.externalIPs[{at}]"), ip, names::NO_ADDRESS);
        }
    }
    let is_external = matches!(kind, "LoadBalancer" | "NodePort");
    for (at, port) in ports.iter().enumerate() {
        if !is_external && port["nodePort"].as_i64().is_some_and(|number| number != 0) {
            let why = format!("may not be used when `type` is '{kind}'");
            errors.forbidden(format!("spec.ports[{at}].nodePort"), &why);
        }
    }
    for at in 0..ports.len() {
        let same = |a: &Value, b: &Value| a["protocol"] == b["protocol"] && a["port"] == b["port"];
        if ports[..at].iter().any(|earlier| same(earlier, &ports[at])) {
            // The real server compares, and shows, no more than this.
            let shown = json!({
                "Name": "", "Protocol": ports[at]["protocol"], "AppProtocol": null,
                "Port": ports[at]["port"], "TargetPort": 0, "NodePort": 0,
            });
            errors.duplicate(format!("spec.ports[{at}]"), &shown, "");
        }
    }
    for (at, range) in fields::list(spec, "/loadBalancerSourceRanges").iter().enumerate() {
        if !names::is_cidr(range.as_str().unwrap_or_default()) {
            // The real server spells this one with a capital.
            let field = format!("spec.LoadBalancerSourceRanges[{at}]");
            errors.invalid(field, range, names::NO_CIDR);
        }
    }
    if !text("loadBalancerClass").is_empty() && kind != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden("spec.loadBalancerClass", why);
    }
    let policy = text("externalTrafficPolicy");
    if is_external {
        one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if !policy.is_empty() && fields::list(spec, "/externalIPs").is_empty() {
        let why = "may only be set for externally-accessible services";
        errors.invalid("spec.externalTrafficPolicy", &policy.into(), why);
    }
    one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], errors);
}

fn one_of(spec: &Value, field: &str, known: &[&str], errors: &mut FieldErrors) {
    if let Some(given) = spec[field].as_str().filter(|given| !known.contains(given)) {
        errors.not_supported(format!("spec.{field}"), given, known);
    }
}

fn validate_port(port: &Value, needs_name: bool, path: &str, errors: &mut FieldErrors) {
    const OUT_OF_RANGE: &str = "must be between 1 and 65535, inclusive";
    let name = fields::text(port, "/name");
    if !name.is_empty() {
        for why in names::name_problems(NameRule::Label, name) {
            errors.invalid(format!("{path}.name"), &name.into(), &why);
        }
    } else if needs_name {
        errors.required(format!("{path}.name"), "");
    }
    let number = port["port"].as_i64().unwrap_or_default();
    if !(1..=65_535).contains(&number) {
        errors.invalid(format!("{path}.port"), &number.into(), OUT_OF_RANGE);
    }
    validate_protocol(port, path, errors);
    match &port["targetPort"] {
        Value::String(target) => {
            let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
            if !target.bytes().all(is_plain) {
                let why = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
                errors.invalid(format!("{path}.targetPort"), &target.as_str().into(), why);
            }
        }
        target => {
            if !target.as_i64().is_some_and(|number| (1..=65_535).contains(&number)) {
                errors.invalid(format!("{path}.targetPort"), target, OUT_OF_RANGE);
            }
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
