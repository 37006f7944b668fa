//! kube-rs watchers against the simulated Kubernetes API: whatever goes wrong on the way, the cache is
//! complete in the end, and everything that it showed meanwhile was the case at some time.

mod cache;
mod faults;
mod histories;
