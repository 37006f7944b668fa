//! A sim whose API server is the management cluster of Cluster API.

use std::sync::Arc;
use std::time::Duration;

use provider::{TokenSource, authenticated};
use serde_json::{Value, json};
use sim::faults::{Action, KubeStatus, Rule};
use sim::ledger::Record;
use sim::world::Topology;
use sim::{Face, Identity, RuleGuard, Sim};

use super::api::Api;
use super::definitions::{Definitions, ObjectRef};
use super::subject::{Server, TemplateKind};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ADMIN: &str = "token-of-the-lab";
/// Label of the reconciler's calls in the ledger.
const RECONCILER: &str = "reconciler";
/// Name of the rule of a check.
const RULE: &str = "capacity";

/// A sim whose API server is the management cluster of Cluster API, with the kinds of a subject.
pub struct Management {
    sim: Sim,
    server: Server,
    definitions: Definitions,
    /// Client of the lab.
    pub api: Api,
}

impl Management {
    /// Namespace of the objects of checks.
    pub const NAMESPACE: &'static str = "workloads";
    /// Another namespace.
    pub const OTHER: &'static str = "other";

    /// Starts a sim, and installs the kinds and the namespaces.
    ///
    /// # Errors
    ///
    /// If the API server refuses one of them.
    pub async fn new(kind: &TemplateKind, seed: u64) -> Result<Self, String> {
        let topology = Topology::zones(1).machines(0);
        let topology = match kind.server {
            Server::Supervisor => topology.supervisor(),
            Server::Cluster => topology,
        };
        let sim = Sim::builder().topology(topology).seed(seed).start();
        sim.tokens().issue(ADMIN, Identity::admin(), None);
        let api = Api::new(client(&sim, kind.server, "lab")?);
        let definitions = kind.definitions.clone();
        let management = Self { sim, server: kind.server, definitions, api };
        for definition in &management.definitions.0 {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let created = management.api.create(DEFINITIONS, definition).await;
            created.map_err(|err| format!("{name}: {err}"))?;
        }
        for name in [Self::NAMESPACE, Self::OTHER] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            match management.api.create("/api/v1/namespaces", &namespace).await {
                // The Supervisor has the first one.
                Err(err) if !err.is_conflict() => return Err(err.to_string()),
                _ => {}
            }
        }
        Ok(management)
    }

    /// Returns the sim.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Returns a client for the reconciler, with every permission.
    ///
    /// # Errors
    ///
    /// If the sim has no such server.
    pub fn reconciler_client(&self) -> Result<kube::Client, String> {
        client(&self.sim, self.server, RECONCILER)
    }

    /// Returns the label under which the ledger must list the calls of the reconciler.
    pub const fn reconciler_label() -> &'static str {
        RECONCILER
    }

    /// Returns where an object of this content is.
    pub fn object(&self, content: &Value) -> ObjectRef {
        self.definitions.object(content, Self::NAMESPACE)
    }

    /// Creates an object. Writes its `status`, if any, through the subresource.
    ///
    /// # Errors
    ///
    /// If the API server refuses a request.
    pub async fn create(&self, content: &Value) -> Result<ObjectRef, String> {
        let object = self.object(content);
        let created = self.api.create(object.collection(), content).await;
        created.map_err(|err| err.to_string())?;
        if let Some(status) = content.get("status") {
            let patch = json!({"status": status});
            self.api.patch(&object.status(), &patch).await.map_err(|err| err.to_string())?;
        }
        Ok(object)
    }

    /// Returns all calls of the reconciler.
    pub fn calls(&self) -> Vec<Record> {
        let records = self.sim.ledger().records();
        records.into_iter().filter(|it| it.client.client == RECONCILER).collect()
    }

    /// Returns the reconciler's writes to an object or its status.
    pub fn writes(&self, object: &ObjectRef) -> Vec<Record> {
        let is_write = |record: &Record| {
            let Some((verb, resource)) = record.op.split_once(' ') else { return false };
            let resource = resource.split('/').next().unwrap_or(resource);
            !["get", "list", "watch"].contains(&verb)
                && resource == object.resource
                && record.target.name.as_ref() == Some(&object.name)
        };
        let mut calls = self.calls();
        calls.retain(is_write);
        calls
    }

    /// True if the reconciler has read objects of this resource: one, a list, or by a watch.
    pub fn has_read(&self, object: &ObjectRef) -> bool {
        let is_read = |record: &Record| match record.op.split_once(' ') {
            Some(("watch", resource)) => resource == object.resource,
            Some(("get" | "list", resource)) => {
                let status = record.ended.as_ref().and_then(|it| it.status);
                resource == object.resource && status == Some(200)
            }
            _ => false,
        };
        self.calls().iter().any(is_read)
    }

    /// Returns the operations that write the status of objects like this one.
    fn status_writes(&self, object: &ObjectRef) -> [String; 3] {
        let suffix = if self.definitions.has_status(object) { "/status" } else { "" };
        ["patch", "update", "apply"].map(|verb| format!("{verb} {}{suffix}", object.resource))
    }

    /// Returns the first write that [`Self::hold_first_write`] holds up, if it is to this object.
    pub fn held_write(&self, object: &ObjectRef) -> Option<Record> {
        let ops = self.status_writes(object);
        self.writes(object).into_iter().find(|it| ops.contains(&it.op))
    }

    /// Holds up the reconciler's first write of the status of an object like this one, until the
    /// guard is dropped. A kind without the subresource has its status in the object itself.
    ///
    /// # Errors
    ///
    /// If the rule is invalid.
    pub fn hold_first_write(
        &self,
        object: &ObjectRef,
        hold: Duration,
    ) -> Result<RuleGuard, String> {
        let ops = self.status_writes(object);
        let ops: Vec<&str> = ops.iter().map(String::as_str).collect();
        self.fault(Rule::new(RULE, [Action::Delay(hold)]).op(ops).first(1))
    }

    /// Answers these operations of the reconciler with an error, until the guard is dropped.
    ///
    /// # Errors
    ///
    /// If the rule is invalid.
    pub fn refuse(&self, ops: &[&str], status: u16) -> Result<RuleGuard, String> {
        let refusal = Action::KubeStatus(KubeStatus::new(status));
        self.fault(Rule::new(RULE, [refusal]).op(ops.iter().copied()))
    }

    fn fault(&self, rule: Rule) -> Result<RuleGuard, String> {
        let face = match self.server {
            Server::Supervisor => Face::Supervisor,
            Server::Cluster => Face::Cluster,
        };
        self.sim.fault(rule.on(face).client(RECONCILER)).map_err(|err| err.to_string())
    }

    /// Returns how often the rule of a check took effect.
    pub fn n_fired(&self) -> u64 {
        self.sim.faults().fired(RULE)
    }
}

fn client(sim: &Sim, server: Server, label: &str) -> Result<kube::Client, String> {
    let (service, token) = match server {
        Server::Cluster => (sim.cluster().service(label), ADMIN.to_owned()),
        Server::Supervisor => {
            let supervisor = sim.supervisor().ok_or("the sim has no Supervisor")?;
            (supervisor.server().service(label), supervisor.admin_token().to_owned())
        }
    };
    let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
    let client = kube::Client::new(service, Management::NAMESPACE);
    let agent = http::HeaderValue::from_static("conformance");
    Ok(authenticated(client, Arc::new(tokens), agent))
}
