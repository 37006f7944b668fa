//! Conformance suite for vSphere cloud providers: tests whether a provider keeps its promises.
//!
//! `catalogue.yaml` lists the promises. The cases in `checks` test them: the `lab` plays the
//! scenario of each case, by default in virtual time, and `judge` examines the world's log and the
//! calls of the run. `kubernetes` compares the simulated Kubernetes API with a real one.
//!
//! Each module uses only modules before it in this order: `scenario`, `catalogue`, `kubernetes`,
//! `lab`, `judge`, `lives`, `checks`, `cost`, `suite`, `foreign`, `e2e`, `cli`.
//!
//! The public API is [`foreign::Tests`], for the tests of a vendor's repository.

pub mod foreign;

// Hidden: for the program `conformance`, its tests and the benches of its repository. These modules
// are not part of the public API and change in any release.
#[doc(hidden)]
pub mod catalogue;
#[doc(hidden)]
pub mod checks;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod cost;
#[doc(hidden)]
pub mod e2e;
#[doc(hidden)]
pub mod judge;
#[doc(hidden)]
pub mod kubernetes;
#[doc(hidden)]
pub mod lab;
#[doc(hidden)]
pub mod lives;
#[doc(hidden)]
pub mod scenario;
#[doc(hidden)]
pub mod suite;

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
