//! The subresource `binding` of pods: the assignment of a pod to a Node, which a scheduler makes.
//!
//! Follows `kubernetes: pkg/registry/core/pod/storage/storage.go`, `BindingREST`.

use serde_json::{Value, json};

use super::create::settle_namespace;
use super::delete::check_preconditions;
use super::eviction::success;
use super::{Request, body, pods, seconds};
use crate::object::{fields, meta};
use crate::{Decision, Effect, FieldErrors, GroupResource, Op, Preconditions, Status, Store};

impl Store {
    /// Decides the binding of a pod to the Node in `target` of the body. The Node need not exist.
    ///
    /// # Errors
    /// 400 for an unreadable body or another name or namespace in it, 404 if the pod does not
    /// exist, 409 if the pod has a Node, is being deleted or has scheduling gates, or for unmet
    /// preconditions, 500 for an invalid target.
    pub(super) fn bind(&self, request: &Request<'_>, binding: Value) -> Result<Decision, Status> {
        let body::Body { object: mut binding, warnings } =
            body::read_part(request, binding, &["v1"], "Binding")?;
        settle_namespace(&request.key, &mut binding)?;
        let name = &request.key.name;
        if meta::text(&binding, "name") != name {
            let why = "name in URL does not match name in Binding object";
            return Err(Status::bad_request(why));
        }
        check_target(&binding)?;
        let pod = self.get(&request.key);
        let pod = pod.ok_or_else(|| Status::not_found(&request.def.id, name))?;
        let given =
            |field: &str| Some(meta::text(&binding, field).to_owned()).filter(|it| !it.is_empty());
        let preconditions =
            Preconditions { uid: given("uid"), resource_version: given("resourceVersion") };
        check_preconditions(request, &preconditions, pod)?;
        if let Some(why) = unbindable(pod, name) {
            let resource = GroupResource::core("pods/binding");
            return Err(Status::conflict(&resource, name, &why));
        }
        let mut pod = pod.as_ref().clone();
        let node = fields::text(&binding, "/target/name");
        fields::map_mut(&mut pod, "spec").insert("nodeName".into(), node.into());
        for field in ["annotations", "labels"] {
            let added = binding["metadata"][field].as_object().cloned().unwrap_or_default();
            if !added.is_empty() {
                let metadata = fields::map_mut(&mut pod, "metadata");
                fields::as_map(metadata.entry(field).or_insert(Value::Null)).extend(added);
            }
        }
        pods::copy_topology(self, &mut pod)?;
        pods::set_condition(
            &mut pod,
            json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": seconds(request.now),
            }),
        );
        body::reorder(request.def, &mut pod);
        body::arrange(request.def, &request.version, &mut pod);
        let mut decision = self.change(request.key.clone(), Op::Modified, Effect::Updated, pod);
        decision.reply = success(warnings);
        if request.dry_run {
            decision.events.clear();
        }
        Ok(decision)
    }
}

/// Checks the target of a binding. The real server's answer is not a refusal of fields.
fn check_target(binding: &Value) -> Result<(), Status> {
    let mut errors = FieldErrors::default();
    let kind = fields::text(binding, "/target/kind");
    if !["", "Node"].contains(&kind) {
        errors.not_supported("target.kind", kind, &["Node", "<empty>"]);
    }
    if fields::text(binding, "/target/name").is_empty() {
        errors.required("target.name", "");
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::new(500, "", errors.to_string())) }
}

/// Returns the reason why a pod cannot be bound; `None` if it can.
fn unbindable(pod: &Value, name: &str) -> Option<String> {
    let node = fields::text(pod, "/spec/nodeName");
    if meta::is_terminating(pod) {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    let is_gated = !fields::list(pod, "/spec/schedulingGates").is_empty();
    is_gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}
