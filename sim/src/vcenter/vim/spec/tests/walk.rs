//! Walk over the parameters of the operations on machines and all fields below them.

use std::collections::BTreeSet;
use std::fmt;

use sim_world::vcenter::first_key;

use super::super::fields::{MODELED, Treatment, treatment};
use super::super::values::{BACKINGS, CARDS};
use crate::call::vim25::{self, Field, Kind, Type};

/// Operations whose fields the tests check.
pub(super) const METHODS: [&str; 9] = [
    "CloneVM_Task",
    "CreateVM_Task",
    "Destroy_Task",
    "PowerOffVM_Task",
    "PowerOnVM_Task",
    "ReconfigVM_Task",
    "RelocateVM_Task",
    "ResetVM_Task",
    "SuspendVM_Task",
];

/// A field, and the way to it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) method: &'static str,
    /// Fields from the parameter to the object that has the field, each with the type of its value.
    pub(super) way: Vec<(Field, &'static str)>,
    /// Method or type that declares the field.
    pub(super) owner: &'static str,
    pub(super) field: Field,
    /// Treatment of the field, or of the object that contains it.
    pub(super) treatment: Option<Treatment>,
}

impl Place {
    /// True if the field belongs to an object that is kept or carried out as a whole.
    pub(super) fn is_inside(&self) -> bool {
        treatment(self.owner, self.field.name).is_none()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.method)?;
        for (field, kind) in &self.way {
            write!(f, ".{} ({kind})", field.name)?;
        }
        write!(f, ".{} of {}", self.field.name, self.owner)
    }
}

/// Result of the walk.
#[derive(Default)]
pub(super) struct Walk {
    places: Vec<Place>,
    seen: BTreeSet<(&'static str, &'static str)>,
    /// Types of devices and of backings that a machine cannot have.
    pub(super) unsupported: (BTreeSet<&'static str>, BTreeSet<&'static str>),
}

/// Returns every field that a request can set, once per type that declares it.
pub(super) fn places() -> Vec<Place> {
    walk().places
}

pub(super) fn walk() -> Walk {
    let mut walk = Walk::default();
    for method in METHODS {
        let found = ["VirtualMachine", "Folder"]
            .iter()
            .find_map(|kind| vim25::managed(kind)?.method(method))
            .unwrap_or_else(|| panic!("{method} does not exist"));
        for parameter in found.parameters() {
            walk.field(method, &[], method, parameter, None);
        }
    }
    walk
}

impl Walk {
    fn field(
        &mut self,
        method: &'static str,
        way: &[(Field, &'static str)],
        owner: &'static str,
        field: Field,
        around: Option<Treatment>,
    ) {
        if !self.seen.insert((owner, field.name)) {
            return;
        }
        // A field of a modeled type has a treatment of its own.
        let inherited = around.filter(|_| !MODELED.contains(&owner));
        let treatment = treatment(owner, field.name).or(inherited);
        let way = way.to_vec();
        self.places.push(Place { method, way: way.clone(), owner, field, treatment });
        if matches!(treatment, Some(Treatment::Carried | Treatment::Kept(_))) {
            for kind in self.kinds(&field) {
                let mut way = way.clone();
                way.push((field, kind));
                self.object(method, &way, kind, treatment);
            }
        }
    }

    fn object(
        &mut self,
        method: &'static str,
        way: &[(Field, &'static str)],
        kind: &'static str,
        around: Option<Treatment>,
    ) {
        for owner in vim25::find(kind).into_iter().flat_map(Type::chain) {
            for field in owner.own_fields() {
                self.field(method, way, owner.name, field, around);
            }
        }
    }

    /// Returns the types of data objects that the field may have. Collects those that a machine
    /// cannot have.
    fn kinds(&mut self, field: &Field) -> Vec<&'static str> {
        let declared = field.declared;
        if declared.is_reference || declared.is_simple() {
            return Vec::new();
        }
        let is_object = |it: &&Type| {
            matches!(it.kind, Kind::Data | Kind::Fault) && vim25::is_a(it.name, declared.name)
        };
        let kinds = vim25::all().iter().filter(is_object).map(|it| it.name);
        let (supported, unsupported): (Vec<_>, Vec<_>) =
            kinds.partition(|kind| is_supported(declared.name, kind));
        match declared.name {
            "VirtualDevice" => self.unsupported.0.extend(unsupported),
            "VirtualDeviceBackingInfo" => self.unsupported.1.extend(unsupported),
            _ => {}
        }
        supported
    }
}

fn is_supported(declared: &str, kind: &str) -> bool {
    match declared {
        "VirtualDevice" => CARDS.contains(&kind) || first_key(kind).is_some(),
        "VirtualDeviceBackingInfo" => BACKINGS.contains(&kind),
        _ => true,
    }
}

/// Returns each device that a machine can have, with each backing that the device can have.
pub(super) fn devices() -> Vec<(&'static str, Option<&'static str>)> {
    let kinds = vim25::all().iter().map(|it| it.name);
    let kinds = kinds.filter(|kind| vim25::is_a(kind, "VirtualDevice"));
    let mut devices = Vec::new();
    for kind in kinds.filter(|kind| is_supported("VirtualDevice", kind)) {
        let prefix = match kind {
            _ if CARDS.contains(&kind) => "VirtualEthernetCard",
            kind => kind,
        };
        let own = BACKINGS.iter().copied().filter(|backing| backing.starts_with(prefix));
        let before = devices.len();
        devices.extend(own.map(|backing| (kind, Some(backing))));
        if devices.len() == before {
            devices.push((kind, None));
        }
    }
    devices
}
