//! Tests our server for the Cluster Autoscaler over a Supervisor, in virtual time: a client of the
//! protocol changes groups, and the machines in vCenter must follow.

use std::time::Duration;

use conformance::lab::autoscaler::{
    CallError, Channel, Credentials, DeleteNodes, Empty, Endpoint as _, Groups, Instance,
    Instances, OfGroup, OfNode, OneGroup, Ours, Resize, SentNode, TargetSize, Template,
};
use prost::Message;
use sim::Sim;
use sim::faults::{Action, KubeStatus, Rule};
use sim::world::objects::GroupResource;
use sim::world::supervisor::OperatorChange;
use sim::world::vcenter::Power;
use sim::world::{Command, ControlPlane, World};

pub(crate) const GROUP: &str = "VirtualMachine/workloads/workers";
const OTHER: &str = "VirtualMachine/workloads/others";
const DEADLINE: Duration = Duration::from_secs(5);
const FAILED_PRECONDITION: i32 = 9;
const NOT_FOUND: i32 = 5;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A file with the groups `workers` and `others`.
fn file(min: u32) -> String {
    let machine = "{className: best-effort-small, imageName: vmi-0123456789abcdef0, \
                   storageClass: gold, bootstrap: {secretName: workers-bootstrap}}";
    format!(
        "groups:\n- {{name: workers, min: {min}, max: 5, machine: {machine}}}\n\
         - {{name: others, max: 5, machine: {machine}}}\n"
    )
}

/// Our server over the Supervisor of a sim without machines, with a connection to it.
struct Server {
    ours: Ours,
    channel: Channel,
}

impl Server {
    async fn start(file: String, seed: u64) -> Self {
        let ours = Ours::start(file, seed, false).await.unwrap();
        let channel = channel(&ours).await;
        Self { ours, channel }
    }

    /// Returns a new process of the server, which knows nothing of the one that ended.
    async fn next(ours: &Ours, seed: u64) -> Self {
        ours.run(seed).await.unwrap();
        Self { ours: ours.clone(), channel: channel(ours).await }
    }

    async fn call<A: Message + Default>(&self, method: &str, request: impl Message) -> A {
        self.try_call(method, request).await.unwrap_or_else(|err| panic!("{method}: {err}"))
    }

    async fn try_call<A: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<A, CallError> {
        self.channel.call(method, &request, DEADLINE).await
    }

    /// Returns the code of a call that must fail.
    async fn code(&self, method: &str, request: impl Message) -> i32 {
        self.try_call::<Empty>(method, request).await.unwrap_err().code
    }

    async fn increase(&self, delta: i32) {
        self.call::<Empty>("NodeGroupIncreaseSize", Resize::new(GROUP, delta)).await;
    }

    async fn target(&self) -> i32 {
        self.call::<TargetSize>("NodeGroupTargetSize", OfGroup::new(GROUP)).await.size
    }

    async fn instances(&self) -> Vec<Instance> {
        self.call::<Instances>("NodeGroupNodes", OfGroup::new(GROUP)).await.instances
    }

    async fn states(&self) -> Vec<i32> {
        self.instances().await.iter().map(Instance::state).collect()
    }

    /// Ends the server in order.
    async fn stop(self) {
        self.ours.stop().await;
    }
}

async fn channel(ours: &Ours) -> Channel {
    ours.connect(Credentials::Expected).await.unwrap().channel
}

/// Returns the provider IDs of the machines in vCenter that are powered on, in order.
pub(crate) fn running(sim: &Sim) -> Vec<String> {
    let state = sim.world().read(|world| World::state(world).clone());
    let vcenter = state.vcenter("vc0").unwrap();
    let on = vcenter.inventory.machines().filter(|(_, _, it)| it.power == Power::PoweredOn);
    let mut ids: Vec<String> =
        on.map(|(_, _, it)| format!("vsphere://{}", it.config.uuid.unwrap())).collect();
    ids.sort();
    ids
}

/// Returns the number of VirtualMachine objects.
pub(crate) fn objects(sim: &Sim) -> usize {
    let machines = GroupResource::of("vmoperator.vmware.com", "virtualmachines");
    sim.world().read(|world| World::state(world).objects(ControlPlane::Supervisor).count(&machines))
}

