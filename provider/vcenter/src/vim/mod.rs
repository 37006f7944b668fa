//! The vSphere data types that the client needs: references, faults, contents and filters.

mod content;
mod fault;
mod filter;

pub use content::{
    About, MoRef, ObjectContent, ObjectUpdate, Page, PropertyChange, ServiceContent, UpdateKind,
    UpdateSet,
};
pub use fault::{Fault, FaultKind};
pub use filter::{FilterSpec, Traversal};
