//! Reads Machines, and says what the autoscaler sees of them. Pure.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{
    super::{
        super::capacity::{scale_from_zero::TemplateReference, text},
        instance::{
            Failure, FailureClass, Instance, InstanceId, State, one_line, out_of_resources,
        },
    },
    keys::{DELETE_MACHINE, MARKED, REPLACE_AT, Resource},
};

/// Code of a Machine that failed for a reason which is not a lack of resources. The autoscaler's own
/// Cluster API provider has the same.
const FAILED: &str = "ProvisioningFailed";

/// Mark by which Cluster API deletes a Machine first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// This server, or an earlier process of it, has marked the Machine.
    Own,
    /// Another client has marked the Machine.
    Foreign,
    /// Another client has marked the Machine, and this server has noted its deletion beside the mark.
    ForeignNoted,
}

impl Mark {
    /// True if another client has marked the Machine.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Self::Foreign | Self::ForeignNoted)
    }

    /// True if the Machine has an annotation of this server.
    pub(crate) fn is_noted(self) -> bool {
        matches!(self, Self::Own | Self::ForeignNoted)
    }
}

/// A Machine of Cluster API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// UID of its MachineSet.
    pub(crate) set: Option<String>,
    /// Kind and name of its infrastructure machine.
    pub(crate) infrastructure: Option<(Resource, String)>,
    pub(crate) mark: Mark,
    /// Time from which the server deletes the Machine, so that Cluster API replaces it.
    pub(crate) replace_at: Option<Timestamp>,
    /// True if the API server has accepted its deletion.
    pub(crate) is_deleting: bool,
    /// Provider ID; `None` before the infrastructure has chosen one.
    pub(crate) provider_id: Option<String>,
    /// Name of its Node.
    pub(crate) node: Option<String>,
    pub(crate) created: Option<Timestamp>,
    is_provisioned: bool,
    has_address: bool,
    failure: Option<Failure>,
}

impl Machine {
    /// Reads an object; `None` if it has no name or UID.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let some = |value: &Value| Some(text(value).to_owned()).filter(|text| !text.is_empty());
        let annotations = &metadata["annotations"];
        let is_true = |value: &Value| value.as_bool() == Some(true);
        let reference = TemplateReference::read(&spec["infrastructureRef"]).ok().flatten();
        let infrastructure =
            reference.map(|it| (Resource { group: it.api_group, name: it.resource }, it.name));
        let node = some(&status["nodeRef"]["name"]);
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut sets = owners.filter(|it| it["kind"] == "MachineSet" && is_true(&it["controller"]));
        Some(Self {
            namespace: some(&metadata["namespace"])?,
            name: some(&metadata["name"])?,
            uid: some(&metadata["uid"])?,
            version: text(&metadata["resourceVersion"]).to_owned(),
            set: sets.next().and_then(|it| some(&it["uid"])),
            infrastructure,
            mark: match (annotations.get(DELETE_MACHINE), annotations.get(MARKED)) {
                (None, _) => Mark::None,
                (Some(mark), Some(own)) if mark == own => Mark::Own,
                (Some(_), Some(_)) => Mark::ForeignNoted,
                (Some(_), None) => Mark::Foreign,
            },
            replace_at: annotations[REPLACE_AT].as_str().and_then(|it| it.parse().ok()),
            is_deleting: metadata["deletionTimestamp"].is_string(),
            provider_id: some(&spec["providerID"]),
            created: metadata["creationTimestamp"].as_str().and_then(|it| it.parse().ok()),
            is_provisioned: is_true(&status["infrastructureReady"])
                || is_true(&status["initialization"]["infrastructureProvisioned"]),
            has_address: status["addresses"].as_array().is_some_and(|it| !it.is_empty()),
            failure: (node.is_none() && status["phase"] == "Failed").then(|| failure(status)),
            node,
        })
    }

    /// Returns the name of the Node that the machine has or will have.
    pub(crate) fn node_name(&self) -> &str {
        self.node.as_deref().unwrap_or(&self.name)
    }

    /// True if the infrastructure has begun to make a machine.
    pub(crate) fn is_materialized(&self) -> bool {
        self.node.is_some() || self.provider_id.is_some() || self.is_provisioned
    }

    /// Returns the instance. `is_counted` tells that the size of the group was lowered for the
    /// Machine.
    pub(crate) fn instance(&self, is_counted: bool) -> Instance {
        let is_leaving = self.is_deleting || is_counted || self.replace_at.is_some();
        let state = match &self.failure {
            _ if is_leaving => State::Deleting,
            Some(failure) => State::Failed(failure.clone()),
            None if self.node.is_some() || self.has_address => State::Running,
            None => State::Creating,
        };
        let form = match state {
            State::Deleting => "deleting",
            State::Failed(_) => "failed",
            State::Creating | State::Running => "pending",
        };
        let id = match &self.provider_id {
            Some(id) => InstanceId::new(id),
            None => InstanceId::new(&self.synthetic(form)),
        };
        Instance { id, name: self.name.clone(), state, is_materialized: self.is_materialized() }
    }

    /// Returns the IDs by which a request may name the Machine. A text in place of a provider ID names
    /// it only until it has one: a request that says that the machine does not exist must not
    /// delete one that does. If the Machine is leaving anyway, a repeated request may say so.
    pub(crate) fn ids(&self, is_leaving: bool) -> Vec<String> {
        let mut ids: Vec<String> = self.provider_id.clone().into_iter().collect();
        if ids.is_empty() || is_leaving {
            ids.extend(["pending", "failed", "deleting"].map(|form| self.synthetic(form)));
        }
        ids
    }

    fn synthetic(&self, form: &str) -> String {
        format!("{form}-machine-{}_{}", self.namespace, self.name)
    }
}

