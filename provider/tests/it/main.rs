//! Tests of the provider against small fake servers, in virtual time and without sockets, with three
//! exceptions: `process`, `paravirtual`, `capacity::process` and `obligations::memory` also start the
//! binary, some with the fakes on sockets, `tls` opens sockets, and `autoscaler` and `capacity` use the API servers
//! of the simulator, which know definitions of kinds.
//!
//! The simulator imitates a complete vCenter and API server. These fakes have one inventory and one
//! list of nodes, and they count calls.

#![expect(clippy::unwrap_used, reason = "an unexpected None or Err fails the test at once")]

mod autoscaler;
mod capacity;
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
mod side_server;
#[allow(dead_code, reason = "the unit tests of the Supervisor backend use the other functions")]
mod supervisor;
mod tls;
mod troubles;
mod vcenter;
