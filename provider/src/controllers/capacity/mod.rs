//! Scaling from zero with Cluster API: the capacity that machine templates announce, and what an
//! autoscaler reads from it.
//!
//! | part | task |
//! | --- | --- |
//! | [`keys`], [`kind`], [`settings`] | names, kinds of objects, flags |
//! | [`plan`] | decides what to write; pure |
//! | [`objects`], [`run`] | known objects; lists, watches and writes |
//! | [`preview`] | shows the writes for a template, from files |
//! | [`scale_from_zero`] | reads groups as the autoscaler's Cluster API provider does; pure |

mod keys;
mod kind;
mod objects;
mod plan;
mod preview;
mod run;
pub mod scale_from_zero;
mod settings;

pub(crate) use keys::CAPI;
pub(crate) use kind::ObjectName;
pub(crate) use objects::{Objects, Progress};
pub(crate) use plan::text;
pub use preview::{CapacityFiles, NamedText, preview};
pub use run::{CapacityDeps, CapacityPanicked};
pub use settings::{CapacitySettings, GpuMapping};
