//! The world that all parts of a sim share: its clock, its lock, the task that lets reactions
//! happen when they are due, changes by tests and the admin port, and recordings.

mod clock;
mod control;
mod driver;
mod handle;
mod recording;

pub use clock::Clock;
pub(crate) use control::Control;
pub use control::RuleGuard;
pub(crate) use driver::run;
pub(crate) use handle::Locked;
pub use handle::WorldHandle;
#[cfg(feature = "cli")]
pub(crate) use recording::Recorder;
pub use recording::{Recording, RecordingError, read_recording, write_recording};
