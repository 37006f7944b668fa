//! Judges of the writes of Nodes: safety, deletions, zones, the order of addresses, pauses, and
//! writes that change nothing.

pub(super) mod authors;
pub(super) mod deletions;
pub(super) mod order;
pub(super) mod pauses;
pub(super) mod safety;
pub(super) mod writes;
pub(super) mod zones;
