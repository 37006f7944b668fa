//! Tests kube-rs watchers with the simulated Kubernetes API. After any failure the cache becomes
//! complete again, and every state that it shows was the real state at some time.

mod cache;
mod faults;
mod histories;
