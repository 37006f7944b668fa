//! The three formats of patches. The function for a format takes a document and a patch, and
//! returns the new document.

mod plain;
mod strategic;

pub(crate) use plain::check;
pub use plain::{json_patch, merge_patch};
pub use strategic::strategic_merge_patch;
pub(crate) use strategic::typed_merge_patch;

use crate::Status;

/// Applies a strategic merge patch to an object of a built-in resource, by the rules that the store
/// uses. Fails with 422 for a custom resource, else as [`strategic_merge_patch`] does.
#[cfg(fuzzing)]
pub fn strategic_merge_patch_of(
    def: &crate::ResourceDef,
    document: &serde_json::Value,
    patch: &serde_json::Value,
) -> Result<serde_json::Value, Status> {
    let Some(structure) = def.structure() else { return Err(rejected()) };
    typed_merge_patch(document, patch, structure)
}

/// Returns status 422 for a well-formed patch that cannot be applied to the document.
fn rejected() -> Status {
    let mut status = Status::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    status.details = Some(Box::default());
    status
}
