//! Warnings about fields of a service that have no effect or are deprecated.

use serde_json::Value;

/// Returns the warnings of `kubernetes: pkg/api/service/warnings.go`, except those about addresses
/// in unusual notation.
pub(super) fn warn(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let is_headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    let is_named = spec["type"] == "ExternalName";
    let has = |field: &str| match &spec[field] {
        Value::Array(list) => !list.is_empty(),
        other => other.as_str().is_some_and(|text| !text.is_empty()),
    };
    let warnings = [
        (
            is_headless && has("loadBalancerIP"),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (is_headless && has("externalIPs"), "spec.externalIPs is ignored for headless services"),
        (
            is_headless && spec["sessionAffinity"] != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            has("externalIPs") && !is_headless && !is_named,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (
            has("externalIPs") && is_named,
            "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
        ),
        (
            has("externalName") && !is_named,
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            spec["trafficDistribution"] == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    warnings.into_iter().filter(|(is_so, _)| *is_so).map(|(_, it)| it.to_owned()).collect()
}
