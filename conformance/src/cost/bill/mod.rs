//! Prices a provider's calls by need and lists what can be saved, for any provider or captured ledger.
//!
//! Each call is judged ([`marks`]), counted by its trigger, and priced: counts of at least two fleet sizes give a + b·N
//! for each operation, which gives the calls of large fleets. [`crate::cost`] gates our own provider by exact counts; this
//! module shows where any provider can save calls.

mod items;
mod life;
mod need;
mod print;
#[cfg(test)]
mod tests;
mod trigger;

pub use items::{Bill, Item, Part, Price};
pub use life::{NOT_READY, SIZES, life};
pub use need::{Mark, Need, marks};
pub use trigger::Trigger;
