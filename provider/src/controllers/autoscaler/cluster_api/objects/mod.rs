//! Reads the objects of Cluster API. Pure.

pub(crate) mod group;
mod ledger;
mod machine;

pub(crate) use self::{
    ledger::{Ledger, UnreadableLedger},
    machine::{Machine, Mark},
};
