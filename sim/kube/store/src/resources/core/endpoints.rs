//! `endpoints`: addresses of the pods of a service, for older clients.

use std::net::IpAddr;

use serde_json::Value;

use crate::object::{fields, names};
use crate::values::addresses;
use crate::{FieldErrors, GroupResource, NameRule, ResourceDef, Strategy};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("endpoints"),
        version: "v1".into(),
        kind: "Endpoints".into(),
        singular: "endpoints".into(),
        short_names: &["ep"],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "services/endpoints".into(),
        custom: None,
        deprecation: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        selectable: &[],
        strategy: Strategy {
            create_on_update: true,
            default: Some(|endpoints| {
                for subset in fields::list_mut(endpoints, "subsets") {
                    default_protocols(subset);
                }
            }),
            validate,
            ..Strategy::PLAIN
        },
    }
}

/// Sets the protocol of ports to TCP if they have none.
pub(in crate::resources) fn default_protocols(of: &mut Value) {
    for port in fields::list_mut(of, "ports") {
        fields::default_if_empty(fields::as_map(port), "protocol", "TCP");
    }
}

fn validate(endpoints: &Value, errors: &mut FieldErrors) {
    for (at, subset) in fields::list(endpoints, "/subsets").iter().enumerate() {
        let path = format!("subsets[{at}]");
        let ready = fields::list(subset, "/addresses");
        let others = fields::list(subset, "/notReadyAddresses");
        if ready.is_empty() && others.is_empty() {
            errors.required(&*path, "must specify `addresses` or `notReadyAddresses`");
        }
        for (field, addresses) in [("addresses", ready), ("notReadyAddresses", others)] {
            for (at, address) in addresses.iter().enumerate() {
                validate_address(address, &format!("{path}.{field}[{at}]"), errors);
            }
        }
        let ports = fields::list(subset, "/ports");
        for (at, port) in ports.iter().enumerate() {
            validate_port(port, ports.len() > 1, &format!("{path}.ports[{at}]"), errors);
        }
    }
}

fn validate_address(address: &Value, path: &str, errors: &mut FieldErrors) {
    let ip = fields::text(address, "/ip");
    match ip.parse::<IpAddr>() {
        Ok(parsed) => refuse_special(parsed, ip, &format!("{path}.ip"), errors),
        Err(_) => {
            errors.invalid(format!("{path}.ip"), &ip.into(), addresses::NO_ADDRESS);
            // A second check of the real server reports the address again.
            errors.invalid(format!("{path}.ip"), &ip.into(), "must be a valid IP address");
        }
    }
    let hostname = fields::text(address, "/hostname");
    if !hostname.is_empty() {
        for why in names::name_problems(NameRule::Label, hostname) {
            errors.invalid(format!("{path}.hostname"), &hostname.into(), &why);
        }
    }
    if let Some(node) = address["nodeName"].as_str() {
        for why in names::name_problems(NameRule::Subdomain, node) {
            errors.invalid(format!("{path}.nodeName"), &node.into(), &why);
        }
    }
}

/// Refuses unspecified, loopback, link-local and link-local multicast addresses, which services
/// cannot use.
///
/// Follows `kubernetes: pkg/apis/core/validation/validation.go`, `ValidateNonSpecialIP`.
pub(in crate::resources) fn refuse_special(
    ip: IpAddr,
    text: &str,
    path: &str,
    errors: &mut FieldErrors,
) {
    let (link_local, link_local_group) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => {
            (ip.segments()[0] & 0xffc0 == 0xfe80, ip.segments()[0] & 0xff0f == 0xff02)
        }
    };
    for (is_so, why) in [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".into()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".into()),
        (
            link_local_group,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".into(),
        ),
    ] {
        if is_so {
            errors.invalid(path, &text.into(), &why);
        }
    }
}

fn validate_port(port: &Value, needs_name: bool, path: &str, errors: &mut FieldErrors) {
    let name = fields::text(port, "/name");
    if name.is_empty() && needs_name {
        errors.required(format!("{path}.name"), "");
    }
    validate_label(name, path, errors);
    let number = port["port"].as_i64().unwrap_or_default();
    if !(1..=65_535).contains(&number) {
        errors.invalid(
            format!("{path}.port"),
            &number.into(),
            "must be between 1 and 65535, inclusive",
        );
    }
    validate_protocol(port, path, errors);
    validate_app_protocol(port, path, errors);
}

/// Checks the application protocol of a port.
pub(in crate::resources) fn validate_app_protocol(
    port: &Value,
    path: &str,
    errors: &mut FieldErrors,
) {
    if let Some(protocol) = port["appProtocol"].as_str() {
        for why in names::qualified_name_problems(protocol) {
            errors.invalid(format!("{path}.appProtocol"), &protocol.into(), &why);
        }
    }
}

/// Checks the name of the port `ports[at]` of a service or a slice. The name must be empty or a
/// label, and no earlier port may have the same name.
pub(in crate::resources) fn validate_port_name(
    ports: &[Value],
    at: usize,
    path: &str,
    errors: &mut FieldErrors,
) {
    let name = fields::text(&ports[at], "/name");
    validate_label(name, path, errors);
    if ports[..at].iter().any(|earlier| fields::text(earlier, "/name") == name) {
        errors.duplicate(format!("{path}.name"), &name.into(), "");
    }
}

/// Checks that the name of a port, if any, is a label.
fn validate_label(name: &str, path: &str, errors: &mut FieldErrors) {
    if !name.is_empty() {
        for why in names::name_problems(NameRule::Label, name) {
            errors.invalid(format!("{path}.name"), &name.into(), &why);
        }
    }
}

/// Checks the protocol of a port.
pub(in crate::resources) fn validate_protocol(port: &Value, path: &str, errors: &mut FieldErrors) {
    let protocol = fields::text(port, "/protocol");
    if protocol.is_empty() {
        errors.required(format!("{path}.protocol"), "");
    } else if !PROTOCOLS.contains(&protocol) {
        errors.not_supported(format!("{path}.protocol"), protocol, &PROTOCOLS);
    }
}
