//! What fuzz targets hold to their promises: code of this crate that reads foreign bytes.
//!
//! There only when built for fuzzing; the targets are in `fuzz/`.

pub use crate::kubeapi::fuzzing::{json, protobuf};
