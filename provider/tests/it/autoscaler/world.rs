//! A management cluster with short definitions of the kinds of Cluster API. The test plays the
//! controllers of Cluster API: [`World::reconcile`] does what they would do at once.

use std::{
    cell::Cell,
    io,
    sync::{Arc, Mutex},
};

use provider::{AutoscalerBackend, AutoscalerDeps, Clock, ClusterApiSettings, Listener, Telemetry};
use serde_json::{Value, json};
use sim::{
    RuleGuard,
    faults::{Action, Rule},
};
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::client::Channel;
use crate::capacity::{Management, s};

pub(super) const NAMESPACE: &str = "workloads";
pub(super) const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
pub(super) const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
pub(super) const MARK: &str = "cluster.x-k8s.io/delete-machine";
pub(super) const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";
const INFRASTRUCTURE: &str = "vmware.infrastructure.cluster.x-k8s.io";
const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// Returns the path of the objects of a resource of Cluster API in a namespace.
pub(super) fn collection(namespace: &str, resource: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/{resource}")
}

pub(super) fn deployment(name: &str) -> String {
    format!("{}/{name}", collection(NAMESPACE, "machinedeployments"))
}

pub(super) fn machine(name: &str) -> String {
    format!("{}/{name}", collection(NAMESPACE, "machines"))
}

pub(super) fn infrastructure(resource: &str) -> String {
    format!("/apis/{INFRASTRUCTURE}/v1beta2/namespaces/{NAMESPACE}/{resource}")
}

/// The management cluster.
pub(super) struct World {
    pub(super) management: Management,
    n_machines: Cell<usize>,
}

impl World {
    pub(super) async fn new() -> Self {
        let management = Management::new(include_str!("role.yaml")).await;
        let all: Vec<Value> = serde_saphyr::from_str(include_str!("definitions.yaml")).unwrap();
        for definition in all {
            management.install(definition).await;
        }
        Self::over(management)
    }

    pub(super) fn over(management: Management) -> Self {
        Self { management, n_machines: Cell::new(0) }
    }

    /// A cluster with one MachineDeployment `workers` of 0 to 5 machines, and this many of them.
    pub(super) async fn with_workers(n_machines: u32) -> Self {
        let world = Self::new().await;
        world.create_deployment(NAMESPACE, "workers", &annotations(0, 5), n_machines).await;
        world.reconcile().await;
        world
    }

