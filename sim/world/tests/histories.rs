//! Property tests with random histories of commands. The world keeps its invariants, its log
//! replays to its state, a restored snapshot continues like the original, and the same seed gives
//! the same log. The module `supervisor` tests the same for a world with a Supervisor, in which
//! clients write objects while VM Operator reconciles them or is stopped.

/// Expands to the setting that keeps the seeds of failures in the file `$file` of
/// `tests/regressions`. proptest runs these seeds first.
macro_rules! kept {
    ($file:literal) => {
        Some(Box::new(proptest::test_runner::FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/regressions/",
            $file
        ))))
    };
}

#[path = "histories/supervisor.rs"]
mod supervisor;

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use sim_world::objects::{self, GroupResource, Key};
use sim_world::vcenter::{GuestRequest, Kind, MachineSpec, MoRef, Password, Work};
use sim_world::{
    Command, Completion, Event, Grant, ItemName, Named, PROVIDER_USER, Retain, State, Step,
    TagName, Time, Topology, VcRequest, World, ZONE_CATEGORY,
};

fn machine() -> impl Strategy<Value = Named> {
    // Some of these machines do not exist: the world starts with at most five, and the history may
    // delete or rename them.
    (1..7_u32).prop_map(|n| format!("node-{n:04}").as_str().into())
}

fn host() -> impl Strategy<Value = Named> {
    (0..2_u32, 0..3_u32).prop_map(|(zone, n)| format!("DC0_C{zone}_H{n}").as_str().into())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Task),
        Just(Step::Tools),
        Just(Step::Address),
        Just(Step::Kubelet),
        Just(Step::GuestPower),
        Just(Step::HaRestart),
        Just(Step::Workloads),
        Just(Step::PodStart),
        Just(Step::PodStop),
    ]
}

fn object() -> impl Strategy<Value = String> {
    prop_oneof![Just("DC0".to_owned()), Just("DC0_C1".to_owned()), Just("node-0002".to_owned())]
}

fn power() -> impl Strategy<Value = Command> {
    prop_oneof![
        machine().prop_map(Command::PowerOn),
        machine().prop_map(Command::PowerOff),
        machine().prop_map(Command::Suspend),
        machine().prop_map(Command::Reset),
        machine().prop_map(Command::DeleteMachine),
        machine().prop_map(Command::Inaccessible),
        machine().prop_map(Command::Orphan),
        machine().prop_map(Command::Connect),
        machine().prop_map(Command::Reregister),
        (machine(), proptest::option::of("app-[12]"))
            .prop_map(|(machine, vapp)| Command::SetVApp { machine, vapp }),
        (machine(), machine()).prop_map(|(a, b)| Command::ReassignIds { machines: vec![a, b] }),
        (machine(), any::<u128>()).prop_map(|(machine, uuid)| Command::Replace {
            machine,
            uuid: uuid::Uuid::from_u128(uuid),
        }),
        (machine(), "[a-z]{1,6}").prop_map(|(machine, to)| Command::Rename { machine, to }),
        (machine(), host())
            .prop_map(|(machine, host)| Command::VMotion { machine, host: host.name }),
        (machine(), any::<Option<u128>>()).prop_map(|(machine, uuid)| Command::SetUuid {
            machine,
            uuid: uuid.map(uuid::Uuid::from_u128),
        }),
        ("[a-z]{1,4}", any::<bool>(), any::<bool>()).prop_map(|(name, power_on, kubelet)| {
            let spec = MachineSpec { name: Some(name), ..MachineSpec::default() };
            Command::CreateMachine { vcenter: None, spec, cluster: None, power_on, kubelet }
        }),
    ]
}

fn guest() -> impl Strategy<Value = Command> {
    prop_oneof![
        (machine(), any::<[u8; 4]>()).prop_map(|(machine, octets)| Command::SetAddresses {
            machine,
            addresses: vec![vec![std::net::Ipv4Addr::from(octets).into()]],
        }),
        machine().prop_map(Command::ClearAddresses),
        machine().prop_map(Command::ReorderAddresses),
        machine().prop_map(Command::StopTools),
        machine().prop_map(Command::StartTools),
        machine().prop_map(Command::StartKubelet),
        machine().prop_map(Command::StopKubelet),
        (machine(), proptest::option::of("[a-z]{1,5}"))
            .prop_map(|(machine, host_name)| Command::SetHostName { machine, host_name }),
    ]
}

