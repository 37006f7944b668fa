//! Failures on demand: rules, the pure engine that judges a call, and the effects on handlers.
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
//! Failures of a Supervisor that production has seen have names ([`catalogue()`], `sim fault known`). A name
//! stands for its rule, and keys beside `use` replace those of the rule:
//!
//! ```yaml
//! - token-expired
//! - {use: conversion-webhook-down, ttl: 2m}
//! ```
//!
//! and the same in Rust:
//!
//! ```
//! use sim::Face;
//! use sim::faults::{Action, Rule};
//!
//! let fault = Action::SoapFault { class: "InvalidLogin".into(), message: None };
//! let rule = Rule::new("second-login-fails", [fault]).on(Face::Soap).op(["Login"]).nth(2);
//! assert_eq!(rule.check(), Ok(()));
//! assert!(Rule::known("conversion-webhook-down").is_some());
//! ```
//!
//! Names of operations are those of [`sim::operations`](crate::operations) and of the ledger. A rule may name an operation that
//! no server answers, because a rule can match a call that is refused. [`Rule::doubts`] reports such a name, and
//! `sim serve --faults` and `sim fault add` warn of it. Classes of faults are [`sim::fault_classes`](crate::fault_classes).
//! [`Sim::fired`](crate::Sim::fired) counts how often a rule fired: a test whose rule never fired has tested nothing.

mod catalogue;
mod effects;
mod engine;
mod rule;

pub(crate) use catalogue::named;
pub use catalogue::{Known, catalogue};
pub use effects::{Effects, MissingPaths, WatchEffects};
pub use engine::{Armed, Evaluation, Faults, RuleError};
pub(crate) use engine::{ClusterAnswer, Ending, Verdict};
pub use rule::{
    Action, Between, Client, Denial, Effect, KubeCause, KubeStatus, Matcher, Nth, Ops, Resource,
    Rule, Spoil, Throttle, When,
};
