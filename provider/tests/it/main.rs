//! Tests of the provider against small fake servers, in virtual time and without sockets, with two
//! exceptions: `process`, `paravirtual` and `obligations::memory` also start the binary, some with
//! the fakes on sockets, and `tls` opens sockets.
//!
//! The simulator imitates a complete vCenter and API server. These fakes have one inventory and one
//! list of nodes, and they count calls.

#![expect(clippy::unwrap_used, reason = "an unexpected None or Err fails the test at once")]

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
#[allow(dead_code, reason = "the unit tests of the Supervisor backend use the other functions")]
mod supervisor;
mod tls;
mod troubles;
mod vcenter;
