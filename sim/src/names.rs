//! Names of vCenters in rules and in the ledger: operations and fault classes.

use crate::{Class, Face, vapi, vim};

/// Every operation that a vCenter supports, with its face. Rules match these names and the ledger
/// records them. The vCenter refuses any other operation with the appropriate fault.
///
/// ```
/// assert!(sim::operations().any(|it| it == (sim::Face::Soap, "FindByUuid")));
/// assert!(sim::operations().any(|it| it == (sim::Face::Vapi, "tagging.tag.get")));
/// ```
pub fn operations() -> impl Iterator<Item = (Face, &'static str)> {
    let soap = vim::Operation::ALL.iter().map(|operation| (Face::Soap, operation.name()));
    soap.chain(vapi::Operation::ALL.iter().map(|operation| (Face::Vapi, operation.name())))
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
    }
}

/// Every fault class that a rule can name in
/// [`Action::SoapFault`](crate::faults::Action::SoapFault).
pub fn fault_classes() -> &'static [&'static str] {
    vim::FAULTS
}

/// Declares an enum whose variants have names on the wire, and generates its `ALL` and `name`.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $kind:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $kind { $($(#[$variant_meta])* $variant,)* }

        impl $kind {
            /// All variants.
            $vis const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name on the wire, in rules and in the ledger.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

pub(crate) use named;
