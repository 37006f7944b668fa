//! Our server over the Supervisor of a sim: groups, requests of the lab, and acts.

use std::sync::Arc;

use provider::{TokenSource, authenticated};
use serde_json::{Value, json};
use sim::faults::{Action, KubeStatus, Rule};
use sim::world::supervisor::OperatorChange;
use sim::world::{Command, ControlPlane};

use super::super::subject::Act;
use super::Ours;

const ZONE: &str = "/apis/topology.tanzu.vmware.com/v1alpha1/availabilityzones/zone-a";
pub(super) const SECRETS: &str = "/api/v1/namespaces/workloads/secrets";
const BOOTSTRAP: &str = "/api/v1/namespaces/workloads/secrets/workers-bootstrap";

/// Groups for the checks: one with room, one with a minimum, one with GPUs, and one that overrides a
/// setting.
pub(super) const GROUPS: &str = "groups:
- name: pool
  max: 60
  machine: &machine
    className: best-effort-small
    imageName: vmi-0123456789abcdef0
    storageClass: gold
    zone: zone-a
    bootstrap: {secretName: workers-bootstrap}
- {name: pair, min: 1, max: 3, machine: *machine}
- {name: gpu, max: 2, machine: *machine, gpu: {resource: nvidia.com/gpu, type: a100, count: 1}}
- {name: tuned, max: 2, machine: *machine, options: {scaleDownUnneededTime: 77s}}
";

impl Ours {
    /// Returns a client of the Supervisor with every permission and this user agent.
    pub(super) fn client(&self, agent: &'static str) -> Result<kube::Client, String> {
        let supervisor = self.sim.supervisor().ok_or("the sim has no Supervisor")?;
        let service = supervisor.server().service("autoscaler");
        let token = supervisor.admin_token().to_owned();
        let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
        let client = kube::Client::new(service, supervisor.namespace());
        Ok(authenticated(client, Arc::new(tokens), http::HeaderValue::from_static(agent)))
    }

    pub(super) async fn create(&self, collection: &str, object: &Value) -> Result<(), String> {
        let request = http::Request::post(collection).header("content-type", "application/json");
        self.send(request, object.to_string().into_bytes()).await.map(drop)
    }

    pub(super) async fn send(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<Value, String> {
        let request = request.body(body).map_err(|err| err.to_string())?;
        self.client("lab")?.request::<Value>(request).await.map_err(|err| err.to_string())
    }

    /// Deletes an object until [`Act::Release`] creates it again.
    pub(super) async fn take_away(&self, path: &str) -> Result<(), String> {
        let mut object = self.send(http::Request::get(path), Vec::new()).await?;
        self.send(http::Request::delete(path), Vec::new()).await?;
        let name = object["metadata"]["name"].take();
        object["metadata"] = json!({"name": name});
        let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
        let taken = (collection.to_owned(), object);
        self.deleted.lock().expect("no holder panics").push(taken);
        Ok(())
    }

    pub(super) fn reconcile(&self, reconciles: bool) -> Result<(), String> {
        let change = OperatorChange { reconciles: Some(reconciles), ..OperatorChange::default() };
        self.apply(Command::SetVmOperator(change))
    }

    pub(super) async fn release(&self) -> Result<(), String> {
        self.rules.lock().expect("no holder panics").clear();
        self.reconcile(true)?;
        let deleted = std::mem::take(&mut *self.deleted.lock().expect("no holder panics"));
        for (collection, object) in deleted {
            self.create(&collection, &object).await?;
        }
        Ok(())
    }

    /// Deletes the VirtualMachine of an instance.
    pub(super) async fn destroy(&self, id: &str) -> Result<(), String> {
        const MACHINES: &str =
            "/apis/vmoperator.vmware.com/v1alpha6/namespaces/workloads/virtualmachines";
        let list = self.send(http::Request::get(MACHINES), Vec::new()).await?;
        let uuid = id.trim_start_matches("vsphere://");
        let is_meant = |it: &&Value| it["spec"]["biosUUID"] == uuid;
        let found = list["items"].as_array().into_iter().flatten().find(is_meant);
        let name = found.and_then(|it| it["metadata"]["name"].as_str());
        let name = name.ok_or_else(|| format!("no VirtualMachine has the ID {id}"))?;
        self.send(http::Request::delete(format!("{MACHINES}/{name}")), Vec::new()).await.map(drop)
    }

    pub(super) async fn act_on_supervisor(&self, act: &Act) -> Result<(), String> {
        match act {
            Act::RefuseCreations => {
                let refusal = Action::KubeStatus(KubeStatus::new(403));
                self.fault(Rule::new("refused", [refusal]).op(["create virtualmachines"]).after(1))
            }
            Act::ExhaustCapacity => self.take_away(ZONE).await,
            Act::BreakConfiguration => self.take_away(BOOTSTRAP).await,
            Act::HoldCreations | Act::SlowDeletions => self.reconcile(false),
            Act::Release => self.release().await,
            Act::DestroyMachine(id) => self.destroy(id).await,
            Act::StopBackend => {
                self.fault(Rule::new("down", [Action::Reset]))?;
                self.apply(Command::EndWatches { plane: ControlPlane::Supervisor })
            }
            Act::StartBackend => {
                self.rules.lock().expect("no holder panics").clear();
                Ok(())
            }
            Act::Restart => {
                self.kill();
                self.run(self.seed).await
            }
        }
    }
}
