//! `endpointslices.discovery.k8s.io`: addresses of some of the pods of a service.

use std::net::IpAddr;

use serde_json::Value;

use super::core::endpoints::{
    default_protocols, refuse_special, validate_app_protocol, validate_port_name, validate_protocol,
};
use crate::object::{fields, names};
use crate::values::addresses;
use crate::{Check, FieldErrors, GroupResource, NameRule, ResourceDef, Strategy};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
/// The real server's maximum of endpoints per slice.
const MAX_ENDPOINTS: usize = 1_000;
/// The real server's maximum of addresses per endpoint.
const MAX_ADDRESSES: usize = 100;

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::of("discovery.k8s.io", "endpointslices"),
        version: "v1".into(),
        kind: "EndpointSlice".into(),
        singular: "endpointslice".into(),
        short_names: &[],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "endpointslices".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            generation: true,
            create_on_update: true,
            begin: |slice| {
                // Clients can read this field but no longer write it.
                for endpoint in fields::list_mut(slice, "endpoints") {
                    fields::as_map(endpoint).shift_remove("deprecatedTopology");
                }
            },
            default: Some(default),
            validate,
            checks: &[Check::Metadata, Check::Change],
            validate_update: |new, old, errors| {
                validate_head(new, errors);
                // An older server may have stored unchanged endpoints without these checks.
                if new["endpoints"] != old["endpoints"] {
                    validate_endpoints(new, errors);
                }
                if new["addressType"] != old["addressType"] {
                    errors.invalid("addressType", &new["addressType"], "field is immutable");
                }
            },
            ..Strategy::PLAIN
        },
    }
}

fn default(slice: &mut Value) {
    default_protocols(slice);
    for port in fields::list_mut(slice, "ports") {
        fields::default_to(fields::as_map(port), "name", "");
    }
}

fn validate(slice: &Value, errors: &mut FieldErrors) {
    validate_head(slice, errors);
    validate_endpoints(slice, errors);
}

fn validate_head(slice: &Value, errors: &mut FieldErrors) {
    let kind = fields::text(slice, "/addressType");
    if kind.is_empty() {
        errors.required("addressType", "");
    } else if !ADDRESS_TYPES.contains(&kind) {
        errors.not_supported("addressType", kind, &ADDRESS_TYPES);
    }
    let ports = fields::list(slice, "/ports");
    for (at, port) in ports.iter().enumerate() {
        let path = format!("ports[{at}]");
        validate_port_name(ports, at, &path, errors);
        validate_protocol(port, &path, errors);
        validate_app_protocol(port, &path, errors);
    }
}

fn validate_endpoints(slice: &Value, errors: &mut FieldErrors) {
    let kind = fields::text(slice, "/addressType");
    let endpoints = fields::list(slice, "/endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.too_many("endpoints", endpoints.len(), MAX_ENDPOINTS);
        return;
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(endpoint, kind, &format!("endpoints[{at}]"), errors);
    }
}

fn validate_endpoint(endpoint: &Value, kind: &str, path: &str, errors: &mut FieldErrors) {
    let addresses = fields::list(endpoint, "/addresses");
    if addresses.is_empty() {
        errors.required(format!("{path}.addresses"), "must contain at least 1 address");
    } else if addresses.len() > MAX_ADDRESSES {
        errors.too_many(format!("{path}.addresses"), addresses.len(), MAX_ADDRESSES);
    }
    for (at, address) in addresses.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        let here = format!("{path}.addresses[{at}]");
        match (kind, text.parse::<IpAddr>()) {
            ("FQDN", _) => {
                for why in names::name_problems(NameRule::Subdomain, text) {
                    errors.invalid(&*here, &text.into(), &why);
                }
            }
            ("IPv4" | "IPv6", Err(_)) => errors.invalid(here, &text.into(), addresses::NO_ADDRESS),
            ("IPv4" | "IPv6", Ok(ip)) => {
                if ip.is_ipv4() != (kind == "IPv4") {
                    let why = format!("must be an {kind} address");
                    errors.invalid(format!("{path}.addresses"), &text.into(), &why);
                }
                refuse_special(ip, text, &here, errors);
            }
            _ => {}
        }
    }
    for (field, rule) in [("hostname", NameRule::Label), ("nodeName", NameRule::Subdomain)] {
        if let Some(name) = endpoint[field].as_str() {
            for why in names::name_problems(rule, name) {
                errors.invalid(format!("{path}.{field}"), &name.into(), &why);
            }
        }
    }
}
