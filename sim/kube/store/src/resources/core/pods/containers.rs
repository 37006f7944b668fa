//! Validation of the containers of a pod.

use serde_json::Value;

use crate::object::{fields, names};
use crate::resources::core::endpoints::validate_protocol;
use crate::{FieldErrors, NameRule};

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Checks all containers of a pod. `volumes` are the names of the volumes that containers can
/// mount.
pub(super) fn validate(spec: &Value, volumes: &[&str], errors: &mut FieldErrors) {
    let containers = fields::list(spec, "/containers");
    if containers.is_empty() {
        errors.required("spec.containers", "");
    }
    let mut known: Vec<&str> = Vec::new();
    for (at, container) in containers.iter().enumerate() {
        let path = format!("spec.containers[{at}]");
        validate_one(container, volumes, &path, errors);
        unique_name(container, &path, &mut known, errors);
    }
    let mut taken = Vec::new();
    for (at, container) in containers.iter().enumerate() {
        host_ports(container, &format!("spec.containers[{at}]"), &mut taken, errors);
    }
    for (at, container) in fields::list(spec, "/initContainers").iter().enumerate() {
        let path = format!("spec.initContainers[{at}]");
        validate_one(container, volumes, &path, errors);
        unique_name(container, &path, &mut known, errors);
        // Init containers run one after the other, so they may use the same ports. In errors about
        // the ports of any init container, the real server names the first one.
        host_ports(container, "spec.initContainers[0]", &mut Vec::new(), errors);
    }
}

fn unique_name<'a>(
    container: &'a Value,
    path: &str,
    known: &mut Vec<&'a str>,
    errors: &mut FieldErrors,
) {
    let name = fields::text(container, "/name");
    if known.contains(&name) {
        errors.duplicate(format!("{path}.name"), &name.into(), "");
    } else if !name.is_empty() || path.starts_with("spec.containers") {
        known.push(name);
    }
}

fn host_ports(container: &Value, path: &str, taken: &mut Vec<String>, errors: &mut FieldErrors) {
    for (at, port) in fields::list(container, "/ports").iter().enumerate() {
        let number = port["hostPort"].as_i64().unwrap_or_default();
        if number == 0 {
            continue;
        }
        let (protocol, ip) = (fields::text(port, "/protocol"), fields::text(port, "/hostIP"));
        let shown = format!("{protocol}/{ip}/{number}");
        if taken.contains(&shown) {
            let field = format!("{path}.ports[{at}].hostPort");
            errors.duplicate(field, &shown.as_str().into(), "");
        } else {
            taken.push(shown);
        }
    }
}

/// Checks that each `hostPort` equals its `containerPort`, as a pod with `hostNetwork` requires. A
/// template need not have it.
pub(super) fn validate_host_ports(spec: &Value, errors: &mut FieldErrors) {
    for list in LISTS {
        for (at, container) in fields::list(spec, &format!("/{list}")).iter().enumerate() {
            for (n, port) in fields::list(container, "/ports").iter().enumerate() {
                let number = |field: &str| port[field].as_i64().unwrap_or_default();
                if number("hostPort") != 0 && number("hostPort") != number("containerPort") {
                    let field = format!("spec.{list}[{at}].ports[{n}].hostPort");
                    let why = "must match `containerPort` when `hostNetwork` is true";
                    errors.invalid(field, &number("hostPort").into(), why);
                }
            }
        }
    }
}

/// Refuses spaces around image names. The real server allows such spaces only in pod templates.
pub(super) fn validate_images(spec: &Value, errors: &mut FieldErrors) {
    for list in LISTS {
        for (at, container) in fields::list(spec, &format!("/{list}")).iter().enumerate() {
            let image = fields::text(container, "/image");
            if image.trim() != image {
                let field = format!("spec.{list}[{at}].image");
                errors.invalid(
                    field,
                    &image.into(),
                    "must not have leading or trailing whitespace",
                );
            }
        }
    }
}

