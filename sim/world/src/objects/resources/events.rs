//! `events`: what controllers tell people.

use crate::objects::{
    FieldErrors, GroupResource, NameRule, ResourceDef, SelectableField, Strategy, fields, meta,
};
use serde_json::Value;

const fn field(name: &'static str, pointer: &'static str) -> SelectableField {
    SelectableField { name, pointer, default: "" }
}

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("events"),
        version: "v1".into(),
        kind: "Event".into(),
        singular: "event".into(),
        short_names: &["ev"],
        categories: &[],
        namespaced: true,
        confidential: false,
        returns_deleted: false,
        status: false,
        registry: "events".into(),
        custom: None,
        deprecation: "",
        selectable: const {
            &[
                field("involvedObject.kind", "/involvedObject/kind"),
                field("involvedObject.namespace", "/involvedObject/namespace"),
                field("involvedObject.name", "/involvedObject/name"),
                field("involvedObject.uid", "/involvedObject/uid"),
                field("involvedObject.apiVersion", "/involvedObject/apiVersion"),
                field("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
                field("involvedObject.fieldPath", "/involvedObject/fieldPath"),
                field("reason", "/reason"),
                field("reportingComponent", "/reportingComponent"),
                field("source", "/source/component"),
                field("type", "/type"),
            ]
        },
        strategy: Strategy {
            names: NameRule::Subdomain,
            create_on_update: true,
            validate,
            ..Strategy::PLAIN
        },
    }
}

fn validate(event: &Value, errors: &mut FieldErrors) {
    let about = fields::text(event, "/involvedObject/namespace");
    let namespace = meta::text(event, "namespace");
    // Events about cluster-wide objects live in `default`.
    if !(namespace == about || about.is_empty() && namespace == "default") {
        errors.invalid("involvedObject.namespace", &about.into(), "does not match event.namespace");
    }
}
