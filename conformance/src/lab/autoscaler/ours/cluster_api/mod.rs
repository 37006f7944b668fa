//! Our server over Cluster API: a management cluster in a sim, whose controllers the lab plays.

mod controllers;
mod objects;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use provider::{AutoscalerBackend, ClusterApiSettings, TokenSource, authenticated};
use serde_json::{Value, json};
use sim::faults::{Action, KubeStatus, Rule};
use sim::world::{Command, ControlPlane};
use sim::{Face, Identity, Sim};
use tokio_util::task::AbortOnDropHandle;

use self::controllers::{Behavior, Controllers};
use self::objects::{API_VERSION, CLUSTER, CLUSTER_LABEL, INFRASTRUCTURE, collection, path};
use super::super::subject::{Act, ActError};
use crate::lab::capacity::Api;

const ADMIN: &str = "token-of-the-lab";
const NAMESPACE: &str = objects::NAMESPACE;
const SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group";
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";
const UNNEEDED: &str = "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime";

/// A group of machines: a MachineDeployment whose machines have 2 CPUs and 4 GiB.
#[derive(Clone, Debug)]
pub struct MachineDeployment {
    name: &'static str,
    annotations: Value,
}

impl MachineDeployment {
    /// Returns an empty group of at least `min` and at most `max` machines.
    pub fn new(name: &'static str, min: u32, max: u32) -> Self {
        let mut annotations = json!({});
        annotations[format!("{SIZE}-min-size")] = min.to_string().into();
        annotations[format!("{SIZE}-max-size")] = max.to_string().into();
        annotations[format!("{CAPACITY}/cpu")] = "2".into();
        annotations[format!("{CAPACITY}/memory")] = "4Gi".into();
        Self { name, annotations }
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations[key] = value.into();
        self
    }

    /// The groups of the checks.
    pub(super) fn for_checks() -> Vec<Self> {
        vec![
            Self::new("pool", 0, 60),
            Self::new("pair", 1, 3),
            Self::new("gpu", 0, 2)
                .annotated(&format!("{CAPACITY}/gpu-count"), "1")
                .annotated(&format!("{CAPACITY}/gpu-type"), "nvidia.com/gpu")
                // The Nodes of a MachineDeployment have the labels that its owner gives them.
                .annotated(&format!("{CAPACITY}/labels"), &format!("{}=a100", super::GPU_LABEL)),
            Self::new("tuned", 0, 2).annotated(UNNEEDED, "77s"),
        ]
    }

    fn object(&self) -> Value {
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "VSphereMachineTemplate",
            "name": self.name});
        json!({
            "apiVersion": API_VERSION, "kind": "MachineDeployment",
            "metadata": {"name": self.name, "annotations": self.annotations,
                "labels": {CLUSTER_LABEL: CLUSTER}},
            "spec": {"clusterName": CLUSTER, "replicas": 0,
                "template": {"spec": {"infrastructureRef": reference}}},
        })
    }
}

/// A management cluster with controllers. Clones share both.
#[derive(Clone)]
pub(super) struct ManagementCluster {
    sim: Arc<Sim>,
    api: Api,
    behavior: Arc<Mutex<Behavior>>,
    _controllers: Arc<AbortOnDropHandle<()>>,
}

