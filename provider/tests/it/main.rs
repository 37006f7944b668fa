//! The provider against small fakes with behavior, in virtual time and without sockets; only `process` starts the binary.
//!
//! The simulator imitates a complete vCenter and API server; these fakes know one inventory and one list of nodes, and
//! count calls.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod cases;
mod cluster;
mod credentials;
mod datacenters;
mod flags;
mod idle;
mod leader;
mod metrics;
mod obligations;
mod paravirtual;
mod polling;
mod process;
mod proofs;
mod proxies;
mod references;
mod restore;
mod scenarios;
mod searches;
#[allow(dead_code, reason = "the unit tests of the backend use the rest")]
mod supervisor;
mod tls;
mod troubles;
mod vcenter;
