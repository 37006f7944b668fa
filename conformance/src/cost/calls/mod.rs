//! Report of a provider's calls: how many of them were needed, and how many calls a large fleet
//! would cause. Works for any provider or captured ledger.
//!
//! [`marks`] judges the need for each call and finds its trigger. Counts of at least two fleet
//! sizes give a + b·N for each [`Item`], from which the report computes the calls of large fleets.
//! [`crate::cost`] compares the calls of our own provider with exact counts; this module shows
//! where any provider can save calls.

mod items;
mod life;
mod need;
mod print;
#[cfg(test)]
mod tests;
mod trigger;

pub use items::{CallReport, Item, Part, Projection};
pub use life::{NOT_READY, SIZES, life};
pub use need::{Mark, Need, marks};
pub use trigger::Trigger;
