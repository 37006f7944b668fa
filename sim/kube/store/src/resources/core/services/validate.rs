//! Validation of services, with the real server's error texts.
//!
//! Follows `kubernetes: pkg/apis/core/validation/validation.go`, `ValidateService…`.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::balancer::{validate_balancer, validate_class};
use super::{family, is_external, is_headless, needs_address, needs_health_check};
use crate::object::{fields, meta, names};
use crate::resources::core::endpoints::{
    refuse_special, validate_app_protocol, validate_port_name, validate_protocol,
};
use crate::values::addresses;
use crate::{FieldErrors, NameRule};

const IPS: &str = "spec.clusterIPs";
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const OUT_OF_RANGE: &str = "must be between 1 and 65535, inclusive";
pub(super) const FIXED: &str = "may not change once set";
/// Maximum of the timeout of session affinity: one day, in seconds.
const MAX_TIMEOUT: i64 = 86_400;

/// Checks a service; `old` is the existing one, if any.
pub(super) fn validate(service: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let spec = &service["spec"];
    let kind = fields::text(spec, "/type");
    let ports = fields::list(spec, "/ports");
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.invalid("spec.clusterIPs[0]", &"None".into(), &why);
        }
        "ExternalName" => validate_external_name(spec, errors),
        _ => {}
    }
    for at in 0..ports.len() {
        validate_port(ports, at, errors);
    }
    meta::validate_labels(&spec["selector"], "spec.selector", errors);
    validate_affinity(spec, errors);
    validate_addresses(spec, old.map(|old| &old["spec"]), errors);
    for (at, ip) in fields::list(spec, "/externalIPs").iter().enumerate() {
        let path = format!("spec.externalIPs[{at}]");
        let text = ip.as_str().unwrap_or_default();
        match text.parse() {
            Ok(parsed) => refuse_special(parsed, text, &path, errors),
            Err(_) => errors.invalid(path, ip, addresses::NO_ADDRESS),
        }
    }
    if !TYPES.contains(&kind) {
        errors.not_supported("spec.type", kind, &TYPES);
    }
    validate_ports(kind, ports, errors);
    validate_balancer(service, old, errors);
    validate_class(None, spec, errors);
    validate_policies(spec, errors);
}

/// Checks a changed service: first the change, then the whole service as [`validate`] does.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    if needs_address(spec) && needs_address(before) {
        let was_headless = is_headless(before);
        if !(was_headless && is_headless(spec)) {
            validate_change(before, spec, "clusterIPs", errors);
        }
        if !was_headless && !is_headless(spec) {
            validate_change(before, spec, "ipFamilies", errors);
        }
    }
    validate_class(Some(before), spec, errors);
    if needs_health_check(before)
        && needs_health_check(spec)
        && before["healthCheckNodePort"] != spec["healthCheckNodePort"]
    {
        errors.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
    validate(new, Some(old), errors);
}

fn validate_external_name(spec: &Value, errors: &mut FieldErrors) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let is_set = match &spec[field] {
            Value::Array(list) => !list.is_empty(),
            other => other.is_string(),
        };
        if is_set {
            let why = "may not be set for ExternalName services";
            errors.forbidden(format!("spec.{field}"), why);
        }
    }
    let name = fields::text(spec, "/externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.required("spec.externalName", "");
        return;
    }
    for why in names::name_problems(NameRule::Subdomain, name) {
        errors.invalid("spec.externalName", &name.into(), &why);
    }
}

fn validate_port(ports: &[Value], at: usize, errors: &mut FieldErrors) {
    let (port, path) = (&ports[at], format!("spec.ports[{at}]"));
    if fields::text(port, "/name").is_empty() {
        if ports.len() > 1 {
            errors.required(format!("{path}.name"), "");
        }
    } else {
        validate_port_name(ports, at, &path, errors);
    }
    let number = port["port"].as_i64().unwrap_or_default();
    if !(1..=65_535).contains(&number) {
        errors.invalid(format!("{path}.port"), &number.into(), OUT_OF_RANGE);
    }
    validate_protocol(port, &path, errors);
    let field = format!("{path}.targetPort");
    match &port["targetPort"] {
        Value::String(target) => {
            for why in names::port_name_problems(target) {
                errors.invalid(&*field, &target.as_str().into(), why);
            }
        }
        target => {
            let number = target.as_i64().unwrap_or_default();
            if !(1..=65_535).contains(&number) {
                errors.invalid(field, &number.into(), OUT_OF_RANGE);
            }
        }
    }
    validate_app_protocol(port, &path, errors);
}

