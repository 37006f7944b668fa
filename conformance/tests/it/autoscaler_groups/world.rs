//! A sim whose workload cluster has the NodeGroups, and our server over its Supervisor or vCenter.

use std::cell::RefCell;
use std::sync::Arc;

use conformance::lab::autoscaler::{Empty, Groups, NodeGroup, Ours};
use provider::{NODE_GROUP_DEFINITION, NodeGroupSettings, TokenSource, authenticated};
use serde_json::{Value, json};
use sim::faults::{Action, Rule};
use sim::world::{Command, ControlPlane};
use sim::{Identity, RuleGuard, Sim};

use super::super::autoscaler_server::Server;
use super::{CLONES, GROUP, NAMESPACE, s};

pub(super) const ROLE: &str = include_str!("role.yaml");
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Name of the server in the ledger of the workload cluster.
const SERVER: &str = "nodegroups";
const TOKEN: &str = "token-of-the-server";
const ADMIN: &str = "token-of-the-test";

pub(super) struct World {
    pub(super) ours: Ours,
    test: kube::Client,
    group: &'static str,
    server: RefCell<Option<Server>>,
}

fn client(sim: &Sim, name: &'static str, token: &'static str) -> kube::Client {
    let tokens = TokenSource::new(Arc::new(move || Ok(token.as_bytes().to_vec())));
    let client = kube::Client::new(sim.cluster().service(name), "default");
    authenticated(client, Arc::new(tokens), http::HeaderValue::from_static(name))
}

/// Returns the path of the NodeGroups of a namespace.
pub(super) fn collection(namespace: &str) -> String {
    format!("/apis/vsphere.cloud-provider/v1alpha1/namespaces/{namespace}/nodegroups")
}

/// A spec of VirtualMachines.
pub(super) fn machine(min: u32, max: u32) -> Value {
    json!({"min": min, "max": max, "machine": {
        "className": "best-effort-small", "imageName": "vmi-0123456789abcdef0",
        "storageClass": "gold", "bootstrap": {"secretName": "workers-bootstrap"},
    }})
}

/// A spec of clones.
pub(super) fn clone(max: u32) -> Value {
    json!({"max": max, "clone": {
        "datacenter": "DC0", "template": "ubuntu", "folder": "/DC0/vm",
        "resourcePool": "DC0_C0/Resources", "tag": "nodes/autoscaled",
        "bootstrap": {"file": "user-data"},
    }})
}

impl World {
    /// A world without definition and role, over a Supervisor.
    pub(super) async fn bare(settings: NodeGroupSettings) -> Self {
        let ours = Ours::start_later(String::new(), 1, false).await.unwrap();
        Self::with(ours, settings, GROUP)
    }

    /// A world with definition and role, over a Supervisor. The server is not started.
    pub(super) async fn new() -> Self {
        let world = Self::bare(NodeGroupSettings::default()).await;
        world.define().await;
        world.grant(ROLE).await;
        world
    }

    /// The same over a vCenter.
    pub(super) async fn of_clones() -> Self {
        let ours = Ours::over_vcenter(String::new(), 1, false).unwrap();
        let settings = NodeGroupSettings {
            bootstrap_directory: Some("/bootstrap".into()),
            ..NodeGroupSettings::default()
        };
        let world = Self::with(ours, settings, CLONES);
        world.define().await;
        world.grant(ROLE).await;
        world
    }

    fn with(ours: Ours, settings: NodeGroupSettings, group: &'static str) -> Self {
        let sim = ours.sim();
        let groups = vec!["system:authenticated".into()];
        sim.tokens().issue(TOKEN, Identity { user: "autoscaler".into(), groups }, None);
        sim.tokens().issue(ADMIN, Identity::admin(), None);
        sim.access().require_rbac();
        let (server, test) = (client(sim, SERVER, TOKEN), client(sim, "test", ADMIN));
        let ours = ours.with_objects(server, settings);
        Self { ours, test, group, server: RefCell::new(None) }
    }

    pub(super) async fn define(&self) {
        let definition: Value = serde_saphyr::from_str(NODE_GROUP_DEFINITION).unwrap();
        self.send("POST", DEFINITIONS, Some(&definition)).await.unwrap();
    }

