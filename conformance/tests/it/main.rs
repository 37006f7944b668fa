//! The judge judged: determinism, budgets, sweeps, mutants, histories, snapshots.

mod budgets;
mod command_line;
mod determinism;
mod histories;
mod mutants;
mod shipped;
mod snapshots;
mod sweeps;
