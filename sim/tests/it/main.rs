//! The sim as its clients meet it: over tower services, pipes, sockets and the command line.

mod client;
mod collector;
mod fixtures;
mod malformed;
mod selection;
mod snapshots;
mod xml;
