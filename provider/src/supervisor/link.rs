//! Connection to the Supervisor.

/// Connection to the Supervisor.
#[derive(Clone)]
pub struct SupervisorLink {
    /// Client with address, trusted roots and token; see [`authenticated`](crate::authenticated).
    /// It should neither retry nor have deadlines, because the provider implements both.
    pub client: kube::Client,
    /// The namespace that holds the cluster's machines.
    pub namespace: String,
}
