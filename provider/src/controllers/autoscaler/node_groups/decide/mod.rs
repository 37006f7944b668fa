//! Decides which NodeGroup objects are groups. Pure.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Component, Path},
    sync::Arc,
};

use serde_json::Value;

use super::{
    super::group::{Group, MachineKind, Shape, read_spec},
    status::{has_condition, is_accepted},
};
use crate::{
    InputError,
    controllers::capacity::{ObjectName, text},
};

/// Decision about an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) object: ObjectName,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) verdict: Verdict,
    /// True if the status of the object had this decision at the time.
    pub(crate) is_in_status: bool,
}

/// Result of a decision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Accepted(Arc<Group>),
    Refused { reason: Reason, message: String },
}

/// Reason of the condition `Accepted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A key has a wrong value, or does not fit the server.
    Invalid,
    /// An older object has the name of the group.
    Duplicate,
    /// The object is being deleted.
    Deleting,
}

impl Reason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Duplicate => "Duplicate",
            Self::Deleting => "Deleting",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Verdict {
    pub(crate) fn group(&self) -> Option<&Arc<Group>> {
        match self {
            Self::Accepted(group) => Some(group),
            Self::Refused { .. } => None,
        }
    }

    /// True if a person has to correct the object.
    pub(crate) fn is_mistake(&self) -> bool {
        matches!(self, Self::Refused { reason: Reason::Invalid | Reason::Duplicate, .. })
    }
}

impl Decision {
    /// True if both decide the same about the same state of the same object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_in_status = self.is_in_status;
        *self == Self { is_in_status, ..other.clone() }
    }
}

/// Decides about all objects.
///
/// The oldest object of a name has the name, also while the object is wrong: an object that is
/// corrected never takes over the machines of another one. An object in deletion has no name.
pub(super) fn decide<'a>(
    objects: impl Iterator<Item = &'a Value>,
    machines: &MachineKind,
    bootstrap_directory: Option<&Path>,
) -> Vec<Decision> {
    let objects: Vec<&Value> = objects.collect();
    let mut owners: BTreeMap<&str, &Value> = BTreeMap::new();
    for object in objects.iter().copied().filter(|it| !is_deleting(it)) {
        let owner = owners.entry(text(&object["metadata"]["name"])).or_insert(object);
        if age(object) < age(owner) {
            *owner = object;
        }
    }
    let decision = |object: &Value| {
        let owner = owners.get(text(&object["metadata"]["name"])).copied();
        let verdict = match verdict(object, owner, machines, bootstrap_directory) {
            Ok(group) => Verdict::Accepted(Arc::new(group)),
            Err((reason, err)) => Verdict::Refused { reason, message: err.to_string() },
        };
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        let is_in_status = has_condition(&object["status"], &verdict);
        let uid = text(&object["metadata"]["uid"]).to_owned();
        Decision { object: name(object), uid, generation, verdict, is_in_status }
    };
    objects.into_iter().map(decision).collect()
}

pub(super) fn name(object: &Value) -> ObjectName {
    let metadata = &object["metadata"];
    ObjectName::new(text(&metadata["namespace"]), text(&metadata["name"]))
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Order of the objects of one name: by age, whose unit is a second, then the one that was accepted
/// before, then by namespace. Timestamps of Kubernetes are in the order of their texts.
fn age(object: &Value) -> (&str, bool, &str) {
    let metadata = &object["metadata"];
    let is_new = !is_accepted(&object["status"]);
    (text(&metadata["creationTimestamp"]), is_new, text(&metadata["namespace"]))
}

fn verdict(
    object: &Value,
    owner: Option<&Value>,
    machines: &MachineKind,
    bootstrap_directory: Option<&Path>,
) -> Result<Group, (Reason, InputError)> {
    let at = name(object);
    if is_deleting(object) {
        let err = InputError::new("the object is being deleted").remedy("its machines stay");
        return Err((Reason::Deleting, err));
    }
    if let Some(owner) = owner.map(name).filter(|owner| *owner != at) {
        let problem = format!("{:?} is the group of NodeGroup {owner}, which is older", at.name);
        let err = InputError::new(problem).remedy("create this object with another name");
        return Err((Reason::Duplicate, err.at_key("metadata.name")));
    }
    let invalid = |err: InputError| (Reason::Invalid, err.at_key("spec"));
    let mut group = read_spec(&at.name, &object["spec"], machines).map_err(invalid)?;
    if let Shape::Clone(shape) = &mut group.shape {
        let file = in_directory(&shape.bootstrap.file, bootstrap_directory);
        shape.bootstrap.file =
            file.map_err(|err| invalid(err.at_key("file").at_key("bootstrap").at_key("clone")))?;
    }
    Ok(group)
}

/// Returns the path of a file that an object names. The machines of the group can read it, so that
/// the name must not lead out of the directory.
fn in_directory(file: &Path, directory: Option<&Path>) -> Result<std::path::PathBuf, InputError> {
    let mut parts = file.components();
    let only = (parts.next(), parts.next());
    match (directory, only) {
        (Some(directory), (Some(Component::Normal(name)), None)) => Ok(directory.join(name)),
        _ => {
            let err = InputError::invalid(&file.display().to_string(), "is not the name of a file");
            Err(err.remedy("write the name of a file in the directory of --bootstrap-directory"))
        }
    }
}

#[cfg(test)]
mod tests;
