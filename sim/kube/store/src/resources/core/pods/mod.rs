//! `pods`, as the API server keeps them.
//!
//! The store does not place, run or stop pods; the world may. Otherwise a deleted pod that has a
//! Node and a grace period, and has not ended, stays terminating until a client deletes it again
//! with grace period 0.

mod containers;
mod place;
pub(crate) mod template;
mod validate;

use serde_json::{Map, Value, json};

use crate::kind::ObjectReader;
use crate::object::fields;
use crate::{Check, GroupResource, ResourceDef, SelectableField, Status, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("pods"),
        version: "v1".into(),
        kind: "Pod".into(),
        singular: "pod".into(),
        short_names: &["po"],
        categories: &["all"],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: true,
        status: true,
        scales: false,
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
            allocate: Some(place::copy_topology),
            begin,
            default: Some(default),
            validate: validate::validate,
            validate_update: validate::validate_update,
            grace: Some(grace),
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
    }
}

/// Copies to a pod that gets its Node the topology labels of that Node.
pub(crate) fn copy_topology(store: &dyn ObjectReader, pod: &mut Value) -> Result<(), Status> {
    place::copy_topology(store, pod, None)
}

/// True if the pod has a condition `Ready` that is true.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let ready = fields::list(pod, "/status/conditions").iter().find(|it| it["type"] == "Ready");
    ready.is_some_and(|it| it["status"] == "True")
}

/// Sets a condition in the status of an object. A condition whose status stays keeps its
/// transition time. Returns false if nothing changes.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value) -> bool {
    let conditions = fields::as_list(fields::map_mut(object, "status"), "conditions");
    match conditions.iter_mut().find(|it| it["type"] == condition["type"]) {
        None => conditions.push(condition),
        Some(before) => {
            if before["status"] == condition["status"] {
                fields::copy(before, &mut condition, "lastTransitionTime");
            }
            if *before == condition {
                return false;
            }
            *before = condition;
        }
    }
    true
}

/// Sets the state of a new pod and the fields that the real server's admission plugins add, and
/// replaces a negative grace period by 1 s.
fn begin(pod: &mut Value) {
    let status = json!({"phase": "Pending", "qosClass": service_class(pod)});
    fields::as_map(pod).insert("status".into(), status);
    let spec = fields::map_mut(pod, "spec");
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|it| it < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    fields::default_to(spec, "priority", 0);
    fields::default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
    let tolerations = fields::as_list(spec, "tolerations");
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |it: &Value| {
            let (its_key, effect) = (fields::text(it, "/key"), fields::text(it, "/effect"));
            (its_key == key || its_key.is_empty()) && matches!(effect, "NoExecute" | "")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// Returns the quality-of-service class of a pod.
fn service_class(pod: &Value) -> &'static str {
    let containers = || {
        let all = ["/spec/containers", "/spec/initContainers"];
        all.into_iter().flat_map(|pointer| fields::list(pod, pointer))
    };
    let asks = |container: &Value, of: &str, what: &str| {
        container["resources"][of][what].as_str().map(str::to_owned)
    };
    let is_best_effort = containers().all(|container| {
        let any = |of: &str| ["cpu", "memory"].iter().any(|it| asks(container, of, it).is_some());
        !any("limits") && !any("requests")
    });
    let is_guaranteed = containers().all(|container| {
        ["cpu", "memory"].iter().all(|what| {
            let limit = asks(container, "limits", what);
            limit.is_some() && asks(container, "requests", what).is_none_or(|it| Some(it) == limit)
        })
    });
    match (is_best_effort, is_guaranteed) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}

/// Fills in the defaults of common fields; follows `kubernetes: pkg/apis/core/v1/defaults.go`.
fn default(pod: &mut Value) {
    place::agree_on_addresses(pod);
    let spec = fields::map_mut(pod, "spec");
    fields::default_to(spec, "enableServiceLinks", true);
    let is_on_host = spec.get("hostNetwork") == Some(&true.into());
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            request_limits(container);
            if is_on_host {
                open_host_ports(container);
            }
        }
    }
    default_spec(spec);
}

/// Fills in the defaults that the `spec` of a pod and that of a pod template have in common.
fn default_spec(spec: &mut Map<String, Value>) {
    fields::default_to(spec, "restartPolicy", "Always");
    fields::default_to(spec, "terminationGracePeriodSeconds", 30);
    fields::default_to(spec, "dnsPolicy", "ClusterFirst");
    fields::default_to(spec, "securityContext", json!({}));
    fields::default_to(spec, "schedulerName", "default-scheduler");
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        fields::default_to(spec, "serviceAccount", account);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(container);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        let volume = fields::as_map(volume);
        if volume.len() == 1 {
            volume.insert("emptyDir".into(), json!({}));
        }
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = volume.get_mut(source) {
                fields::default_to(fields::as_map(source), "defaultMode", 0o644);
            }
        }
        if let Some(path) = volume.get_mut("hostPath") {
            fields::default_to(fields::as_map(path), "type", "");
        }
    }
}

/// Opens the ports of a container on the Node of a pod in the network of its Node.
fn open_host_ports(container: &mut Value) {
    for port in fields::list_mut(container, "ports") {
        let port = fields::as_map(port);
        if let Some(number) = port.get("containerPort").cloned() {
            fields::default_if_empty(port, "hostPort", number);
        }
    }
}

/// Requests what a container of a pod limits and does not request. The real server does this only
/// for pods, not for templates.
fn request_limits(container: &mut Value) {
    if let Some(resources) = container.get_mut("resources")
        && let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned()
    {
        let requests = fields::map_mut(resources, "requests");
        for (what, limit) in limits {
            fields::default_to(requests, &what, limit);
        }
    }
}

fn default_container(container: &mut Value) {
    let image = fields::text(container, "/image").to_owned();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_moving = !name.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    for port in fields::list_mut(container, "ports") {
        let port = fields::as_map(port);
        fields::default_if_empty(port, "protocol", "TCP");
    }
    for variable in fields::list_mut(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            fields::default_to(fields::as_map(field), "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe).filter(|it| it.is_object()) else { continue };
        if let Some(get) = probe.get_mut("httpGet") {
            let get = fields::as_map(get);
            fields::default_if_empty(get, "path", "/");
            fields::default_if_empty(get, "scheme", "HTTP");
        }
        let probe = fields::as_map(probe);
        for (field, value) in [
            ("timeoutSeconds", 1),
            ("periodSeconds", 10),
            ("successThreshold", 1),
            ("failureThreshold", 3),
        ] {
            fields::default_if_empty(probe, field, value);
        }
    }
    let container = fields::as_map(container);
    fields::default_to(container, "terminationMessagePath", "/dev/termination-log");
    fields::default_to(container, "terminationMessagePolicy", "File");
    let policy = if is_moving { "Always" } else { "IfNotPresent" };
    fields::default_to(container, "imagePullPolicy", policy);
}

/// Returns the grace period of a deleted pod in seconds: the requested one, or else that in the
/// pod's `spec`. Returns 0 if the pod has no Node or has ended, so that no kubelet can be running
/// it, and 1 for a negative grace period.
fn grace(pod: &Value, asked: Option<i64>) -> i64 {
    let is_over = matches!(fields::text(pod, "/status/phase"), "Failed" | "Succeeded");
    if fields::text(pod, "/spec/nodeName").is_empty() || is_over {
        return 0;
    }
    let seconds = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
    seconds.map_or(0, |seconds| if seconds < 0 { 1 } else { seconds })
}
