//! Addresses and IP families of a service, and the fields that depend on them.

use serde_json::{Map, Value, json};

use super::allocate::{Spec, is_empty, view};
use super::validate::validate_addresses;
use super::{family, has_node_ports, needs_address, needs_health_check, node_ports};
use crate::FieldErrors;
use crate::object::fields;

/// Copies from the existing service the assigned values that an update leaves out and the service
/// still needs: cluster IPs, node ports and the port of the health check.
pub(super) fn keep_assigned_values(old: &Value, spec: &mut Spec) {
    let new = view(spec);
    if needs_address(old) && needs_address(&new) {
        for field in ["clusterIP", "clusterIPs"] {
            if is_empty(spec, field) && !old[field].is_null() {
                spec.insert(field.into(), old[field].clone());
            }
        }
    }
    let allocates = |spec: &Value| {
        has_node_ports(spec)
            && (spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false)
    };
    if allocates(old) && allocates(&new) {
        let (before, after) = (node_ports(old), node_ports(&new));
        let used: Vec<i64> = before.into_iter().filter(|port| after.contains(port)).collect();
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let name = fields::text(port, "/name");
            let ports = fields::list(old, "/ports");
            let same = ports.iter().rev().find(|it| fields::text(it, "/name") == name);
            let known = same.and_then(|it| it["nodePort"].as_i64()).unwrap_or_default();
            if port["nodePort"].as_i64().unwrap_or_default() == 0
                && known != 0
                && !used.contains(&known)
            {
                fields::as_map(port).insert("nodePort".into(), known.into());
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(&new)
        && is_empty(spec, "healthCheckNodePort")
        && !old["healthCheckNodePort"].is_null()
    {
        spec.insert("healthCheckNodePort".into(), old["healthCheckNodePort"].clone());
    }
}

/// Derives `clusterIPs` from `clusterIP` if the client wrote only `clusterIP`, or changed only
/// `clusterIP`; removes `clusterIPs` if the client only emptied `clusterIP`. Restores `clusterIPs`
/// if an update leaves it out and does not change `clusterIP`. Never changes `clusterIP`.
pub(super) fn settle_addresses(old: Option<&Value>, spec: &mut Spec) {
    let one = spec.get("clusterIP").cloned().unwrap_or_default();
    let Some(old) = old else {
        if !is_empty(spec, "clusterIP") && is_empty(spec, "clusterIPs") {
            spec.insert("clusterIPs".into(), json!([one]));
        }
        return;
    };
    let before = fields::text(old, "/clusterIP");
    let is_same = one.as_str().unwrap_or_default() == before;
    if is_empty(spec, "clusterIPs") && is_same && !fields::list(old, "/clusterIPs").is_empty() {
        spec.insert("clusterIPs".into(), old["clusterIPs"].clone());
    }
    // A client that changes `clusterIP` but not `clusterIPs` means both.
    if !is_same && fields::list(&view(spec), "/clusterIPs") == fields::list(old, "/clusterIPs") {
        if one.as_str().is_none_or(str::is_empty) && !before.is_empty() {
            spec.shift_remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".into(), json!([one]));
        }
    }
}

const POLICY: &str = "spec.ipFamilyPolicy";

/// Fills in and checks `ipFamilyPolicy` and `ipFamilies`; follows `initIPFamilyFields` for a
/// cluster that has only IPv4. Does nothing for a service without an address, nor for one that an
/// update leaves as it was with policy `PreferDualStack`.
///
/// # Errors
/// The errors in these two fields, and in the addresses of the service.
pub(super) fn settle_families(old: Option<&Value>, spec: &mut Spec) -> Result<(), FieldErrors> {
    let new = view(spec);
    if !needs_address(&new) || prefers_both_as_before(old, &new) {
        return Ok(());
    }
    let is_open =
        new["clusterIP"] == "None" && fields::map(&new, "/selector").is_none_or(Map::is_empty);
    if is_empty(spec, "ipFamilyPolicy") {
        let before = old.map(|old| &old["ipFamilyPolicy"]).filter(|it| it.is_string());
        let default = if is_open { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy".into(), before.cloned().unwrap_or_else(|| default.into()));
    }
    let mut errors = FieldErrors::default();
    validate_addresses(&view(spec), old, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let policy = spec["ipFamilyPolicy"].clone();
    let is_single = policy == "SingleStack";
    if let Some(old) = old {
        shrink(old, spec, is_single, &mut errors);
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if is_single && fields::list(&view(spec), &format!("/{field}")).len() == 2 {
            let why = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.invalid(POLICY, &policy, &why);
        }
    }
    infer_families(spec, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let families = fields::as_list(spec, "ipFamilies");
    if is_open {
        open_to_all(families, is_single);
    } else {
        of_this_cluster(families, &policy, &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Sets the families of a headless service without selector, which may have both families in any
/// cluster.
fn open_to_all(families: &mut Vec<Value>, is_single: bool) {
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if families.len() < 2 && !is_single {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
}

/// Sets and checks the families of any other service: one with an address, or one with a selector.
/// This cluster has only IPv4.
fn of_this_cluster(families: &mut Vec<Value>, policy: &Value, errors: &mut FieldErrors) {
    if policy == "RequireDualStack" {
        errors.invalid(POLICY, policy, "this cluster is not configured for dual-stack services");
    }
    for (at, family) in families.iter().enumerate() {
        if family != "IPv4" {
            let why = "not configured on this cluster";
            errors.invalid(format!("spec.ipFamilies[{at}]"), family, why);
        }
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
}

/// True if an update of a service with policy `PreferDualStack` leaves its policy, type, addresses
/// and families unchanged.
fn prefers_both_as_before(old: Option<&Value>, new: &Value) -> bool {
    let Some(old) = old else { return false };
    let is_preferred = |spec: &Value| spec["ipFamilyPolicy"] == "PreferDualStack";
    is_preferred(old)
        && is_preferred(new)
        && ["type", "clusterIPs", "ipFamilies"].iter().all(|field| old.get(field) == new.get(field))
}

/// Drops the second address and the second family if the policy is SingleStack (`is_single`) and
/// the client has not changed them. With any other policy, reports an update that drops a second
/// address or family.
fn shrink(old: &Value, spec: &mut Spec, is_single: bool, errors: &mut FieldErrors) {
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let before = fields::list(old, &format!("/{field}")).to_vec();
        let now = fields::list(&view(spec), &format!("/{field}")).to_vec();
        if is_single {
            if before == now && now.len() > 1 {
                spec.insert(field.into(), json!([now[0]]));
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], &why);
        }
    }
}

/// Adds to `ipFamilies` the family of each address that has no entry there yet. Reports such an
/// address instead if it is not IPv4.
fn infer_families(spec: &mut Spec, errors: &mut FieldErrors) {
    let ips = spec.get("clusterIPs").cloned().unwrap_or_default();
    for (at, ip) in ips.as_array().into_iter().flatten().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        if ip == "None" {
            break;
        }
        let families = fields::as_list(spec, "ipFamilies");
        if at >= families.len() {
            if family(ip) == "IPv4" {
                families.push("IPv4".into());
            } else {
                let why = format!("{} is not configured on this cluster", family(ip));
                errors.invalid(format!("spec.clusterIPs[{at}]"), &ips, &why);
            }
        }
    }
}