fn service() -> impl Strategy<Value = Command> {
    prop_oneof![
        host().prop_map(Command::DisconnectHost),
        host().prop_map(Command::ReconnectHost),
        host().prop_map(Command::FailHost),
        Just(Command::StopVCenter { vcenter: None }),
        Just(Command::StartVCenter { vcenter: None }),
        Just(Command::SwapCertificate { vcenter: None }),
        Just(Command::ExpireSessions { vcenter: None, family: None }),
        "[a-z]{1,6}".prop_map(|password| Command::RotatePassword {
            vcenter: None,
            user: PROVIDER_USER.to_owned(),
            password: Password::new(password),
        }),
        object().prop_map(|object| Command::RevokePrivilege(Grant {
            vcenter: None,
            user: PROVIDER_USER.to_owned(),
            object,
        })),
        (object(), "[a-c]").prop_map(|(object, tag)| Command::AttachTag(TagName {
            vcenter: None,
            category: ZONE_CATEGORY.to_owned(),
            tag,
            object,
        })),
        (step(), 0..3_u8).prop_map(|(step, n)| Command::SetTiming {
            step,
            completion: match n {
                0 => Completion::Immediately,
                1 => Completion::After(Duration::from_secs(7)),
                _ => Completion::WhenTold,
            },
        }),
        proptest::option::of(step()).prop_map(|step| Command::Tell { step, machine: None }),
        proptest::option::of(1..90_u64)
            .prop_map(|every| Command::SetHeartbeats { every: every.map(Duration::from_secs) }),
        Just(request(VcRequest::OpenSession { user_agent: "test".into() })),
        (20..60_u32, 0..3_u8).prop_map(|(number, n)| {
            let entity = MoRef::new(Kind::Machine, number);
            let work = [Work::PowerOff, Work::PowerOn, Work::Destroy][usize::from(n)].clone();
            request(VcRequest::StartTask { user: PROVIDER_USER.into(), entity, work })
        }),
        (10..30_u32, 0..3_u8).prop_map(|(number, n)| {
            let asked = [GuestRequest::Shutdown, GuestRequest::Reboot, GuestRequest::Standby];
            let machine = MoRef::new(Kind::Machine, number);
            request(VcRequest::Guest { machine, request: asked[usize::from(n)] })
        }),
    ]
}

/// Content libraries, and items whose templates are machines that may be off or not exist.
fn library() -> impl Strategy<Value = Command> {
    prop_oneof![
        "[ab]".prop_map(|name| Command::CreateLibrary { vcenter: None, name }),
        ("[ab]", "[ab]", proptest::option::of(machine())).prop_map(|(library, name, machine)| {
            Command::AddLibraryItem {
                item: ItemName { vcenter: None, library, name },
                kind: "vm-template".to_owned(),
                template: machine.map(|it| it.name),
            }
        }),
    ]
}

/// Workloads of the cluster, and changes of their Nodes, that the scheduler and the controllers act
/// on while they run.
fn workload() -> impl Strategy<Value = Command> {
    let sets = || GroupResource::of("apps", "replicasets");
    let key = move |resource: &str, name: &str| Key::new(resource, "default", name);
    prop_oneof![
        2 => any::<bool>().prop_map(|run| Command::SetWorkloads { run }),
        3 => ("[ab]", 0..5_u32, 1..3_u32).prop_map(move |(name, replicas, cpu)| {
            let requests = json!({"cpu": cpu.to_string()});
            let container = json!({"name": "c", "image": "i", "resources": {"requests": requests}});
            let template = json!({
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [container]},
            });
            let selector = json!({"matchLabels": {"app": name}});
            let spec = json!({"replicas": replicas, "selector": selector, "template": template});
            let object = json!({"metadata": {"name": name}, "spec": spec});
            Command::Cluster(objects::Command::create(sets(), "default", object))
        }),
        1 => "[ab]".prop_map(move |name| {
            Command::Cluster(objects::Command::delete(key("replicasets.apps", &name)))
        }),
        2 => node().prop_map(|node| {
            let patch = json!({"spec": {"taints": null}});
            let key = Key::node(&node);
            Command::Cluster(objects::Command::patch(key, objects::PatchKind::Merge, patch))
        }),
        1 => node().prop_map(|node| Command::Cluster(objects::Command::delete(Key::node(&node)))),
    ]
}

