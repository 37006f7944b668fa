//! The three kinds of patch: documents in, document out.

mod plain;
mod strategic;

pub(super) use plain::check;
pub use plain::{json_patch, merge_patch};
pub use strategic::strategic_merge_patch;
pub(super) use strategic::typed_merge_patch;

use super::Status;

/// 422 for a patch that is well formed and does not fit.
fn rejected() -> Status {
    let mut status = Status::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    status.details = Some(Box::default());
    status
}