    pub(super) async fn create_deployment(
        &self,
        namespace: &str,
        name: &str,
        annotations: &Value,
        replicas: u32,
    ) {
        let reference =
            json!({"apiGroup": INFRASTRUCTURE, "kind": "VSphereMachineTemplate", "name": name});
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": name, "annotations": annotations,
                "labels": {"cluster.x-k8s.io/cluster-name": "blue"}},
            "spec": {"clusterName": "blue", "replicas": replicas,
                "template": {"spec": {"infrastructureRef": reference}}},
        });
        self.management.create(&collection(namespace, "machinedeployments"), object).await;
    }

    pub(super) async fn create_namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.management.create("/api/v1/namespaces", object).await;
    }

    pub(super) async fn objects(&self, namespace: &str, resource: &str) -> Vec<Value> {
        let list = self.management.get(&collection(namespace, resource)).await;
        list["items"].as_array().unwrap().clone()
    }

    /// Returns the names of the Machines that are not being deleted.
    pub(super) async fn machines(&self) -> Vec<String> {
        let all = self.objects(NAMESPACE, "machines").await;
        let alive = all.iter().filter(|it| it["metadata"]["deletionTimestamp"].is_null());
        alive.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) async fn replicas(&self, name: &str) -> u64 {
        self.management.get(&deployment(name)).await["spec"]["replicas"]
            .as_u64()
            .unwrap_or_default()
    }

    /// Plays the controllers of MachineDeployments, MachineSets and Machines once, in the namespace of
    /// the workloads, and gives the server time to see it.
    pub(super) async fn reconcile(&self) {
        for deployment in self.objects(NAMESPACE, "machinedeployments").await {
            self.reconcile_deployment(&deployment).await;
        }
        for set in self.objects(NAMESPACE, "machinesets").await {
            self.reconcile_set(&set).await;
        }
        for deleted in self.objects(NAMESPACE, "machines").await {
            if deleted["metadata"]["deletionTimestamp"].is_string() {
                let path = machine(deleted["metadata"]["name"].as_str().unwrap());
                self.management.patch(&path, json!({"metadata": {"finalizers": null}})).await;
            }
        }
        tokio::time::sleep(s(1)).await;
    }

    async fn reconcile_deployment(&self, deployment: &Value) {
        let (name, uid) = (&deployment["metadata"]["name"], &deployment["metadata"]["uid"]);
        let sets = self.objects(NAMESPACE, "machinesets").await;
        let mut owned =
            sets.iter().filter(|it| it["metadata"]["ownerReferences"][0]["uid"] == *uid);
        let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or_default();
        match owned.next() {
            Some(set) if owned.next().is_none() => {
                let name = set["metadata"]["name"].as_str().unwrap();
                let path = format!("{}/{name}", collection(NAMESPACE, "machinesets"));
                self.management.patch(&path, json!({"spec": {"replicas": replicas}})).await;
            }
            // The test plays roll-outs itself.
            Some(_) => {}
            None => {
                let name = name.as_str().unwrap();
                self.create_set(&format!("{name}-a"), Some((name, uid)), replicas, &json!({}))
                    .await;
            }
        }
    }

    pub(super) async fn create_set(
        &self,
        name: &str,
        owner: Option<(&str, &Value)>,
        replicas: u64,
        annotations: &Value,
    ) {
        let owners = owner.map(|(name, uid)| {
            json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
                "name": name, "uid": uid, "controller": true}])
        });
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": name, "ownerReferences": owners, "annotations": annotations,
                "labels": {"cluster.x-k8s.io/cluster-name": "blue"}},
            "spec": {"clusterName": "blue", "replicas": replicas},
        });
        self.management.create(&collection(NAMESPACE, "machinesets"), object).await;
    }

    /// Deletes the Machines that are too many: those in deletion count first, then the marked ones,
    /// then those without Node, then the oldest. Creates the missing ones.
    async fn reconcile_set(&self, set: &Value) {
        let uid = &set["metadata"]["uid"];
        let mut machines = self.objects(NAMESPACE, "machines").await;
        machines.retain(|it| it["metadata"]["ownerReferences"][0]["uid"] == *uid);
        let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
        machines.sort_by_key(|it| {
            let metadata = &it["metadata"];
            let priority = match () {
                () if metadata["deletionTimestamp"].is_string() => 0,
                () if metadata["annotations"].get(MARK).is_some() => 1,
                () if it["status"]["nodeRef"].is_null() => 2,
                () => 3,
            };
            (priority, name(it))
        });
        let wanted = usize::try_from(set["spec"]["replicas"].as_u64().unwrap_or_default()).unwrap();
        for it in machines.iter().take(machines.len().saturating_sub(wanted)) {
            if it["metadata"]["deletionTimestamp"].is_null() {
                self.management.delete(&machine(&name(it))).await;
            }
        }
        for _ in machines.len()..wanted {
            self.create_machine(set).await;
        }
    }

    async fn create_machine(&self, set: &Value) {
        let n = self.n_machines.get();
        self.n_machines.set(n + 1);
        let name = format!("m-{n}");
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "VSphereMachine", "name": name});
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "finalizers": [FINALIZER],
                "labels": {"cluster.x-k8s.io/cluster-name": "blue"},
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
                    "name": set["metadata"]["name"], "uid": set["metadata"]["uid"],
                    "controller": true}]},
            "spec": {"clusterName": "blue", "infrastructureRef": reference},
        });
        self.management.create(&collection(NAMESPACE, "machines"), object).await;
    }

    /// Has these Machines become Nodes.
    pub(super) async fn boot(&self, names: &[&str]) {
        for name in names {
            let id = json!({"spec": {"providerID": id(name)}});
            self.management.patch(&machine(name), id).await;
            let status = json!({"status": {"phase": "Running", "nodeRef": {"name": name}}});
            self.management.patch(&format!("{}/status", machine(name)), status).await;
        }
        tokio::time::sleep(s(1)).await;
    }

    /// Adds a rule for the requests of the server with this operation.
    pub(super) fn fault(&self, actions: Action, operation: &str, first: u64) -> RuleGuard {
        let rule = Rule::new(format!("fault {operation}"), [actions])
            .op([operation])
            .client("controller")
            .first(first);
        self.management.sim.fault(rule).unwrap()
    }

    /// Adds a rule by which the next request of the server with this operation takes effect, although
    /// the action replaces its answer.
    pub(super) fn fault_applied(&self, action: Action, operation: &str) -> RuleGuard {
        let rule = Rule::new("applied", [action]).op([operation]).client("controller").first(1);
        self.management.sim.fault(rule.applied()).unwrap()
    }

    /// Adds a rule for the requests of the server with this operation from the `first` to the `last`.
    pub(super) fn fault_between(
        &self,
        action: Action,
        operation: &str,
        first: u64,
        last: u64,
    ) -> RuleGuard {
        let rule = Rule::new("between", [action]).op([operation]).client("controller");
        self.management.sim.fault(rule.nth_range(first, last)).unwrap()
    }

    /// Adds a rule for the requests of the server with this operation after this number of them.
    pub(super) fn fault_after(&self, action: Action, operation: &str, after: u64) -> RuleGuard {
        let rule = Rule::new("later", [action]).op([operation]).client("controller").after(after);
        self.management.sim.fault(rule).unwrap()
    }

    /// Keeps changes of a resource from the server for a minute.
    pub(super) async fn delay_watch(&self, resource: &str) -> RuleGuard {
        let slow = self.fault(Action::WatchDelay(s(60)), &format!("watch {resource}"), 1000);
        let plane = sim::world::ControlPlane::Workload;
        let end = sim::world::Command::EndWatches { plane };
        self.management.sim.apply(end).unwrap();
        tokio::time::sleep(s(5)).await;
        slow
    }

    pub(super) async fn start(&self) -> Server {
        self.start_with(ClusterApiSettings::default()).await
    }

    /// Starts a process of the server, and gives it time to list everything.
    pub(super) async fn start_with(&self, settings: ClusterApiSettings) -> Server {
        self.start_within(settings, s(5)).await
    }

    /// Starts a process of the server, and gives it this time.
    pub(super) async fn start_for(&self, time: std::time::Duration) -> Server {
        self.start_within(ClusterApiSettings::default(), time).await
    }

    async fn start_within(
        &self,
        settings: ClusterApiSettings,
        time: std::time::Duration,
    ) -> Server {
        let deps = AutoscalerDeps {
            backend: AutoscalerBackend::ClusterApi {
                client: self.management.controller.clone(),
                settings,
            },
            groups: None,
            tls: None,
            gpu_label: String::new(),
            telemetry: Arc::new(Telemetry::of_autoscaler()),
            clock: Clock::starting_at(sim::VIRTUAL_EPOCH),
            seed: 7,
            grace: AutoscalerDeps::GRACE,
            stop: CancellationToken::new(),
        };
        Server::started(deps, time).await
    }
}

