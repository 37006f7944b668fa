//! Runs sim, a simulator of vCenters, a Supervisor and a workload cluster, as a container of a
//! test.
//!
//! The program under test needs no code of the simulator. Of the simulator, this crate contains
//! only the types of fault rules ([`rules`]). A test starts a container, passes the URL of a
//! vCenter to the program, adds fault rules, and reads the calls of the program from the ledger:
//!
//! ```no_run
//! use sim_testcontainers::{Action, Rule, Sim};
//!
//! # async fn test() -> Result<(), sim_testcontainers::Error> {
//! let sim = Sim::new().machines(20).zones(3).start().await?;
//! let vcenter = sim.vcenter("vc0")?; // its URL, accounts and fingerprints
//! let busy = Rule::new("busy", [Action::status(503)]).op(["@login"]).first(2);
//! sim.admin().add(busy).await?;
//! // … the program under test logs in to vcenter.url, trusting sim.ca_pem() …
//! assert_eq!(sim.admin().counts().await?.of("Login"), 3);
//! # Ok(())
//! # }
//! ```
//!
//! Dropping [`SimContainer`] removes the container, also during a panic. [`SimContainer::stop`]
//! ends sim in an orderly way and returns its exit code. A killed process leaves its containers
//! behind. All containers of this crate have the label [`LABEL`]. This command removes them, also
//! those of tests that still run:
//! `docker rm -fv $(docker ps -aq --filter label=io.vsphere-lab.testcontainers)`.
//!
//! The image is not in a registry: `kind/images/build.sh sim` in the repository builds it. The
//! environment variable `SIM_IMAGE=NAME:TAG` selects another image.

mod admin;
mod container;
mod endpoints;
mod error;
mod image;
mod ledger;
mod rule;
mod world;

pub use admin::Admin;
pub use container::SimContainer;
pub use endpoints::{Account, Cluster, ProviderFiles, Supervisor, VCenter};
pub use error::Error;
pub use image::{LABEL, Sim, SimImage};
pub use ledger::{Client, Counts, Ended, OperationCount, Record};
pub use rule::Armed;
pub use sim_rules::{Action, Face, Rule};
pub use world::{Clock, Machine, Node, World};

/// All types of fault rules.
pub use sim_rules as rules;
/// The crate testcontainers, for tests that customize a request before they start the container.
pub use testcontainers;

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
