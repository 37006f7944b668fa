//! Role-based access control: rules, roles and bindings.
//!
//! Roles and bindings are objects of the store; every cluster begins with the default ones of
//! Kubernetes. After `kubernetes: plugin/pkg/auth/authorizer/rbac` and
//! `pkg/registry/rbac/validation`.

use std::collections::BTreeMap;

use kube_sim_store::{GroupResource, Key, Store};
use serde_json::{Value, json};

use super::{Attributes, Object, Verdict};
use crate::auth::tokens::Identity;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the objects of `resource`, such as `rolebindings`, in `namespace`, with their names as
/// keys. For cluster-wide objects, `namespace` is empty.
fn all<'a>(
    store: &'a Store,
    resource: &'static str,
    namespace: &str,
) -> BTreeMap<&'a str, &'a Value> {
    store
        .all(&GroupResource::of(GROUP, resource))
        .map(AsRef::as_ref)
        .filter(|it| text(it, "/metadata/namespace") == namespace)
        .map(|it| (text(it, "/metadata/name"), it))
        .collect()
}

fn one<'a>(
    store: &'a Store,
    resource: &'static str,
    namespace: &str,
    name: &str,
) -> Option<&'a Value> {
    let key = Key::new(GroupResource::of(GROUP, resource), namespace, name);
    store.get(&key).map(AsRef::as_ref)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn has(object: &Value, field: &str, wanted: &str) -> bool {
    list(object, field).iter().any(|it| it == wanted)
}

/// Decides whether `who` may make the request `what`. The reason of a permission names the binding
/// that grants it. The reason of a refusal names the missing roles to which the bindings of `who`
/// refer, and is empty if no role is missing.
pub(super) fn decide(who: &Identity, what: &Attributes, store: &Store) -> Verdict {
    let namespace =
        what.object.as_ref().map(|object| object.namespace.as_str()).unwrap_or_default();
    let mut missing = Vec::new();
    let mut found = None;
    each_grant(who, namespace, store, &mut |grant| {
        match grant {
            Grant::Missing(why) => missing.push(why),
            Grant::Rules { rules, why } => {
                if rules.iter().any(|rule| allows(rule, what)) {
                    found = Some(format!("RBAC: allowed by {why}"));
                }
            }
        }
        found.is_none()
    });
    let reason = match (&found, missing.as_slice()) {
        (Some(_), _) | (None, []) => String::new(),
        (None, [one]) => format!("RBAC: {one}"),
        (None, several) => format!("RBAC: [{}]", several.join(", ")),
    };
    Verdict { is_allowed: found.is_some(), reason: found.unwrap_or(reason) }
}

