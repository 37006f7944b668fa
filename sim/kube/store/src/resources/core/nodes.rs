//! `nodes`: the members of the cluster, one object per machine.

use serde_json::{Value, json};

use crate::object::{fields, names};
use crate::schema::is_whole;
use crate::values::addresses;
use crate::{Check, FieldErrors, GroupResource, ResourceDef, SelectableField, Strategy};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("nodes"),
        version: "v1".into(),
        kind: "Node".into(),
        singular: "node".into(),
        short_names: &["no"],
        categories: &[],
        namespaced: false,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: true,
        scales: false,
        registry: "minions".into(),
        custom: None,
        deprecation: "",
        selectable: const {
            &[SelectableField {
                name: "spec.unschedulable",
                pointer: "/spec/unschedulable",
                default: "false",
            }]
        },
        strategy: Strategy {
            default: Some(default),
            begin: taint,
            warn,
            validate,
            validate_update,
            validate_status: validate_update,
            checks: &[Check::Metadata, Check::Whole, Check::MetadataChange, Check::Change],
            ..Strategy::PLAIN
        },
    }
}

/// Derives `podCIDR` from `podCIDRs` or the reverse, and a missing `allocatable` from `capacity`.
/// If `podCIDR` differs from the first of `podCIDRs`, it replaces all of them.
fn default(node: &mut Value) {
    let spec = fields::map_mut(node, "spec");
    let first = spec.get("podCIDRs").and_then(|all| all.get(0)).cloned();
    let one = spec.get("podCIDR").filter(|one| *one != "").cloned();
    match (first, one) {
        (Some(first), None) => {
            spec.insert("podCIDR".into(), first);
        }
        // If both are set and differ, `podCIDR` replaces `podCIDRs`, because older clients set only
        // `podCIDR`.
        (first, Some(one)) if first.as_ref() != Some(&one) => {
            spec.insert("podCIDRs".into(), json!([one]));
        }
        _ => {}
    }
    let status = fields::map_mut(node, "status");
    if let Some(capacity) = status.get("capacity").cloned() {
        fields::default_to(status, "allocatable", capacity);
    }
}

/// Taints a new Node as not ready, as the admission plugin `TaintNodesByCondition` does, so that no
/// pod is placed on the Node before it is ready.
fn taint(node: &mut Value) {
    let taints = fields::as_list(fields::map_mut(node, "spec"), "taints");
    if !taints.iter().any(|it| it["key"] == NOT_READY && it["effect"] == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

fn validate(node: &Value, errors: &mut FieldErrors) {
    validate_taints(fields::list(node, "/spec/taints"), errors);
    validate_resources(node, errors);
    validate_ranges(fields::list(node, "/spec/podCIDRs"), errors);
}

/// Checks the ranges of pod addresses: each must be valid, and a Node may have at most one per IP
/// family. If a Node has several ranges, the first text that is not a range at all gets a second
/// error, as in the real server.
fn validate_ranges(ranges: &[Value], errors: &mut FieldErrors) {
    const FIELD: &str = "spec.podCIDRs";
    let texts: Vec<&str> = ranges.iter().map(|it| it.as_str().unwrap_or_default()).collect();
    let mut wrong = None;
    for (at, text) in texts.iter().enumerate() {
        if let Some(why) = addresses::range_problem(text) {
            errors.invalid(format!("{FIELD}[{at}]"), &(*text).into(), why);
        }
        if !addresses::is_cidr(text) && wrong.is_none() {
            wrong = Some((at, *text));
        }
    }
    if texts.len() < 2 {
        return;
    }
    if let Some((at, text)) = wrong {
        errors.internal(
            FIELD,
            &format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{at}]: <nil> (invalid CIDR address: {text})"
            ),
        );
    }
    let n_wide = texts.iter().filter(|text| text.contains(':')).count();
    let is_of_both = wrong.is_none() && n_wide > 0 && n_wide < texts.len();
    if !is_of_both || texts.len() > 2 {
        errors.invalid(
            FIELD,
            &ranges.into(),
            "may specify no more than one CIDR for each IP family",
        );
    }
}

