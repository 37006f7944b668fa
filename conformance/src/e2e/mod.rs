//! The stage in containers: a real cluster made by kind, our simulator and a provider in it.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`command`] | `conformance e2e` |
//! | `lab` | a laboratory is made, found again, ended |
//! | `engine`, `shell` | the Docker engine and other programs |
//! | `cluster`, `vcenter`, `deploy` | what is in a laboratory |
//! | `scenarios` | what happens in it, under the IDs of the catalogue |
//!
//! Three real kubelets prove the wiring, which no simulated one can.

mod cluster;
pub mod command;
mod deploy;
mod engine;
mod lab;
mod scenarios;
mod shell;
mod vcenter;
