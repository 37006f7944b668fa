//! Kinds of objects in generated histories, and the fields that the histories change.

use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;
use serde_json::{Value, json};

use crate::kubernetes::sequence::SequenceStep;

/// Kind of the objects that a generated history creates and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    ConfigMap,
    Lease,
    Service,
    Node,
    /// A custom kind, which the history itself defines.
    Gadget,
}

/// Generates kinds.
pub(super) fn any() -> impl Strategy<Value = ObjectKind> {
    prop_oneof![
        Just(ObjectKind::ConfigMap),
        Just(ObjectKind::Lease),
        Just(ObjectKind::Service),
        Just(ObjectKind::Node),
        Just(ObjectKind::Gadget),
    ]
}

impl ObjectKind {
    /// Returns the plural name, the API version and the kind.
    pub(super) fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ConfigMap => ("configmaps", "v1", "ConfigMap"),
            Self::Lease => ("leases", "coordination.k8s.io/v1", "Lease"),
            Self::Service => ("services", "v1", "Service"),
            Self::Node => ("nodes", "v1", "Node"),
            Self::Gadget => ("gadgets", "$id.example.com/v1", "Gadget"),
        }
    }

    /// Returns the path of the collection, in the notation of sequences.
    pub(super) fn collection(self) -> &'static str {
        match self {
            Self::ConfigMap => "$ns/configmaps",
            Self::Lease => "$leases",
            Self::Service => "$ns/services",
            Self::Node => "/api/v1/nodes",
            Self::Gadget => "/apis/$id.example.com/v1/namespaces/$id/gadgets",
        }
    }

    /// Returns the fields that an object contains; they depend on `value`.
    pub(super) fn content(self, value: u8) -> Value {
        match self {
            Self::ConfigMap => json!({"data": {"k": format!("v{value}")}}),
            Self::Lease => {
                json!({"spec": {"holderIdentity": format!("h{value}"), "leaseDurationSeconds": 10 + value}})
            }
            Self::Service => {
                let ports = json!([{"name": "p", "port": 80 + u16::from(value)}]);
                json!({"spec": match value {
                    0 => json!({"clusterIP": "None", "selector": {"app": "x"}, "ports": ports}),
                    1 => json!({"type": "LoadBalancer", "ports": ports}),
                    2 => json!({"type": "ClusterIP", "selector": {"app": "x"}, "ports": ports}),
                    3 => json!({"type": "NodePort", "ports": ports}),
                    _ => json!({"type": "ExternalName", "externalName": "a.example.com"}),
                }})
            }
            Self::Node => match value {
                2 => json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
                3 => json!({"spec": {"providerID": "vsphere://one"}}),
                _ => json!({"spec": {"unschedulable": value == 1}}),
            },
            Self::Gadget => match value {
                4 => json!({"spec": {"color": "green", "strange": 1}}),
                _ => json!({"spec": {"color": "red", "size": 1 + 3 * value}}),
            },
        }
    }

    /// Returns a patch of the status, which depends on `value`.
    pub(super) fn status(self, value: u8) -> Value {
        match self {
            Self::Service => {
                json!({"status": {"loadBalancer": {"ingress": [{"ip": format!("192.0.2.{value}")}]}}})
            }
            Self::Gadget => json!({"status": {"ready": value == 1}}),
            _ => json!({"status": {"conditions": [{
                "type": "Ready", "status": if value == 1 { "True" } else { "False" },
                "lastHeartbeatTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z",
            }]}}),
        }
    }

    /// True if the kind has a status subresource.
    pub(super) fn has_status(self) -> bool {
        !matches!(self, Self::ConfigMap | Self::Lease)
    }

    /// Returns a strategic merge patch with a directive, which depends on `value`.
    pub(super) fn directive(self, value: u8) -> Value {
        match (self, value) {
            (Self::Service, 0) => json!({"spec": {"ports": [{"$patch": "delete", "port": 80}]}}),
            (Self::Service, 1) => json!({"spec": {
                "$setElementOrder/ports": [{"port": 8443}, {"port": 80}],
                "ports": [{"port": 8443, "name": "q"}],
            }}),
            (Self::Service, 2) => {
                json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 99, "name": "z"}]}})
            }
            (Self::Service, 3) => json!({"spec": {"selector": {"$patch": "replace", "b": "c"}}}),
            (Self::Node, 0) => json!({"spec": {"taints": [{"$patch": "delete", "key": "k"}]}}),
            (Self::Node, 1) => json!({"spec": {"$patch": "replace", "unschedulable": true}}),
            (Self::ConfigMap, 0) => json!({"data": {"$patch": "replace", "n": "x"}}),
            (Self::ConfigMap, 1) => json!({"data": {"$patch": "delete"}}),
            (Self::Lease, 0) => json!({"spec": {"$patch": "replace", "holderIdentity": "h"}}),
            (_, 0 | 1) => json!({"metadata": {"annotations": {"$patch": "delete"}}}),
            (_, 2) => {
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}})
            }
            (_, 3) => json!({"metadata": {"annotations": {"$patch": "replace", "c": "d"}}}),
            _ => json!({"metadata": {
                "$setElementOrder/finalizers": ["example.com/two", "example.com/hold"],
                "finalizers": ["example.com/two"],
            }}),
        }
    }
}

/// Returns the step that creates the definition of the custom kind.
pub(super) fn definition() -> SequenceStep {
    const PATH: &str = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let spec = json!({
        "type": "object", "required": ["color"],
        "properties": {
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        },
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.$id.example.com"},
        "spec": {
            "group": "$id.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    SequenceStep { request: Some(PATH.to_owned()), body: Some(body), ..SequenceStep::default() }
}
