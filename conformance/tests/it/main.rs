//! Tests of this crate from outside, one module per topic: the command line, lives, sweeps,
//! mutants, snapshots, and others.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod autoscaler;
mod autoscaler_checks;
mod autoscaler_cluster_api;
mod autoscaler_groups;
mod autoscaler_histories;
mod autoscaler_server;
mod autoscaler_sweep;
mod autoscaler_vcenter;
mod budgets;
mod capacity_checks;
mod certificates;
mod clusters;
mod command_line;
mod controller;
mod cost_calls;
mod determinism;
mod healthy;
mod histories;
mod lives;
mod mode_comparison;
mod modes;
mod mutants;
mod recordings;
mod replicas;
mod repository;
mod shipped;
mod snapshots;
mod supervisor;
mod sweeps;
mod watchers;
