//! Tests whether a vSphere cloud provider keeps its promises.
//!
//! `catalogue.yaml` holds the promises ([`catalogue`]); [`checks`] test them, each with a
//! [`scenario`] that the [`lab`] plays in virtual time; [`judge`] examines everything that happened.
//! [`kubernetes`] compares the simulated Kubernetes API with a real one.

pub mod alike;
pub mod backend;
mod capture;
mod captured;
pub mod catalogue;
pub mod checks;
pub mod cli;
pub mod cost;
pub mod e2e;
pub mod foreign;
pub mod judge;
pub mod kubernetes;
pub mod lab;
pub mod lives;
pub mod periods;
pub mod report;
pub mod scenario;
pub mod suite;
pub mod sweep;
pub mod verdict;
mod whereabouts;
