//! The Supervisor of a sim: its API server, and the credentials that it gives to a cloud provider.

mod credentials;
mod mounts;

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim_world::objects::{Command, GroupResource, Key};

use crate::server::Server;
use crate::shared_world::Control;
pub(crate) use credentials::ProviderCredentials;
pub use credentials::SupervisorError;
use kube_sim_api::{Access, Identity, Tokens};
pub use mounts::{credentials, owner_ref};

/// The Supervisor's name in the ledger and in rules.
pub const SUPERVISOR: &str = "supervisor";

/// Host name under which providers reach the Supervisor. The certificate of the Supervisor is valid
/// for this name, unless [`Certificate::WrongName`](crate::tls::Certificate::WrongName) is set.
pub const SUPERVISOR_HOST: &str = "supervisor.default.svc";

/// Name of the provider's Role, RoleBinding and ServiceAccount.
const PROVIDER: &str = "cloud-provider";

/// Permissions of a provider in the namespace of its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The role that Tanzu provisions. It cannot watch VirtualMachines or RouteSets, can neither
    /// list nor watch VirtualMachineServices, and has no permission for resources of VPC.
    Tanzu,
    /// The Tanzu role with `watch` on VirtualMachines.
    Watch,
    /// Every permission that any provider asks for.
    #[default]
    Full,
}

impl Profile {
    /// Rules of the Role.
    ///
    /// Follows tanzu-framework: `addons/controllers/cpi/vspherecpiconfig_controller.go`.
    fn rules(self) -> Value {
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let all = ["get", "create", "update", "list", "patch", "delete", "watch"];
        let machines = ["virtualmachines", "virtualmachines/status"];
        let services = ["virtualmachineservices", "virtualmachineservices/status"];
        let (group, nsx, vpc) = ("vmoperator.vmware.com", "nsx.vmware.com", "crd.nsx.vmware.com");
        match self {
            Self::Tanzu | Self::Watch => {
                let reading: &[&str] =
                    if self == Self::Watch { &["get", "list", "watch"] } else { &["get", "list"] };
                json!([
                    rule(group, &machines, reading),
                    rule(group, &services, &["get", "create", "update", "patch", "delete"]),
                    rule(nsx, &["ippools", "ippools/status"], &all),
                    rule(nsx, &["routesets", "routesets/status"], &all[..6]),
                ])
            }
            Self::Full => json!([
                rule(group, &machines, &["get", "list", "watch"]),
                rule(group, &services, &all),
                rule(nsx, &["ippools", "ippools/status", "routesets", "routesets/status"], &all),
                rule(vpc, &["staticroutes", "ipaddressallocations"], &all),
            ]),
        }
    }
}

/// The Supervisor's API server. Clones refer to the same server.
#[derive(Clone)]
pub struct Supervisor {
    pub(crate) server: Server,
    pub(crate) tokens: Tokens,
    pub(crate) access: Access,
    pub(crate) admin_token: String,
    pub(crate) provider_token: String,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    pub(crate) control: Control,
    pub(crate) given: Arc<Mutex<ProviderCredentials>>,
}

/// Omits the bearer tokens, which are secrets.
impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// The server that clients connect to.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Bearer tokens that the Supervisor accepts.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Authorizer of requests to the Supervisor.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Bearer token of the Supervisor's administrator.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// First bearer token of the provider, even after [`rotate_token`](Self::rotate_token) has
    /// replaced it; see [`current_token`](Self::current_token).
    pub fn provider_token(&self) -> &str {
        &self.provider_token
    }

    /// Namespace of the Supervisor that contains the objects of the workload cluster.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the workload cluster in the Supervisor.
    pub fn cluster_name(&self) -> &str {
        &self.cluster
    }

    /// User name and groups of the provider's ServiceAccount.
    pub fn provider(&self) -> Identity {
        provider(&self.namespace)
    }

    /// Grants the provider the permissions of `profile` in place of its earlier permissions.
    pub fn grant(&self, profile: Profile) {
        let namespace = self.namespace.as_str();
        let role = json!({"metadata": {"name": PROVIDER}, "rules": profile.rules()});
        let binding = json!({
            "metadata": {"name": PROVIDER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": PROVIDER},
            "subjects": [{"kind": "ServiceAccount", "name": PROVIDER, "namespace": namespace}],
        });
        for (resource, object) in [("roles", role), ("rolebindings", binding)] {
            let resource = GroupResource::of("rbac.authorization.k8s.io", resource);
            let key = Key::new(resource.clone(), namespace, PROVIDER);
            let _ = self.send(Command::delete(key));
            let _ = self.send(Command::create(resource, namespace, object));
        }
    }

    fn send(&self, command: Command) -> Result<sim_world::Applied, sim_world::Fault> {
        self.control.world.apply(sim_world::Command::Supervisor(command))
    }
}

/// Identity of the provider's ServiceAccount in a namespace.
pub(crate) fn provider(namespace: &str) -> Identity {
    Identity {
        user: format!("system:serviceaccount:{namespace}:{PROVIDER}"),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".into(),
        ],
    }
}
