//! Judges providers of any vendor as black boxes. A provider runs as a process, container or pod,
//! on the real clock, against a sim on this computer.
//!
//! A [`manifest`](Manifest) describes how to start the provider. Each case has its own sim and its
//! own provider. The same [`Lab`](crate::lab::Lab) as in virtual time plays the case, and the same
//! judges judge it. Unless something fails or a leader is elected, world time runs faster than the
//! clock. The driver shortens the provider's periods by the same factor, so that bounds in periods
//! hold.

mod apiserver;
mod autoscaler;
mod capacity;
mod cargo_tests;
mod cluster;
#[doc(hidden)]
pub mod command;
#[doc(hidden)]
pub mod cost;
mod host;
pub(crate) mod interruption;
mod manifest;
mod run;
#[doc(hidden)]
pub mod sweep;

pub use cargo_tests::Tests;
pub(crate) use host::process_identity;

// Hidden: for the program `conformance` and its tests.
#[doc(hidden)]
pub use apiserver::{ApiServer, RealApiServer};
#[doc(hidden)]
pub use cargo_tests::baseline::{
    Baseline, BaselineEntry, BaselineVerdict, Failure, ObservedResult,
};
#[doc(hidden)]
pub use cargo_tests::run_as_launcher;
#[doc(hidden)]
pub use host::{Setup, launch};
#[doc(hidden)]
pub use manifest::{Implementation, Manifest};
#[doc(hidden)]
pub use run::calibration::Calibration;
#[doc(hidden)]
pub use run::delay_meter::Delay;
#[doc(hidden)]
pub use run::{Settings, Subject};
