//! The Kubernetes API of the workload cluster.
