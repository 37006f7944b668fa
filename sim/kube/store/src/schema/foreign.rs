//! Go structures of kinds that are not built in. They show how a program with these structures
//! rewrites an object.

use serde_json::Value;

use super::decode::{GoDecoder, decode_by};
use super::types::Types;

/// Kinds with their structures, from a file in the form of `schemas/types.json`.
#[derive(Debug)]
pub struct GoKinds(Types);

impl GoKinds {
    /// Parses the structures; leaves out fields with an unknown type.
    ///
    /// # Panics
    /// If the text does not have the form of `schemas/types.json`.
    pub fn read(text: &'static str) -> Self {
        Self(Types::read(text))
    }

    /// Returns the number of fields of a structure, given by its full name in the file, or `None`
    /// if the file has no such structure.
    pub fn field_count(&self, structure: &str) -> Option<usize> {
        Some(self.0.named(structure)?.fields.len())
    }

    /// Returns `object` as Go writes it after decoding it as this kind in `version`, an apiVersion
    /// such as `example.com/v1`: without unknown fields, and without empty fields unless Go writes
    /// them.
    ///
    /// # Errors
    /// Go's error text for an unknown kind, or for a value of the wrong type.
    pub fn through(
        &'static self,
        version: &str,
        kind: &str,
        object: &Value,
    ) -> Result<Value, String> {
        let Some(root) = self.0.version(version, kind) else {
            return Err(format!("no kind \"{kind}\" is registered for version \"{version}\""));
        };
        Ok(decode_by(&self.0, root, object, GoDecoder::Json)?.object)
    }
}
