//! Data of vim25: arguments of requests, and values and faults in answers.

mod fault;
mod node;
pub(super) mod setting;
mod value;

pub(crate) use fault::VimFault;
pub(super) use node::GivenRef;
pub(crate) use node::Node;
pub(super) use value::any;
pub(crate) use value::{Field, Object, Reference, Value};
