//! Conformance suite for vSphere cloud providers: tests whether a provider keeps its promises.
//!
//! `catalogue.yaml` lists the promises ([`catalogue`]). The cases in [`checks`] test them: the
//! [`lab`] plays the [`scenario`] of each case, by default in virtual time, and [`judge`] examines
//! the world's log and the calls of the run. [`kubernetes`] compares the simulated Kubernetes API
//! with a real one.
//!
//! Each room uses only rooms before it in this order: [`scenario`], [`catalogue`], [`kubernetes`],
//! [`lab`], [`judge`], [`lives`], [`checks`], [`cost`], [`suite`], [`foreign`], [`e2e`], [`cli`].

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
pub mod scenario;
pub mod suite;

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