fn failure(status: &Value) -> Failure {
    let older = &status["deprecated"]["v1beta1"];
    let said = |key: &str| {
        let texts = [&status[key], &older[key]].map(text);
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut unmet =
        conditions.filter(|it| it["type"] == "InfrastructureReady" && it["status"] == "False");
    let condition = unmet.next().map_or("", |it| text(&it["message"]));
    let reason = format!("{} {} {condition}", said("failureReason"), said("failureMessage"));
    let message = one_line(&reason);
    match out_of_resources(&reason) {
        Some(code) => {
            Failure { code: code.to_owned(), message, class: FailureClass::OutOfResources }
        }
        None => Failure { code: FAILED.to_owned(), message, class: FailureClass::Other },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(annotations: &Value, spec: Value, status: Value) -> Machine {
        let metadata =
            json!({"namespace": "ns", "name": "m", "uid": "u", "annotations": annotations});
        Machine::read(&json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn shown(machine: &Machine, is_counted: bool) -> String {
        let Instance { id, state, is_materialized, .. } = machine.instance(is_counted);
        let state = match state {
            State::Failed(it) => format!("{} {}", it.code, it.class.number()),
            other => format!("{other:?}"),
        };
        let exists = if is_materialized { "exists" } else { "absent" };
        format!("{id} {state} {exists}")
    }

    #[test]
    fn the_state_and_the_id_follow_from_the_object() {
        let id = json!({"providerID": "vsphere://1"});
        for (name, spec, status, want) in [
            ("new", json!({}), json!({}), "pending-machine-ns_m Creating absent"),
            (
                "infrastructure ready, v1beta1",
                json!({}),
                json!({"infrastructureReady": true}),
                "pending-machine-ns_m Creating exists",
            ),
            (
                "infrastructure ready, v1beta2",
                json!({}),
                json!({"initialization": {"infrastructureProvisioned": true}}),
                "pending-machine-ns_m Creating exists",
            ),
            ("with provider ID", id.clone(), json!({}), "vsphere://1 Creating exists"),
            (
                "with address",
                id.clone(),
                json!({"addresses": [{"address": "10.0.0.1"}]}),
                "vsphere://1 Running exists",
            ),
            (
                "with Node",
                id.clone(),
                json!({"nodeRef": {"name": "n"}}),
                "vsphere://1 Running exists",
            ),
            (
                "failed, v1beta1",
                json!({}),
                json!({"phase": "Failed", "failureMessage": "exceeded quota"}),
                "failed-machine-ns_m QUOTA_EXCEEDED 1 absent",
            ),
            (
                "failed after it was a Node",
                id,
                json!({"phase": "Failed", "nodeRef": {"name": "n"}}),
                "vsphere://1 Running exists",
            ),
        ] {
            assert_eq!(shown(&machine(&json!({}), spec, status), false), want, "{name}");
        }
    }

    #[test]
    fn a_machine_that_is_counted_or_to_be_replaced_is_being_deleted() {
        let usual = machine(&json!({}), json!({}), json!({}));
        assert_eq!(shown(&usual, true), "deleting-machine-ns_m Deleting absent");
        let replaced = json!({REPLACE_AT: "2026-01-01T00:00:00Z"});
        let replaced = machine(&replaced, json!({}), json!({"phase": "Failed"}));
        assert_eq!(shown(&replaced, false), "deleting-machine-ns_m Deleting absent");
    }

    #[test]
    fn a_text_in_place_of_a_provider_id_names_a_machine_only_until_it_has_one() {
        let synthetic =
            ["pending", "failed", "deleting"].map(|form| format!("{form}-machine-ns_m"));
        let without = machine(&json!({}), json!({}), json!({}));
        assert_eq!(without.ids(false), synthetic);
        let with = machine(&json!({}), json!({"providerID": "vsphere://1"}), json!({}));
        assert_eq!(with.ids(false), ["vsphere://1"]);
        assert_eq!(with.ids(true).len(), 4, "a repeated deletion of one that is leaving");
    }

    #[test]
    fn a_mark_is_own_only_with_the_annotation_of_this_server() {
        for (annotations, want) in [
            (json!({}), Mark::None),
            (json!({MARKED: "t"}), Mark::None),
            (json!({DELETE_MACHINE: "t"}), Mark::Foreign),
            (json!({DELETE_MACHINE: "t", MARKED: "t"}), Mark::Own),
            (json!({DELETE_MACHINE: "theirs", MARKED: "t"}), Mark::ForeignNoted),
        ] {
            assert_eq!(machine(&annotations, json!({}), json!({})).mark, want, "{annotations}");
        }
    }
}