fn validate_affinity(spec: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    match fields::text(spec, "/sessionAffinity") {
        "ClientIP" => {
            let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
            if timeout.as_i64().is_some_and(|it| it <= 0 || it > MAX_TIMEOUT) {
                let why = format!("must be greater than 0 and less than {MAX_TIMEOUT}");
                errors.invalid(FIELD, timeout, &why);
            }
        }
        "None" => {}
        other => errors.not_supported("spec.sessionAffinity", other, &["ClientIP", "None"]),
    }
}

/// Checks `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`, unless the type of the
/// service needs no address.
pub(super) fn validate_addresses(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    if !needs_address(spec) {
        return;
    }
    validate_first(spec, errors);
    validate_families(spec, errors);
    let known = old.map_or(&[][..], |old| fields::list(old, "/clusterIPs"));
    if validate_ips(spec, known, errors) {
        validate_families_of_ips(spec, errors);
    }
}

/// Checks that `clusterIP` equals the first of `clusterIPs`, or that both are empty.
fn validate_first(spec: &Value, errors: &mut FieldErrors) {
    let (one, all) = (fields::text(spec, "/clusterIP"), &spec["clusterIPs"]);
    match (one, fields::list(spec, "/clusterIPs").first()) {
        ("", Some(_)) => {
            errors.invalid(IPS, all, "must be empty when `clusterIP` is not specified");
        }
        ("", None) => {}
        (_, None) => errors.required(IPS, ""),
        (one, Some(first)) if first != one => {
            errors.invalid(IPS, all, "first value must match `clusterIP`");
        }
        _ => {}
    }
}

/// Checks that `ipFamilies` and `ipFamilyPolicy` have known values and that no family occurs twice.
fn validate_families(spec: &Value, errors: &mut FieldErrors) {
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let families = fields::list(spec, "/ipFamilies");
    for (at, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{at}]");
        let text = family.as_str().unwrap_or_default();
        if !["IPv4", "IPv6"].contains(&text) {
            errors.not_supported(&*path, text, &["IPv4", "IPv6"]);
        }
        if families[..at].contains(family) {
            errors.duplicate(path, family, "");
        }
    }
    if let Some(policy) = spec["ipFamilyPolicy"].as_str().filter(|it| !POLICIES.contains(it)) {
        errors.not_supported("spec.ipFamilyPolicy", policy, &POLICIES);
    }
}

/// Checks `clusterIPs`: at most two entries, each an address or one of `known`, the addresses of
/// the existing service; or the single entry `None`. Returns true if each entry is valid,
/// regardless of the number of entries.
fn validate_ips(spec: &Value, known: &[Value], errors: &mut FieldErrors) -> bool {
    let (ips, all) = (fields::list(spec, "/clusterIPs"), &spec["clusterIPs"]);
    let mut is_right = true;
    for (at, ip) in ips.iter().enumerate() {
        let text = ip.as_str().unwrap_or_default();
        if at == 0 && text == "None" {
            if ips.len() > 1 {
                is_right = false;
                errors.invalid(IPS, all, "'None' must be the first and only value");
            }
        } else if text.parse::<IpAddr>().is_err() && !known.contains(ip) {
            is_right = false;
            errors.invalid(format!("{IPS}[{at}]"), ip, addresses::NO_ADDRESS);
        }
    }
    if ips.len() > 2 {
        errors.invalid(IPS, all, "may only hold up to 2 values");
    }
    is_right
}