    /// Gives the server a role.
    pub(super) async fn grant(&self, role: &str) {
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        let role: Value = serde_saphyr::from_str(role).unwrap();
        let (name, group) = (&role["metadata"]["name"], "rbac.authorization.k8s.io");
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "autoscaler"}],
        });
        self.send("POST", &format!("{roles}/clusterroles"), Some(&role)).await.unwrap();
        self.send("POST", &format!("{roles}/clusterrolebindings"), Some(&binding)).await.unwrap();
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).body(body).unwrap();
        self.test.request::<Value>(request).await.map_err(|err| err.to_string())
    }

    /// Creates a NodeGroup, if the API server accepts it.
    pub(super) async fn try_create(
        &self,
        namespace: &str,
        name: &str,
        spec: Value,
    ) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "vsphere.cloud-provider/v1alpha1", "kind": "NodeGroup",
            "metadata": {"name": name}, "spec": spec,
        });
        self.send("POST", &collection(namespace), Some(&object)).await
    }

    pub(super) async fn create(&self, name: &str, spec: Value) {
        self.try_create(NAMESPACE, name, spec).await.unwrap();
    }

    pub(super) async fn create_namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.send("POST", "/api/v1/namespaces", Some(&object)).await.unwrap();
    }

    pub(super) async fn patch(&self, name: &str, patch: Value) {
        let path = format!("{}/{name}", collection(NAMESPACE));
        self.send("PATCH", &path, Some(&patch)).await.unwrap();
    }

    pub(super) async fn delete(&self, name: &str) {
        let path = format!("{}/{name}", collection(NAMESPACE));
        self.send("DELETE", &path, None).await.unwrap();
    }

    pub(super) async fn object(&self, namespace: &str, name: &str) -> Value {
        self.send("GET", &format!("{}/{name}", collection(namespace)), None).await.unwrap()
    }

    pub(super) async fn status(&self, name: &str) -> Value {
        self.object(NAMESPACE, name).await["status"].clone()
    }

    /// Returns status, reason and message of the condition `Accepted`.
    pub(super) async fn accepted(&self, namespace: &str, name: &str) -> [String; 3] {
        let object = self.object(namespace, name).await;
        let condition = &object["status"]["conditions"][0];
        ["status", "reason", "message"].map(|key| condition[key].as_str().unwrap_or("").to_owned())
    }

    /// Returns the rows of a list as kubectl shows them, without the age, in order.
    pub(super) async fn table(&self) -> Vec<String> {
        let request = http::Request::get(collection(NAMESPACE))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table: Value = self.test.request(request.body(Vec::new()).unwrap()).await.unwrap();
        let text = |it: &Value| match it {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let columns = table["columnDefinitions"].as_array().unwrap();
        let names: Vec<String> = columns.iter().map(|it| text(&it["name"])).collect();
        let row = |it: &Value| {
            let cells = it["cells"].as_array().unwrap();
            let cells: Vec<String> = cells[..cells.len() - 1].iter().map(text).collect();
            cells.join(" ")
        };
        let rows = table["rows"].as_array().unwrap().iter().map(row);
        std::iter::once(names.join(" ")).chain(rows).collect()
    }

    /// Starts a process of the server.
    pub(super) async fn start(&self) {
        let server = Server::started(&self.ours, self.group, 1).await;
        *self.server.borrow_mut() = Some(server);
    }

    /// Kills the process.
    pub(super) fn kill(&self) {
        self.ours.kill();
        self.server.take();
    }

    /// Returns the connection to the process.
    pub(super) async fn server(&self) -> Server {
        Server::connected(&self.ours, self.group).await
    }

    /// Refreshes, and gives the server time to apply what it knows and to write statuses.
    pub(super) async fn settle(&self) {
        for _ in 0..3 {
            drop(self.refresh().await);
            tokio::time::sleep(s(10)).await;
        }
    }

    pub(super) async fn refresh(&self) -> Result<(), (i32, String)> {
        let result = self.server().await.try_call::<Empty>("Refresh", Empty {}).await;
        result.map(drop).map_err(|err| (err.code, err.to_string()))
    }

    /// Returns ID, minimum and maximum of the listed groups.
    pub(super) async fn groups(&self) -> Vec<(String, i32, i32)> {
        let answer = self.server().await.call::<Groups>("NodeGroups", Empty {}).await;
        let shown = |it: NodeGroup| (it.id, it.min_size, it.max_size);
        answer.groups.into_iter().map(shown).collect()
    }

    /// Returns the IDs of the listed groups.
    pub(super) async fn ids(&self) -> Vec<String> {
        self.groups().await.into_iter().map(|it| it.0).collect()
    }

    /// Returns the number of requests of the server with this operation.
    pub(super) fn n_calls(&self, operation: &str) -> usize {
        let records = self.ours.sim().ledger().records();
        let calls = records.iter().filter(|it| it.client.client == SERVER);
        calls.filter(|it| it.op == operation).count()
    }

    /// Adds a rule for requests of the server to the workload cluster.
    pub(super) fn fault(&self, action: Action, operations: &[&'static str]) -> RuleGuard {
        let rule = Rule::new("fault", [action]).op(operations.iter().copied()).client(SERVER);
        self.ours.sim().fault(rule).unwrap()
    }

    /// Ends all watches of the workload cluster.
    pub(super) fn end_watches(&self) {
        let plane = ControlPlane::Workload;
        self.ours.sim().apply(Command::EndWatches { plane }).unwrap();
    }

    /// Returns the events about NodeGroups as `TYPE REASON NAMESPACE/NAME COUNT: MESSAGE`, in order.
    pub(super) async fn events(&self) -> Vec<String> {
        let list = self.send("GET", "/api/v1/events", None).await.unwrap();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let shown = |it: &Value| {
            let about = &it["involvedObject"];
            assert_eq!(about["apiVersion"], "vsphere.cloud-provider/v1alpha1");
            format!(
                "{} {} {}/{} {}: {}",
                text(&it["type"]),
                text(&it["reason"]),
                text(&about["namespace"]),
                text(&about["name"]),
                it["count"],
                text(&it["message"])
            )
        };
        let of_groups = list["items"].as_array().unwrap().iter();
        let of_groups = of_groups.filter(|it| it["involvedObject"]["kind"] == "NodeGroup");
        let mut events: Vec<String> = of_groups.map(shown).collect();
        events.sort();
        events
    }
}
