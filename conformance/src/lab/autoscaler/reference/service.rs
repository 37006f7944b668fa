//! The methods of the reference.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;

use super::super::client::SERVICE;
use super::super::node::{Condition, Metadata, Node, Quantity, Spec, Status as NodeStatus};
use super::super::options::{OfOptions, Options, OptionsAnswer, Times};
use super::super::subject::{Generation, Setting};
use super::super::wire::{
    Anything, DeleteNodes, Empty, GpuLabel, GpuTypes, Groups, Instance, InstanceError,
    InstanceStatus, Instances, NodeGroup, NodePrice, OfGroup, OfNode, OneGroup, PodPrice, Price,
    Resize, SentNode, TargetSize, Template, Timestamp,
};
use super::http::Status;
use super::machines::{Group, INVALID_ARGUMENT, Machine, NOT_FOUND};
use super::{Flaw, Reference, STALENESS, State, UNAVAILABLE};

const UNIMPLEMENTED: i32 = 12;
const GPU_LABEL: &str = "example.com/gpu";
const GPU: &str = "nvidia.com/gpu";

type Bytes = Result<Vec<u8>, Status>;

impl Reference {
    /// Answers a call.
    pub(super) async fn answer(&self, path: &str, body: &[u8]) -> Bytes {
        let method = path.strip_prefix(&format!("/{SERVICE}/")).unwrap_or_default();
        let n_open = {
            let mut state = self.state();
            state.n_open += 1;
            state.n_open
        };
        if self.has(Flaw::SlowUnderLoad) {
            // Lets the other calls of the connection arrive.
            tokio::time::sleep(Duration::from_millis(1)).await;
            if n_open > 5 {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
        let answer = self.dispatch(method, body).await;
        self.state().n_open -= 1;
        answer
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().expect("no holder panics");
        if state.down_since.is_none() {
            state.machines.settle();
        }
        if self.has(Flaw::ChangesId) {
            state.machines.rename_running();
        }
        state
    }

    /// Decodes a request.
    fn read<M: Message + Default>(&self, body: &[u8]) -> Result<M, Status> {
        let message = M::decode(body).map_err(|err| Status::new(13, err.to_string()))?;
        if self.has(Flaw::RejectsUnknownFields) && message.encoded_len() != body.len() {
            return Err(Status::new(INVALID_ARGUMENT, "the request has unknown fields"));
        }
        Ok(message)
    }

    async fn dispatch(&self, method: &str, body: &[u8]) -> Bytes {
        let is_change = matches!(
            method,
            "NodeGroupIncreaseSize" | "NodeGroupDecreaseTargetSize" | "NodeGroupDeleteNodes"
        );
        if self.has(Flaw::NeedsRefresh) && !self.state().was_refreshed && method != "Refresh" {
            return Err(Status::new(UNAVAILABLE, "the autoscaler has not called Refresh"));
        }
        if is_change && self.state().down_since.is_some() {
            return Err(Status::new(UNAVAILABLE, "the backend does not answer"));
        }
        match method {
            "NodeGroups" => self.read::<Empty>(body).map(|_| self.groups()),
            "NodeGroupForNode" => self.group_for_node(self.read(body)?).await,
            "PricingNodePrice" => self.node_price(&self.read(body)?),
            "PricingPodPrice" => self.pod_price(&self.read(body)?),
            "GPULabel" => self.read::<Empty>(body).map(|_| self.gpu_label()),
            "GetAvailableGPUTypes" => self.read::<Empty>(body).map(|_| self.gpu_types()),
            "Cleanup" => self.read::<Empty>(body).map(|_| self.cleanup()),
            "Refresh" => {
                self.read::<Empty>(body)?;
                self.refresh().await
            }
            "NodeGroupTargetSize" => self.size(&self.read::<OfGroup>(body)?.id),
            "NodeGroupIncreaseSize" => self.increase(self.read(body)?).await,
            "NodeGroupDeleteNodes" => self.delete(self.read(body)?).await,
            "NodeGroupDecreaseTargetSize" => {
                let Resize { id, delta } = self.read(body)?;
                self.state().machines.decrease(&id, delta)?;
                Ok(Vec::new())
            }
            "NodeGroupNodes" => self.instances(&self.read::<OfGroup>(body)?.id),
            "NodeGroupTemplateNodeInfo" => self.template(&self.read::<OfGroup>(body)?.id),
            "NodeGroupGetOptions" => self.options(&self.read(body)?),
            _ if self.has(Flaw::AnswersUnknownMethods) => Ok(Vec::new()),
            _ => Err(Status::new(UNIMPLEMENTED, "no such method")),
        }
    }

    fn message(&self, group: &Group) -> NodeGroup {
        let debug = match self.flaw {
            Some(Flaw::SecretInDebug) => "user=admin password=hunter2".to_owned(),
            _ => format!("group {} of the reference", group.id),
        };
        let is_negative = self.has(Flaw::NegativeMinimum) && group.min == 0;
        let min_size = if is_negative { -1 } else { group.min };
        NodeGroup { id: group.id.to_owned(), min_size, max_size: group.max, debug }
    }

    fn groups(&self) -> Vec<u8> {
        let mut state = self.state();
        if self.has(Flaw::GrowsMaximum) {
            state.machines.groups.iter_mut().for_each(|it| it.max += 1);
        }
        let hides = self.has(Flaw::NoGroupsWithoutBackend) && state.down_since.is_some();
        let shown = state.machines.groups.iter().filter(|_| !hides);
        Groups { groups: shown.map(|it| self.message(it)).collect() }.encode_to_vec()
    }

    async fn group_for_node(&self, request: OfNode) -> Bytes {
        let Some(node) = request.node else {
            if self.has(Flaw::HangsWithoutNode) {
                std::future::pending::<()>().await;
            }
            return Err(Status::new(INVALID_ARGUMENT, "the request names no node"));
        };
        let is_fake = node.name == node.provider_id;
        let state = self.state();
        let known = state.machines.find(&node.provider_id);
        let known = known.filter(|_| !(is_fake && self.has(Flaw::LosesFakeNodes)));
        let Some(machine) = known else {
            return self.unknown_node(&node);
        };
        let mut group = state.machines.group(machine.group)?.clone();
        if self.has(Flaw::OtherBoundsForNode) {
            group.max += 1;
        }
        Ok(OneGroup { group: Some(self.message(&group)) }.encode_to_vec())
    }

    fn unknown_node(&self, node: &SentNode) -> Bytes {
        let is_own_kind = node.provider_id.starts_with("reference://")
            || node.provider_id.starts_with("vsphere://");
        let is_template = node.name.starts_with("template-node-for-");
        let is_refused = match self.flaw {
            Some(Flaw::UnknownNodeIsError) => is_own_kind,
            Some(Flaw::ForeignNodeIsError) => !is_own_kind && !is_template,
            Some(Flaw::TemplateNodeIsError) => is_template,
            _ => false,
        };
        if is_refused {
            return Err(Status::new(NOT_FOUND, "no such node"));
        }
        Ok(OneGroup { group: Some(NodeGroup::default()) }.encode_to_vec())
    }

    fn node_price(&self, request: &NodePrice) -> Bytes {
        if self.has(Flaw::FlatPrices) {
            return Ok(Price { price: 1.0 }.encode_to_vec());
        }
        price(request.new_start.or(request.old_start), request.new_end.or(request.old_end))
    }

    fn pod_price(&self, request: &PodPrice) -> Bytes {
        if self.has(Flaw::OnlyNodePrices) {
            return Err(Status::new(UNIMPLEMENTED, "no prices of Pods"));
        }
        if request.old_pod.is_empty() && request.new_pod.is_empty() {
            return Err(Status::new(INVALID_ARGUMENT, "the request has no Pod"));
        }
        price(request.new_start.or(request.old_start), request.new_end.or(request.old_end))
    }

    fn gpu_label(&self) -> Vec<u8> {
        let mut state = self.state();
        state.n_labels += 1;
        let suffix = match self.flaw {
            Some(Flaw::ChangesGpuLabel) => state.n_labels.to_string(),
            _ => String::new(),
        };
        GpuLabel { label: format!("{GPU_LABEL}{suffix}") }.encode_to_vec()
    }

    fn gpu_types(&self) -> Vec<u8> {
        if self.has(Flaw::BreaksGpuTypes) {
            return vec![0x0a, 0x7f];
        }
        let types = BTreeMap::from([("a100".to_owned(), Anything::default())]);
        GpuTypes { types }.encode_to_vec()
    }

    fn cleanup(&self) -> Vec<u8> {
        if self.has(Flaw::CleanupRemoves) {
            self.state().machines.clear();
        }
        Vec::new()
    }

    async fn refresh(&self) -> Bytes {
        if self.has(Flaw::SlowRefresh) {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let mut state = self.state();
        state.was_refreshed = true;
        let is_stale = state.down_since.is_some_and(|it| it.elapsed() > STALENESS);
        if is_stale && !self.has(Flaw::RefreshHidesOutage) {
            return Err(Status::new(UNAVAILABLE, "the view is too old"));
        }
        let victim = state.machines.of("pool").next().map(|it| it.id.clone());
        if let Some(victim) = victim.filter(|_| self.has(Flaw::RefreshRemoves)) {
            state.machines.remove(&victim);
        }
        Ok(Vec::new())
    }

    fn size(&self, id: &str) -> Bytes {
        let state = self.state();
        match state.machines.group(id) {
            Err(_) if self.has(Flaw::UnknownGroupHasSize) => {
                Ok(TargetSize { size: 0 }.encode_to_vec())
            }
            Err(err) => Err(err),
            Ok(group) => Ok(TargetSize { size: state.machines.size(group.id) }.encode_to_vec()),
        }
    }

    async fn increase(&self, request: Resize) -> Bytes {
        let Resize { id, delta } = request;
        if self.has(Flaw::RacyIncrease) {
            let before = self.state().machines.clone();
            before.clone().increase(&id, delta)?;
            tokio::time::sleep(Duration::from_millis(10)).await;
            let group = before.group(&id)?.id;
            self.state().machines.create(group, delta);
            return Ok(Vec::new());
        }
        if self.has(Flaw::LateIncrease) {
            self.state().machines.clone().increase(&id, delta)?;
            let server = self.clone();
            let late = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(6)).await;
                // A later call can have used the room.
                let _ = server.state().machines.increase(&id, delta);
            });
            let late = tokio_util::task::AbortOnDropHandle::new(late);
            self.serving.lock().expect("no holder panics").push(late);
            return Ok(Vec::new());
        }
        if self.has(Flaw::HalfIncrease) {
            let group = self.state().machines.group(&id)?.id;
            *self.state().machines.excess.entry(group).or_default() += delta;
            tokio::time::sleep(Duration::from_millis(20)).await;
            *self.state().machines.excess.entry(group).or_default() -= delta;
        }
        // A change takes time, so that clients can cancel it.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let mut state = self.state();
        state.earlier = Some(state.machines.clone());
        state.machines.increase(&id, delta)?;
        state.last_increase = Some((id, delta));
        Ok(Vec::new())
    }

