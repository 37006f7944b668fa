//! `pods`: as far as a cluster without scheduler and kubelets needs them.
//!
//! Deletion has no grace period: nothing runs that would have to stop.

use serde_json::json;

use crate::objects::{GroupResource, ResourceDef, SelectableField, Strategy, fields};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("pods"),
        version: "v1".into(),
        kind: "Pod".into(),
        singular: "pod".into(),
        short_names: &["po"],
        categories: &["all"],
        namespaced: true,
        confidential: false,
        returns_deleted: true,
        status: true,
        registry: "pods".into(),
        custom: None,
        deprecation: "",
        selectable: const {
            &[
                SelectableField { name: "spec.nodeName", pointer: "/spec/nodeName", default: "" },
                SelectableField {
                    name: "spec.restartPolicy",
                    pointer: "/spec/restartPolicy",
                    default: "",
                },
                SelectableField {
                    name: "spec.schedulerName",
                    pointer: "/spec/schedulerName",
                    default: "",
                },
                SelectableField {
                    name: "spec.serviceAccountName",
                    pointer: "/spec/serviceAccountName",
                    default: "",
                },
                SelectableField {
                    name: "spec.hostNetwork",
                    pointer: "/spec/hostNetwork",
                    default: "false",
                },
                SelectableField { name: "status.phase", pointer: "/status/phase", default: "" },
                SelectableField { name: "status.podIP", pointer: "/status/podIP", default: "" },
                SelectableField {
                    name: "status.nominatedNodeName",
                    pointer: "/status/nominatedNodeName",
                    default: "",
                },
            ]
        },
        strategy: Strategy {
            generation: true,
            begin: |pod| {
                let status = json!({"phase": "Pending", "qosClass": "BestEffort"});
                fields::as_map(pod).insert("status".into(), status);
            },
            default: |pod| {
                let spec = fields::map_mut(pod, "spec");
                fields::default_to(spec, "restartPolicy", "Always");
                fields::default_to(spec, "dnsPolicy", "ClusterFirst");
                fields::default_to(spec, "schedulerName", "default-scheduler");
            },
            validate: |pod, errors| {
                if fields::list(pod, "/spec/containers").is_empty() {
                    errors.required("spec.containers", "");
                }
            },
            ..Strategy::PLAIN
        },
    }
}
