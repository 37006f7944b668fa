//! Tests the judge: determinism, budgets, certificates, sweeps, mutants, histories, snapshots, watchers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod alike;
mod bill;
mod budgets;
mod certificates;
mod clusters;
mod command_line;
mod determinism;
mod histories;
mod lives;
mod modes;
mod mutants;
mod recordings;
mod replicas;
mod shipped;
mod snapshots;
mod supervisor;
mod sweeps;
mod watchers;
