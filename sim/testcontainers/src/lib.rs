//! sim, the fake vCenter, Supervisor and workload cluster, as a container of a test.
//!
//! For programs that know nothing of the lab: this crate depends on none of its others. A test starts a container,
//! points the program at it, lets something fail, and asks the ledger what was called:
//!
//! ```no_run
//! use sim_testcontainers::{Rule, Sim};
//!
//! # async fn test() -> Result<(), sim_testcontainers::Error> {
//! let sim = Sim::new().machines(20).zones(3).start().await?;
//! let vcenter = sim.vcenter("vc0")?; // its URL, accounts and fingerprints
//! sim.admin().add(Rule::new("busy").op("@login").first(2).status(503)).await?;
//! // … the program under test logs in to vcenter.url as vcenter.administrator, trusting sim.ca_pem() …
//! assert_eq!(sim.admin().counts().await?.of("Login"), 3);
//! # Ok(())
//! # }
//! ```
//!
//! The container goes when [`SimContainer`] is dropped, also by a panic; [`SimContainer::stop`] says how sim ended. What
//! a killed process leaves has the label [`LABEL`]: `docker rm -fv $(docker ps -aq --filter label=io.vsphere-lab.testcontainers)`.
//!
//! The image is not in a registry: `kind/images/build.sh sim` of the lab makes it. `SIM_IMAGE=NAME:TAG` names another one.

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
pub use rule::{Armed, Rule};
pub use world::{Clock, Machine, Node, World};

/// The library below, to customise a request before it is started.
pub use testcontainers;
