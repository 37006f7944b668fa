//! Go types of the built-in kinds, for decoding, strategic merge patches and OpenAPI.
//!
//! The data comes from a real server and from the Go modules of its types; see
//! `schemas/generate.py`. The program parses the data once.

mod binary;
mod canonical;
mod decode;
mod duration;
mod foreign;
mod quantity;
mod time;
mod types;

pub(crate) use binary::{base64, base64_of_url};
pub(crate) use canonical::is_canonical;
pub(crate) use decode::{Decoded, GoDecoder, decode, decode_metadata, reordered};
pub(crate) use duration::nanos as duration_nanos;
pub use foreign::GoKinds;
pub use quantity::quantity_nanos;
pub(crate) use quantity::{is_whole, nanos as parse_quantity};
pub(crate) use types::{Struct, Types};

/// OpenAPI v3 schemas of the built-in kinds and of the types to which these refer, as the real
/// server publishes them: one JSON object with the schemas by name.
pub const OPENAPI: &str = include_str!("../../schemas/openapi.json");
