//! The vSphere data types that the client needs, written by hand: references, faults, contents and filters.

mod content;
mod fault;
mod filter;
mod moref;

pub use content::{
    About, ObjectContent, ObjectUpdate, Page, PropertyChange, ServiceContent, UpdateKind, UpdateSet,
};
pub use fault::{Fault, FaultKind};
pub use filter::{FilterSpec, Traversal};
pub use moref::MoRef;