/// Returns the warnings of `kubernetes: pkg/registry/core/node/strategy.go`, except those about
/// ranges in unusual notation.
fn warn(node: &Value) -> Vec<String> {
    let spec = &node["spec"];
    let warnings = [
        (spec["configSource"].is_object(), "spec.configSource: the feature is removed"),
        (
            !fields::text(spec, "/externalID").is_empty(),
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
        ),
    ];
    warnings.into_iter().filter(|(is_so, _)| *is_so).map(|(_, it)| it.to_owned()).collect()
}

/// Checks that amounts of resources are not negative, and that indivisible resources have whole
/// amounts.
fn validate_resources(node: &Value, errors: &mut FieldErrors) {
    for field in ["capacity", "allocatable"] {
        for (name, amount) in
            fields::map(&node["status"], &format!("/{field}")).into_iter().flatten()
        {
            let path = format!("status.{field}.{name}");
            let text = amount.as_str().unwrap_or_default();
            if text.starts_with('-') {
                errors.invalid(&*path, amount, "must be greater than or equal to 0");
            }
            if is_countable(name) && !is_whole(text) {
                errors.invalid(path, amount, "must be an integer");
            }
        }
    }
}

/// True if amounts of a resource must be whole numbers: for some resources of Kubernetes, and for
/// all resources of other domains whose names do not begin with `requests.`.
fn is_countable(name: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&name)
        || name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    validate_resources(new, errors);
    validate_addresses(fields::list(new, "/status/addresses"), errors);
    if !fields::list(old, "/spec/podCIDRs").is_empty()
        && fields::list(old, "/spec/podCIDRs") != fields::list(new, "/spec/podCIDRs")
    {
        errors.forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        );
    }
    let (before, after) =
        (fields::text(old, "/spec/providerID"), fields::text(new, "/spec/providerID"));
    if !before.is_empty() && before != after {
        errors.forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        );
    }
    validate_taints(fields::list(new, "/spec/taints"), errors);
    if fields::text(old, "/spec/externalID") != fields::text(new, "/spec/externalID") {
        errors.forbidden("spec.externalID", "may not be updated");
    }
}

fn validate_addresses(addresses: &[Value], errors: &mut FieldErrors) {
    let same = |a: &Value, b: &Value| a["type"] == b["type"] && a["address"] == b["address"];
    for (at, address) in addresses.iter().enumerate() {
        if addresses[..at].iter().any(|earlier| same(earlier, address)) {
            // The real server shows its internal type, whose fields have no JSON names.
            let shown = json!({
                "Type": address["type"].as_str().unwrap_or_default(),
                "Address": address["address"].as_str().unwrap_or_default(),
            });
            errors.duplicate(format!("status.addresses[{at}]"), &shown, "");
        }
    }
}

/// Checks taints. Errors name them `metadata.taints`, as in the real server.
fn validate_taints(taints: &[Value], errors: &mut FieldErrors) {
    for (at, taint) in taints.iter().enumerate() {
        let path = format!("metadata.taints[{at}]");
        let key = fields::text(taint, "/key");
        let value = fields::text(taint, "/value");
        let effect = fields::text(taint, "/effect");
        for why in names::qualified_name_problems(key) {
            errors.invalid(format!("{path}.key"), &key.into(), &why);
        }
        let problems = names::label_value_problems(value);
        if !problems.is_empty() {
            errors.invalid(format!("{path}.value"), &value.into(), &problems.join(";"));
        }
        if effect.is_empty() {
            errors.required(format!("{path}.effect"), "");
        } else if !EFFECTS.contains(&effect) {
            errors.not_supported(format!("{path}.effect"), effect, &EFFECTS);
        }
        let is_same = |earlier: &Value| {
            fields::text(earlier, "/key") == key && fields::text(earlier, "/effect") == effect
        };
        if taints[..at].iter().any(is_same) {
            let shown = json!({
                "Key": key, "Value": value, "Effect": effect, "TimeAdded": taint["timeAdded"],
            });
            errors.duplicate(path, &shown, "taints must be unique by key and effect pair");
        }
    }
}
