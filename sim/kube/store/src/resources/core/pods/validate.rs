//! Validation of pods, with the real server's error texts.
//!
//! Follows `kubernetes: pkg/apis/core/validation/validation.go`, `ValidatePod…`, for common
//! mistakes, such as those in names, images, ports, mounts, variables, policies and tolerations.
//! Does not check sources of volumes, amounts of resources, probes, handlers, security contexts,
//! affinity, spread constraints, scheduling gates and `dnsConfig`.

use serde_json::Value;

use super::containers;
use crate::object::{fields, meta, names};
use crate::{FieldErrors, NameRule};

/// Checks a whole pod.
pub(super) fn validate(pod: &Value, errors: &mut FieldErrors) {
    validate_spec(pod, errors);
    containers::validate_images(&pod["spec"], errors);
}

/// Checks what the `spec` of a pod and that of a pod template have in common.
pub(super) fn validate_spec(pod: &Value, errors: &mut FieldErrors) {
    const RESTARTS: [&str; 3] = ["Always", "OnFailure", "Never"];
    const POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    let spec = &pod["spec"];
    let volumes = validate_volumes(spec, errors);
    containers::validate(spec, &volumes, errors);
    if spec["hostNetwork"] == true {
        containers::validate_host_ports(spec, errors);
    }
    let restart = fields::text(spec, "/restartPolicy");
    if !RESTARTS.contains(&restart) {
        errors.not_supported("spec.restartPolicy", restart, &RESTARTS);
    }
    let policy = fields::text(spec, "/dnsPolicy");
    if !POLICIES.contains(&policy) {
        errors.not_supported("spec.dnsPolicy", policy, &POLICIES);
    }
    meta::validate_labels(&spec["nodeSelector"], "spec.nodeSelector", errors);
    validate_name(spec, "serviceAccountName", NameRule::Subdomain, errors);
    validate_name(spec, "nodeName", NameRule::Subdomain, errors);
    let deadline = &spec["activeDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|it| !(1..=i64::from(i32::MAX)).contains(&it)) {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.invalid("spec.activeDeadlineSeconds", deadline, why);
    }
    validate_name(spec, "hostname", NameRule::Label, errors);
    validate_name(spec, "subdomain", NameRule::Label, errors);
    for (at, toleration) in fields::list(spec, "/tolerations").iter().enumerate() {
        validate_toleration(toleration, &format!("spec.tolerations[{at}]"), errors);
    }
}

fn validate_name(spec: &Value, field: &str, rule: NameRule, errors: &mut FieldErrors) {
    let name = spec[field].as_str().unwrap_or_default();
    if name.is_empty() {
        return;
    }
    for why in names::name_problems(rule, name) {
        errors.invalid(format!("spec.{field}"), &name.into(), &why);
    }
}

/// Checks the names of volumes; returns those that containers can mount.
fn validate_volumes<'a>(spec: &'a Value, errors: &mut FieldErrors) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    for (at, volume) in fields::list(spec, "/volumes").iter().enumerate() {
        let field = format!("spec.volumes[{at}].name");
        let name = fields::text(volume, "/name");
        let n_before = errors.len();
        if name.is_empty() {
            errors.required(field.as_str(), "");
        } else {
            for why in names::name_problems(NameRule::Label, name) {
                errors.invalid(field.as_str(), &name.into(), &why);
            }
        }
        if known.contains(&name) {
            errors.duplicate(field, &name.into(), "");
        }
        if errors.len() == n_before {
            known.push(name);
        }
    }
    known
}

fn validate_toleration(toleration: &Value, path: &str, errors: &mut FieldErrors) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let (key, operator, value, effect) =
        (text("key"), text("operator"), text("value"), text("effect"));
    if !key.is_empty() {
        for why in names::qualified_name_problems(key) {
            errors.invalid(format!("{path}.key"), &key.into(), &why);
        }
    } else if operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(format!("{path}.operator"), &operator.into(), why);
    }
    if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(format!("{path}.effect"), &effect.into(), why);
    }
    let field = format!("{path}.operator");
    match operator {
        "Equal" | "" => {
            let why = names::label_value_problems(value).join(";");
            if !why.is_empty() {
                errors.invalid(field, &value.into(), &why);
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            errors.invalid(field, &value.into(), "value must be empty when `operator` is 'Exists'");
        }
        other => errors.not_supported(field, other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(format!("{path}.effect"), effect, &EFFECTS);
    }
}

/// Checks a change of a pod; follows `kubernetes: pkg/apis/core/validation/validation.go`,
/// `ValidatePodUpdate`. The real server appends a listing of the differences to the message; this
/// function does not.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const WHY: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";
    for list in ["containers", "initContainers"] {
        let (before, after) = (
            fields::list(&old["spec"], &format!("/{list}")),
            fields::list(&new["spec"], &format!("/{list}")),
        );
        if before.len() != after.len() {
            let why = "pod updates may not add or remove containers";
            return errors.forbidden(format!("spec.{list}"), why);
        }
        for (at, container) in after.iter().enumerate() {
            if fields::text(container, "/image").is_empty() {
                errors.required(format!("spec.{list}[{at}].image"), "");
            }
        }
    }
    validate_deadline(&new["spec"], &old["spec"], errors);
    let keeps = |it: &Value| fields::list(&new["spec"], "/tolerations").contains(it);
    if !fields::list(&old["spec"], "/tolerations").iter().all(keeps) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden("spec.tolerations", why);
    }
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in fields::list_mut(&mut spec, list) {
                fields::as_map(container).shift_remove("image");
            }
        }
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            fields::as_map(&mut spec).shift_remove(field);
        }
        spec
    };
    let grace = |pod: &Value| pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    let (mut after, before) = (fixed(new), fixed(old));
    if grace(old) < 0 && grace(new) == 1 {
        fields::copy(&before, &mut after, "terminationGracePeriodSeconds");
    }
    if after != before {
        errors.forbidden("spec", WHY);
    }
}

/// Checks `activeDeadlineSeconds`, which an update may add or reduce, but not remove or increase.
fn validate_deadline(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let seconds = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    let given = &new["activeDeadlineSeconds"];
    match (seconds(old), seconds(new)) {
        (_, Some(after)) if !(0..=i64::from(i32::MAX)).contains(&after) => {
            errors.invalid(FIELD, given, "must be between 0 and 2147483647, inclusive");
        }
        (Some(before), Some(after)) if before < after => {
            errors.invalid(FIELD, given, "must be less than or equal to previous value");
        }
        (Some(_), None) => {
            errors.invalid(FIELD, given, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
}