    async fn delete(&self, request: DeleteNodes) -> Bytes {
        let fake = |it: &SentNode| {
            it.annotations.contains_key("k8s.io/cluster-autoscaler/fake-node-reason")
        };
        if self.has(Flaw::RefusesFakeNodes) && request.nodes.iter().any(fake) {
            return Err(Status::new(NOT_FOUND, "no such node"));
        }
        let nodes: Vec<String> = request.nodes.into_iter().map(|it| it.provider_id).collect();
        self.state().machines.delete(&request.id, &nodes)?;
        if self.has(Flaw::WaitsForDestruction) {
            while nodes.iter().any(|id| self.state().machines.find(id).is_some()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(Vec::new())
    }

    fn instances(&self, id: &str) -> Bytes {
        let state = self.state();
        let group = match state.machines.group(id) {
            Err(_) if self.has(Flaw::UnknownGroupHasNodes) => return Ok(Vec::new()),
            group => group?,
        };
        let borrowed = (self.has(Flaw::ListsTwice) && group.id == "tuned").then_some("pool");
        let all = state
            .machines
            .of(group.id)
            .chain(borrowed.into_iter().flat_map(|it| state.machines.of(it)));
        let shown = all.filter(|it| it.runs() || !self.has(Flaw::HidesCreations));
        Ok(Instances { instances: shown.map(|it| self.instance(it)).collect() }.encode_to_vec())
    }

    fn instance(&self, machine: &Machine) -> Instance {
        let state = match machine {
            it if it.is_deleting() => Instance::DELETING,
            it if it.runs() && self.has(Flaw::NoState) => 0,
            it if it.runs() => Instance::RUNNING,
            it if it.failure.is_some() && self.has(Flaw::ErrorWithoutState) => 0,
            _ => Instance::CREATING,
        };
        let failure = machine.failure.filter(|_| !self.has(Flaw::HidesFailures));
        let error = failure.map(|(code, class)| InstanceError {
            code: code.to_owned(),
            message: "the platform refused".to_owned(),
            class: if self.has(Flaw::WrongClass) { 7 } else { class },
        });
        let long = self.has(Flaw::LongTexts).then(|| InstanceError {
            code: String::new(),
            message: "x".repeat(2000),
            class: 0,
        });
        let status = Some(InstanceStatus { state, error: error.or(long) });
        Instance { id: machine.id.clone(), status }
    }

    fn template(&self, id: &str) -> Bytes {
        let state = self.state();
        let group = match state.machines.group(id) {
            Err(_) if self.has(Flaw::UnknownGroupHasNoTemplate) => {
                return Err(Status::new(UNIMPLEMENTED, "no template"));
            }
            group => group?,
        };
        if self.has(Flaw::NoTemplateAtZero) && state.machines.of(id).next().is_none() {
            return Err(Status::new(UNIMPLEMENTED, "the group has no instance"));
        }
        if self.has(Flaw::EmptyTemplate) {
            return Ok(Vec::new());
        }
        let node = self.node(group).encode_to_vec();
        let old = if self.has(Flaw::OnlyNewTemplate) { Vec::new() } else { node.clone() };
        Ok(Template { old, new: node }.encode_to_vec())
    }

    fn node(&self, group: &Group) -> Node {
        let mut labels = BTreeMap::from([
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("kubernetes.io/hostname".to_owned(), group.id.to_owned()),
        ]);
        if !self.has(Flaw::NoArchitecture) {
            labels.insert("kubernetes.io/arch".to_owned(), "amd64".to_owned());
        }
        if group.has_gpu || self.has(Flaw::LabelsEveryNodeAsGpu) {
            labels.insert(GPU_LABEL.to_owned(), "a100".to_owned());
        }
        let mut amounts = vec![("cpu", "2"), ("memory", "4Gi"), ("pods", "110")];
        if group.has_gpu {
            amounts.push((GPU, "1"));
        }
        let amounts = amounts.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned()));
        let capacity: BTreeMap<String, Quantity> =
            amounts.map(|(name, text)| (name, Quantity { text })).collect();
        let allocatable =
            if self.has(Flaw::NoAllocatable) { BTreeMap::new() } else { capacity.clone() };
        let ready = Condition { kind: "Ready".to_owned(), status: "True".to_owned() };
        let id = if self.has(Flaw::TemplateWithId) { "reference://template" } else { "" };
        Node {
            metadata: Some(Metadata { name: "template".to_owned(), labels }),
            spec: Some(Spec { provider_id: id.to_owned() }),
            status: Some(NodeStatus { capacity, allocatable, conditions: vec![ready] }),
        }
    }

