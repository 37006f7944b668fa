//! Checks that several kinds of workloads and volumes share, with the texts of the real server.

use serde_json::{Value, json};

use crate::object::{fields, names};
use crate::resources::core::pods::template;
use crate::selector::validate_label_selector;
use crate::{FieldErrors, LabelSelector, NameRule};

pub(super) const IMMUTABLE: &str = "field is immutable";

/// Checks that the numbers at these dotted paths are not negative.
pub(super) fn nonnegative(object: &Value, paths: &[&str], errors: &mut FieldErrors) {
    for path in paths {
        let number = &object[path.split('.').next().unwrap_or_default()];
        let number = path.split('.').skip(1).fold(number, |it, step| &it[step]);
        if number.as_i64().is_some_and(|it| it < 0) {
            errors.invalid(*path, number, "must be greater than or equal to 0");
        }
    }
}

/// Checks that the counts of `status` in `fields` do not exceed `status.replicas`, and that not
/// more replicas are available than ready. `ready` is the name of the latter in the message.
pub(super) fn status_counts(
    object: &Value,
    counts: &[&str],
    ready: &str,
    errors: &mut FieldErrors,
) {
    let status = &object["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    for field in counts {
        if count(field) > count("replicas") {
            let why = "cannot be greater than status.replicas";
            errors.invalid(format!("status.{field}"), &count(field).into(), why);
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let why = format!("cannot be greater than {ready}");
        let value = count("availableReplicas").into();
        errors.invalid("status.availableReplicas", &value, &why);
    }
}

/// Checks that `status.collisionCount` does not fall.
pub(super) fn collisions(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "collisionCount";
    let count = |object: &Value| object["status"][FIELD].as_i64().unwrap_or_default();
    if count(new) < count(old) {
        errors.invalid("status.collisionCount", &count(new).into(), "cannot be decremented");
    }
}

/// Checks a required selector and that it matches the template of a workload whose pods restart for
/// ever. `empty` is the kind in the message about an empty selector, and `kind` that in messages
/// about the template.
pub(super) fn selector_and_template(
    workload: &Value,
    empty: &str,
    kind: &str,
    errors: &mut FieldErrors,
) {
    const FIELD: &str = "spec.selector";
    let given = &workload["spec"]["selector"];
    if given.is_null() {
        errors.required(FIELD, "");
    } else {
        validate_label_selector(given, FIELD, errors);
        if is_empty(given) {
            let why = format!("empty selector is invalid for {empty}");
            errors.invalid(FIELD, given, &why);
        }
    }
    let template = &workload["spec"]["template"];
    match LabelSelector::from_object(given) {
        Some(selector) => {
            if !selector.is_empty() {
                template::validate_labels(template, &selector, "spec.template", errors);
            }
        }
        // The selector of an object without one matches nothing.
        None if given.is_null() => template::refuse_labels(template, "spec.template", errors),
        None => return errors.invalid(FIELD, given, "invalid label selector"),
    }
    template::validate(template, "spec.template", errors);
    template::validate_endless(template, "spec.template", kind, errors);
}

/// True if a selector in an object has no requirement.
pub(super) fn is_empty(selector: &Value) -> bool {
    fields::map(selector, "/matchLabels").is_none_or(serde_json::Map::is_empty)
        && fields::list(selector, "/matchExpressions").is_empty()
}

/// Checks that the field at `path` is the same in both objects.
pub(super) fn immutable(new: &Value, old: &Value, path: &str, errors: &mut FieldErrors) {
    if new != old {
        errors.invalid(path, new, IMMUTABLE);
    }
}

/// Checks a number or a percentage at `path`; returns its value without `%`.
pub(super) fn int_or_percent(value: &Value, path: &str, errors: &mut FieldErrors) -> i64 {
    const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').filter(|it| !it.is_empty());
            match digits.filter(|it| it.bytes().all(|c| c.is_ascii_digit())) {
                Some(digits) => digits.parse().unwrap_or(i64::MAX),
                None => {
                    errors.invalid(path, value, PERCENT);
                    text.parse().unwrap_or_default()
                }
            }
        }
        other => {
            let number = other.as_i64().unwrap_or_default();
            if number < 0 {
                errors.invalid(path, other, "must be greater than or equal to 0");
            }
            number
        }
    }
}

/// Checks that a percentage at `path` is at most 100 %.
pub(super) fn at_most_all(value: &Value, path: &str, errors: &mut FieldErrors) {
    let percent = value.as_str().and_then(|it| it.strip_suffix('%')?.parse::<u64>().ok());
    if percent.is_some_and(|it| it > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

/// Checks the access modes of a volume or a claim; `missing` is the reason of the error if the list
/// is empty.
pub(super) fn access_modes(spec: &Value, missing: &str, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.accessModes";
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let modes: Vec<&str> =
        fields::list(spec, "/accessModes").iter().filter_map(Value::as_str).collect();
    if modes.is_empty() {
        errors.required(FIELD, missing);
    }
    modes
        .iter()
        .filter(|it| !MODES.contains(it))
        .for_each(|it| errors.not_supported(FIELD, it, &MODES));
    let is_other = |it: &&str| MODES.contains(it) && *it != MODES[3];
    if modes.contains(&MODES[3]) && modes.iter().any(is_other) {
        errors.forbidden(FIELD, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks a name at `path`, such as that of a class or a driver.
pub(super) fn name(value: &str, path: &str, errors: &mut FieldErrors) {
    for why in names::name_problems(NameRule::Subdomain, value) {
        errors.invalid(path, &value.into(), &why);
    }
}

/// Replaces the status of an object.
pub(super) fn reset_status(object: &mut Value, status: Value) {
    fields::as_map(object).insert("status".into(), status);
}

/// An empty status whose fields are all left out when empty.
pub(super) fn no_status(object: &mut Value) {
    reset_status(object, json!({}));
}

/// Returns the warning about a name that pods and host names cannot contain; none for others.
pub(super) fn warn_about_name(object: &Value) -> Vec<String> {
    let name = fields::text(object, "/metadata/name");
    let problems = names::name_problems(NameRule::Label, name);
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}
