//! Tests our server for the Cluster Autoscaler over a vCenter, in virtual time: a client of the
//! protocol changes groups, and the machines in vCenter must follow, whatever crashes.

use std::sync::Arc;
use std::time::Duration;

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::autoscaler::{
    CallError, Channel, Credentials, DeleteNodes, Empty, Endpoint as _, Instance, Instances,
    OfGroup, OfNode, OneGroup, Ours, Resize, SentNode, TargetSize, Template,
};
use prost::Message;
use provider::{ConfigMapJournal, JournalError, JournalStore as _, TokenSource, authenticated};
use sim::Sim;
use sim::faults::{Action, MissingPaths, Rule};
use sim::world::vcenter::{
    DeviceChange, DeviceSpec, Machine, MachineSpec, Power, Setting, Structure,
};
use sim::world::{Command, Completion, Step, Topology, World, objects};

pub(crate) const GROUP: &str = "vcenter/workers";
const OTHER: &str = "vcenter/others";
const DEADLINE: Duration = Duration::from_secs(5);
const FAILED_PRECONDITION: i32 = 9;
const UNAVAILABLE: i32 = 14;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A file with the groups `workers` and `others`; `more` is added to each clone.
fn file(min: u32, more: &str) -> String {
    let clone = format!(
        "{{datacenter: DC0, template: ubuntu, folder: /DC0/vm, resourcePool: DC0_C0/Resources, \
         tag: nodes/autoscaled, bootstrap: {{file: user-data}}{more}}}"
    );
    format!(
        "groups:\n- {{name: workers, min: {min}, max: 20, clone: {clone}}}\n\
         - {{name: others, max: 20, clone: {clone}}}\n"
    )
}

/// Our server over the vCenter of a sim, with a connection to it.
struct Server {
    ours: Ours,
    channel: Channel,
}

impl Server {
    async fn start(file: String) -> Self {
        let ours = Ours::over_vcenter(file, 1, false).unwrap();
        Self::next(&ours, 1).await
    }

    /// Returns a new process of the server, which knows only the journal.
    async fn next(ours: &Ours, seed: u64) -> Self {
        ours.run(seed).await.unwrap();
        let channel = ours.connect(Credentials::Expected).await.unwrap().channel;
        Self { ours: ours.clone(), channel }
    }

    /// Kills the process, and starts another one.
    async fn crash(self, seed: u64) -> Self {
        self.ours.kill();
        Self::next(&self.ours, seed).await
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

    async fn delete(&self, ids: &[String]) {
        let nodes: Vec<_> = ids.iter().map(|id| SentNode::fake(id, "unregistered")).collect();
        self.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, nodes)).await;
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

    async fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.instances().await.into_iter().map(|it| it.id).collect();
        ids.sort();
        ids
    }

    fn sim(&self) -> &Sim {
        self.ours.sim()
    }
}

/// Returns the machines other than the template, each with its name.
pub(crate) fn machines(sim: &Sim) -> Vec<(String, Machine)> {
    let state = sim.world().read(|world| World::state(world).clone());
    let all = state.vcenter("vc0").unwrap().inventory.machines();
    let mut machines: Vec<(String, Machine)> =
        all.map(|(_, entity, it)| (entity.name.clone(), it.clone())).collect();
    machines.retain(|(name, _)| name != "ubuntu");
    machines.sort_by(|a, b| a.0.cmp(&b.0));
    machines
}

/// Returns the provider IDs of the machines that are powered on, in order.
pub(crate) fn running(sim: &Sim) -> Vec<String> {
    let on = machines(sim).into_iter().filter(|(_, it)| it.power == Power::PoweredOn);
    let mut ids: Vec<String> =
        on.map(|(_, it)| format!("vsphere://{}", it.config.uuid.unwrap())).collect();
    ids.sort();
    ids
}

/// Returns the number of calls of an operation that the sim has received from the server.
fn calls(sim: &Sim, op: &str) -> usize {
    sim.ledger().records().iter().filter(|it| it.op == op).count()
}

