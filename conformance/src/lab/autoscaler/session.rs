//! A client of the protocol for one connection and one generation: a method per RPC.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use tokio::time::Instant;

use super::client::{CallError, Channel};
use super::options::{OfOptions, Options, OptionsAnswer};
use super::wire::{
    DeleteNodes, Empty, GpuLabel, GpuTypes, Groups, Instance, Instances, NodeGroup, NodePrice,
    OfGroup, OfNode, OneGroup, PodPrice, Price, Resize, SentNode, TargetSize, Template,
};
use super::{Generation, Timestamp};

/// Result of a call.
pub type Answer<T> = Result<T, CallError>;

/// A connected autoscaler.
#[derive(Clone, Debug)]
pub struct Session {
    channel: Channel,
    generation: Generation,
    deadline: Duration,
    transcript: Transcript,
    asked: Asked,
}

/// Largest increase that counts as a wish for machines; larger ones only test the maximum.
const LARGEST_WISH: i32 = 1000;

/// Changes that the sessions of a case asked for, by ID of the group. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<Mutex<BTreeMap<String, AskedOfGroup>>>);

#[derive(Debug, Default)]
struct AskedOfGroup {
    n_created: usize,
    /// Instances that the server deleted, without those whose creation failed, which it may replace.
    deleted: BTreeSet<String>,
}

impl Asked {
    fn change(&self, group: &str, change: impl FnOnce(&mut AskedOfGroup)) {
        change(self.0.lock().expect("no holder panics").entry(group.to_owned()).or_default());
    }

    /// Returns the number of new machines that a group may have at most, if it had the instances
    /// `before`.
    pub fn of(&self, group: &str, before: &BTreeSet<String>) -> usize {
        let all = self.0.lock().expect("no holder panics");
        all.get(group)
            .map_or(0, |it| it.n_created.saturating_sub(it.deleted.difference(before).count()))
    }
}

/// The calls of the sessions of a case, one line each. Clones share the lines.
#[derive(Clone, Debug)]
pub struct Transcript {
    begin: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Default for Transcript {
    fn default() -> Self {
        Self { begin: Instant::now(), lines: Arc::default() }
    }
}

impl Transcript {
    /// Adds a line with the time since the begin of the case.
    pub fn note(&self, line: &str) {
        let at = self.begin.elapsed().as_secs_f64();
        self.lines.lock().expect("no holder panics").push(format!("{at:9.3}s  {line}"));
    }

    /// Returns the last `n` lines.
    pub fn last(&self, n: usize) -> Vec<String> {
        let lines = self.lines.lock().expect("no holder panics");
        lines[lines.len().saturating_sub(n)..].to_vec()
    }

    /// Returns the number of calls and notes.
    pub fn len(&self) -> usize {
        self.lines.lock().expect("no holder panics").len()
    }

    /// True if there was no call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Session {
    /// Creates a session over an open connection.
    pub fn new(
        channel: Channel,
        generation: Generation,
        deadline: Duration,
        transcript: Transcript,
        asked: Asked,
    ) -> Self {
        Self { channel, generation, deadline, transcript, asked }
    }

