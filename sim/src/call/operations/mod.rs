//! Operations and fault classes of a vCenter, and methods of Cluster Autoscalers, by the names in rules
//! and in the ledger.
//!
//! `soap.rs` and `vapi.rs` have a table each, with one row per operation. The faces read requests
//! by these tables, and the validation of fault rules looks names up in them.

pub(crate) mod autoscaler;
mod fault_classes;
pub(crate) mod soap;
pub(crate) mod vapi;

use super::{Class, Face};
use autoscaler::METHODS;
pub(crate) use fault_classes::fault_class;

/// Declares an enum of operations from a table with one row per operation: variant, name on the
/// wire, class, the column that the head of the table declares, and detail in the ledger.
macro_rules! operation_table {
    (
        $(#[$about:meta])*
        $name:ident { $(#[$column_about:meta])* $column:ident: $type:ty }
        $($(#[$meta:meta])* $variant:ident = $wire:literal, $class:ident, $value:expr, $detail:expr;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$meta])* $variant,)* }

        impl $name {
            /// All operations that the vCenter supports.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name on the wire, in rules and in the ledger.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// Kind of work that the operation does.
            pub(crate) const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* }
            }

            $(#[$column_about])*
            pub(crate) const fn $column(self) -> $type {
                match self { $(Self::$variant => $value,)* }
            }

            /// Part of the request that the ledger keeps.
            pub(crate) const fn detail(self) -> Detail {
                match self { $(Self::$variant => $detail,)* }
            }
        }
    };
}

use operation_table;

/// Every operation that a vCenter supports, and every method of the protocol of Cluster Autoscalers, with
/// its face. Rules match these names and the ledger records them. The vCenter refuses any other
/// operation with the appropriate fault.
///
/// ```
/// assert!(sim::operations().any(|it| it == (sim::Face::Soap, "FindByUuid")));
/// assert!(sim::operations().any(|it| it == (sim::Face::Vapi, "tagging.tag.get")));
/// ```
pub fn operations() -> impl Iterator<Item = (Face, &'static str)> {
    let soap = soap::Operation::ALL.iter().map(|operation| (Face::Soap, operation.name()));
    let vapi = vapi::Operation::ALL.iter().map(|operation| (Face::Vapi, operation.name()));
    let of_autoscalers = METHODS.iter().map(|(name, _)| (Face::Autoscaler, *name));
    soap.chain(vapi).chain(of_autoscalers)
}

/// True for operations that [`Action::ReadStale`](crate::faults::Action::ReadStale) can answer from
/// an earlier state: those that return inventory, tags or objects. For a Kubernetes API server,
/// true for every operation whose name begins with `get` or `list`. False for waits, and for
/// watches, of which only the initial objects can be stale.
///
/// ```
/// use sim::{Face, can_be_stale};
/// assert!(can_be_stale(Face::Soap, "FindByUuid") && can_be_stale(Face::Cluster, "list nodes"));
/// assert!(!can_be_stale(Face::Soap, "Login") && !can_be_stale(Face::Vapi, "cis.session.get"));
/// ```
pub fn can_be_stale(face: Face, operation: &str) -> bool {
    match face {
        Face::Soap => {
            operation.starts_with("Find")
                || [
                    "Fetch",
                    "RetrieveProperties",
                    "RetrievePropertiesEx",
                    "ContinueRetrievePropertiesEx",
                ]
                .contains(&operation)
        }
        Face::Vapi => vapi::Operation::ALL.iter().any(|it| {
            it.name() == operation
                && it.class() == Class::Read
                && *it != vapi::Operation::SessionGet
        }),
        Face::Cluster | Face::Supervisor => {
            operation.starts_with("get ") || operation.starts_with("list ")
        }
        Face::Autoscaler => false,
    }
}

/// Every fault class that a rule can name in
/// [`Action::SoapFault`](crate::faults::Action::SoapFault): all of vim25.
pub fn fault_classes() -> &'static [&'static str] {
    fault_classes::fault_classes()
}
