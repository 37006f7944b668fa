//! Our server for the Cluster Autoscaler over a sim, with a connection to it and the calls of the
//! tests. `autoscaler.rs` starts it over a Supervisor, `autoscaler_vcenter` over a vCenter.

use std::time::Duration;

use conformance::lab::autoscaler::{
    CallError, Channel, Credentials, DeleteNodes, Empty, Endpoint as _, Instance, Instances,
    OfGroup, Ours, Resize, SentNode, TargetSize,
};
use prost::Message;
use sim::Sim;

const DEADLINE: Duration = Duration::from_secs(5);

/// A process of the server, and the group that most calls name.
pub(crate) struct Server {
    pub(crate) ours: Ours,
    pub(crate) channel: Channel,
    group: &'static str,
}

impl Server {
    /// Connects to a server that runs.
    pub(crate) async fn connected(ours: &Ours, group: &'static str) -> Self {
        let channel = ours.connect(Credentials::Expected).await.unwrap().channel;
        Self { ours: ours.clone(), channel, group }
    }

    /// Starts a process of the server, which knows nothing of an earlier one.
    pub(crate) async fn started(ours: &Ours, group: &'static str, seed: u64) -> Self {
        ours.run(seed).await.unwrap();
        Self::connected(ours, group).await
    }

    /// Kills the process, and starts another one.
    pub(crate) async fn crash(self, seed: u64) -> Self {
        self.ours.kill();
        Self::started(&self.ours, self.group, seed).await
    }

    /// Ends the server in order.
    pub(crate) async fn stop(self) {
        self.ours.stop().await;
    }

    pub(crate) async fn call<A: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> A {
        self.try_call(method, request).await.unwrap_or_else(|err| panic!("{method}: {err}"))
    }

    pub(crate) async fn try_call<A: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<A, CallError> {
        self.channel.call(method, &request, DEADLINE).await
    }

    /// Returns the code of a call that must fail.
    pub(crate) async fn code(&self, method: &str, request: impl Message) -> i32 {
        self.try_call::<Empty>(method, request).await.unwrap_err().code
    }

    pub(crate) async fn increase(&self, delta: i32) {
        self.call::<Empty>("NodeGroupIncreaseSize", Resize::new(self.group, delta)).await;
    }

    pub(crate) async fn delete(&self, ids: &[String]) {
        let nodes: Vec<_> = ids.iter().map(|id| SentNode::fake(id, "unregistered")).collect();
        self.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(self.group, nodes)).await;
    }

    pub(crate) async fn target(&self) -> i32 {
        self.call::<TargetSize>("NodeGroupTargetSize", OfGroup::new(self.group)).await.size
    }

    pub(crate) async fn instances(&self) -> Vec<Instance> {
        self.call::<Instances>("NodeGroupNodes", OfGroup::new(self.group)).await.instances
    }

    pub(crate) async fn states(&self) -> Vec<i32> {
        self.instances().await.iter().map(Instance::state).collect()
    }

    pub(crate) async fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.instances().await.into_iter().map(|it| it.id).collect();
        ids.sort();
        ids
    }

    pub(crate) fn sim(&self) -> &Sim {
        self.ours.sim()
    }
}
