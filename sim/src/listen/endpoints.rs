//! Addresses of a listening sim, and the certificate and tokens that its clients need.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::tls::{Authority, Certificates, Leaf, Thumbprints};

/// Address of a listener, with its certificates.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// URL for clients, such as `https://127.0.0.1:8989`; has the advertised host if one is set.
    pub url: String,
    /// Local address of the listener.
    pub address: SocketAddr,
    pub(crate) certificates: Option<Arc<Certificates>>,
}

impl Endpoint {
    /// Thumbprints of the certificate that the server presents now; `None` without TLS, and if the
    /// certificate cannot be issued.
    pub fn thumbprints(&self) -> Option<Thumbprints> {
        Some(self.certificates.as_ref()?.current().ok()?.thumbprints)
    }

    /// Numbered certificates that the server has had, also those of earlier runs; empty without
    /// TLS. Excludes the certificates that Supervisor events put in place of a numbered one.
    pub fn certificates(&self) -> BTreeMap<u32, Leaf> {
        self.certificates.as_ref().map(|all| all.all()).unwrap_or_default()
    }
}

/// Addresses of all listeners of a sim, with the authority of their certificates and the tokens of
/// the admin port and of both administrators. Has no logins of vCenters.
#[derive(Clone)]
pub struct Endpoints {
    /// Endpoints of the vCenters, by name.
    pub vcenters: BTreeMap<String, Endpoint>,
    /// Endpoint of the workload cluster's API server.
    pub cluster: Endpoint,
    /// Endpoint of the Supervisor; `None` if the world has none.
    pub supervisor: Option<Endpoint>,
    /// Endpoint for Cluster Autoscalers; `None` without [`AutoscalerListener`](super::AutoscalerListener).
    pub autoscaler: Option<Endpoint>,
    /// Endpoint of the admin port.
    pub admin: Endpoint,
    /// Bearer token of the admin port; `None` if the port requires none.
    pub admin_token: Option<String>,
    /// Authority that signs the certificates; `None` without TLS. Stays the first one when the
    /// Supervisor gets another authority.
    pub authority: Option<Arc<Authority>>,
    /// Bearer token of the cluster's administrator.
    pub(crate) cluster_token: String,
    /// Bearer token of the Supervisor's administrator; empty without a Supervisor.
    pub(crate) supervisor_token: String,
}

/// Shows addresses only, because the other fields are keys and tokens.
impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("vcenters", &self.vcenters)
            .field("cluster", &self.cluster)
            .field("supervisor", &self.supervisor)
            .field("autoscaler", &self.autoscaler)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

impl Endpoints {
    /// Certificate of the [`authority`](Self::authority), as PEM; `None` without TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.authority.as_ref().map(|authority| authority.pem())
    }

    /// Returns a kubeconfig of the cluster's administrator.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of("sim", &self.cluster.url, &self.cluster_token)
    }

    /// Returns a kubeconfig of the Supervisor's administrator; `None` without a Supervisor. Trusts
    /// the first authority, also when the Supervisor has another one.
    pub fn supervisor_kubeconfig(&self) -> Option<String> {
        let endpoint = self.supervisor.as_ref()?;
        Some(self.kubeconfig_of("supervisor", &endpoint.url, &self.supervisor_token))
    }

    fn kubeconfig_of(&self, name: &str, url: &str, token: &str) -> String {
        let authority = self
            .ca_pem()
            .map(|pem| {
                format!("    certificate-authority-data: {}\n", STANDARD.encode(pem.as_bytes()))
            })
            .unwrap_or_default();
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {url}\n\
             {authority}users:\n- name: admin\n  user:\n    token: {token}\ncontexts:\n- name: {name}\n  \
             context:\n    cluster: {name}\n    user: admin\ncurrent-context: {name}\n",
        )
    }

    /// Returns the ports by server, so that a later run can listen on the same ones
    /// ([`ListenOptions::ports`](super::ListenOptions::ports)).
    pub fn ports(&self) -> BTreeMap<String, u16> {
        let vcenters = self.vcenters.iter().map(|(name, at)| (name.clone(), at.address.port()));
        let supervisor = self.supervisor.as_ref().map(|at| (crate::SUPERVISOR, at));
        let others = [(crate::CLUSTER, &self.cluster), ("admin", &self.admin)];
        let autoscaler = self.autoscaler.as_ref().map(|at| (crate::AUTOSCALER, at));
        let others = others.into_iter().chain(supervisor).chain(autoscaler);
        vcenters.chain(others.map(|(name, at)| (name.to_owned(), at.address.port()))).collect()
    }
}
