//! A sim with a Supervisor and a workload cluster. Our server has exactly the roles of the manifests.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use provider::{
    AutoscalerBackend, AutoscalerDeps, BootstrapTokens, Clock, GroupsSource, SecretRandom,
    SupervisorLink, Telemetry, TokenSource, VmOperatorVersion, authenticated,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sim::{
    Identity, RuleGuard, Sim,
    faults::{Action, Rule},
    world::{Command, Event, Retain, Topology, supervisor::OperatorChange},
};
use tokio_util::sync::CancellationToken;

use super::super::world::Server;
use crate::capacity::s;

pub(super) const GROUP: &str = "VirtualMachine/workloads/workers";
pub(super) const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets";
pub(super) const DATA: &str = "/api/v1/namespaces/workloads/secrets";
pub(super) const MACHINES: &str =
    "/apis/vmoperator.vmware.com/v1alpha6/namespaces/workloads/virtualmachines";
/// Names of the server in the ledgers of both API servers.
pub(super) const WORKLOAD: &str = "tokens";
pub(super) const SUPERVISOR: &str = "autoscaler";
pub(super) const TOKEN: &str = "token-of-the-server";
pub(super) const ADMIN: &str = "token-of-the-test";
pub(super) const ROLES: [&str; 3] = [
    include_str!("../../../../deploy/autoscaler-supervisor-role.yaml"),
    include_str!("../../../../deploy/autoscaler-supervisor-tokens-role.yaml"),
    include_str!("../../../../deploy/autoscaler-tokens-role.yaml"),
];
/// User data of the documentation.
pub(super) const USER_DATA: &str = include_str!("user-data.yaml");
/// Groups of the documentation, with tokens of an hour.
pub(super) const GROUPS: &str = include_str!("groups.yaml");

pub(super) struct World {
    pub(super) sim: Sim,
    pub(super) groups: Arc<Mutex<String>>,
    pub(super) supervisor: kube::Client,
    pub(super) workload: kube::Client,
}

pub(super) fn client(service: sim::Service, token: &str) -> kube::Client {
    let token = token.to_owned();
    let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
    let agent = http::HeaderValue::from_static("test");
    authenticated(kube::Client::new(service, "workloads"), Arc::new(tokens), agent)
}

pub(super) fn user() -> Identity {
    Identity { user: "autoscaler".into(), groups: vec!["system:authenticated".into()] }
}

