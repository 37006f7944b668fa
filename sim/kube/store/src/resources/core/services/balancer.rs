//! Validation of the fields that only load balancers have.

use std::net::IpAddr;

use serde_json::Value;

use super::validate::FIXED;
use crate::object::{fields, names};
use crate::values::addresses;
use crate::{FieldErrors, NameRule};

const NO_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
/// Annotation with the source ranges, older than the field `loadBalancerSourceRanges`.
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Checks source ranges and `allocateLoadBalancerNodePorts`. Ranges of the existing service stay
/// valid, because an older server may have accepted them.
pub(super) fn validate_balancer(service: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let spec = &service["spec"];
    let is_balancer = spec["type"] == "LoadBalancer";
    let ranges = fields::list(spec, "/loadBalancerSourceRanges");
    if ranges.is_empty() {
        validate_annotation(service, old, errors);
    } else if !is_balancer {
        errors.forbidden("spec.LoadBalancerSourceRanges", NO_BALANCER);
    }
    let known = old.map_or(&[][..], |old| fields::list(old, "/spec/loadBalancerSourceRanges"));
    let trimmed = |range: &Value| range.as_str().unwrap_or_default().trim().to_owned();
    for (at, range) in ranges.iter().map(trimmed).enumerate() {
        if known.iter().any(|it| trimmed(it) == range) {
            continue;
        }
        if let Some(why) = addresses::range_problem(&range) {
            // The real server spells this field with a capital letter.
            let field = format!("spec.LoadBalancerSourceRanges[{at}]");
            errors.invalid(field, &range.into(), why);
        }
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !is_balancer {
        errors.forbidden("spec.allocateLoadBalancerNodePorts", NO_BALANCER);
    }
}

fn validate_annotation(service: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let given =
        |service: &Value| service["metadata"]["annotations"][RANGES].as_str().map(str::to_owned);
    let Some(ranges) = given(service) else { return };
    let field = format!("metadata.annotations[{RANGES}]");
    if service["spec"]["type"] != "LoadBalancer" {
        errors.forbidden(field.as_str(), NO_BALANCER);
    }
    if old.and_then(given).as_ref() == Some(&ranges) || ranges.trim().is_empty() {
        return;
    }
    for range in ranges.trim().split(',').map(str::trim) {
        if let Some(why) = addresses::range_problem(range) {
            errors.invalid(field.as_str(), &range.into(), why);
        }
    }
}

/// Checks the class of a load balancer. It must not change while the type stays LoadBalancer, and
/// services of other types must not have one.
pub(super) fn validate_class(old: Option<&Value>, spec: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.loadBalancerClass";
    let class = &spec["loadBalancerClass"];
    let is_balancer = |spec: &Value| spec["type"] == "LoadBalancer";
    if let Some(old) = old
        && is_balancer(old)
        && is_balancer(spec)
        && old["loadBalancerClass"] != *class
    {
        errors.invalid(FIELD, class, FIXED);
    }
    let Some(name) = class.as_str() else { return };
    if !is_balancer(spec) {
        return errors.forbidden(FIELD, NO_BALANCER);
    }
    for why in names::qualified_name_problems(name) {
        errors.invalid(FIELD, class, &why);
    }
}

/// Checks the addresses of a load balancer in the status of its service.
pub(super) fn validate_status(new: &Value, _: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "status.loadBalancer.ingress";
    let ingress = fields::list(new, "/status/loadBalancer/ingress");
    if new["spec"]["type"] != "LoadBalancer" && !ingress.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return errors.forbidden(FIELD, why);
    }
    for (at, one) in ingress.iter().enumerate() {
        let path = format!("{FIELD}[{at}]");
        let ip = fields::text(one, "/ip");
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            errors.invalid(format!("{path}.ip"), &one["ip"], addresses::NO_ADDRESS);
        }
        match one["ipMode"].as_str() {
            None if !ip.is_empty() => {
                errors.required(format!("{path}.ipMode"), "must be specified when `ip` is set");
            }
            Some(_) if ip.is_empty() => {
                let why = "may not be specified when `ip` is not set";
                errors.forbidden(format!("{path}.ipMode"), why);
            }
            Some(mode) if !["Proxy", "VIP"].contains(&mode) => {
                errors.not_supported(format!("{path}.ipMode"), mode, &["Proxy", "VIP"]);
            }
            _ => {}
        }
        let host = fields::text(one, "/hostname");
        if !host.is_empty() {
            let field = format!("{path}.hostname");
            for why in names::name_problems(NameRule::Subdomain, host) {
                errors.invalid(&*field, &host.into(), &why);
            }
            if host.parse::<IpAddr>().is_ok() {
                errors.invalid(field, &host.into(), "must be a DNS name, not an IP address");
            }
        }
    }
}
