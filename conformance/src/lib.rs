//! What a vSphere cloud provider promises, and whether it holds.
//!
//! Promises stand in `catalogue.yaml` ([`catalogue`]); [`checks`] puts them to the test, each as a
//! [`scenario`] that the [`lab`] plays in virtual time; [`judge`] looks at everything that happened.
//! [`kubernetes`] holds the simulated Kubernetes API against a real one.

pub mod alike;
pub mod backend;
mod capture;
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