/// Makes tasks end after this time.
fn tasks_take(sim: &Sim, time: Duration) {
    let completion = Completion::After(time);
    sim.apply(Command::SetTiming { step: Step::Task, completion }).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_group_of_clones_grows_from_zero_and_shrinks_to_zero() {
    let server = Server::start(file(0, "")).await;
    let template = server.call::<Template>("NodeGroupTemplateNodeInfo", OfGroup::new(GROUP)).await;
    assert!(!template.old.is_empty() && template.old == template.new);
    assert_eq!(server.states().await, Vec::<i32>::new());

    server.increase(3).await;
    assert_eq!((server.target().await, server.states().await), (3, vec![2, 2, 2]));
    let ids = server.ids().await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.states().await, server.ids().await), (vec![1, 1, 1], ids.clone()));
    assert_eq!(running(server.sim()), ids);
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 3);
    assert_eq!(calls(server.sim(), "tagging.tag-association.attach"), 3);

    let (name, machine) = machines(server.sim()).remove(0);
    let extra = |key: &str| machine.config.extra.get(key).cloned().unwrap_or_default();
    assert_eq!(extra("guestinfo.userdata"), "I2Nsb3VkLWNvbmZpZw==", "#cloud-config");
    assert_eq!(extra("guestinfo.userdata.encoding"), "base64");
    let (bios, instance) = (machine.config.uuid.unwrap(), machine.config.instance_uuid);
    assert_eq!(extra("vsphere.cloud-provider.node-group"), format!("workers/{bios}/{instance}"));
    let node = SentNode { provider_id: ids[0].clone(), name, ..SentNode::default() };
    let of = server.call::<OneGroup>("NodeGroupForNode", OfNode { node: Some(node) }).await;
    assert_eq!(of.group.unwrap_or_default().id, GROUP);

    server.delete(&ids[..2]).await;
    assert_eq!(server.target().await, 1);
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.ids().await, running(server.sim())), (ids[2..].to_vec(), ids[2..].to_vec()));
    server.delete(&ids[2..]).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, machines(server.sim()).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_an_increase_makes_no_machine_twice_and_loses_none() {
    // From right after the answer, over running clones and power-ons, to the end.
    for after in [0, 200, 700, 1500, 2500, 4000, 6000, 9000, 20_000] {
        let server = Server::start(file(0, "")).await;
        tasks_take(server.sim(), s(2));
        server.increase(10).await;
        let ids = server.ids().await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        let server = server.crash(2).await;
        assert_eq!((server.target().await, server.ids().await), (10, ids.clone()), "{after}");
        tokio::time::sleep(s(240)).await;
        assert_eq!((running(server.sim()), machines(server.sim()).len()), (ids, 10), "{after}");
        assert_eq!(server.states().await, vec![1; 10], "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_a_deletion_destroys_the_named_machines_and_no_others() {
    for after in [0, 300, 1500, 2500, 4000, 8000] {
        let server = Server::start(file(0, "")).await;
        server.increase(4).await;
        tokio::time::sleep(s(120)).await;
        let ids = server.ids().await;
        tasks_take(server.sim(), s(2));
        server.delete(&ids[..2]).await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        let server = server.crash(2).await;
        assert_eq!(server.target().await, 2, "{after}");
        tokio::time::sleep(s(120)).await;
        assert_eq!(
            (server.ids().await, running(server.sim())),
            (ids[2..].to_vec(), ids[2..].to_vec())
        );
        assert_eq!(machines(server.sim()).len(), 2, "{after}");
        server.delete(&ids[..2]).await;
        assert_eq!(server.target().await, 2, "a repeated deletion after a restart changes nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_ends_after_its_deletion_and_a_crash_is_destroyed() {
    let server = Server::start(file(0, "")).await;
    tasks_take(server.sim(), s(90));
    server.increase(2).await;
    tokio::time::sleep(s(5)).await;
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 2);
    let ids = server.ids().await;
    server.delete(&ids).await;
    let server = server.crash(2).await;
    tokio::time::sleep(s(30)).await;
    assert_eq!((server.target().await, machines(server.sim()).len()), (0, 0));
    tasks_take(server.sim(), s(1));
    tokio::time::sleep(s(120)).await;
    assert_eq!((machines(server.sim()).len(), calls(server.sim(), "Destroy_Task")), (0, 2));
    assert_eq!(server.target().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_machine_that_is_being_cloned_waits_for_the_clone() {
    let server = Server::start(file(0, "")).await;
    tasks_take(server.sim(), s(30));
    server.increase(1).await;
    tokio::time::sleep(s(5)).await;
    let ids = server.ids().await;
    server.delete(&ids).await;
    assert_eq!((server.target().await, server.states().await), (0, vec![3]));
    tokio::time::sleep(s(240)).await;
    assert_eq!((server.states().await, machines(server.sim()).len()), (vec![], 0));
    assert_eq!(calls(server.sim(), "PowerOnVM_Task"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_a_clone_makes_no_second_machine() {
    let server = Server::start(file(0, "")).await;
    let lost = Rule::new("lost", [Action::Reset]).on(sim::Face::Soap).op(["CloneVM_Task"]);
    let lost = server.sim().fault(lost.applied().first(3)).unwrap();
    server.increase(3).await;
    let ids = server.ids().await;
    tokio::time::sleep(s(240)).await;
    assert_eq!((running(server.sim()), machines(server.sim()).len()), (ids, 3));
    assert_eq!(server.states().await, vec![1; 3]);
    drop(lost);
}

#[tokio::test(start_paused = true)]
async fn a_lack_of_resources_is_a_failure_of_class_1_and_a_missing_template_one_of_class_99() {
    let server = Server::start(file(0, "")).await;
    let full = Rule::new("full", [Action::soap_fault("InsufficientMemoryResourcesFault")]);
    let full = server.sim().fault(full.on(sim::Face::Soap).op(["CloneVM_Task"])).unwrap();
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let failure = |it: &Instance| {
        let error = it.status.clone().unwrap().error.unwrap();
        (error.code, error.class)
    };
    let instances = server.instances().await;
    assert_eq!(failure(&instances[0]), ("INSUFFICIENT_RESOURCES_MEMORY".to_owned(), 1));
    drop(full);
    tokio::time::sleep(s(240)).await;
    assert_eq!(server.states().await, [1], "the machine is made when there is room");

    server.sim().apply(Command::DeleteMachine("ubuntu".into())).unwrap();
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let instances = server.instances().await;
    assert_eq!(failure(&instances[1]), ("BAD_CONFIGURATION".to_owned(), 99));
    let node = SentNode::fake(&instances[1].id, "create-error");
    server.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, [node])).await;
    tokio::time::sleep(s(20)).await;
    assert_eq!((server.target().await, server.states().await), (1, vec![1]));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_shown_only_after_two_minutes() {
    let server = Server::start(file(0, "")).await;
    let busy = Rule::new("busy", [Action::soap_fault("TaskInProgress")]);
    let busy = server.sim().fault(busy.on(sim::Face::Soap).op(["CloneVM_Task"])).unwrap();
    server.increase(1).await;
    let has_error = |it: &[Instance]| it[0].status.clone().unwrap().error.is_some();
    tokio::time::sleep(s(110)).await;
    assert!(!has_error(&server.instances().await));
    tokio::time::sleep(s(80)).await;
    assert!(has_error(&server.instances().await));
    drop(busy);
    tokio::time::sleep(s(120)).await;
    assert_eq!(server.states().await, [1]);
}

/// Returns the machine with this name as the spec of a copy by an administrator.
fn copy_of(machine: &Machine, name: &str) -> MachineSpec {
    MachineSpec {
        name: Some(name.to_owned()),
        extra: machine.config.extra.clone(),
        ..MachineSpec::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_by_an_administrator_is_never_touched() {
    let server = Server::start(file(0, "")).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let ids = server.ids().await;
    let (name, machine) = machines(server.sim()).remove(0);
    let make = |spec: MachineSpec| {
        let command = Command::CreateMachine {
            vcenter: None,
            spec,
            cluster: None,
            power_on: true,
            kubelet: false,
        };
        server.sim().apply(command).unwrap();
    };
    // With the mark alone, and with the BIOS UUID too, as after a restore beside the original.
    make(copy_of(&machine, "copy-1"));
    make(MachineSpec { uuid: machine.config.uuid, ..copy_of(&machine, "copy-2") });
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, server.ids().await), (1, ids.clone()));
    server.delete(&ids).await;
    tokio::time::sleep(s(120)).await;
    let left: Vec<String> = machines(server.sim()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["copy-1", "copy-2"], "{name} is destroyed");
    let server = server.crash(2).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, machines(server.sim()).len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_took_the_identity_of_a_named_one_is_not_destroyed() {
    let other = uuid::Uuid::from_u128(1);
    let foreign_mark = ("vsphere.cloud-provider.node-group".to_owned(), "others/x/y".to_owned());
    for (what, spec) in [
        ("another BIOS UUID", MachineSpec { uuid: Some(other), ..MachineSpec::default() }),
        ("another mark", MachineSpec { extra: [foreign_mark].into(), ..MachineSpec::default() }),
    ] {
        let server = Server::start(file(0, "")).await;
        server.increase(1).await;
        tokio::time::sleep(s(120)).await;
        let (ids, (name, _)) = (server.ids().await, machines(server.sim()).remove(0));
        let machine = name.as_str().into();
        server.sim().apply(Command::Reconfigure { machine, spec }).unwrap();
        server.delete(&ids).await;
        tokio::time::sleep(s(300)).await;
        assert_eq!(machines(server.sim()).len(), 1, "{what}");
        assert_eq!(calls(server.sim(), "Destroy_Task"), 0, "{what}");
        assert_eq!(calls(server.sim(), "PowerOffVM_Task"), 0, "{what}");
        assert_eq!((server.target().await, server.states().await), (0, vec![3]), "{what}");
    }
}

/// Attaches or detaches a disk, as the CSI driver does.
fn change_disk(sim: &Sim, machine: &str, change: DeviceChange) {
    let spec = MachineSpec { devices: Some(vec![change]), ..MachineSpec::default() };
    sim.apply(Command::Reconfigure { machine: machine.into(), spec }).unwrap();
}

/// A disk at the controller that every machine has.
fn disk() -> DeviceChange {
    let text = |text: &str| Setting::Text(text.to_owned());
    let fields = [("controllerKey", text("1000")), ("capacityInKB", text("1048576"))];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let device = Structure { kind: "VirtualDisk".to_owned(), fields };
    DeviceChange::Add(DeviceSpec { key: -1, network: None, device })
}

#[tokio::test(start_paused = true)]
async fn an_attached_disk_protects_its_machine_until_it_is_detached() {
    let server = Server::start(file(0, "")).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let (ids, (name, _)) = (server.ids().await, machines(server.sim()).remove(0));
    change_disk(server.sim(), &name, disk());
    server.delete(&ids).await;
    tokio::time::sleep(s(600)).await;
    assert_eq!((server.target().await, server.states().await), (0, vec![3]));
    assert_eq!(calls(server.sim(), "Destroy_Task"), 0);
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(calls(server.sim(), "Destroy_Task"), 0, "after a restart, too");
    change_disk(server.sim(), &name, DeviceChange::Remove(2001));
    tokio::time::sleep(s(120)).await;
    assert_eq!((machines(server.sim()).len(), server.states().await), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_attached_during_the_power_off_protects_its_machine() {
    let server = Server::start(file(0, "")).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let (ids, (name, _)) = (server.ids().await, machines(server.sim()).remove(0));
    tasks_take(server.sim(), s(10));
    server.delete(&ids).await;
    tokio::time::sleep(s(5)).await;
    assert_eq!(calls(server.sim(), "PowerOffVM_Task"), 1);
    change_disk(server.sim(), &name, disk());
    tokio::time::sleep(s(300)).await;
    assert_eq!((machines(server.sim()).len(), calls(server.sim(), "Destroy_Task")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_decrease_gives_up_only_machines_whose_clone_has_not_started() {
    let server = Server::start(file(0, "")).await;
    tasks_take(server.sim(), s(60));
    server.increase(12).await;
    tokio::time::sleep(s(3)).await;
    let n_cloning = calls(server.sim(), "CloneVM_Task");
    assert_eq!(n_cloning, 8, "eight at a time");
    let decrease = |by| Resize::new(GROUP, by);
    let method = "NodeGroupDecreaseTargetSize";
    assert_eq!(server.code(method, decrease(-5)).await, FAILED_PRECONDITION);
    assert_eq!(server.target().await, 12);
    server.call::<Empty>(method, decrease(-4)).await;
    assert_eq!(server.target().await, 8);
    tasks_take(server.sim(), s(1));
    tokio::time::sleep(s(400)).await;
    assert_eq!((running(server.sim()).len(), calls(server.sim(), "CloneVM_Task")), (8, 8));
    assert_eq!(server.states().await, vec![1; 8]);
    assert_eq!(server.code(method, decrease(-1)).await, FAILED_PRECONDITION);
}

#[tokio::test(start_paused = true)]
async fn each_group_has_its_own_machines() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    server.call::<Empty>("NodeGroupIncreaseSize", Resize::new(OTHER, 1)).await;
    tokio::time::sleep(s(120)).await;
    let others = server.call::<Instances>("NodeGroupNodes", OfGroup::new(OTHER)).await.instances;
    assert_eq!((server.target().await, others.len()), (2, 1));
    let node = SentNode::fake(&others[0].id, "unregistered");
    let code = server.code("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, [node])).await;
    assert_eq!(code, FAILED_PRECONDITION);
    tokio::time::sleep(s(60)).await;
    assert_eq!(running(server.sim()).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_one_write_and_a_failed_write_changes_nothing() {
    let server = Server::start(file(0, "")).await;
    let journal = server.ours.journal().clone();
    let before = journal.n_writes();
    server.increase(10).await;
    assert_eq!(journal.n_writes(), before + 1);
    tokio::time::sleep(s(240)).await;
    let ids = server.ids().await;
    let before = journal.n_writes();
    server.delete(&ids[..5]).await;
    assert_eq!(journal.n_writes(), before + 1);
    tokio::time::sleep(s(120)).await;
    journal.refuse(true);
    assert_eq!(server.code("NodeGroupIncreaseSize", Resize::new(GROUP, 1)).await, UNAVAILABLE);
    let nodes = [SentNode::fake(&ids[5], "unregistered")];
    let deletion = DeleteNodes::new(GROUP, nodes);
    assert_eq!(server.code("NodeGroupDeleteNodes", deletion).await, UNAVAILABLE);
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim())), (5, ids[5..].to_vec()));
    journal.refuse(false);
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim())), (5, ids[5..].to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_vanishes_lowers_the_size_of_its_group() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let (ids, (name, machine)) = (server.ids().await, machines(server.sim()).remove(0));
    server.sim().apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    tokio::time::sleep(s(60)).await;
    let gone = format!("vsphere://{}", machine.config.uuid.unwrap());
    let left: Vec<String> = ids.iter().filter(|id| **id != gone).cloned().collect();
    assert_eq!((server.target().await, server.ids().await), (1, left));
    let node = SentNode::fake(&gone, "unregistered");
    let of = server.call::<OneGroup>("NodeGroupForNode", OfNode { node: Some(node) }).await;
    assert_eq!(of.group.unwrap_or_default().id, "");
    server.delete(&[gone]).await;
    assert_eq!((server.target().await, calls(server.sim(), "CloneVM_Task")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_vcenter_that_does_not_answer_makes_no_machine_vanish() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let ids = server.ids().await;
    let down = Rule::new("down", [Action::Reset]).on(sim::Face::Soap);
    let down = server.sim().fault(down).unwrap();
    tokio::time::sleep(s(200)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    server.call::<Empty>("Refresh", Empty {}).await;
    tokio::time::sleep(s(200)).await;
    assert_eq!(server.code("Refresh", Empty {}).await, UNAVAILABLE);
    drop(down);
    tokio::time::sleep(s(120)).await;
    server.call::<Empty>("Refresh", Empty {}).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids));
}

#[tokio::test(start_paused = true)]
async fn a_lost_journal_stops_the_server_until_it_may_adopt_its_machines() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let ids = server.ids().await;
    server.ours.kill();
    server.ours.journal().set(None);
    let server = Server::next(&server.ours, 2).await;
    let refusal = server.try_call::<Empty>("Refresh", Empty {}).await.unwrap_err();
    let (name, _) = machines(server.sim()).remove(0);
    assert!(refusal.to_string().contains(&name), "{refusal}");
    assert_eq!(server.code("NodeGroupIncreaseSize", Resize::new(GROUP, 1)).await, UNAVAILABLE);
    let server = server.crash(3).await;
    assert_eq!(server.code("Refresh", Empty {}).await, UNAVAILABLE, "a restart changes nothing");

    server.ours.kill();
    let adopting = file(0, "").replace("max: 20,", "max: 20, adopt: true,");
    let server = Server::next(&server.ours.clone().with_groups(adopting), 3).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    assert_eq!(server.states().await, [1, 1]);
    server.delete(&ids).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(machines(server.sim()).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_is_no_journal_or_that_of_another_vcenter_is_refused() {
    let server = Server::start(file(0, "")).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let text = server.ours.journal().text().unwrap();
    server.ours.kill();
    server.ours.journal().set(Some("{}".to_owned()));
    let refusal = server.ours.run(2).await.unwrap_err();
    assert!(refusal.contains("--journal memory: is not a valid journal"), "{refusal}");
    assert!(refusal.contains("restore the journal"), "{refusal}");

    let at = text.find("\"vcenter\":\"").unwrap() + 11;
    let other = format!("{}{}{}", &text[..at], "0000", &text[at + 4..]);
    server.ours.journal().set(Some(other));
    let server = Server::next(&server.ours, 3).await;
    let refusal = server.try_call::<Empty>("Refresh", Empty {}).await.unwrap_err();
    assert!(refusal.to_string().contains("the journal is about the vCenter"), "{refusal}");
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim()).len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_machine_of_a_group_at_its_minimum_is_replaced_after_a_pause() {
    let server = Server::start(file(1, "")).await;
    let full = Rule::new("full", [Action::soap_fault("NoDiskSpace")]);
    let full = server.sim().fault(full.on(sim::Face::Soap).op(["CloneVM_Task"])).unwrap();
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let ids = server.ids().await;
    let node = SentNode::fake(&ids[0], "create-error");
    server.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, [node])).await;
    let n_clones = calls(server.sim(), "CloneVM_Task");
    drop(full);
    assert_eq!(server.target().await, 1);
    tokio::time::sleep(s(20)).await;
    assert_eq!(calls(server.sim(), "CloneVM_Task"), n_clones, "the replacement waits");
    tokio::time::sleep(s(120)).await;
    let now = server.ids().await;
    assert_eq!((now.len(), server.states().await), (1, vec![1]));
    assert_ne!(now, ids);
}

#[tokio::test(start_paused = true)]
async fn a_view_costs_the_same_number_of_calls_whatever_the_number_of_machines() {
    let server = Server::start(file(0, "")).await;
    let mut costs = Vec::new();
    for more in [1, 11] {
        server.increase(more).await;
        tokio::time::sleep(s(300)).await;
        let before = server.sim().ledger().records().len();
        for _ in 0..50 {
            server.call::<Empty>("Refresh", Empty {}).await;
        }
        assert_eq!(server.sim().ledger().records().len(), before, "a refresh sends nothing");
        tokio::time::sleep(s(600)).await;
        costs.push(server.sim().ledger().records().len() - before);
    }
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_clone_has_the_hardware_and_the_networks_of_its_group() {
    let more = ", cloneMode: full, numCPUs: 1, memoryMiB: 0, diskGiB: 60, networks: [VM Network, \
                VM Network], datastore: LocalDS_0";
    let server = Server::start(file(0, more)).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(server.states().await, [1]);
    let (_, machine) = machines(server.sim()).remove(0);
    let config = &machine.config;
    assert_eq!((config.cpus, config.memory_mib, config.cards.len()), (2, 2048, 2));
    let disks = config.devices.as_ref().unwrap().values().filter(|it| it.kind == "VirtualDisk");
    let sizes: Vec<_> = disks.map(|it| it.fields["capacityInKB"].text().unwrap()).collect();
    assert_eq!(sizes, [(60 << 20).to_string()]);
    let ids = server.ids().await;
    server.delete(&ids).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!(machines(server.sim()).len(), 0, "the larger disk is its own");
}

/// Plays a check in a runtime of its own whose clock jumps.
fn play(check: &AutoscalerCheck) -> Vec<String> {
    let mut failed = Vec::new();
    for generation in check.generations {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let verdict = runtime.block_on(async {
            let is_tls = check.need == Need::Tls;
            let ours = Ours::for_checks_of_vcenter(1, is_tls).await.unwrap();
            check.play(&ours.subject(), *generation).await.0
        });
        if verdict != Verdict::Pass {
            failed.push(format!("{} {}: {verdict}", check.id, generation.as_str()));
        }
    }
    failed
}

#[test]
fn our_server_over_a_vcenter_passes_every_check() {
    let failed: Vec<String> = all().iter().flat_map(play).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Returns a journal in a ConfigMap of the sim's cluster.
fn config_map(sim: &Sim) -> ConfigMapJournal {
    let token = sim.admin_token().to_owned();
    let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
    let client = kube::Client::new(sim.cluster().service("journal"), "kube-system");
    let client = authenticated(client, Arc::new(tokens), http::HeaderValue::from_static("journal"));
    ConfigMapJournal::new(client, "kube-system", "autoscaler-journal")
}

#[tokio::test(start_paused = true)]
async fn a_config_map_keeps_the_journal_and_has_one_writer() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let first = config_map(&sim);
    assert_eq!(first.read().await, Ok(None));
    first.write("one").await.unwrap();
    first.write("two").await.unwrap();
    let second = config_map(&sim);
    assert_eq!(second.read().await, Ok(Some("two".to_owned())));
    second.write("three").await.unwrap();
    assert!(matches!(first.write("four").await, Err(JournalError::Lost(_))));
    assert_eq!(config_map(&sim).read().await, Ok(Some("three".to_owned())));
    let third = config_map(&sim);
    let fourth = config_map(&sim);
    third.read().await.unwrap();
    fourth.read().await.unwrap();
    fourth.write("five").await.unwrap();
    assert!(matches!(third.write("six").await, Err(JournalError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_label_of_another_client_does_not_end_the_use_of_the_config_map() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let store = config_map(&sim);
    store.read().await.unwrap();
    store.write("one").await.unwrap();
    let maps = objects::GroupResource::core("configmaps");
    let key = objects::Key::new(maps, "kube-system", "autoscaler-journal");
    let patch = serde_json::json!({"metadata": {"labels": {"team": "a"}}});
    let patch = objects::Command::patch(key, objects::PatchKind::Merge, patch);
    sim.apply(Command::Cluster(patch)).unwrap();
    store.write("two").await.unwrap();
    assert_eq!(config_map(&sim).read().await, Ok(Some("two".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_hidden_for_a_while_come_back_to_their_group() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let ids = server.ids().await;
    let hidden = Rule::new("hidden", [Action::EmptyResult]).on(sim::Face::Soap);
    let hidden = hidden.op(["RetrievePropertiesEx", "FindAllByUuid"]);
    let hidden = server.sim().fault(hidden).unwrap();
    tokio::time::sleep(s(100)).await;
    assert_eq!(server.target().await, 0);
    drop(hidden);
    tokio::time::sleep(s(100)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    assert_eq!((server.states().await, running(server.sim())), (vec![1, 1], ids));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_config_map_leaves_the_next_write_possible() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let store = config_map(&sim);
    store.read().await.unwrap();
    store.write("one").await.unwrap();
    for (id, is_applied) in [("applied", true), ("dropped", false)] {
        let rule = Rule::new(id, [Action::Reset]).on(sim::Face::Cluster).op(["update configmaps"]);
        let rule = if is_applied { rule.applied() } else { rule };
        let rule = sim.fault(rule).unwrap();
        assert!(matches!(store.write("two").await, Err(JournalError::Failed(_))), "{id}");
        drop(rule);
        store.write("three").await.unwrap();
        assert_eq!(config_map(&sim).read().await, Ok(Some("three".to_owned())), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_another_vcenter_is_not_changed() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let journal = server.ours.journal().clone();
    server.ours.kill();
    for (name, _) in machines(server.sim()) {
        server.sim().apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    }
    let text = journal.text().unwrap();
    let at = text.find("\"vcenter\":\"").unwrap() + 11;
    journal.set(Some(format!("{}{}{}", &text[..at], "0000", &text[at + 4..])));
    let server = Server::next(&server.ours, 3).await;
    let before = journal.text();
    tokio::time::sleep(s(120)).await;
    assert_eq!(journal.text(), before);
    let refusal = server.try_call::<Empty>("Refresh", Empty {}).await.unwrap_err();
    assert!(refusal.to_string().contains("the journal is about the vCenter"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_that_the_journal_contains_does_not_take_effect_after_a_restart() {
    let server = Server::start(file(0, "")).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let ids = server.ids().await;
    let journal = server.ours.journal().clone();
    journal.refuse(true);
    let deletion = DeleteNodes::new(GROUP, [SentNode::fake(&ids[0], "unregistered")]);
    assert_eq!(server.code("NodeGroupDeleteNodes", deletion).await, UNAVAILABLE);
    // The write took effect, although its answer was a failure.
    let text = journal.text().unwrap();
    assert!(text.contains("\"made\""), "{text}");
    journal.set(Some(text.replace("\"made\"", "\"deleting\"")));
    journal.refuse(false);
    tokio::time::sleep(s(60)).await;
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim())), (1, ids));
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_refuses_the_end_of_a_creation_causes_few_calls() {
    let server = Server::start(file(0, "")).await;
    tasks_take(server.sim(), s(2));
    server.increase(1).await;
    tokio::time::sleep(s(1)).await;
    let before = server.sim().ledger().records().len();
    server.ours.journal().refuse(true);
    tokio::time::sleep(s(60)).await;
    let n_calls = server.sim().ledger().records().len() - before;
    assert!(n_calls < 100, "{n_calls} calls in a minute");
    server.ours.journal().refuse(false);
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.states().await, calls(server.sim(), "CloneVM_Task")), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_restored_after_its_deletion_is_left_alone() {
    let server = Server::start(file(0, "")).await;
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let (ids, (_, machine)) = (server.ids().await, machines(server.sim()).remove(0));
    server.delete(&ids).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!(calls(server.sim(), "Destroy_Task"), 1);
    let spec = MachineSpec {
        uuid: machine.config.uuid,
        instance_uuid: Some(machine.config.instance_uuid),
        ..copy_of(&machine, "restored")
    };
    let command = Command::CreateMachine {
        vcenter: None,
        spec,
        cluster: None,
        power_on: true,
        kubelet: false,
    };
    server.sim().apply(command).unwrap();
    tokio::time::sleep(s(120)).await;
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((running(server.sim()), calls(server.sim(), "Destroy_Task")), (ids, 1));
    assert_eq!(server.target().await, 0);
}

/// Makes the properties with this path unreadable.
fn unreadable(path: &str) -> Rule {
    let missing = MissingPaths::new([path], "SystemError");
    Rule::new("unreadable", [Action::MissingSet(missing)]).on(sim::Face::Soap)
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_disks_cannot_be_read_is_not_destroyed() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let (ids, (name, _)) = (server.ids().await, machines(server.sim()).remove(0));
    let hidden = server.sim().fault(unreadable("config.hardware.device")).unwrap();
    server.delete(&ids).await;
    tokio::time::sleep(s(300)).await;
    assert_eq!((server.target().await, server.states().await), (0, vec![3, 3]));
    assert_eq!(calls(server.sim(), "Destroy_Task"), 0);
    // The machine shows none of the disks from its template.
    change_disk(server.sim(), &name, DeviceChange::Remove(2000));
    drop(hidden);
    tokio::time::sleep(s(120)).await;
    let left: Vec<String> = machines(server.sim()).into_iter().map(|(name, _)| name).collect();
    assert_eq!((left, server.states().await), (vec![name], vec![3]));
}

#[tokio::test(start_paused = true)]
async fn a_template_whose_hardware_cannot_be_read_is_not_cloned() {
    for path in ["config.hardware.device", "config.hardware.numCPU", "config.hardware.memoryMB"] {
        let ours = Ours::over_vcenter(file(0, ""), 1, false).unwrap();
        let hidden = ours.sim().fault(unreadable(path)).unwrap();
        let server = Server::next(&ours, 1).await;
        tokio::time::sleep(s(20)).await;
        server.increase(1).await;
        tokio::time::sleep(s(60)).await;
        assert_eq!(calls(server.sim(), "CloneVM_Task"), 0, "{path}");
        drop(hidden);
        tokio::time::sleep(s(180)).await;
        assert_eq!(server.states().await, [1], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_inaccessible_machine_stays_in_its_group_and_in_its_deletion() {
    let server = Server::start(file(0, "")).await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let (ids, (name, machine)) = (server.ids().await, machines(server.sim()).remove(0));
    let id = format!("vsphere://{}", machine.config.uuid.unwrap());
    server.sim().apply(Command::Inaccessible(name.as_str().into())).unwrap();
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()), "after a restart");
    server.sim().apply(Command::Connect(name.as_str().into())).unwrap();
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.states().await, running(server.sim())), (vec![1, 1], ids));

    server.sim().apply(Command::Inaccessible(name.as_str().into())).unwrap();
    server.delete(&[id]).await;
    tokio::time::sleep(s(120)).await;
    let server = server.crash(3).await;
    tokio::time::sleep(s(120)).await;
    let mut states = server.states().await;
    states.sort_unstable();
    assert_eq!((server.target().await, states), (1, vec![1, 3]));
    server.sim().apply(Command::Connect(name.as_str().into())).unwrap();
    tokio::time::sleep(s(180)).await;
    assert_eq!((server.states().await, machines(server.sim()).len()), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_login_may_not_read_is_a_failure_of_its_machine() {
    let server = Server::start(file(0, "")).await;
    tasks_take(server.sim(), s(30));
    server.increase(1).await;
    tokio::time::sleep(s(5)).await;
    let denied = Rule::new("denied", [Action::soap_fault("NoPermission")]).on(sim::Face::Soap);
    let denied = server.sim().fault(denied.op(["RetrievePropertiesEx"])).unwrap();
    tokio::time::sleep(s(10)).await;
    let error = server.instances().await.remove(0).status.unwrap().error.unwrap();
    assert_eq!(error.code, "AUTH");
    let decrease = Resize::new(GROUP, -1);
    let code = server.code("NodeGroupDecreaseTargetSize", decrease).await;
    assert_eq!(code, FAILED_PRECONDITION, "the clone may be running");
    drop(denied);
    tokio::time::sleep(s(240)).await;
    assert_eq!((server.states().await, machines(server.sim()).len()), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_never_end_do_not_hold_up_other_machines_for_ever() {
    let server = Server::start(file(0, "")).await;
    let completion = Completion::WhenTold;
    server.sim().apply(Command::SetTiming { step: Step::Task, completion }).unwrap();
    server.increase(9).await;
    tokio::time::sleep(s(1800)).await;
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 8);
    tokio::time::sleep(s(2400)).await;
    assert!(calls(server.sim(), "CloneVM_Task") > 8);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_the_config_map_that_is_given_up_leaves_the_next_one_possible() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let store = config_map(&sim);
    store.read().await.unwrap();
    store.write("one").await.unwrap();
    for (id, is_applied) in [("applied", true), ("dropped", false)] {
        let rule = Rule::new(id, [Action::Blackhole]).on(sim::Face::Cluster);
        let rule = rule.op(["update configmaps"]);
        let rule = if is_applied { rule.applied() } else { rule };
        let rule = sim.fault(rule).unwrap();
        tokio::time::timeout(s(1), store.write("two")).await.unwrap_err();
        drop(rule);
        store.write("three").await.unwrap();
        assert_eq!(config_map(&sim).read().await, Ok(Some("three".to_owned())), "{id}");
    }
}
