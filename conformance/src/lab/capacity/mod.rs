//! The objects of Cluster API in a sim, and reconcilers of machine templates that are judged there.
//!
//! A reconciler publishes the capacity of machines: in the status of their template, or in
//! annotations of the groups that use the template. A reader learns from it which Node a new machine
//! becomes.

mod api;
mod definitions;
pub(crate) mod example;
mod management;
mod ours;
mod reader;
mod reference;
mod subject;

pub use api::{Api, ApiError, merge};
pub use definitions::{Definitions, ObjectRef};
pub use management::Management;
pub use ours::{OurReader, Ours};
pub use reader::{Driver, GroupReading, NodeReading, Reader, Taint};
pub use reference::{Example, FaultyReader, Flaw, ReaderFlaw, Reference};
pub use subject::{
    Change, Configuration, Expected, NotStarted, Pace, Reconciler, Running, Sample, Server,
    Subject, TemplateKind,
};