/// The rules that hold for `who` in a namespace, as the status of a `SelfSubjectRulesReview`. If
/// `everything` is true, they include rules that allow all requests.
pub(super) fn rules(who: &Identity, namespace: &str, store: &Store, everything: bool) -> Value {
    let (mut of_resources, mut of_paths) = (Vec::new(), Vec::new());
    let mut take = |rule: &Value| {
        let part = |fields: &[&str]| -> Value {
            let given = |field: &&str| Some(((*field).to_owned(), rule.get(*field)?.clone()));
            fields.iter().filter_map(given).collect::<serde_json::Map<_, _>>().into()
        };
        if !list(rule, "resources").is_empty() {
            of_resources.push(part(&["verbs", "apiGroups", "resources", "resourceNames"]));
        }
        if !list(rule, "nonResourceURLs").is_empty() {
            of_paths.push(part(&["verbs", "nonResourceURLs"]));
        }
    };
    let mut problems = Vec::new();
    if everything {
        take(&json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        take(&json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    each_grant(who, namespace, store, &mut |grant| {
        match grant {
            Grant::Missing(why) => problems.push(why),
            Grant::Rules { rules, .. } => rules.into_iter().for_each(&mut take),
        }
        true
    });
    let mut status = json!({
        "resourceRules": of_resources,
        "nonResourceRules": of_paths,
        "incomplete": false,
    });
    if !problems.is_empty() {
        status["evaluationError"] = problems.join(", ").into();
    }
    status
}

/// Result of one binding that applies to a user.
enum Grant<'a> {
    /// The rules of the role.
    Rules {
        rules: Vec<&'a Value>,
        /// Reason for people, with the names of binding, role and subject.
        why: String,
    },
    /// The binding names a role that does not exist; holds the message about it.
    Missing(String),
}

/// Calls `visit` with each grant of `who` that holds in `namespace`, first with those of
/// ClusterRoleBindings, until `visit` returns false. If `namespace` is empty, only
/// ClusterRoleBindings count.
fn each_grant<'a>(
    who: &Identity,
    namespace: &str,
    store: &'a Store,
    visit: &mut dyn FnMut(Grant<'a>) -> bool,
) {
    let cluster = all(store, "clusterrolebindings", "").into_values().map(|it| (it, false));
    let local = match namespace {
        "" => BTreeMap::new(),
        namespace => all(store, "rolebindings", namespace),
    };
    for (binding, is_local) in cluster.chain(local.into_values().map(|it| (it, true))) {
        let home = if is_local { namespace } else { "" };
        let Some(subject) = list(binding, "subjects").iter().find(|it| applies(it, home, who))
        else {
            continue;
        };
        let kind = text(binding, "/roleRef/kind");
        let role = text(binding, "/roleRef/name");
        let (resource, at) = match kind {
            "Role" => ("roles", home),
            _ => ("clusterroles", ""),
        };
        let grant = match one(store, resource, at, role) {
            None => {
                let singular = resource.trim_end_matches('s');
                Grant::Missing(format!("{singular}.{GROUP} {role:?} not found"))
            }
            Some(found) => {
                let name = text(binding, "/metadata/name");
                let (door, name) = match is_local {
                    true => ("RoleBinding", format!("{name}/{home}")),
                    false => ("ClusterRoleBinding", name.to_owned()),
                };
                let to = describe(subject, home);
                Grant::Rules {
                    rules: rules_of(found, store),
                    why: format!("{door} {name:?} of {kind} {role:?} to {to}"),
                }
            }
        };
        if !visit(grant) {
            return;
        }
    }
}

/// The rules of a role. An aggregated role has the rules of every ClusterRole that its selectors
/// match. Those ClusterRoles may be aggregated themselves (admin includes edit, edit includes
/// view).
fn rules_of<'a>(role: &'a Value, store: &'a Store) -> Vec<&'a Value> {
    if role.get("aggregationRule").is_none() {
        return list(role, "rules").iter().collect();
    }
    let roles = all(store, "clusterroles", "");
    let mut rules = Vec::new();
    let mut seen: Vec<&str> = vec![text(role, "/metadata/name")];
    let mut todo = vec![role];
    while let Some(role) = todo.pop() {
        for (name, other) in &roles {
            if !selects(role, other) || seen.contains(name) {
                continue;
            }
            seen.push(name);
            if other.get("aggregationRule").is_some() {
                todo.push(other);
            } else {
                rules.extend(list(other, "rules"));
            }
        }
    }
    rules
}

/// True if the aggregated role `role` includes `other`. Reads only the `matchLabels` of selectors.
fn selects(role: &Value, other: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    let labels = &other["metadata"]["labels"];
    selectors.into_iter().flatten().any(|selector| {
        let wanted = selector.get("matchLabels").and_then(Value::as_object);
        wanted.is_some_and(|wanted| {
            wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
        })
    })
}

fn applies(subject: &Value, home: &str, who: &Identity) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => who.user == name,
        "Group" => who.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let namespace = match text(subject, "/namespace") {
                "" => home,
                namespace => namespace,
            };
            let given =
                who.user.strip_prefix("system:serviceaccount:").and_then(|it| it.split_once(':'));
            !namespace.is_empty() && given == Some((namespace, name))
        }
        _ => false,
    }
}

fn describe(subject: &Value, home: &str) -> String {
    let name = text(subject, "/name");
    let kind = text(subject, "/kind");
    match (kind, text(subject, "/namespace")) {
        ("ServiceAccount", "") => format!("{kind} {:?}", format!("{name}/{home}")),
        ("ServiceAccount", namespace) => format!("{kind} {:?}", format!("{name}/{namespace}")),
        _ => format!("{kind} {name:?}"),
    }
}

/// True if a rule allows a request.
fn allows(rule: &Value, what: &Attributes) -> bool {
    let verb = has(rule, "verbs", "*") || has(rule, "verbs", &what.verb);
    let Some(object) = &what.object else { return verb && allows_path(rule, &what.path) };
    let group = has(rule, "apiGroups", "*") || has(rule, "apiGroups", &object.group);
    let names = list(rule, "resourceNames");
    let name = names.is_empty() || names.iter().any(|it| *it == object.name.as_str());
    verb && group && allows_resource(rule, object) && name
}

fn allows_resource(rule: &Value, object: &Object) -> bool {
    let whole = object.with_subresource();
    let any_with = format!("*/{}", object.subresource);
    list(rule, "resources").iter().any(|it| {
        *it == "*"
            || *it == whole.as_str()
            || (!object.subresource.is_empty() && *it == any_with.as_str())
    })
}

fn allows_path(rule: &Value, path: &str) -> bool {
    list(rule, "nonResourceURLs").iter().filter_map(Value::as_str).any(|allowed| {
        allowed == "*"
            || allowed == path
            || (allowed.ends_with('*') && path.starts_with(allowed.trim_end_matches('*')))
    })
}