fn node() -> impl Strategy<Value = String> {
    (1..5_u32).prop_map(|n| format!("node-{n:04}"))
}

fn request(request: VcRequest) -> Command {
    Command::Request { vcenter: "vc0".to_owned(), request }
}

fn history() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let command =
        prop_oneof![3 => power(), 3 => guest(), 2 => service(), 1 => library(), 2 => workload()];
    prop::collection::vec((0..120_u64, command), 1..40)
}

fn fresh(seed: u64) -> World {
    let epoch = "2026-01-01T00:00:00Z".parse().expect("a valid timestamp");
    let mut world = Topology::zones(2).machines(5).build(epoch, seed);
    world.retain(Retain::Everything);
    world
}

/// Applies the commands of a history and checks the invariants after each; returns the number of
/// refused commands.
fn play(world: &mut World, history: &[(u64, Command)]) -> usize {
    let mut now = Duration::from_nanos(0);
    let mut refused = 0;
    for (pause, command) in history {
        now += Duration::from_secs(*pause);
        let before = world.state().clone();
        match world.apply(Time::after_start(now), command.clone()) {
            Ok(_) => {}
            Err(_) => {
                refused += 1;
                // Due reactions may have changed the state, but the refused command must not.
                let mut waited = World::restore(before);
                waited.advance(Time::after_start(now));
                assert_eq!(
                    waited.state(),
                    world.state(),
                    "refused command {command:?} changed the state"
                );
            }
        }
        assert_eq!(world.violations(), Vec::<String>::new(), "after {command:?}");
    }
    refused
}

fn log(world: &World) -> Vec<(Time, Event)> {
    world.log().entries().cloned().collect()
}

/// Checks that the log of a world replays to its state.
fn replays(world: &World) {
    let replayed = world.log().replay(world.next_look()).expect("a log with all events");
    assert_eq!(&replayed, world.state());
}

/// Checks that two worlds with the same seed log the same events for a history.
fn repeats(fresh: impl Fn() -> World, history: &[(u64, Command)]) {
    let (mut first, mut second) = (fresh(), fresh());
    play(&mut first, history);
    play(&mut second, history);
    assert_eq!(log(&first), log(&second));
}

/// Checks that a world that is saved after `cut` commands and restored continues like the original.
fn goes_on(mut world: World, history: &[(u64, Command)], cut: usize) {
    let cut = cut.min(history.len());
    play(&mut world, &history[..cut]);
    let text = serde_json::to_string(world.state()).expect("a state that serde can write");
    let state: State = serde_json::from_str(&text).expect("a state that serde can read");
    assert_eq!(&state, world.state());
    let mut restored = World::restore(state);
    let mut now = world.age();
    for (pause, command) in &history[cut..] {
        now += Duration::from_secs(*pause);
        let one = world.apply(Time::after_start(now), command.clone()).is_ok();
        let other = restored.apply(Time::after_start(now), command.clone()).is_ok();
        assert_eq!(one, other);
    }
    assert_eq!(restored.state(), world.state());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: kept!("histories.txt"),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_world_keeps_its_invariants_and_its_log_replays_to_its_state(history in history()) {
        let mut world = fresh(7);
        play(&mut world, &history);
        replays(&world);
    }

    #[test]
    fn the_same_seed_gives_the_same_log(history in history(), seed in 0..4_u64) {
        repeats(|| fresh(seed), &history);
    }

    #[test]
    fn a_restored_snapshot_continues_like_the_original(history in history(), cut in 0..40_usize) {
        goes_on(fresh(3), &history, cut);
    }
}

/// Access to the current time of a world.
trait NextLook {
    fn next_look(&self) -> Time;
}

impl NextLook for World {
    fn next_look(&self) -> Time {
        Time::after_start(self.age())
    }
}

#[test]
fn a_bounded_log_folds_what_it_drops_into_its_base() {
    let mut world = fresh(1);
    world.retain(Retain::Last(10));
    for n in 1..60_u64 {
        world.advance(Time::after_start(Duration::from_secs(n * 10)));
    }
    assert_eq!(world.log().entries().count(), 10);
    assert_eq!(world.log().replay(Time::after_start(world.age())).as_ref(), Some(world.state()));
}
