//! The service: answers the autoscaler from memory, and changes groups one request at a time.
//!
//! A change runs in a task of its own, so that a caller that gives up does not leave it half done.
//! The autoscaler sends no key by which a repeated request could be recognized, so a change either
//! takes effect and is answered within the caller's deadline, or is undone.

use std::{sync::Arc, time::Duration};

use externalgrpc::{
    Options,
    protocol::{self, cloud_provider_server::CloudProvider},
};
use tokio::{sync::oneshot, time::Instant};
use tonic::{Request, Response, Status};

use super::super::{
    backend::Backend,
    group::{self, Group},
    groups::Groups,
    instance::{Instance, LONGEST_MESSAGE, State, cut, one_line},
    plan::{self, Members, NamedNode, Refusal},
};
use crate::{model::Clock, tasks::Tasks};

/// Annotation of Nodes that the autoscaler makes up for instances without Node. Its value is the
/// reason for which it asks to delete one.
const FAKE_NODE_REASON: &str = "k8s.io/cluster-autoscaler/fake-node-reason";
const CREATION_FAILED: &str = "create-error";
/// Share of the time until the caller's deadline that a change may take, in hundredths. The rest is
/// for the answer.
const SHARE_OF_DEADLINE: u32 = 80;
/// Time of a change for a caller without deadline.
const LONGEST_CHANGE: Duration = Duration::from_secs(60);

/// Bytes of the largest list of instances; the autoscaler receives at most 4 MiB.
const LARGEST_LIST: usize = 4 << 20;
/// Bytes of an instance without the text of its failure, at most.
const INSTANCE: usize = 120;

type Answer<T> = Result<Response<T>, Status>;

/// The service of the autoscaler. Its clones share their state.
#[derive(Clone)]
pub(crate) struct Service {
    groups: Arc<Groups>,
    backend: Arc<dyn Backend>,
    gpu_label: Arc<str>,
    clock: Clock,
    tasks: Tasks,
}

impl Service {
    pub(crate) fn new(
        groups: Arc<Groups>,
        backend: Arc<dyn Backend>,
        gpu_label: &str,
        clock: Clock,
        tasks: Tasks,
    ) -> Self {
        Self { groups, backend, gpu_label: gpu_label.into(), clock, tasks }
    }

    /// Returns the group with this ID, also for a while after it left the file.
    fn group(&self, id: &str) -> Result<Arc<Group>, Status> {
        if id.is_empty() {
            return Err(Status::invalid_argument("the request names no group"));
        }
        let unknown = || Status::not_found(one_line(&format!("no group has the ID {id:?}")));
        self.groups.by_id(id).ok_or_else(unknown)
    }

    /// Returns the group and its members.
    fn loaded(&self, id: &str) -> Result<(Arc<Group>, Members), Status> {
        let group = self.group(id)?;
        self.require_view()?;
        let members = self.backend.members(&group);
        Ok((group, members))
    }

    fn require_view(&self) -> Result<(), Status> {
        if self.backend.view_age().is_some() {
            return Ok(());
        }
        Err(Status::unavailable("the machines have not been listed yet"))
    }

