//! Fault classes of vim25, by the schema.

use std::sync::LazyLock;

use crate::call::vim25::{self, Kind};

/// Names of all faults, in alphabetical order.
static FAULTS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let faults = vim25::all().iter().filter(|it| it.kind == Kind::Fault);
    faults.map(|it| it.name).collect()
});

/// Returns the names of the fault classes that a rule may name.
pub(super) fn fault_classes() -> &'static [&'static str] {
    &FAULTS
}

/// Returns the name of a fault class of vim25; `None` for any other class.
pub(crate) fn fault_class(class: &str) -> Option<&'static str> {
    vim25::find(class).filter(|it| it.kind == Kind::Fault).map(|it| it.name)
}
