//! Tests of `provider autoscaler --backend cluster-api` against the API server of the simulator, in
//! virtual time, and of bootstrap tokens (`tokens`).

mod changes;
mod client;
mod crashes;
mod groups;
mod lost;
mod objects;
mod others;
mod tokens;
mod world;

use externalgrpc::protocol as p;

use self::world::Server;

const GROUP: &str = "MachineDeployment/workloads/workers";
const NOT_FOUND: i32 = 5;
const FAILED_PRECONDITION: i32 = 9;

impl Server {
    async fn groups(&self) -> Vec<(String, i32, i32)> {
        let answer = self.channel.call("NodeGroups", p::NodeGroupsRequest {}).await;
        let answer: p::NodeGroupsResponse = answer.unwrap();
        let mut groups: Vec<_> =
            answer.node_groups.into_iter().map(|it| (it.id, it.min_size, it.max_size)).collect();
        groups.sort();
        groups
    }

    async fn target(&self, group: &str) -> i32 {
        let request = p::NodeGroupTargetSizeRequest { id: group.to_owned() };
        let answer = self.channel.call("NodeGroupTargetSize", request).await;
        let answer: p::NodeGroupTargetSizeResponse = answer.unwrap();
        answer.target_size
    }

    /// Returns the instances as `ID STATE` with the code of an error, in order.
    async fn instances(&self, group: &str) -> Vec<String> {
        let request = p::NodeGroupNodesRequest { id: group.to_owned() };
        let answer = self.channel.call("NodeGroupNodes", request).await;
        let answer: p::NodeGroupNodesResponse = answer.unwrap();
        let shown = |it: &p::Instance| {
            let status = it.status.clone().unwrap();
            let state = ["unknown", "running", "creating", "deleting"];
            let state = state[usize::try_from(status.instance_state).unwrap()];
            let error = status
                .error_info
                .map(|it| format!(" {} {}", it.error_code, it.instance_error_class));
            format!("{} {state}{}", it.id, error.unwrap_or_default())
        };
        answer.instances.iter().map(shown).collect()
    }

    async fn increase(&self, group: &str, delta: i32) -> Result<(), (i32, String)> {
        let request = p::NodeGroupIncreaseSizeRequest { delta, id: group.to_owned() };
        let answer: Result<p::NodeGroupIncreaseSizeResponse, _> =
            self.channel.call("NodeGroupIncreaseSize", request).await;
        answer.map(drop)
    }

    async fn decrease(&self, group: &str, delta: i32) -> Result<(), (i32, String)> {
        let request = p::NodeGroupDecreaseTargetSizeRequest { delta, id: group.to_owned() };
        let answer: Result<p::NodeGroupDecreaseTargetSizeResponse, _> =
            self.channel.call("NodeGroupDecreaseTargetSize", request).await;
        answer.map(drop)
    }

    /// Deletes nodes by their provider IDs.
    async fn delete(&self, group: &str, ids: &[&str]) -> Result<(), (i32, String)> {
        let node = |id: &&str| p::ExternalGrpcNode {
            provider_id: (*id).to_owned(),
            name: (*id).to_owned(),
            ..p::ExternalGrpcNode::default()
        };
        let nodes = ids.iter().map(node).collect();
        let request = p::NodeGroupDeleteNodesRequest { nodes, id: group.to_owned() };
        let answer: Result<p::NodeGroupDeleteNodesResponse, _> =
            self.channel.call("NodeGroupDeleteNodes", request).await;
        answer.map(drop)
    }

    async fn group_of(&self, id: &str, name: &str) -> String {
        let node = p::ExternalGrpcNode {
            provider_id: id.to_owned(),
            name: name.to_owned(),
            ..p::ExternalGrpcNode::default()
        };
        let request = p::NodeGroupForNodeRequest { node: Some(node) };
        let answer = self.channel.call("NodeGroupForNode", request).await;
        let answer: p::NodeGroupForNodeResponse = answer.unwrap();
        answer.node_group.unwrap_or_default().id
    }

    async fn refresh(&self) -> Result<(), (i32, String)> {
        let answer: Result<p::RefreshResponse, _> =
            self.channel.call("Refresh", p::RefreshRequest {}).await;
        answer.map(drop)
    }
}
