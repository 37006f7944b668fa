//! Tests of `provider capacity` against the API servers of the simulator, in virtual time. The
//! numbers CAPZ-… are those of section 10 of `SPECIFICATION.md`.

mod kinds;
mod process;
mod supervisor;
mod vcenter;

pub(crate) use self::kinds::{keep_log, n_logged};

use std::{sync::Arc, time::Duration};

use provider::{CapacityDeps, CapacitySettings, TokenSource, authenticated};
use serde_json::{Value, json};
use sim::{Identity, Sim, world::Topology};
use tokio_util::sync::CancellationToken;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACE: &str = "workloads";
/// Role of the documentation.
const ROLE: &str = include_str!("role.yaml");
const TOKEN: &str = "token-of-the-controller";
const ADMIN: &str = "token-of-the-test";

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The user as which the controller makes its requests.
fn identity() -> Identity {
    Identity { user: "capacity".into(), groups: vec!["system:authenticated".into()] }
}

fn client(service: sim::Service, token: &str) -> kube::Client {
    let token = token.to_owned();
    let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
    let agent = http::HeaderValue::from_static("test");
    authenticated(kube::Client::new(service, NAMESPACE), Arc::new(tokens), agent)
}

/// The management cluster, of which the controller and the test are clients.
pub(crate) struct Management {
    pub(crate) sim: Sim,
    pub(crate) controller: kube::Client,
    test: kube::Client,
}

/// A running controller.
struct Controller {
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Management {
    /// A Supervisor with the definitions of these kinds.
    pub(crate) async fn supervisor(kinds: &[&str]) -> Self {
        let sim = Sim::builder().topology(Topology::zones(1).machines(0).supervisor()).start();
        let (controller, test) = {
            let supervisor = sim.supervisor().unwrap();
            supervisor.tokens().issue(TOKEN, identity(), None);
            let service = |name: &str| supervisor.server().service(name);
            let admin = supervisor.admin_token();
            (client(service("controller"), TOKEN), client(service("test"), admin))
        };
        let management = Self { sim, controller, test };
        management.grant(ROLE).await;
        management.define(kinds).await;
        management
    }

    /// A cluster without VM Operator and with the definitions of these kinds.
    async fn cluster(kinds: &[&str]) -> Self {
        let management = Self::new(ROLE).await;
        management.define(kinds).await;
        management
    }

    /// A cluster without VM Operator, whose client has this role.
    pub(crate) async fn new(role: &str) -> Self {
        let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
        sim.tokens().issue(TOKEN, identity(), None);
        sim.tokens().issue(ADMIN, Identity::admin(), None);
        sim.access().require_rbac();
        let service = |name: &str| sim.cluster().service(name);
        let (controller, test) =
            (client(service("controller"), TOKEN), client(service("test"), ADMIN));
        let management = Self { sim, controller, test };
        management.grant(role).await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        management.create("/api/v1/namespaces", namespace).await;
        management
    }

    /// Gives the controller the role of the documentation, and no other.
    pub(crate) async fn grant(&self, role: &str) {
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        let role: Value = serde_saphyr::from_str(role).unwrap();
        let name = &role["metadata"]["name"];
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": identity().user}],
        });
        self.create(&format!("{roles}/clusterroles"), role).await;
        self.create(&format!("{roles}/clusterrolebindings"), binding).await;
    }

    /// Installs the definitions of kinds, by the names of the definitions.
    async fn define(&self, kinds: &[&str]) {
        let all: Vec<Value> = serde_saphyr::from_str(include_str!("definitions.yaml")).unwrap();
        for name in kinds {
            let definition = all.iter().find(|it| it["metadata"]["name"] == *name).unwrap();
            self.install(definition.clone()).await;
        }
    }

    /// Installs the definition of a kind.
    pub(crate) async fn install(&self, mut definition: Value) {
        definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
        definition["kind"] = "CustomResourceDefinition".into();
        self.create(DEFINITIONS, definition).await;
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).body(body).unwrap();
        let answer = self.test.request::<Value>(request).await;
        answer.unwrap_or_else(|err| panic!("{method} {path}: {err}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).await
    }

    pub(crate) async fn create(&self, collection: &str, object: Value) -> Value {
        self.send("POST", collection, Some(&object)).await
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.send("PATCH", path, Some(&patch)).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, None).await;
    }

    /// Starts a controller and gives it time to list everything.
    async fn start(&self, settings: CapacitySettings) -> Controller {
        let stop = CancellationToken::new();
        let client = self.controller.clone();
        let deps = CapacityDeps { client, settings, seed: 7, stop: stop.clone() };
        let running = tokio::spawn(async move { deps.run().await.unwrap() });
        tokio::time::sleep(s(5)).await;
        Controller { stop, running }
    }

    /// Returns the number of requests of the controller with this operation.
    pub(crate) fn n_calls(&self, operation: &str) -> usize {
        let records = self.sim.ledger().records();
        let calls = records.iter().filter(|it| it.op == operation);
        calls.filter(|it| it.client.client == "controller").count()
    }
}

impl Controller {
    /// Ends the controller in order.
    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}
