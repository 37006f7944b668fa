//! Judges providers of any vendor as black boxes. A provider runs as a process, container or pod,
//! on the real clock, against a sim on this computer.
//!
//! A [`manifest`](Manifest) describes how to start the provider. Each case has its own sim and its
//! own provider. The same [`Lab`](crate::lab::Lab) as in virtual time plays the case, and the same
//! judges judge it. Unless something fails or a leader is elected, world time runs faster than the
//! clock. The driver shortens the provider's periods by the same factor, so that bounds in periods
//! hold.

mod apiserver;
mod baseline;
mod builtin;
mod calibration;
mod cargo_tests;
mod cluster;
pub mod command;
mod container;
pub mod cost;
mod delay_meter;
mod feasibility;
mod host;
pub mod launch;
mod manifest;
mod namespace;
mod process;
pub(crate) mod process_identity;
mod processor_wait;
mod remote;
mod run;
pub mod sweep;
mod template;

pub use apiserver::{ApiServer, RealApiServer};
pub use baseline::{Accepted, Baseline, BaselineError, BaselineVerdict, Failure, ObservedResult};
pub use calibration::Calibration;
pub use cargo_tests::{Tests, run_as_launcher};
pub use delay_meter::Delay;
pub use host::Setup;
pub use manifest::{Implementation, Manifest, ManifestError};
pub use run::{Settings, Subject};
