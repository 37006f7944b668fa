//! `clusterroles.rbac.authorization.k8s.io`, and the rules that both kinds of roles contain.

use serde_json::Value;

use crate::object::fields;
use crate::{Check, FieldErrors, GroupResource, NameRule, ResourceDef, Strategy};

/// The API group of all kinds that grant permissions.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::of(GROUP, "clusterroles"),
        version: "v1".into(),
        kind: "ClusterRole".into(),
        singular: "clusterrole".into(),
        short_names: &[],
        categories: &[],
        namespaced: false,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "clusterroles".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            names: NameRule::PathSegment,
            create_on_update: true,
            checks: &[Check::Metadata, Check::Whole, Check::MetadataChange],
            validate: |role, errors| {
                validate_rules(role, Scope::Cluster, errors);
                if role["aggregationRule"].is_object()
                    && fields::list(role, "/aggregationRule/clusterRoleSelectors").is_empty()
                {
                    errors.required(
                        "aggregationRule.clusterRoleSelectors",
                        "at least one clusterRoleSelector required if aggregationRule is non-nil",
                    );
                }
            },
            ..Strategy::PLAIN
        },
    }
}

/// Scope of the rules of a role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All resources, and URL paths that are not resources.
    Cluster,
    /// The resources of one namespace.
    Namespace,
}

/// Checks the rules of a role; follows `kubernetes: pkg/apis/rbac/validation/validation.go`,
/// `ValidatePolicyRule`.
pub(super) fn validate_rules(role: &Value, scope: Scope, errors: &mut FieldErrors) {
    for (at, rule) in fields::list(role, "/rules").iter().enumerate() {
        let path = format!("rules[{at}]");
        let is_empty = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
        if is_empty("verbs") {
            errors.required(format!("{path}.verbs"), "verbs must contain at least one value");
        }
        if !is_empty("nonResourceURLs") {
            let field = format!("{path}.nonResourceURLs");
            let urls = &rule["nonResourceURLs"];
            if scope == Scope::Namespace {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&*field, urls, why);
            }
            if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(field, urls, why);
            }
            continue;
        }
        if is_empty("apiGroups") {
            errors.required(
                format!("{path}.apiGroups"),
                "resource rules must supply at least one api group",
            );
        }
        if is_empty("resources") {
            errors.required(
                format!("{path}.resources"),
                "resource rules must supply at least one resource",
            );
        }
    }
}
