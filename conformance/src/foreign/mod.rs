//! Judges providers of any vendor as black boxes: a process, a container or a pod, with a sim on this machine and the real
//! clock.
//!
//! A [`manifest`](Manifest) describes how to start the program. Each case has its own sim and process and is played as in
//! virtual time, by the same [`Lab`](crate::lab::Lab) and with the same judges. World time runs faster than the clock, and
//! the provider's periods are shortened by the same factor, so that bounds in periods hold.

mod apiserver;
mod baseline;
mod behind;
mod builtin;
mod calibration;
mod cluster;
pub mod command;
mod container;
pub mod cost;
mod host;
pub mod launch;
mod manifest;
mod named;
mod namespace;
mod plan;
mod process;
mod pulse;
mod run;
pub mod sweep;
mod template;

pub use apiserver::{ApiServer, Real};
pub use baseline::{Accepted, Baseline, BaselineError, Failure, Seen, Word};
pub use calibration::Calibration;
pub use host::Setup;
pub(crate) use host::{Host, Started};
pub use manifest::{Implementation, Manifest, ManifestError};
pub use named::{Tests, launched};
pub use plan::Pace;
pub(crate) use process::Process;
pub use run::{Settings, Subject};
