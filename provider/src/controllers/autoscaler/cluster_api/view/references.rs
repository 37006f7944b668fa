//! Follows the references from one object to another. Pure.

use serde_json::Value;

use super::{
    super::{
        super::super::capacity::{
            ObjectName, Progress,
            scale_from_zero::{GroupTemplate, TemplateReference},
            text,
        },
        keys::{CLUSTER_LABEL, Resource},
        objects::Machine,
    },
    snapshot::Known,
};

/// Returns the name and the UID of the MachineDeployment of a MachineSet.
pub(crate) fn deployment(set: &Value) -> Option<(&str, &str)> {
    let mut owners = set["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|it| it["kind"] == "MachineDeployment")?;
    Some((text(&owner["name"]), text(&owner["uid"]))).filter(|(name, _)| !name.is_empty())
}

pub(crate) fn cluster_name(object: &Value) -> &str {
    match text(&object["spec"]["clusterName"]) {
        "" => text(&object["metadata"]["labels"][CLUSTER_LABEL]),
        name => name,
    }
}

/// Returns the template that a group names, or writes the reason into `unread`.
pub(crate) fn template<'a>(
    known: &'a Known,
    namespace: &str,
    reference: &TemplateReference,
    unread: &'a mut String,
) -> GroupTemplate<'a> {
    let resource =
        Resource { group: reference.api_group.clone(), name: reference.resource.clone() };
    let name = ObjectName::new(namespace, &reference.name);
    let objects = known.get(&resource);
    if let Some(object) = objects.and_then(|it| it.get(&name)) {
        return GroupTemplate::Object(object);
    }
    let name = &reference.name;
    *unread = match objects.map(|it| &it.progress) {
        None | Some(Progress::Pending) => format!("{resource} were not listed yet"),
        Some(Progress::Listed) => format!("the namespace has no {resource} {name}"),
        Some(Progress::Absent) => format!("the API server does not serve {resource}"),
        Some(Progress::Failing(why)) => format!("{resource} cannot be listed: {why}"),
    };
    GroupTemplate::Unread(unread)
}

/// Returns the Machine with the provider ID of its infrastructure machine, which has it first.
pub(crate) fn with_infrastructure(mut machine: Machine, known: &Known) -> Machine {
    if machine.provider_id.is_none()
        && let Some((kind, name)) = &machine.infrastructure
    {
        let name = ObjectName::new(&machine.namespace, name);
        let object = known.get(kind).and_then(|it| it.get(&name));
        let id = object.map(|it| text(&it["spec"]["providerID"]).to_owned());
        machine.provider_id = id.filter(|id| !id.is_empty());
    }
    machine
}
