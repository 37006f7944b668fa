//! Fault rules, the engine that applies them to calls, and their effects on handlers.
//!
//! A [`Rule`] states which calls it matches, when it fires and what it does then. In a file, for
//! `sim serve --faults` and `sim fault add`:
//!
//! ```yaml
//! - id: second-login-fails
//!   match: {protocol: soap, op: Login, client: {userAgent: "*cloud-provider*"}}
//!   when: {nth: 2}
//!   do: [{delay: 2s}, {soapFault: {type: InvalidLogin}}]
//! - id: tagging-is-down
//!   match: {op: "tagging.*"}
//!   do: [{status: {code: 503, retryAfter: 5}}]
//!   ttl: 5m
//! ```
//!
//! Failures of a Supervisor that were seen in production have names ([`catalogue()`],
//! `sim fault known`). In a file, a name stands for its rule. So does an object with the name as
//! `use`; its other keys replace keys of that rule:
//!
//! ```yaml
//! - token-refused
//! - {use: conversion-webhook-down, ttl: 2m}
//! ```
//!
//! In Rust:
//!
//! ```
//! use sim::Face;
//! use sim::faults::{self, Action, Rule};
//!
//! let fault = Action::soap_fault("InvalidLogin");
//! let rule = Rule::new("second-login-fails", [fault]).on(Face::Soap).op(["Login"]).nth(2);
//! assert_eq!(faults::check(&rule), Ok(()));
//! assert!(faults::known("conversion-webhook-down").is_some());
//! ```
//!
//! The names of operations are those of [`sim::operations`](crate::operations) and of the ledger. A
//! rule may name an operation that no server answers, because a rule also matches calls that the
//! server refuses. [`warnings`] reports such a name; `sim serve --faults` and `sim fault add`
//! print it as a warning. [`sim::fault_classes`](crate::fault_classes) lists the vim25 fault
//! classes. [`Sim::fired`](crate::Sim::fired) tells how often each rule fired. A test should check
//! this, because a test whose rule never fires tests nothing.

mod catalogue;
mod check;
#[cfg(any(feature = "listen", test))]
mod documents;
mod effects;
mod engine;
mod warnings;

pub use catalogue::{Known, catalogue, known};
pub use check::check;
#[cfg(feature = "listen")]
pub(crate) use check::wrong_class;
#[cfg(any(feature = "listen", test))]
pub(crate) use documents::read_rules;
pub(crate) use effects::Effects;
pub(crate) use engine::Addition;
#[cfg(feature = "listen")]
pub(crate) use engine::matches_operation;
pub use engine::{ActiveRule, Evaluation, Faults, RuleError, needs_cluster_handler};
pub(crate) use engine::{ClusterAnswer, ReplacedAnswer, Verdict};
pub use sim_rules::{
    Action, Between, Client, Denial, Effect, GrpcStatus, HttpStatus, KubeCause, KubeStatus,
    Matcher, MissingPaths, Nth, Ops, Resource, Rule, RuleId, SoapFault, Spoil, Throttle, When,
};
#[cfg(feature = "cli")]
pub(crate) use warnings::operation_warnings;
pub use warnings::warnings;