    fn options(&self, request: &OfOptions) -> Bytes {
        let state = self.state();
        let group = state.machines.group(&request.id)?;
        if group.overrides.is_empty() && !self.has(Flaw::AlwaysOptions) {
            return Ok(OptionsAnswer { options: None }.encode_to_vec());
        }
        let sent = request.defaults.unwrap_or_default();
        let ten = Duration::from_secs(600);
        let usual = Times { unneeded: ten, unready: 2 * ten, provision: ten };
        let old = sent.old_times().filter(|_| !self.has(Flaw::IgnoresOldDefaults));
        let times = sent.new_times().or(old).filter(|_| !self.has(Flaw::IgnoresDefaults));
        let mut times = times.unwrap_or(usual);
        if group.overrides.contains(&Setting::Unneeded) {
            times.unneeded = Duration::from_secs(77);
        }
        let mut options = sent.with_times(times);
        match self.flaw {
            Some(Flaw::OnlyNewOptions) => {
                let thresholds = (options.utilization, options.gpu_utilization);
                options = Options::defaults(Generation::G3, thresholds, times);
            }
            Some(Flaw::ZeroOrMax) => options.zero_or_max = true,
            Some(Flaw::ThresholdAboveOne) => options.utilization = 50.0,
            _ => {}
        }
        Ok(OptionsAnswer { options: Some(options) }.encode_to_vec())
    }
}

/// Returns the price of the time between two moments.
fn price(begin: Option<Timestamp>, end: Option<Timestamp>) -> Bytes {
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err(Status::new(INVALID_ARGUMENT, "the request has no period"));
    };
    let hours = (end.seconds - begin.seconds) as f64 / 3600.0;
    Ok(Price { price: hours * 0.5 }.encode_to_vec())
}
