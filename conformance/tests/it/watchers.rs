//! Tests kube-rs watchers with the simulated Kubernetes API: after any failure the cache is complete
//! in the end, and every state that it showed was the real state at some time.

mod cache;
mod faults;
mod histories;
