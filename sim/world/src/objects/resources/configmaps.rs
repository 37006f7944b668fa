//! `configmaps`: data for programs.

use crate::objects::{GroupResource, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        singular: "configmap".into(),
        short_names: &["cm"],
        categories: &[],
        namespaced: true,
        confidential: false,
        returns_deleted: false,
        status: false,
        registry: "configmaps".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            validate_update: |new, old, errors| {
                if old["immutable"] == true {
                    if new["immutable"] != true {
                        errors.forbidden("immutable", "field is immutable when `immutable` is set");
                    }
                    for field in ["data", "binaryData"] {
                        if new.get(field) != old.get(field) {
                            errors.forbidden(field, "field is immutable when `immutable` is set");
                        }
                    }
                }
            },
            ..Strategy::PLAIN
        },
    }
}