/// A source of secrets whose bytes follow from the seed.
pub(super) fn random(seed: u64) -> SecretRandom {
    let n = Mutex::new(0_u64);
    Arc::new(move |bytes| {
        for chunk in bytes.chunks_mut(32) {
            let mut n = n.lock().unwrap();
            *n += 1;
            let block = Sha256::digest([seed.to_le_bytes(), n.to_le_bytes()].concat());
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
        Ok(())
    })
}

impl World {
    pub(super) async fn new() -> Self {
        Self::with_user_data(USER_DATA).await
    }

    /// A world whose group has this user data.
    pub(super) async fn with_user_data(user_data: &str) -> Self {
        let sim = Sim::builder()
            .topology(Topology::zones(1).machines(0).supervisor())
            .retain(Retain::Everything)
            .start();
        sim.tokens().issue(TOKEN, user(), None);
        sim.tokens().issue(ADMIN, Identity::admin(), None);
        sim.access().require_rbac();
        let supervisor = {
            let supervisor = sim.supervisor().unwrap();
            supervisor.tokens().issue(TOKEN, user(), None);
            client(supervisor.server().service("test"), supervisor.admin_token())
        };
        let workload = client(sim.cluster().service("test"), ADMIN);
        let groups = Arc::new(Mutex::new(GROUPS.to_owned()));
        let world = Self { sim, groups, supervisor, workload };
        world.grant(ROLES[0], true).await;
        world.grant(ROLES[1], true).await;
        world.grant(ROLES[2], false).await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "workers-bootstrap"},
            "stringData": {"user-data": user_data},
        });
        world.send(true, "POST", DATA, Some(&secret)).await;
        world
    }

    /// Creates the roles of a manifest, for the user of the server.
    pub(super) async fn grant(&self, manifests: &str, is_supervisor: bool) {
        for document in manifests.split("\n---\n") {
            let mut object: Value = serde_saphyr::from_str(document).unwrap();
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            if kind.ends_with("binding") {
                let group = "rbac.authorization.k8s.io";
                object["subjects"] =
                    json!([{"apiGroup": group, "kind": "User", "name": user().user}]);
            } else if !kind.ends_with("role") {
                continue;
            }
            let namespace = object["metadata"]["namespace"].as_str();
            let of = namespace.map(|it| format!("/namespaces/{it}")).unwrap_or_default();
            let path = format!("/apis/rbac.authorization.k8s.io/v1{of}/{kind}s");
            self.send(is_supervisor, "POST", &path, Some(&object)).await;
        }
    }

    pub(super) fn set_groups(&self, text: &str) {
        text.clone_into(&mut self.groups.lock().unwrap());
    }

    pub(super) async fn send(
        &self,
        is_supervisor: bool,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Value {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let client = if is_supervisor { &self.supervisor } else { &self.workload };
        let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).body(body).unwrap();
        let answer = client.request::<Value>(request).await;
        answer.unwrap_or_else(|err| panic!("{method} {path}: {err}"))
    }

    async fn list(&self, is_supervisor: bool, path: &str) -> Vec<Value> {
        self.send(is_supervisor, "GET", path, None).await["items"].as_array().unwrap().clone()
    }

    /// Returns the bootstrap tokens.
    pub(super) async fn tokens(&self) -> Vec<Value> {
        let mut all = self.list(false, TOKENS).await;
        all.retain(|it| it["type"] == "bootstrap.kubernetes.io/token");
        all
    }

    /// Returns the Secrets with the user data of machines.
    pub(super) async fn data(&self) -> Vec<Value> {
        let mut all = self.list(true, DATA).await;
        all.retain(|it| it["metadata"]["labels"].get("vsphere.cloud-provider/machine").is_some());
        all
    }

    pub(super) async fn machines(&self) -> Vec<Value> {
        self.list(true, MACHINES).await
    }

    /// Returns the names of the Nodes.
    pub(super) async fn nodes(&self) -> BTreeSet<String> {
        names(&self.list(false, "/api/v1/nodes").await)
    }

    /// Returns the reasons of refused joins.
    pub(super) fn refusals(&self) -> Vec<String> {
        self.sim.world().read(|world| {
            let mut found = Vec::new();
            for (_, event) in world.log().entries() {
                if let Event::JoinRefused { why, .. } = event {
                    found.push(why.clone());
                }
            }
            found
        })
    }

    /// Has VM Operator make machines, or not.
    pub(super) fn make_machines(&self, reconciles: bool) {
        let change = OperatorChange { reconciles: Some(reconciles), ..OperatorChange::default() };
        self.sim.apply(Command::SetVmOperator(change)).unwrap();
    }

    /// Adds a rule for the requests of the server with this name in the ledger.
    pub(super) fn fault(&self, action: Action, client: &str, operation: &str) -> RuleGuard {
        let id = format!("{operation} of {client}");
        self.sim.fault(Rule::new(id, [action]).op([operation]).client(client)).unwrap()
    }

    /// Returns the number of requests of the server, and of those that change something.
    pub(super) fn n_calls(&self) -> (usize, usize) {
        let of_server = |name: &str| name == WORKLOAD || name == SUPERVISOR;
        let records = self.sim.ledger().records();
        let all: Vec<_> =
            records.iter().filter(|it| of_server(&it.client.client)).map(|it| &*it.op).collect();
        let reads = |op: &&&str| ["list ", "watch ", "get "].iter().any(|it| op.starts_with(it));
        (all.len(), all.len() - all.iter().filter(reads).count())
    }

    /// Starts a process of the server.
    pub(super) async fn start(&self) -> Server {
        self.start_with(1, true).await
    }

    /// Starts a process whose draws follow from the seed, with or without workload cluster.
    pub(super) async fn start_with(&self, seed: u64, has_workload: bool) -> Server {
        let groups = Arc::clone(&self.groups);
        let read = move || Ok(("groups.yaml".to_owned(), groups.lock().unwrap().clone()));
        let supervisor = self.sim.supervisor().unwrap();
        let link = SupervisorLink {
            client: client(supervisor.server().service(SUPERVISOR), TOKEN),
            namespace: supervisor.namespace().to_owned(),
        };
        let tokens = has_workload.then(|| BootstrapTokens {
            client: client(self.sim.cluster().service(WORKLOAD), TOKEN),
            random: random(seed),
        });
        let version = VmOperatorVersion::V1Alpha5;
        let deps = AutoscalerDeps {
            backend: AutoscalerBackend::Supervisor { link, version, tokens },
            groups: Some(GroupsSource::File(Arc::new(read))),
            tls: None,
            gpu_label: String::new(),
            telemetry: Arc::new(Telemetry::of_autoscaler()),
            clock: Clock::starting_at(self.now()),
            seed,
            grace: AutoscalerDeps::GRACE,
            stop: CancellationToken::new(),
        };
        Server::started(deps, s(5)).await
    }

    /// Returns the time of the world.
    pub(super) fn now(&self) -> jiff::Timestamp {
        self.sim.world().now().timestamp(sim::VIRTUAL_EPOCH)
    }
}

pub(super) fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns a value of a Secret as text.
pub(super) fn text(secret: &Value, key: &str) -> String {
    let value = secret["data"][key].as_str().unwrap_or_else(|| panic!("{key}: {secret}"));
    String::from_utf8(STANDARD.decode(value).unwrap()).unwrap()
}
