//! `services`, including those for which a cloud provider creates load balancers.
//!
//! [`allocate`] assigns addresses and node ports, and [`validate`] reports errors.

mod allocate;
mod balancer;
mod families;
#[cfg(test)]
mod tests;
mod validate;
mod warnings;

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::object::fields;
use crate::{Check, GroupResource, NameRule, ResourceDef, SelectableField, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: id(),
        version: "v1".into(),
        kind: "Service".into(),
        singular: "service".into(),
        short_names: &["svc"],
        categories: &["all"],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: true,
        status: true,
        scales: false,
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
            names: NameRule::Label,
            create_on_update: true,
            default: Some(default),
            allocate: Some(allocate::allocate),
            begin: |service| {
                fields::as_map(service).insert("status".into(), json!({"loadBalancer": {}}));
            },
            carry_over: drop_type_dependent_fields,
            validate: |service, errors| validate::validate(service, None, errors),
            validate_update: validate::validate_update,
            validate_status: balancer::validate_status,
            hide: Some(hide_inner_policy),
            warn: warnings::warn,
            checks: &[Check::MetadataChange, Check::Change],
            ..Strategy::PLAIN
        },
    }
}

fn id() -> GroupResource {
    GroupResource::core("services")
}

/// Fills in defaults; follows `kubernetes: pkg/apis/core/v1/defaults.go`, `SetDefaults_Service`.
fn default(service: &mut Value) {
    let spec = fields::map_mut(service, "spec");
    fields::default_if_empty(spec, "sessionAffinity", "None");
    fields::default_if_empty(spec, "type", "ClusterIP");
    if spec["sessionAffinity"] == "None" {
        spec.shift_remove("sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP" {
        let timeout = spec.get("sessionAffinityConfig").map(|it| &it["clientIP"]["timeoutSeconds"]);
        if timeout.is_none_or(Value::is_null) {
            let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
            spec.insert("sessionAffinityConfig".into(), config);
        }
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let port = fields::as_map(port);
        fields::default_if_empty(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        fields::default_if_empty(port, "targetPort", number);
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if is_external(&Value::Object(spec.clone())) {
        fields::default_if_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "LoadBalancer" | "NodePort") {
        fields::default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fields::default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
    let status = fields::map_mut(service, "status");
    fields::default_to(status, "loadBalancer", json!({}));
    if kind == "LoadBalancer" {
        for ingress in fields::list_mut(&mut status["loadBalancer"], "ingress") {
            let ingress = fields::as_map(ingress);
            if ingress.get("ip").is_some_and(|ip| ip != "") {
                fields::default_to(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// Removes the fields that a service of the old type has and one of the new type does not have,
/// unless the update changes them. Empties the load balancer's status if the new type is not
/// LoadBalancer. Follows `kubernetes: pkg/registry/core/service/strategy.go`,
/// `dropTypeDependentFields`.
fn drop_type_dependent_fields(old: &Value, new: &mut Value) {
    let old = &old["spec"];
    let is_same = |spec: &Value, field: &str| old.get(field) == spec.get(field);
    let spec = &new["spec"];
    let mut gone: Vec<&str> = Vec::new();
    if needs_address(old) && !needs_address(spec) {
        if is_same(spec, "clusterIP") && is_same(spec, "clusterIPs") {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(["ipFamilies", "ipFamilyPolicy"].iter().filter(|field| is_same(spec, field)));
    }
    let before = node_ports(old);
    let drops_ports = has_node_ports(old)
        && !has_node_ports(spec)
        && node_ports(spec).iter().all(|port| before.contains(port));
    let balances = |spec: &Value| spec["type"] == "LoadBalancer";
    if needs_health_check(old) && !needs_health_check(spec) && is_same(spec, "healthCheckNodePort")
    {
        gone.push("healthCheckNodePort");
    }
    if balances(old) && !balances(spec) {
        let fields = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        gone.extend(fields.iter().filter(|field| is_same(spec, field)));
    }
    if is_external(old) && !is_external(spec) && is_same(spec, "externalTrafficPolicy") {
        gone.push("externalTrafficPolicy");
    }
    let loses_status = !balances(spec);
    let spec = fields::map_mut(new, "spec");
    for field in gone {
        spec.shift_remove(field);
    }
    if drops_ports {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            fields::as_map(port).shift_remove("nodePort");
        }
    }
    if loses_status {
        fields::map_mut(new, "status").insert("loadBalancer".into(), json!({}));
    }
}

/// Returns an ExternalName service without its internal traffic policy, because such a service has
/// no traffic inside the cluster; `None` for a service without this field or of another type. The
/// stored object keeps the policy. Follows
/// `kubernetes: pkg/registry/core/service/storage/storage.go`,
/// `defaultOnReadInternalTrafficPolicy`.
fn hide_inner_policy(service: &Value) -> Option<Value> {
    let spec = &service["spec"];
    let is_left = spec["type"] == "ExternalName" && !spec["internalTrafficPolicy"].is_null();
    is_left.then(|| {
        let mut service = service.clone();
        fields::map_mut(&mut service, "spec").shift_remove("internalTrafficPolicy");
        service
    })
}

fn needs_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn is_headless(spec: &Value) -> bool {
    matches!(fields::list(spec, "/clusterIPs"), [only] if only == "None")
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("LoadBalancer" | "NodePort"))
}

/// True if clients outside the cluster can reach the service.
fn is_external(spec: &Value) -> bool {
    let has_ips = !fields::list(spec, "/externalIPs").is_empty();
    has_node_ports(spec) || spec["type"] == "ClusterIP" && has_ips
}

fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Returns the node ports that a service has, without zeros.
fn node_ports(spec: &Value) -> Vec<i64> {
    let ports = fields::list(spec, "/ports").iter();
    ports.filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port != 0).collect()
}

fn family(ip: &str) -> &'static str {
    match ip.parse() {
        Ok(IpAddr::V6(_)) => "IPv6",
        _ => "IPv4",
    }
}