    /// Runs a change of a group in a task of its own, after the earlier changes of the group, and
    /// waits for it. `change` gets the time that is left for it.
    async fn change<F>(
        &self,
        group: &Group,
        deadline: Option<Duration>,
        change: impl FnOnce(Self, Duration) -> F + Send + 'static,
    ) -> Result<(), Status>
    where
        F: Future<Output = Result<(), Status>> + Send,
    {
        let ends_at = Instant::now() + budget(deadline);
        let turn = self.groups.turn(&group.id);
        let (sender, receiver) = oneshot::channel();
        let (span, service) = (tracing::info_span!("change", group = %group.id), self.clone());
        self.tasks.spawn(span, async move {
            let result = match tokio::time::timeout_at(ends_at, turn.lock_owned()).await {
                Ok(_turn) => {
                    let left = ends_at.saturating_duration_since(Instant::now());
                    change(service, left).await
                }
                Err(_) => Err(Status::aborted(
                    "another change of the group did not end in time; nothing was changed",
                )),
            };
            // A caller that gave up does not hear the result.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or_else(|_| Err(Status::internal("the change ended with a panic")))
    }

    async fn increase(&self, id: &str, delta: i32, budget: Duration) -> Result<(), Status> {
        let (group, members) = self.loaded(id)?;
        let causes = plan::increase(&group, members.target, delta).map_err(refuse)?;
        self.backend.increase(&group, causes, budget).await?;
        tracing::info!(group = %group.id, delta, "raised the size of the group");
        Ok(())
    }

    async fn delete(&self, id: &str, nodes: &[NamedNode], budget: Duration) -> Result<(), Status> {
        let (group, members) = self.loaded(id)?;
        let membership = |node: &NamedNode| self.backend.membership(&group, node);
        let deletion = plan::delete(&group, members.target, nodes, membership).map_err(refuse)?;
        self.backend.delete(&group, deletion, budget).await
    }

    async fn decrease(&self, id: &str, delta: i32, budget: Duration) -> Result<(), Status> {
        let (group, members) = self.loaded(id)?;
        let giving = plan::decrease(&group, &members, delta).map_err(refuse)?;
        self.backend.decrease(&group, giving, budget).await
    }
}

fn message(group: &Group) -> protocol::NodeGroup {
    let size = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
    protocol::NodeGroup {
        id: group.id.to_string(),
        min_size: size(group.min),
        max_size: size(group.max),
        debug: one_line(&group.summary()),
    }
}

/// Returns the message of an instance. The text of its failure has at most `longest` bytes.
fn instance(it: &Instance, longest: usize) -> protocol::Instance {
    use protocol::instance_status::InstanceState;
    let (state, error_info) = match &it.state {
        State::Creating => (InstanceState::InstanceCreating, None),
        State::Running => (InstanceState::InstanceRunning, None),
        State::Deleting => (InstanceState::InstanceDeleting, None),
        State::Failed(failure) => {
            let error = protocol::InstanceErrorInfo {
                error_code: failure.code.clone(),
                error_message: cut(&failure.message, longest).to_owned(),
                instance_error_class: failure.class.number(),
            };
            (InstanceState::InstanceCreating, Some(error))
        }
    };
    let status = protocol::InstanceStatus { instance_state: state.into(), error_info };
    protocol::Instance { id: it.id.to_string(), status: Some(status) }
}

/// Returns the number of bytes for the text of each failure, so that the list of a group with `n`
/// instances fits into one message, even if all of them failed.
fn longest_text(n: usize) -> usize {
    (LARGEST_LIST / n.max(1)).saturating_sub(INSTANCE).min(LONGEST_MESSAGE)
}

fn refuse(refusal: Refusal) -> Status {
    let text = one_line(&refusal.to_string());
    debug_assert!(text.len() <= LONGEST_MESSAGE);
    match refusal {
        Refusal::IncreaseByNothing(_) | Refusal::DecreaseByNothing(_) | Refusal::NamelessNode => {
            Status::invalid_argument(text)
        }
        Refusal::UnknownNode { .. } => Status::not_found(text),
        Refusal::AboveMax { .. }
        | Refusal::BelowMin { .. }
        | Refusal::WouldDelete { .. }
        | Refusal::OtherGroup { .. } => Status::failed_precondition(text),
    }
}

/// Returns the time that a change may take with this deadline.
fn budget(deadline: Option<Duration>) -> Duration {
    deadline.unwrap_or(LONGEST_CHANGE).min(LONGEST_CHANGE) * SHARE_OF_DEADLINE / 100
}

/// Returns the time until the caller's deadline; `None` if it has none.
fn deadline<T>(request: &Request<T>) -> Option<Duration> {
    let text = request.metadata().get("grpc-timeout")?.to_str().ok()?;
    let unit = text.chars().last()?;
    let amount: u64 = text.strip_suffix(unit)?.parse().ok()?;
    match unit {
        'H' => Some(Duration::from_secs(amount.saturating_mul(3600))),
        'M' => Some(Duration::from_secs(amount.saturating_mul(60))),
        'S' => Some(Duration::from_secs(amount)),
        'm' => Some(Duration::from_millis(amount)),
        'u' => Some(Duration::from_micros(amount)),
        'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[tonic::async_trait]
impl CloudProvider for Service {
    async fn node_groups(
        &self,
        _: Request<protocol::NodeGroupsRequest>,
    ) -> Answer<protocol::NodeGroupsResponse> {
        let node_groups = self.groups.all().iter().map(|it| message(it)).collect();
        Ok(Response::new(protocol::NodeGroupsResponse { node_groups }))
    }

    async fn node_group_for_node(
        &self,
        request: Request<protocol::NodeGroupForNodeRequest>,
    ) -> Answer<protocol::NodeGroupForNodeResponse> {
        let Some(node) = request.into_inner().node else {
            return Err(Status::invalid_argument("the request names no node"));
        };
        self.require_view()?;
        let id = self.backend.group_of(&node.provider_id, &node.name);
        let group = id.and_then(|id| self.groups.listed(&id));
        let node_group = Some(group.map(|it| message(&it)).unwrap_or_default());
        Ok(Response::new(protocol::NodeGroupForNodeResponse { node_group }))
    }

    async fn pricing_node_price(
        &self,
        _: Request<protocol::PricingNodePriceRequest>,
    ) -> Answer<protocol::PricingNodePriceResponse> {
        Err(Status::unimplemented("this server knows no prices"))
    }

    async fn pricing_pod_price(
        &self,
        _: Request<protocol::PricingPodPriceRequest>,
    ) -> Answer<protocol::PricingPodPriceResponse> {
        Err(Status::unimplemented("this server knows no prices"))
    }

    async fn gpu_label(
        &self,
        _: Request<protocol::GpuLabelRequest>,
    ) -> Answer<protocol::GpuLabelResponse> {
        Ok(Response::new(protocol::GpuLabelResponse { label: self.gpu_label.to_string() }))
    }

    async fn get_available_gpu_types(
        &self,
        _: Request<protocol::GetAvailableGpuTypesRequest>,
    ) -> Answer<protocol::GetAvailableGpuTypesResponse> {
        let groups = self.groups.all();
        let kinds = groups.iter().filter_map(|it| it.node.gpu.as_ref());
        let gpu_types = kinds.map(|gpu| (gpu.kind.clone(), prost_types::Any::default())).collect();
        Ok(Response::new(protocol::GetAvailableGpuTypesResponse { gpu_types }))
    }

    async fn cleanup(
        &self,
        _: Request<protocol::CleanupRequest>,
    ) -> Answer<protocol::CleanupResponse> {
        tracing::info!("the autoscaler ends; its machines stay");
        Ok(Response::new(protocol::CleanupResponse {}))
    }

    async fn refresh(
        &self,
        _: Request<protocol::RefreshRequest>,
    ) -> Answer<protocol::RefreshResponse> {
        self.groups.request_reload();
        let usable = super::super::usable(&self.groups, &*self.backend);
        usable.map_err(|why| Status::unavailable(one_line(&why)))?;
        Ok(Response::new(protocol::RefreshResponse {}))
    }

    async fn node_group_target_size(
        &self,
        request: Request<protocol::NodeGroupTargetSizeRequest>,
    ) -> Answer<protocol::NodeGroupTargetSizeResponse> {
        let (_, members) = self.loaded(&request.into_inner().id)?;
        let target_size = i32::try_from(members.target).unwrap_or(i32::MAX);
        Ok(Response::new(protocol::NodeGroupTargetSizeResponse { target_size }))
    }

    async fn node_group_increase_size(
        &self,
        request: Request<protocol::NodeGroupIncreaseSizeRequest>,
    ) -> Answer<protocol::NodeGroupIncreaseSizeResponse> {
        let deadline = deadline(&request);
        let request = request.into_inner();
        let group = self.group(&request.id)?;
        self.change(&group, deadline, move |service, left| async move {
            service.increase(&request.id, request.delta, left).await
        })
        .await?;
        Ok(Response::new(protocol::NodeGroupIncreaseSizeResponse {}))
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<protocol::NodeGroupDeleteNodesRequest>,
    ) -> Answer<protocol::NodeGroupDeleteNodesResponse> {
        let deadline = deadline(&request);
        let request = request.into_inner();
        let group = self.group(&request.id)?;
        let name = |node: protocol::ExternalGrpcNode| NamedNode {
            failed_creation: node
                .annotations
                .get(FAKE_NODE_REASON)
                .is_some_and(|it| it == CREATION_FAILED),
            id: node.provider_id,
            name: node.name,
        };
        let nodes: Vec<NamedNode> = request.nodes.into_iter().map(name).collect();
        self.change(&group, deadline, move |service, left| async move {
            service.delete(&request.id, &nodes, left).await
        })
        .await?;
        Ok(Response::new(protocol::NodeGroupDeleteNodesResponse {}))
    }

    async fn node_group_decrease_target_size(
        &self,
        request: Request<protocol::NodeGroupDecreaseTargetSizeRequest>,
    ) -> Answer<protocol::NodeGroupDecreaseTargetSizeResponse> {
        let deadline = deadline(&request);
        let request = request.into_inner();
        let group = self.group(&request.id)?;
        self.change(&group, deadline, move |service, left| async move {
            service.decrease(&request.id, request.delta, left).await
        })
        .await?;
        Ok(Response::new(protocol::NodeGroupDecreaseTargetSizeResponse {}))
    }

    async fn node_group_nodes(
        &self,
        request: Request<protocol::NodeGroupNodesRequest>,
    ) -> Answer<protocol::NodeGroupNodesResponse> {
        let (_, Members { instances, .. }) = self.loaded(&request.into_inner().id)?;
        let longest = longest_text(instances.len());
        let instances = instances.iter().map(|it| instance(it, longest)).collect();
        Ok(Response::new(protocol::NodeGroupNodesResponse { instances }))
    }

    async fn node_group_template_node_info(
        &self,
        request: Request<protocol::NodeGroupTemplateNodeInfoRequest>,
    ) -> Answer<protocol::NodeGroupTemplateNodeInfoResponse> {
        let group = self.group(&request.into_inner().id)?;
        // Any other answer without a Node crashes the autoscaler.
        let capacity = self.backend.capacity(&group);
        let capacity = capacity.map_err(|why| Status::unimplemented(one_line(&why)))?;
        let kind = self.backend.instance_type(&group);
        let node = group::node(&group, capacity, &kind, &self.gpu_label, self.clock.now());
        Ok(Response::new(externalgrpc::template(&node)))
    }

    async fn node_group_get_options(
        &self,
        request: Request<protocol::NodeGroupAutoscalingOptionsRequest>,
    ) -> Answer<protocol::NodeGroupAutoscalingOptionsResponse> {
        let request = request.into_inner();
        let group = self.group(&request.id)?;
        let defaults = request.defaults.unwrap_or_default();
        if !group.options.is_empty() && Options::is_of_third_generation(&defaults) {
            self.groups.warn_about_overrides(&group.id);
        }
        // A message for a group without overrides would set times to zero that the protocol cannot
        // express.
        let message = (!group.options.is_empty())
            .then(|| group.options.applied_to(Options::read(&defaults)).message());
        let node_group_autoscaling_options = message;
        Ok(Response::new(protocol::NodeGroupAutoscalingOptionsResponse {
            node_group_autoscaling_options,
        }))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use uuid::Uuid;

    use super::super::super::instance::{Failure, FailureClass};
    use super::*;
    use crate::model::ProviderId;

    #[test]
    fn the_list_of_the_largest_group_fits_into_one_message_if_all_its_instances_failed() {
        let failure = Failure {
            code: "INSUFFICIENT_RESOURCES".to_owned(),
            message: "é".repeat(LONGEST_MESSAGE / 2),
            class: FailureClass::OutOfResources,
        };
        let failed = Instance {
            id: ProviderId(Uuid::from_u128(1)).into(),
            name: "workers-abcde".to_owned(),
            state: State::Failed(failure),
            is_materialized: false,
        };
        for n in [1, 10_000, 20_000] {
            let instances = vec![instance(&failed, longest_text(n)); n];
            let list = protocol::NodeGroupNodesResponse { instances };
            assert!(list.encoded_len() <= 4 << 20, "{n}: {}", list.encoded_len());
            let error = list.instances[0].status.as_ref().unwrap().error_info.as_ref().unwrap();
            assert!(error.error_message.len() >= 50, "{n}: {error:?}");
        }
    }

    #[test]
    fn deadlines_have_the_units_of_grpc_and_no_length_overflows() {
        for (text, want) in [
            ("5S", Some(Duration::from_secs(5))),
            ("2M", Some(Duration::from_secs(120))),
            ("250m", Some(Duration::from_millis(250))),
            ("0n", Some(Duration::ZERO)),
            ("18446744073709551615H", Some(Duration::from_secs(u64::MAX))),
            ("5", None),
            ("S", None),
            ("-1S", None),
            ("5é", None),
        ] {
            let mut request = Request::new(());
            if let Ok(value) = text.parse() {
                request.metadata_mut().insert("grpc-timeout", value);
            }
            assert_eq!(deadline(&request), want, "{text}");
        }
        assert_eq!(budget(Some(Duration::from_secs(u64::MAX))), Duration::from_secs(48));
        assert_eq!(budget(Some(Duration::from_secs(5))), Duration::from_secs(4));
        assert_eq!(budget(None), Duration::from_secs(48));
    }
}
