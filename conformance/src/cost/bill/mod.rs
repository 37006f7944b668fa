//! What a provider's calls are worth, as a list of what to do: of any provider, or of a ledger that somebody captured.
//!
//! Each call is judged ([`marks`]), counted by what brought it about, and priced: calls at two fleet sizes at least give
//! a + b·N for each operation, and that the calls of large fleets. [`crate::cost`] gates our own provider by exact counts;
//! this tells anybody where calls can be saved.

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