/// Checks that several addresses are not all of the same family. Unless the service is headless,
/// also checks that each address has the family at the same position of `ipFamilies`.
fn validate_families_of_ips(spec: &Value, errors: &mut FieldErrors) {
    let (ips, all) = (fields::list(spec, "/clusterIPs"), &spec["clusterIPs"]);
    let texts: Vec<&str> = ips.iter().filter_map(Value::as_str).collect();
    let of_both = ["IPv4", "IPv6"].iter().all(|one| texts.iter().any(|ip| family(ip) == *one));
    if ips.len() > 1 && !of_both {
        errors.invalid(IPS, all, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (at, (ip, wanted)) in texts.iter().zip(fields::list(spec, "/ipFamilies")).enumerate() {
        let wanted = wanted.as_str().unwrap_or_default();
        if matches!(wanted, "IPv4" | "IPv6") && family(ip) != wanted {
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{at}]`");
            errors.invalid(format!("{IPS}[{at}]"), &(*ip).into(), &why);
        }
    }
}

/// Checks a change of `field`, which is `clusterIPs` or `ipFamilies`. Its values must stay. Only a
/// second value may be added, or be removed if the policy is SingleStack.
fn validate_change(old: &Value, new: &Value, field: &str, errors: &mut FieldErrors) {
    let pointer = format!("/{field}");
    let (before, after) = (fields::list(old, &pointer), fields::list(new, &pointer));
    let (path, shown) = (format!("spec.{field}"), &new[field]);
    let is_ips = field == "clusterIPs";
    if before.len() == after.len() {
        for (at, _) in before.iter().zip(after).enumerate().filter(|(_, (old, new))| old != new) {
            // For families, the real server names the first one even if another one has changed.
            let at = if is_ips { at } else { 0 };
            errors.invalid(format!("{path}[{at}]"), shown, FIXED);
        }
        return;
    }
    let first = format!("{path}[0]");
    if before.len() > after.len() && fields::list(new, "/clusterIPs").is_empty() {
        let what = if is_ips { "clusterIP" } else { "ipFamily" };
        errors.invalid(&*first, shown, &format!("primary {what} can not be unset"));
    }
    if let (Some(old), Some(new_first)) = (before.first(), after.first())
        && old != new_first
    {
        errors.invalid(&*first, &new["clusterIPs"], FIXED);
    }
    if before.len() > after.len() && after.len() == 1 && new["ipFamilyPolicy"] != "SingleStack" {
        let what = if is_ips { "clusterIP" } else { "ipFamily" };
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.invalid("spec.ipFamilyPolicy", &new["ipFamilyPolicy"], &why);
    }
}

fn validate_ports(kind: &str, ports: &[Value], errors: &mut FieldErrors) {
    let node_port = |port: &Value| port["nodePort"].as_i64().unwrap_or_default();
    for (at, port) in ports.iter().enumerate() {
        if kind == "ClusterIP" && node_port(port) != 0 {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(format!("spec.ports[{at}].nodePort"), why);
        }
    }
    let same_protocol = |a: &Value, b: &Value| a["protocol"] == b["protocol"];
    for (at, port) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
        let is_same =
            |earlier: &Value| same_protocol(earlier, port) && node_port(earlier) == node_port(port);
        if ports[..at].iter().any(is_same) {
            errors.duplicate(format!("spec.ports[{at}].nodePort"), &port["nodePort"], "");
        }
    }
    for (at, port) in ports.iter().enumerate() {
        let is_same =
            |earlier: &Value| same_protocol(earlier, port) && earlier["port"] == port["port"];
        if ports[..at].iter().any(is_same) {
            // The real server compares and shows only these fields.
            let shown = json!({
                "Name": "", "Protocol": port["protocol"], "AppProtocol": null,
                "Port": port["port"], "TargetPort": 0, "NodePort": 0,
            });
            errors.duplicate(format!("spec.ports[{at}]"), &shown, "");
        }
    }
}

fn validate_policies(spec: &Value, errors: &mut FieldErrors) {
    const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let external = fields::text(spec, "/externalTrafficPolicy");
    if is_external(spec) {
        if !["Cluster", "Local"].contains(&external) {
            errors.not_supported("spec.externalTrafficPolicy", external, &["Cluster", "Local"]);
        }
    } else if !external.is_empty() {
        let why = "may only be set for externally-accessible services";
        errors.invalid("spec.externalTrafficPolicy", &external.into(), why);
    }
    let port = spec["healthCheckNodePort"].as_i64().unwrap_or_default();
    if needs_health_check(spec) {
        if port == 0 {
            errors.required("spec.healthCheckNodePort", "");
        } else if !(1..=65_535).contains(&port) {
            errors.invalid("spec.healthCheckNodePort", &port.into(), OUT_OF_RANGE);
        }
    } else if port != 0 {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid("spec.healthCheckNodePort", &port.into(), why);
    }
    if let Some(internal) = spec["internalTrafficPolicy"].as_str()
        && !["Cluster", "Local"].contains(&internal)
    {
        errors.not_supported("spec.internalTrafficPolicy", internal, &["Cluster", "Local"]);
    }
    if let Some(wanted) = spec["trafficDistribution"].as_str()
        && !DISTRIBUTIONS.contains(&wanted)
    {
        errors.not_supported("spec.trafficDistribution", wanted, &DISTRIBUTIONS);
    }
}
