//! Tests of the sim from its clients' side: over tower services, pipes, sockets and the command
//! line.

mod admin;
mod autoscaler;
mod cli;
mod client;
mod collector;
mod fixtures;
mod hostile;
mod isolation;
mod libraries;
mod listening;
mod locks;
mod malformed;
mod release;
mod rules;
mod second_login;
mod selection;
mod snapshots;
mod specs;
mod stale;
mod supervisor;
mod testing;
mod transports;
mod vim25;
mod wire;
mod xml;
