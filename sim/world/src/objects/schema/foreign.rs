//! Go structures of kinds that are not built in: what becomes of an object in a program that has them.

use serde_json::Value;

use super::decode::{Words, decode_by};
use super::types::Types;

/// Kinds with their structures, from a file in the form of `schemas/types.json`.
#[derive(Debug)]
pub(crate) struct GoKinds(Types);

impl GoKinds {
    /// What cannot be read is not there.
    pub(crate) fn read(text: &'static str) -> Self {
        Self(Types::read(text))
    }

    /// `object` as Go writes it after it has read it as that kind, in that version: fields that there are
    /// not have fallen out, and empty ones unless Go writes them.
    ///
    /// # Errors
    /// What Go says about a kind that it does not know, and about a value of the wrong type.
    pub(crate) fn through(
        &'static self,
        version: &str,
        kind: &str,
        object: &Value,
    ) -> Result<Value, String> {
        let Some(root) = self.0.version(version, kind) else {
            return Err(format!("no kind \"{kind}\" is registered for version \"{version}\""));
        };
        Ok(decode_by(&self.0, root, object, Words::Json)?.object)
    }
}
