//! `namespaces`: scopes for other objects.
//!
//! The cluster has no namespace controller. So a deleted namespace stays `Terminating`, and accepts
//! no new objects, until a client removes its finalizers.

use serde_json::{Value, json};

use crate::object::{fields, meta};
use crate::{Check, GroupResource, NameRule, ResourceDef, SelectableField, Strategy};

/// Finalizer in the `spec` of a namespace. In a real cluster, the namespace controller removes it
/// when the namespace is empty.
const KUBERNETES: &str = "kubernetes";

/// The namespaces that every cluster has.
pub(crate) const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("namespaces"),
        version: "v1".into(),
        kind: "Namespace".into(),
        singular: "namespace".into(),
        short_names: &["ns"],
        categories: &[],
        namespaced: false,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: true,
        scales: false,
        registry: "namespaces".into(),
        custom: None,
        deprecation: "",
        selectable: const {
            &[
                SelectableField { name: "status.phase", pointer: "/status/phase", default: "" },
                SelectableField { name: "name", pointer: "/metadata/name", default: "" },
            ]
        },
        strategy: Strategy {
            names: NameRule::Label,
            begin: |namespace| {
                fields::as_map(namespace).insert("status".into(), json!({"phase": "Active"}));
                let finalizers = fields::as_list(fields::map_mut(namespace, "spec"), "finalizers");
                if !finalizers.iter().any(|it| it == KUBERNETES) {
                    finalizers.push(KUBERNETES.into());
                }
                // The default runs before a name is generated, so label the object again.
                label(namespace);
            },
            default: Some(label),
            validate: |namespace, errors| {
                for finalizer in fields::list(namespace, "/spec/finalizers") {
                    meta::validate_finalizer(finalizer, "spec.finalizers", errors);
                }
            },
            validate_finalize: |namespace, errors| {
                let finalizers = fields::list(namespace, "/spec/finalizers");
                for (at, finalizer) in finalizers.iter().enumerate() {
                    meta::validate_finalizer(finalizer, &format!("spec.finalizers[{at}]"), errors);
                }
            },
            carry_over: |old, new| fields::copy(old, new, "spec"),
            is_held: |namespace| !fields::list(namespace, "/spec/finalizers").is_empty(),
            begin_delete: Some(|namespace, _| {
                fields::map_mut(namespace, "status").insert("phase".into(), "Terminating".into());
            }),
            validate_status: |new, _, errors| {
                let (wanted, when) = if meta::is_terminating(new) {
                    ("Terminating", "is not empty")
                } else {
                    ("Active", "is empty")
                };
                let phase = &new["status"]["phase"];
                if phase != wanted {
                    let why = format!("may only be '{wanted}' if `deletionTimestamp` {when}");
                    errors.invalid("status.Phase", phase, &why);
                }
            },
            checks: &[Check::Metadata, Check::MetadataChange],
            refuse_delete: |name| {
                let is_protected = matches!(name, "default" | "kube-public" | "kube-system");
                is_protected.then_some("this namespace may not be deleted")
            },
            ..Strategy::PLAIN
        },
    }
}

/// Labels a namespace with its name; does nothing before the store has generated the name.
fn label(namespace: &mut Value) {
    let name = meta::text(namespace, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let metadata = fields::map_mut(namespace, "metadata");
    let labels = fields::as_map(metadata.entry("labels").or_insert(Value::Null));
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
}