fn ids(instances: &[Instance]) -> Vec<String> {
    let mut ids: Vec<String> = instances.iter().map(|it| it.id.clone()).collect();
    ids.sort();
    ids
}

fn fake(id: &str) -> SentNode {
    SentNode::fake(id, "unregistered")
}

#[tokio::test(start_paused = true)]
async fn a_group_grows_from_zero_and_shrinks_to_zero() {
    let server = Server::start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    let groups = server.call::<Groups>("NodeGroups", Empty {}).await.groups;
    let shown: Vec<_> = groups.iter().map(|it| (&*it.id, it.min_size, it.max_size)).collect();
    assert_eq!(shown, [(GROUP, 0, 5), (OTHER, 0, 5)]);
    let template = server.call::<Template>("NodeGroupTemplateNodeInfo", OfGroup::new(GROUP)).await;
    assert!(!template.old.is_empty() && template.old == template.new);

    server.increase(3).await;
    assert_eq!((server.target().await, server.states().await), (3, vec![2, 2, 2]));
    tokio::time::sleep(s(120)).await;
    assert_eq!(server.states().await, [1, 1, 1]);
    let instances = ids(&server.instances().await);
    assert_eq!(running(sim), instances, "the ids are those of the machines");

    let delete = |ids: &[String]| DeleteNodes::new(GROUP, ids.iter().map(|id| fake(id)));
    server.call::<Empty>("NodeGroupDeleteNodes", delete(&instances[..2])).await;
    assert_eq!(server.target().await, 1, "at once");
    server.call::<Empty>("NodeGroupDeleteNodes", delete(&instances[..2])).await;
    assert_eq!(server.target().await, 1, "a repeated deletion changes nothing");
    tokio::time::sleep(s(60)).await;
    assert_eq!(running(sim), instances[2..], "the machine that was not named stays");
    server.call::<Empty>("NodeGroupDeleteNodes", delete(&instances)).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, running(sim), objects(sim)), (0, Vec::new(), 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_changes_nothing() {
    let server = Server::start(file(1), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let before = ids(&server.instances().await);
    let (first, unknown) =
        (fake(&before[0]), fake("vsphere://42290000-0000-4000-8000-000000000009"));
    let delete =
        |group: &str, nodes: &[&SentNode]| DeleteNodes::new(group, nodes.iter().copied().cloned());
    for (method, request, code) in [
        ("NodeGroupDeleteNodes", delete(GROUP, &[&first, &unknown]), NOT_FOUND),
        ("NodeGroupDeleteNodes", delete(OTHER, &[&first]), FAILED_PRECONDITION),
        ("NodeGroupDeleteNodes", delete("nowhere", &[&first]), NOT_FOUND),
        ("NodeGroupDeleteNodes", delete(GROUP, &[&first, &fake(&before[1])]), FAILED_PRECONDITION),
    ] {
        assert_eq!(server.code(method, request).await, code);
    }
    for (delta, code) in
        [(4, FAILED_PRECONDITION), (i32::MAX, FAILED_PRECONDITION), (0, 3), (-1, 3)]
    {
        let request = Resize::new(GROUP, delta);
        assert_eq!(server.code("NodeGroupIncreaseSize", request).await, code, "{delta}");
    }
    for (delta, code) in [(-1, FAILED_PRECONDITION), (0, 3), (1, 3)] {
        let request = Resize::new(GROUP, delta);
        assert_eq!(server.code("NodeGroupDecreaseTargetSize", request).await, code, "{delta}");
    }
    assert_eq!(ids(&server.instances().await), before);
    assert_eq!((server.target().await, running(sim)), (2, before));
    let foreign = OfNode { node: Some(SentNode::new("kind://x/y", "workers-abcde")) };
    let answer = server.call::<OneGroup>("NodeGroupForNode", foreign).await;
    assert_eq!(answer.group.unwrap_or_default().id, "", "a foreign node is no error");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_increase_that_fails_leaves_no_machine() {
    // The fault: the second creation is refused, breaks before its effect, or breaks after it.
    let refused = || Rule::new("fault", [Action::KubeStatus(KubeStatus::new(500))]);
    let cut = || Rule::new("fault", [Action::Reset]);
    for (name, rule) in [
        ("refused", refused().nth(2)),
        ("cut before", cut().after(1)),
        ("cut after", cut().after(1).applied()),
    ] {
        let server = Server::start(file(0), 1).await;
        let ours = server.ours.clone();
        let sim = ours.sim();
        let rule =
            sim.fault(rule.on(sim::Face::Supervisor).op(["create virtualmachines"])).unwrap();
        let failed = server.try_call::<Empty>("NodeGroupIncreaseSize", Resize::new(GROUP, 3)).await;
        assert!(failed.is_err(), "{name}");
        assert_eq!((server.target().await, server.states().await), (0, Vec::new()), "{name}");
        drop(rule);
        tokio::time::sleep(s(180)).await;
        assert_eq!((objects(sim), running(sim)), (0, Vec::new()), "{name}");
        assert_eq!(server.target().await, 0, "{name}");
        server.increase(1).await;
        assert_eq!(server.target().await, 1, "{name}: the server still works");
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_groups_and_repeats_no_name() {
    let server = Server::start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    let before = ids(&server.instances().await);
    ours.kill();
    let server = Server::next(&ours, 1).await;
    assert_eq!(ids(&server.instances().await), before, "with the same seed");
    server.increase(2).await;
    assert_eq!((server.target().await, objects(sim)), (4, 4));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_increase_undoes_no_machine_of_an_earlier_process_with_the_same_names() {
    let server = Server::start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let before = ids(&server.instances().await);
    server.stop().await;
    // With the same seed at the same time, the new process draws the names of the old one first.
    let server = Server::next(&ours, 1).await;
    for rule in [
        Rule::new("refused", [Action::KubeStatus(KubeStatus::new(500))])
            .op(["create virtualmachines"]),
        Rule::new("unread", [Action::Reset]).op(["get virtualmachines", "create virtualmachines"]),
    ] {
        let rule = sim.fault(rule.on(sim::Face::Supervisor)).unwrap();
        let failed = server.try_call::<Empty>("NodeGroupIncreaseSize", Resize::new(GROUP, 2)).await;
        assert!(failed.is_err());
        drop(rule);
        tokio::time::sleep(s(180)).await;
        assert_eq!(running(sim), before);
        assert_eq!((server.target().await, ids(&server.instances().await)), (2, before.clone()));
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_machines_that_do_not_exist_yet_are_given_up() {
    let server = Server::start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let made = ids(&server.instances().await);
    sim.apply(Command::SetVmOperator(OperatorChange {
        reconciles: Some(false),
        ..OperatorChange::default()
    }))
    .unwrap();
    server.increase(2).await;
    let decrease = |delta| Resize::new(GROUP, delta);
    assert_eq!(server.code("NodeGroupDecreaseTargetSize", decrease(-3)).await, FAILED_PRECONDITION);
    server.call::<Empty>("NodeGroupDecreaseTargetSize", decrease(-2)).await;
    assert_eq!((server.target().await, ids(&server.instances().await)), (1, made.clone()));
    sim.apply(Command::SetVmOperator(OperatorChange {
        reconciles: Some(true),
        ..OperatorChange::default()
    }))
    .unwrap();
    tokio::time::sleep(s(120)).await;
    assert_eq!((objects(sim), running(sim)), (1, made));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_costs_one_list_and_changes_are_seen_in_each_watch() {
    let server = Server::start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(1).await;
    tokio::time::sleep(s(3600)).await;
    let calls = |operation: &str| {
        let records = sim.ledger().records();
        records.iter().filter(|it| it.op == operation).count()
    };
    assert_eq!(calls("list virtualmachines"), 1);
    assert!(calls("watch virtualmachines") > 10, "each ends after five minutes");
    let instances = ids(&server.instances().await);
    let nodes = [fake(&instances[0])];
    server.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, nodes)).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.states().await, objects(sim)), (Vec::new(), 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refreshes_and_reads_cost_no_call_to_the_supervisor() {
    let server = Server::start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(5).await;
    tokio::time::sleep(s(120)).await;
    let before = sim.ledger().next_seq();
    for _ in 0..20 {
        server.call::<Empty>("Refresh", Empty {}).await;
        server.call::<Groups>("NodeGroups", Empty {}).await;
        server.target().await;
        server.instances().await;
    }
    assert_eq!(sim.ledger().next_seq(), before);
    server.stop().await;
}
