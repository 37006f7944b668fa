//! Pod templates inside other objects: the part that all kinds of workloads share.

use serde_json::Value;

use super::validate;
use crate::object::{fields, meta};
use crate::{FieldErrors, LabelSelector};

/// Fills in the defaults of the template under `field` of `object`.
pub(crate) fn default(object: &mut Value, field: &str) {
    let template = fields::as_map(object).entry(field).or_insert(Value::Null);
    super::default_spec(fields::map_mut(template, "spec"));
}

/// Checks a template at `path`. Like for a pod, some parts are not checked; see
/// [`super::validate`].
///
/// Follows `kubernetes: pkg/apis/core/validation/validation.go`, `ValidatePodTemplateSpec`.
pub(crate) fn validate(template: &Value, path: &str, errors: &mut FieldErrors) {
    let metadata = &template["metadata"];
    meta::validate_labels(&metadata["labels"], &format!("{path}.labels"), errors);
    meta::validate_annotations(&metadata["annotations"], &format!("{path}.annotations"), errors);
    let mut found = FieldErrors::default();
    validate::validate_spec(template, &mut found);
    errors.add_below(path, found);
    if !fields::list(template, "/spec/ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.forbidden(format!("{path}.spec.ephemeralContainers"), why);
    }
}

/// Checks that the labels of the template at `path` match a selector that is not empty.
pub(crate) fn validate_labels(
    template: &Value,
    selector: &LabelSelector,
    path: &str,
    errors: &mut FieldErrors,
) {
    if !selector.matches(template) {
        refuse_labels(template, path, errors);
    }
}

/// Adds the error that the selector does not match the labels of the template at `path`. A missing
/// selector matches nothing.
pub(crate) fn refuse_labels(template: &Value, path: &str, errors: &mut FieldErrors) {
    let labels = &template["metadata"]["labels"];
    let why = "`selector` does not match template `labels`";
    errors.invalid(format!("{path}.metadata.labels"), labels, why);
}

/// Checks that pods of the template at `path` restart for ever; `kind` is that of the workload.
pub(crate) fn validate_endless(template: &Value, path: &str, kind: &str, errors: &mut FieldErrors) {
    let policy = fields::text(template, "/spec/restartPolicy");
    if policy != "Always" {
        errors.not_supported(format!("{path}.spec.restartPolicy"), policy, &["Always"]);
    }
    if template["spec"]["activeDeadlineSeconds"].is_number() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(format!("{path}.spec.activeDeadlineSeconds"), &why);
    }
}
