//! Judges providers of any vendor as black boxes. A provider runs as a process, container or pod,
//! on the real clock, against a sim on this computer.
//!
//! A [`manifest`](Manifest) describes how to start the provider. Each case has its own sim and its
//! own provider. The same [`Lab`](crate::lab::Lab) as in virtual time plays the case, and the same
//! judges judge it. Unless something fails or a leader is elected, world time runs faster than the
//! clock. The driver shortens the provider's periods by the same factor, so that bounds in periods
//! hold.

mod apiserver;
mod cargo_tests;
mod cluster;
pub mod command;
pub mod cost;
mod host;
pub(crate) mod interruption;
mod manifest;
pub(crate) mod process_identity;
mod run;
pub mod sweep;

pub use apiserver::{ApiServer, RealApiServer};
pub use cargo_tests::baseline::{
    Baseline, BaselineEntry, BaselineVerdict, Failure, ObservedResult,
};
pub use cargo_tests::{Tests, run_as_launcher};
pub use host::{Setup, launch};
pub use manifest::{Implementation, Manifest};
pub use run::calibration::Calibration;
pub use run::delay_meter::Delay;
pub use run::{Settings, Subject};
