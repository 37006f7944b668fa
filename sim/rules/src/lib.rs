//! Fault rules of sim: the calls that a [`Rule`] matches, when the rule fires, and what it does
//! then.
//!
//! The simulator, the files that it reads and the clients of its admin port use these types. The
//! crate knows neither the simulator nor a protocol. It does not check whether a rule can work; the
//! simulator does so when a rule is added.
//!
//! ```
//! use sim_rules::{Action, Face, Rule};
//!
//! let rule = Rule::new("second-login-fails", [Action::status(503)])
//!     .on(Face::Soap)
//!     .op(["Login"])
//!     .nth(2);
//! let text = serde_json::json!({
//!     "id": "second-login-fails",
//!     "match": {"protocol": "soap", "op": "Login"},
//!     "when": {"nth": 2},
//!     "do": [{"status": {"code": 503}}]
//! });
//! assert_eq!(serde_json::from_value::<Rule>(text).ok(), Some(rule));
//! ```

mod action;
mod answer;
mod face;
mod id;
mod kubernetes;
mod matcher;
mod rule;
mod scalars;
mod spoil;
mod when;

pub use action::Action;
pub use answer::{GrpcStatus, HttpStatus, MissingPaths, SoapFault};
pub use face::Face;
pub use id::RuleId;
pub use kubernetes::{Denial, KubeCause, KubeStatus, Throttle};
pub use matcher::{Client, Matcher, Ops, Resource};
pub use rule::{Effect, Rule};
pub use spoil::Spoil;
pub use when::{Between, Nth, When};

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
