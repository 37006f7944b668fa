//! `clusterrolebindings.rbac.authorization.k8s.io`, and the parts that both kinds of bindings
//! share.

use serde_json::{Value, json};

use super::clusterroles::GROUP;
use crate::object::{fields, names};
use crate::{Check, FieldErrors, GroupResource, NameRule, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::of(GROUP, "clusterrolebindings"),
        version: "v1".into(),
        kind: "ClusterRoleBinding".into(),
        singular: "clusterrolebinding".into(),
        short_names: &[],
        categories: &[],
        namespaced: false,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "clusterrolebindings".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            names: NameRule::PathSegment,
            create_on_update: true,
            checks: &[Check::Metadata, Check::Whole, Check::MetadataChange, Check::Change],
            default: Some(default),
            validate: |binding, errors| validate(binding, &["ClusterRole"], errors),
            validate_update,
            ..Strategy::PLAIN
        },
    }
}

/// Fills in the API groups of the role and of subjects that are users or groups.
pub(super) fn default(binding: &mut Value) {
    let reference = fields::map_mut(binding, "roleRef");
    if reference.get("apiGroup").and_then(Value::as_str).is_none_or(str::is_empty) {
        reference.insert("apiGroup".into(), GROUP.into());
    }
    for subject in fields::list_mut(binding, "subjects") {
        let is_person = matches!(subject["kind"].as_str(), Some("User" | "Group"));
        let subject = fields::as_map(subject);
        if is_person && subject.get("apiGroup").and_then(Value::as_str).is_none_or(str::is_empty) {
            subject.insert("apiGroup".into(), GROUP.into());
        }
    }
}

/// Checks a binding; follows `kubernetes: pkg/apis/rbac/validation/validation.go`,
/// `ValidateRoleBinding`. `kinds` are the kinds of roles that the binding can grant.
pub(super) fn validate(binding: &Value, kinds: &[&str], errors: &mut FieldErrors) {
    let reference = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
    if reference("apiGroup") != GROUP {
        errors.not_supported("roleRef.apiGroup", reference("apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&reference("kind")) {
        errors.not_supported("roleRef.kind", reference("kind"), kinds);
    }
    if reference("name").is_empty() {
        errors.required("roleRef.name", "");
    } else {
        for why in names::name_problems(NameRule::PathSegment, reference("name")) {
            errors.invalid("roleRef.name", &reference("name").into(), &why);
        }
    }
    let is_namespaced = kinds.contains(&"Role");
    for (at, subject) in fields::list(binding, "/subjects").iter().enumerate() {
        validate_subject(subject, &format!("subjects[{at}]"), is_namespaced, errors);
    }
}

fn validate_subject(subject: &Value, path: &str, is_namespaced: bool, errors: &mut FieldErrors) {
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    if text("name").is_empty() {
        errors.required(format!("{path}.name"), "");
    }
    match text("kind") {
        "ServiceAccount" => {
            if !text("name").is_empty() {
                for why in names::name_problems(NameRule::Subdomain, text("name")) {
                    errors.invalid(format!("{path}.name"), &text("name").into(), &why);
                }
            }
            if !text("apiGroup").is_empty() {
                errors.not_supported(format!("{path}.apiGroup"), text("apiGroup"), &[""]);
            }
            if !is_namespaced && text("namespace").is_empty() {
                errors.required(format!("{path}.namespace"), "");
            }
        }
        "User" | "Group" => {
            if text("apiGroup") != GROUP {
                errors.not_supported(format!("{path}.apiGroup"), text("apiGroup"), &[GROUP]);
            }
        }
        other => {
            errors.not_supported(
                format!("{path}.kind"),
                other,
                &["ServiceAccount", "User", "Group"],
            );
        }
    }
}

/// Checks that an update does not change the role of a binding.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let reference = &new["roleRef"];
    if reference != &old["roleRef"] {
        // The real server shows its internal type, whose fields have no JSON names.
        let shown = json!({
            "APIGroup": reference["apiGroup"], "Kind": reference["kind"], "Name": reference["name"],
        });
        errors.invalid("roleRef", &shown, "cannot change roleRef");
    }
}
