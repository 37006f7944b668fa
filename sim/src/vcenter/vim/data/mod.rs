//! Data of vim25: arguments of requests, values and faults in answers, and the managed object
//! types.

mod fault;
mod node;
pub(super) mod types;
mod value;

pub(crate) use fault::VimFault;
pub(super) use node::GivenRef;
pub(crate) use node::Node;
pub(super) use value::any;
pub(crate) use value::{Field, Object, Reference, Value};
