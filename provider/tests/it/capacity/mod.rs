//! Tests of `provider capacity` against the API servers of the simulator, in virtual time. The
//! numbers CAPZ-… are those of `SPECIFICATION.md`.

mod kinds;
mod process;
mod supervisor;
mod vcenter;

use std::{sync::Arc, time::Duration};

use provider::{CapacityDeps, CapacitySettings, TokenSource, authenticated};
use serde_json::{Value, json};
use sim::{Sim, world::Topology};
use tokio_util::sync::CancellationToken;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACE: &str = "workloads";

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The management cluster, of which the controller and the test are clients.
struct Management {
    sim: Sim,
    controller: kube::Client,
    test: kube::Client,
}

/// A running controller.
struct Controller {
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Management {
    /// A Supervisor with the definitions of these kinds.
    async fn supervisor(kinds: &[&str]) -> Self {
        let sim = Sim::builder().topology(Topology::zones(1).machines(0).supervisor()).start();
        let (controller, test) = {
            let supervisor = sim.supervisor().unwrap();
            let client = |name: &str| {
                let service = supervisor.server().service(name);
                let token = supervisor.admin_token().to_owned();
                let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
                let agent = http::HeaderValue::from_str(name).unwrap();
                authenticated(kube::Client::new(service, NAMESPACE), Arc::new(tokens), agent)
            };
            (client("controller"), client("test"))
        };
        let management = Self { sim, controller, test };
        management.define(kinds).await;
        management
    }

    /// A cluster without VM Operator and with the definitions of these kinds.
    async fn cluster(kinds: &[&str]) -> Self {
        let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
        let client = |name: &str| kube::Client::new(sim.cluster().service(name), NAMESPACE);
        let (controller, test) = (client("controller"), client("test"));
        let management = Self { sim, controller, test };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        management.create("/api/v1/namespaces", namespace).await;
        management.define(kinds).await;
        management
    }

    /// Installs the definitions of kinds, by the names of the definitions.
    async fn define(&self, kinds: &[&str]) {
        let all: Vec<Value> = serde_saphyr::from_str(include_str!("definitions.yaml")).unwrap();
        for name in kinds {
            let mut definition =
                all.iter().find(|it| it["metadata"]["name"] == *name).unwrap().clone();
            definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
            definition["kind"] = "CustomResourceDefinition".into();
            self.create(DEFINITIONS, definition).await;
        }
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

    async fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).await
    }

    async fn create(&self, collection: &str, object: Value) -> Value {
        self.send("POST", collection, Some(&object)).await
    }

    async fn patch(&self, path: &str, patch: Value) -> Value {
        self.send("PATCH", path, Some(&patch)).await
    }

    async fn delete(&self, path: &str) {
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
    fn n_calls(&self, operation: &str) -> usize {
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
