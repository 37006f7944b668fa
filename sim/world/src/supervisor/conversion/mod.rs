//! Conversion of VM Operator's kinds between their versions, as its conversion webhook does it.
//!
//! Every conversion between two versions goes through the newest version, the hub. An older version
//! (a spoke) lacks some fields. For VirtualMachines, services and groups, a conversion down to a
//! spoke therefore adds an annotation with the object of the hub, without its metadata. A
//! conversion up to the hub removes the annotation and restores these fields from it. A client that
//! drops the annotation from an object loses these fields. The other kinds have no annotation and
//! lose them in any case.
//!
//! Most fields have the same name and meaning in all versions. The conversion passes an object
//! through the Go structures of the given and of the wanted version (`schemas/vmoperator.json`),
//! which drop unknown fields. The modules here do the rest: fields that move, values with another
//! spelling, and fields that are restored. Facts are from
//! `vm-operator: api/v1alpha*/*_conversion.go`.

mod document;
mod image;
mod machine;
mod others;
mod restore;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::Value;

use crate::objects::{GoKinds, go_json, json_problem};
use document::{Document, text};

/// The API group of VM Operator's kinds.
pub const GROUP: &str = "vmoperator.vmware.com";

/// The annotation with the object in the hub version, without its metadata.
pub const ANNOTATION: &str = "vmoperator.vmware.com/conversion";

/// The number of the hub version, `v1alpha6`, through which every conversion goes.
const HUB: u8 = 6;

static GO: LazyLock<GoKinds> = LazyLock::new(|| GoKinds::read(STRUCTURES));
const STRUCTURES: &str = include_str!("../../../schemas/vmoperator.json");

/// The conversion of one kind. `down` and `up` get the object to read, the object to write
/// (initially a copy of the former), and the number of the older version.
struct Kind {
    name: &'static str,
    /// Converts from the hub to an older version.
    down: fn(&Value, &mut Document, u8),
    /// Converts from an older version to the hub.
    up: fn(&Value, &mut Document, u8),
    /// Restores fields of the object in the hub version from the content of the annotation, the
    /// second argument; the third is the number of the older version. `None` if the kind has no
    /// annotation.
    restore: Option<fn(&mut Document, &Value, u8)>,
    /// Completes an object in the hub version that had no annotation.
    unrestored: fn(&mut Document, u8),
}

const KINDS: [Kind; 7] = [
    machine::KIND,
    others::SERVICE,
    others::CLASS,
    image::NAMESPACED,
    image::CLUSTER,
    others::POLICY,
    others::GROUP,
];

/// Converts an object of one of VM Operator's kinds to `wanted`, a group and version.
///
/// # Errors
/// Fails for an unknown kind or version, a value of the wrong type, and an annotation that is not
/// valid JSON.
pub fn convert(object: &Value, wanted: &str) -> Result<Value, String> {
    let name = text(object, "/kind");
    let given = text(object, "/apiVersion");
    let unknown = |version| format!("no kind \"{name}\" is registered for version \"{version}\"");
    let from = number(given).ok_or_else(|| unknown(given))?;
    let to = number(wanted).ok_or_else(|| unknown(wanted))?;
    let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| unknown(given))?;
    let read = GO.through(given, name, object)?;
    match (from, to) {
        _ if from == to => Ok(read),
        (HUB, _) => kind.lower(&read, to),
        (_, HUB) => kind.raise(&read, from),
        _ => {
            let mut between = Document(kind.raise(&read, from)?);
            // VM Operator does not set version and kind of the intermediate object, so the
            // annotation must not contain them.
            between.remove("/apiVersion");
            between.remove("/kind");
            kind.lower(&between.0, to)
        }
    }
}

impl Kind {
    fn lower(&self, hub: &Value, to: u8) -> Result<Value, String> {
        let mut spoke = Document(hub.clone());
        (self.down)(hub, &mut spoke, to);
        if self.restore.is_some() {
            let mut kept = Document(hub.clone());
            kept.remove("/metadata");
            spoke.annotate(ANNOTATION, go_json(&kept.0));
        }
        self.written(spoke, to)
    }

    fn raise(&self, spoke: &Value, from: u8) -> Result<Value, String> {
        let mut hub = Document(spoke.clone());
        (self.up)(spoke, &mut hub, from);
        match self.restore.and_then(|restore| Some((restore, hub.take_annotation(ANNOTATION)?))) {
            Some((restore, kept)) => {
                let kept = GO.through(&version(HUB), self.name, &parse(&kept)?)?;
                restore(&mut hub, &kept, from);
            }
            None => (self.unrestored)(&mut hub, from),
        }
        self.written(hub, HUB)
    }

    fn written(&self, mut object: Document, to: u8) -> Result<Value, String> {
        let version = version(to);
        for field in ["/metadata/labels", "/metadata/annotations"] {
            object.forget_empty(field);
        }
        object.put("/kind", self.name);
        object.put("/apiVersion", version.as_str());
        GO.through(&version, self.name, &object.0)
    }
}

fn version(number: u8) -> String {
    format!("{GROUP}/v1alpha{number}")
}

/// The number of a version: `3` for `vmoperator.vmware.com/v1alpha3`. `None` if the text is not one
/// of v1alpha1 … v1alpha6 of this group.
fn number(group_version: &str) -> Option<u8> {
    let number = group_version.strip_prefix(GROUP)?.strip_prefix("/v1alpha")?;
    let number = number.parse().ok().filter(|number| (1..=HUB).contains(number))?;
    (version(number) == group_version).then_some(number)
}

fn parse(text: &str) -> Result<Value, String> {
    let problem =
        |why: serde_json::Error| json_problem(text.as_bytes()).unwrap_or_else(|| why.to_string());
    serde_json::from_str(text).map_err(problem)
}