    /// Returns the generation that the session speaks.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the deadline of each call.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns a session over the same connection with another generation.
    #[must_use]
    pub fn speaking(&self, generation: Generation) -> Self {
        Self { generation, ..self.clone() }
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// As [`Channel::call`].
    pub async fn call<A: Message + Default + Debug>(
        &self,
        method: &str,
        request: impl Message + Debug,
    ) -> Answer<A> {
        let answer = self.channel.call(method, &request, self.deadline).await;
        let shown = match &answer {
            Ok(answer) => short(answer),
            Err(err) => format!("failed: {err}"),
        };
        self.transcript.note(&format!("{method} {} -> {shown}", short(&request)));
        answer.map_err(|err| CallError { message: format!("{method}: {}", err.message), ..err })
    }

    /// Calls a method with a serialized request.
    ///
    /// # Errors
    ///
    /// As [`Channel::call_path`].
    pub async fn call_bytes(&self, method: &str, request: Vec<u8>) -> Answer<Vec<u8>> {
        let path = format!("/{}/{method}", super::client::SERVICE);
        self.call_path(&path, request).await
    }

    /// Calls the method at this path, of any service, with a serialized request.
    ///
    /// # Errors
    ///
    /// As [`Channel::call_path`].
    pub async fn call_path(&self, path: &str, request: Vec<u8>) -> Answer<Vec<u8>> {
        let n = request.len();
        let answer = self.channel.call_path(path, request.into(), self.deadline).await;
        let shown = match &answer {
            Ok(answer) => format!("{} bytes", answer.len()),
            Err(err) => format!("failed: {err}"),
        };
        self.transcript.note(&format!("{path} ({n} bytes) -> {shown}"));
        answer.map(|it| it.to_vec())
    }

    /// `NodeGroups`.
    pub async fn groups(&self) -> Answer<Vec<NodeGroup>> {
        Ok(self.call::<Groups>("NodeGroups", Empty {}).await?.groups)
    }

    /// `NodeGroupForNode`; `None` if the Node belongs to no group.
    pub async fn group_of(&self, node: SentNode) -> Answer<Option<NodeGroup>> {
        let answer = self.call::<OneGroup>("NodeGroupForNode", OfNode { node: Some(node) }).await?;
        Ok(answer.group.filter(|it| !it.id.is_empty()))
    }

    /// `NodeGroupTargetSize`.
    pub async fn target(&self, id: &str) -> Answer<i32> {
        Ok(self.call::<TargetSize>("NodeGroupTargetSize", OfGroup::new(id)).await?.size)
    }

    /// `NodeGroupNodes`.
    pub async fn instances(&self, id: &str) -> Answer<Vec<Instance>> {
        Ok(self.call::<Instances>("NodeGroupNodes", OfGroup::new(id)).await?.instances)
    }

    /// The IDs of the instances that are not being deleted.
    pub async fn live(&self, id: &str) -> Answer<BTreeSet<String>> {
        let all = self.instances(id).await?;
        Ok(all.into_iter().filter(|it| it.state() != Instance::DELETING).map(|it| it.id).collect())
    }

    /// `NodeGroupIncreaseSize`.
    pub async fn increase(&self, id: &str, delta: i32) -> Answer<()> {
        // Also a failed call can have created machines.
        if (1..=LARGEST_WISH).contains(&delta) {
            let n = usize::try_from(delta).unwrap_or_default();
            self.asked.change(id, |it| it.n_created += n);
        }
        self.call::<Empty>("NodeGroupIncreaseSize", Resize::new(id, delta)).await.map(drop)
    }

    /// `NodeGroupDecreaseTargetSize`.
    pub async fn decrease(&self, id: &str, delta: i32) -> Answer<()> {
        self.call::<Empty>("NodeGroupDecreaseTargetSize", Resize::new(id, delta)).await.map(drop)
    }

    /// `NodeGroupDeleteNodes`.
    pub async fn delete(&self, id: &str, nodes: impl IntoIterator<Item = SentNode>) -> Answer<()> {
        let request = DeleteNodes::new(id, nodes);
        let has_existed = |it: &&SentNode| !it.says_creation_failed();
        let named: Vec<String> =
            request.nodes.iter().filter(has_existed).map(|it| it.provider_id.clone()).collect();
        self.call::<Empty>("NodeGroupDeleteNodes", request).await?;
        self.asked.change(id, |it| it.deleted.extend(named));
        Ok(())
    }

    /// `NodeGroupTemplateNodeInfo`.
    pub async fn template(&self, id: &str) -> Answer<Template> {
        self.call("NodeGroupTemplateNodeInfo", OfGroup::new(id)).await
    }

    /// `NodeGroupGetOptions`; `None` if the defaults hold.
    pub async fn options(&self, id: &str, defaults: Options) -> Answer<Option<Options>> {
        let request = OfOptions { id: id.to_owned(), defaults: Some(defaults) };
        Ok(self.call::<OptionsAnswer>("NodeGroupGetOptions", request).await?.options)
    }

    /// `GPULabel`.
    pub async fn gpu_label(&self) -> Answer<String> {
        Ok(self.call::<GpuLabel>("GPULabel", Empty {}).await?.label)
    }

    /// `GetAvailableGPUTypes`.
    pub async fn gpu_types(&self) -> Answer<GpuTypes> {
        self.call("GetAvailableGPUTypes", Empty {}).await
    }

    /// `Refresh`.
    pub async fn refresh(&self) -> Answer<()> {
        self.call::<Empty>("Refresh", Empty {}).await.map(drop)
    }

    /// `Cleanup`.
    pub async fn cleanup(&self) -> Answer<()> {
        self.call::<Empty>("Cleanup", Empty {}).await.map(drop)
    }

    /// `PricingNodePrice` for so many hours.
    pub async fn node_price(&self, node: SentNode, hours: i64) -> Answer<f64> {
        let (begin, end) = (Timestamp::after_hours(0), Timestamp::after_hours(hours));
        let old = |time| self.generation.has_old_fields().then_some(time);
        let new = |time| self.generation.has_new_fields().then_some(time);
        let request = NodePrice {
            node: Some(node),
            old_start: old(begin),
            old_end: old(end),
            new_start: new(begin),
            new_end: new(end),
        };
        Ok(self.call::<Price>("PricingNodePrice", request).await?.price)
    }

    /// `PricingPodPrice` of a serialized `v1.Pod` for so many hours.
    pub async fn pod_price(&self, pod: &[u8], hours: i64) -> Answer<f64> {
        let (begin, end) = (Timestamp::after_hours(0), Timestamp::after_hours(hours));
        let (is_old, is_new) = (self.generation.has_old_fields(), self.generation.has_new_fields());
        let request = PodPrice {
            old_pod: if is_old { pod.to_vec() } else { Vec::new() },
            old_start: is_old.then_some(begin),
            old_end: is_old.then_some(end),
            new_pod: if is_new { pod.to_vec() } else { Vec::new() },
            new_start: is_new.then_some(begin),
            new_end: is_new.then_some(end),
        };
        Ok(self.call::<Price>("PricingPodPrice", request).await?.price)
    }
}

/// Number of bytes of a request or answer in the transcript.
const LONGEST: usize = 160;

/// Returns the value in the format of `Debug`, cut to a readable length.
fn short(value: &impl Debug) -> String {
    let mut short = Short(String::new());
    match write!(short, "{value:?}") {
        Ok(()) => short.0,
        Err(fmt::Error) => short.0 + "…",
    }
}

/// Text that accepts no more when it is long enough, so that a large answer is not formatted.
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() <= LONGEST {
            return Ok(());
        }
        let end = (0..=LONGEST).rev().find(|at| self.0.is_char_boundary(*at));
        self.0.truncate(end.unwrap_or_default());
        Err(fmt::Error)
    }
}