/// Returns the provider ID of a Machine.
pub(super) fn id(name: &str) -> String {
    format!("vsphere://42290000-0000-4000-8000-{:0>12}", name.trim_start_matches("m-"))
}

/// Returns the annotations of a group of this size, whose machines have 2 CPUs and 4 GiB.
pub(super) fn annotations(min: u32, max: u32) -> Value {
    let mut annotations = json!({MIN: min.to_string(), MAX: max.to_string()});
    annotations[format!("{CAPACITY}/cpu")] = "2".into();
    annotations[format!("{CAPACITY}/memory")] = "4Gi".into();
    annotations
}

/// A process of the server, and a connection to it.
pub(super) struct Server {
    pub(super) channel: Channel,
    pub(super) telemetry: Arc<Telemetry>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    _pipes: Mutex<mpsc::UnboundedSender<DuplexStream>>,
}

impl Server {
    /// Starts a process of the server, and gives it this time.
    pub(super) async fn started(deps: AutoscalerDeps, time: std::time::Duration) -> Self {
        let (stop, telemetry) = (deps.stop.clone(), Arc::clone(&deps.telemetry));
        let server = deps.prepare().unwrap();
        let (pipes, accepted) = mpsc::unbounded_channel();
        let running = tokio::spawn(async move { server.serve(Pipes(accepted)).await.unwrap() });
        tokio::time::sleep(time).await;
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        pipes.send(theirs).unwrap();
        let channel = Channel::open(ours).await;
        Self { channel, telemetry, stop, running, _pipes: Mutex::new(pipes) }
    }

    /// Ends the process in order.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }

    /// Kills the process.
    pub(super) async fn kill(self) {
        self.running.abort();
        drop(self.running.await);
    }
}

/// Connections to the server.
struct Pipes(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Pipes {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(pipe) => Ok(pipe),
            None => std::future::pending().await,
        }
    }
}
