//! Request that returns the addresses, accounts and certificates of a sim.
//!
//! Programs use the request if they cannot read the files of the sim, for example because the sim
//! runs in a container.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use sim_world::{ADMINISTRATOR, PROVIDER_USER};

use super::AdminState;
use crate::shared_world::Control;
use crate::{Endpoint, Endpoints, Supervisor};

/// Body of the answer to `GET /endpoints`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointsBody {
    /// Certificate of the authority that signs the certificates of the servers, as PEM; absent
    /// without TLS. After `supervisor.ca.rotate`, another authority signs the Supervisor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<String>,
    vcenters: Vec<VCenterBody>,
    cluster: ClusterBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    supervisor: Option<SupervisorBody>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VCenterBody {
    name: String,
    url: String,
    /// SHA-1 thumbprint of the certificate that the vCenter presents now, in upper case with
    /// colons; absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    thumbprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thumbprint_sha256: Option<String>,
    administrator: Account,
    provider: Account,
}

#[derive(Serialize)]
struct Account {
    username: &'static str,
    password: String,
}

#[derive(Serialize)]
struct ClusterBody {
    url: String,
    /// Bearer token of the cluster's administrator.
    token: String,
    /// Kubeconfig of the cluster's administrator, with URL, authority and token.
    kubeconfig: String,
}

#[derive(Serialize)]
struct SupervisorBody {
    url: String,
    namespace: String,
    /// Bearer token of the Supervisor's administrator.
    token: String,
    /// Kubeconfig of the Supervisor's administrator, with URL, authority and token.
    kubeconfig: String,
    /// Contents of the files with which a provider reaches the Supervisor.
    provider: Given,
}

/// Contents of the files that a provider mounts, or would mount if the sim wrote them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<String>,
    namespace: String,
    token: String,
    owner_reference: Value,
}

/// `GET /endpoints`: returns the endpoints with their advertised URLs, and the current passwords,
/// tokens and certificates.
pub(super) async fn tell(State(ruled): State<AdminState>) -> Json<EndpointsBody> {
    let AdminState { control, supervisor, endpoints } = ruled;
    let ca_pem = endpoints.ca_pem().map(str::to_owned);
    let vcenters = endpoints.vcenters.iter();
    let vcenters = vcenters.map(|(name, endpoint)| vcenter(&control, name, endpoint)).collect();
    let cluster = ClusterBody {
        url: endpoints.cluster.url.clone(),
        token: endpoints.cluster_token.clone(),
        kubeconfig: endpoints.kubeconfig(),
    };
    let supervisor = supervisor.as_ref().and_then(|it| told(it, &endpoints));
    Json(EndpointsBody { certificate_authority: ca_pem, vcenters, cluster, supervisor })
}

fn vcenter(control: &Control, name: &str, endpoint: &Endpoint) -> VCenterBody {
    let account = |username| {
        let password = control.password(name, username);
        Account {
            username,
            password: password.map(|it| it.expose().to_owned()).unwrap_or_default(),
        }
    };
    let (thumbprint, thumbprint_sha256) =
        endpoint.thumbprints().map(|it| (it.sha1, it.sha256)).unzip();
    VCenterBody {
        name: name.to_owned(),
        url: endpoint.url.clone(),
        thumbprint,
        thumbprint_sha256,
        administrator: account(ADMINISTRATOR),
        provider: account(PROVIDER_USER),
    }
}

fn told(supervisor: &Supervisor, endpoints: &Endpoints) -> Option<SupervisorBody> {
    let (mounted_authority, mounted_namespace) = supervisor.mounted().unzip();
    Some(SupervisorBody {
        url: endpoints.supervisor.as_ref()?.url.clone(),
        namespace: supervisor.namespace().to_owned(),
        token: supervisor.admin_token().to_owned(),
        kubeconfig: endpoints.supervisor_kubeconfig()?,
        provider: Given {
            certificate_authority: mounted_authority
                .or_else(|| endpoints.ca_pem().map(str::to_owned)),
            namespace: mounted_namespace.unwrap_or_else(|| supervisor.namespace().to_owned()),
            token: supervisor.current_token(),
            owner_reference: supervisor.owner(),
        },
    })
}
