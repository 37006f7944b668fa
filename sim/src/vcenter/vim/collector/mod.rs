//! The property collector: reads of properties, and filters whose changes a client waits for.

mod retrieve;
pub(super) mod select;
pub(super) mod updates;
pub(super) mod waiting;
