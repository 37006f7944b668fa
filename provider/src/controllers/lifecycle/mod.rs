//! The cloud-node-lifecycle controller: taints nodes whose machine is off, deletes nodes whose
//! machine is gone.

mod ages;
mod guard;
mod plan;
mod run;
mod troubles;

pub(crate) use run::{LifecycleController, Settings};
pub(crate) use troubles::report_troubles;
