//! Tests our server for the Cluster Autoscaler over a vCenter, in virtual time: a client of the
//! protocol changes groups, and the machines in vCenter must follow, whatever crashes.

mod crashes;
mod failures;
mod journal;
pub(crate) mod library;
mod protection;
mod vanished;

use std::sync::Arc;
use std::time::Duration;

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::autoscaler::{
    DeleteNodes, Empty, Instance, Instances, OfGroup, OfNode, OneGroup, Ours, Resize, SentNode,
    Template,
};
use conformance::lab::in_virtual_time;
use provider::{ConfigMapJournal, JournalError, JournalStore as _, TokenSource, authenticated};
use sim::Sim;
use sim::faults::{Action, MissingPaths, Rule};
use sim::world::vcenter::{
    DeviceChange, DeviceSpec, Machine, MachineSpec, Power, Setting, Structure,
};
use sim::world::{Command, Completion, Step, Topology, World, objects};

use super::autoscaler_server::Server;

pub(crate) const GROUP: &str = "vcenter/workers";
pub(crate) const OTHER: &str = "vcenter/others";
/// Machines of a group, in a file with groups.
pub(crate) const CLONE: &str = "clone: {datacenter: DC0, template: ubuntu, folder: /DC0/vm, \
                                resourcePool: DC0_C0/Resources, tag: nodes/autoscaled, \
                                bootstrap: {file: user-data}}";
const FAILED_PRECONDITION: i32 = 9;
const UNAVAILABLE: i32 = 14;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A file with the groups `workers` and `others`; `more` is added to each clone.
fn file(min: u32, more: &str) -> String {
    let clone = format!("{}{more}}}", CLONE.strip_suffix('}').unwrap());
    format!(
        "groups:\n- {{name: workers, min: {min}, max: 20, {clone}}}\n\
         - {{name: others, max: 20, {clone}}}\n"
    )
}

/// Starts our server over the vCenter of a sim.
async fn start(file: String) -> Server {
    let ours = Ours::over_vcenter(file, 1, false).unwrap();
    next(&ours, 1).await
}

/// Returns a new process of the server, which knows only the journal.
async fn next(ours: &Ours, seed: u64) -> Server {
    Server::started(ours, GROUP, seed).await
}

/// Starts a server whose group has `n` machines that run, and returns their IDs.
async fn running_group(n: i32) -> (Server, Vec<String>) {
    let server = start(file(0, "")).await;
    server.increase(n).await;
    tokio::time::sleep(s(120)).await;
    let ids = server.ids().await;
    (server, ids)
}

/// Creates a machine that is powered on, as an administrator does.
fn create(sim: &Sim, spec: MachineSpec) {
    let command = Command::CreateMachine {
        vcenter: None,
        spec,
        cluster: None,
        power_on: true,
        kubelet: false,
    };
    sim.apply(command).unwrap();
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
    let server = start(file(0, "")).await;
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
async fn a_decrease_gives_up_only_machines_whose_clone_has_not_started() {
    let server = start(file(0, "")).await;
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
    let server = start(file(0, "")).await;
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
async fn a_view_costs_the_same_number_of_calls_whatever_the_number_of_machines() {
    let server = start(file(0, "")).await;
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
    let server = start(file(0, more)).await;
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

/// Plays a check, and returns its failures.
fn play(check: &AutoscalerCheck) -> Vec<String> {
    let mut failed = Vec::new();
    for generation in check.generations {
        let verdict = in_virtual_time(async {
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

/// Makes the properties with this path unreadable.
fn unreadable(path: &str) -> Rule {
    let missing = MissingPaths::new([path], "SystemError");
    Rule::new("unreadable", [Action::MissingSet(missing)]).on(sim::Face::Soap)
}
