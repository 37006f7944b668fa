//! The cloud-node controller: initializes nodes, and keeps their addresses, topology labels and
//! machine references up to date.

mod plan;
mod provided_ip;
mod record;
mod run;

pub(crate) use plan::valid_label;
pub(crate) use run::{NodeController, Settings};