fn validate_one(container: &Value, volumes: &[&str], path: &str, errors: &mut FieldErrors) {
    const PULLS: [&str; 3] = ["Always", "IfNotPresent", "Never"];
    const MESSAGES: [&str; 2] = ["File", "FallbackToLogsOnError"];
    let name = fields::text(container, "/name");
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    } else {
        for why in names::name_problems(NameRule::Label, name) {
            errors.invalid(format!("{path}.name"), &name.into(), &why);
        }
    }
    if fields::text(container, "/image").is_empty() {
        errors.required(format!("{path}.image"), "");
    }
    let messages = fields::text(container, "/terminationMessagePolicy");
    if !MESSAGES.contains(&messages) {
        errors.not_supported(format!("{path}.terminationMessagePolicy"), messages, &MESSAGES);
    }
    validate_ports(fields::list(container, "/ports"), path, errors);
    for (at, variable) in fields::list(container, "/env").iter().enumerate() {
        validate_variable(variable, &format!("{path}.env[{at}]"), errors);
    }
    validate_mounts(fields::list(container, "/volumeMounts"), volumes, path, errors);
    let pull = fields::text(container, "/imagePullPolicy");
    if !PULLS.contains(&pull) {
        errors.not_supported(format!("{path}.imagePullPolicy"), pull, &PULLS);
    }
}

fn validate_ports(ports: &[Value], path: &str, errors: &mut FieldErrors) {
    let mut known: Vec<&str> = Vec::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        let name = fields::text(port, "/name");
        if !name.is_empty() {
            let problems = names::port_name_problems(name);
            for why in &problems {
                errors.invalid(format!("{path}.name"), &name.into(), why);
            }
            if known.contains(&name) {
                errors.duplicate(format!("{path}.name"), &name.into(), "");
            } else if problems.is_empty() {
                known.push(name);
            }
        }
        for field in ["containerPort", "hostPort"] {
            match port[field].as_i64().unwrap_or_default() {
                0 if field == "containerPort" => errors.required(format!("{path}.{field}"), ""),
                0..=65_535 => {}
                other => {
                    let why = "must be between 1 and 65535, inclusive";
                    errors.invalid(format!("{path}.{field}"), &other.into(), why);
                }
            }
        }
        validate_protocol(port, &path, errors);
    }
}

fn validate_variable(variable: &Value, path: &str, errors: &mut FieldErrors) {
    const NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let name = fields::text(variable, "/name");
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    } else if !name.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=') {
        errors.invalid(format!("{path}.name"), &name.into(), NAME);
    }
    let Some(from) = variable["valueFrom"].as_object() else { return };
    let n_sources = from.values().filter(|source| source.is_object()).count();
    let field = format!("{path}.valueFrom");
    if n_sources == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(field, &"".into(), why);
    } else if !fields::text(variable, "/value").is_empty() {
        errors.invalid(field, &"".into(), "may not be specified when `value` is not empty");
    } else if n_sources > 1 {
        errors.invalid(field, &"".into(), "may not have more than one field specified at a time");
    }
}

fn validate_mounts(mounts: &[Value], volumes: &[&str], path: &str, errors: &mut FieldErrors) {
    for (at, mount) in mounts.iter().enumerate() {
        let here = format!("{path}.volumeMounts[{at}]");
        let (volume, place) = (fields::text(mount, "/name"), fields::text(mount, "/mountPath"));
        if volume.is_empty() {
            errors.required(format!("{here}.name"), "");
        }
        if !volumes.contains(&volume) {
            errors.not_found(format!("{here}.name"), &volume.into());
        }
        if place.is_empty() {
            errors.required(format!("{here}.mountPath"), "");
        }
        if mounts[..at].iter().any(|earlier| fields::text(earlier, "/mountPath") == place) {
            errors.invalid(format!("{here}.mountPath"), &place.into(), "must be unique");
        }
    }
}
