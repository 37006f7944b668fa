//! `leases.coordination.k8s.io`: leader election, and heartbeats of kubelets.

use serde_json::Value;

use crate::object::fields;
use crate::{Check, FieldErrors, GroupResource, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::of("coordination.k8s.io", "leases"),
        version: "v1".into(),
        kind: "Lease".into(),
        singular: "lease".into(),
        short_names: &[],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "leases".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            create_on_update: true,
            unconditional_update: false,
            default: Some(|lease| {
                let spec = fields::map_mut(lease, "spec");
                // These fields belong to coordinated leader election, which is off by default.
                spec.shift_remove("strategy");
                spec.shift_remove("preferredHolder");
            }),
            validate,
            checks: &[Check::MetadataChange, Check::Whole],
            requires_standard_finalizers: false,
            ..Strategy::PLAIN
        },
    }
}

fn validate(lease: &Value, errors: &mut FieldErrors) {
    let spec = &lease["spec"];
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(
            "spec.leaseDurationSeconds",
            &spec["leaseDurationSeconds"],
            "must be greater than 0",
        );
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|n| n < 0) {
        errors.invalid(
            "spec.leaseTransitions",
            &spec["leaseTransitions"],
            "must be greater than or equal to 0",
        );
    }
}