impl ManagementCluster {
    /// Installs the kinds and the groups, and starts the controllers, which look at them at this
    /// interval.
    ///
    /// # Errors
    ///
    /// If the API server refuses an object.
    pub(super) async fn new(
        sim: &Arc<Sim>,
        groups: &[MachineDeployment],
        interval: Duration,
    ) -> Result<Self, String> {
        sim.tokens().issue(ADMIN, Identity::admin(), None);
        let api = Api::new(client(sim, "lab"));
        let definitions = include_str!("definitions.yaml");
        let definitions: Vec<Value> =
            serde_saphyr::from_str(definitions).map_err(|err| err.to_string())?;
        for mut definition in definitions {
            definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
            definition["kind"] = "CustomResourceDefinition".into();
            create(&api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)
                .await?;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        create(&api, "/api/v1/namespaces", &namespace).await?;
        for group in groups {
            create(&api, &collection("machinedeployments"), &group.object()).await?;
        }
        let behavior = Arc::new(Mutex::new(Behavior::default()));
        let controllers =
            Controllers::new(Arc::clone(sim), api.clone(), Arc::clone(&behavior), interval);
        let controllers = Arc::new(AbortOnDropHandle::new(tokio::spawn(controllers.run())));
        Ok(Self { sim: Arc::clone(sim), api, behavior, _controllers: controllers })
    }

    /// Returns the backend of a process of the server.
    pub(super) fn backend(&self) -> AutoscalerBackend {
        let client = client(&self.sim, super::AGENT);
        AutoscalerBackend::ClusterApi { client, settings: ClusterApiSettings::default() }
    }

    /// Returns the rule that answers these requests of the server with 403.
    fn refusal(operation: &str) -> Rule {
        let refusal = Action::KubeStatus(KubeStatus::new(403));
        Rule::new("refused", [refusal]).on(Face::Cluster).op([operation])
    }

    /// Carries out an act. Returns a rule that must last until it is released, if the act needs one.
    pub(super) async fn act(&self, act: &Act) -> Result<Option<Rule>, ActError> {
        let change = |change: fn(&mut Behavior)| {
            change(&mut self.behavior.lock().expect("no holder panics"));
            Ok(None)
        };
        match act {
            Act::RefuseCreations => Ok(Some(Self::refusal("patch machinedeployments/scale"))),
            // A Machine of Cluster API does not say whether capacity was the reason.
            Act::ExhaustCapacity => Err(ActError::NotSupported(act.as_str())),
            Act::BreakConfiguration => change(|it| it.fails = true),
            Act::HoldCreations => change(|it| it.provisions = false),
            Act::SlowDeletions => change(|it| it.deletes = false),
            Act::Release => change(|it| *it = Behavior::default()),
            Act::DestroyMachine(id) => {
                self.destroy(id).await.map_err(ActError::Failed).map(|()| None)
            }
            Act::StopBackend => {
                let end = Command::EndWatches { plane: ControlPlane::Workload };
                self.sim.apply(end).map_err(|err| ActError::Failed(format!("{err:?}")))?;
                let down = Rule::new("down", [Action::Reset]).on(Face::Cluster);
                Ok(Some(down.user_agent(super::AGENT)))
            }
            Act::StartBackend | Act::Restart => Ok(None),
        }
    }

    /// Deletes the Machine of an instance.
    async fn destroy(&self, id: &str) -> Result<(), String> {
        let found = objects::all(&self.sim, "machines").into_iter();
        let name =
            found.filter(|it| it["spec"]["providerID"] == id).find_map(|it| objects::name(&it));
        let name = name.ok_or_else(|| format!("no Machine has the ID {id}"))?;
        self.api.delete(&path("machines", &name)).await.map_err(|err| err.to_string())
    }
}

/// Returns the provider IDs of the Machines that are Nodes, in order, and the number of all Machines.
pub fn cluster_api_machines(sim: &Sim) -> (Vec<String>, usize) {
    let all = objects::all(sim, "machines");
    let nodes = all.iter().filter(|it| objects::is_node(it) && !objects::is_deleted(it));
    let ids = nodes.filter_map(|it| it["spec"]["providerID"].as_str());
    let mut ids: Vec<String> = ids.map(str::to_owned).collect();
    ids.sort();
    (ids, all.len())
}

async fn create(api: &Api, collection: &str, object: &Value) -> Result<(), String> {
    api.create(collection, object).await.map(drop).map_err(|err| err.to_string())
}

/// Returns a client of the management cluster with every permission and this user agent.
fn client(sim: &Sim, agent: &'static str) -> kube::Client {
    let tokens = TokenSource::new(Arc::new(|| Ok(ADMIN.as_bytes().to_vec())));
    let client = kube::Client::new(sim.cluster().service(agent), NAMESPACE);
    authenticated(client, Arc::new(tokens), http::HeaderValue::from_static(agent))
}
