//! Property tests of a world with a Supervisor. In their histories, clients create, change and
//! delete VirtualMachines, create and delete their classes, and delete zones. VM Operator
//! reconciles the VirtualMachines, stops and starts, and histories hold some of its steps.
//! Meanwhile machines, guests and hosts change.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Value, json};
use sim_world::objects::{self, GroupResource, Key, Op, PatchKind, Quota};
use sim_world::supervisor::OperatorChange;
use sim_world::{Command, Completion, ControlPlane, Event, Retain, Step, Time, Topology, World};

use super::{NextLook as _, goes_on, machine, play, repeats, replays};

const GROUP: &str = "vmoperator.vmware.com";
const NAMESPACE: &str = "workloads";

fn machines() -> GroupResource {
    GroupResource::of(GROUP, "virtualmachines")
}

fn classes() -> GroupResource {
    GroupResource::of(GROUP, "virtualmachineclasses")
}

/// Names of objects: of machines of the topology, and of some that clients create.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![(1..5_u32).prop_map(|n| format!("node-{n:04}")), "vm-[a-c]"]
}

fn create() -> impl Strategy<Value = Command> {
    let class = prop_oneof![4 => Just("best-effort-small"), 1 => Just("huge")];
    let zone = prop::option::of(prop_oneof![Just("zone-a"), Just("zone-b"), Just("zone-z")]);
    let version = 1..7_u8;
    (name(), class, zone, any::<bool>(), version).prop_map(|(name, class, zone, is_node, version)| {
        let mut labels = json!({});
        if let Some(zone) = zone {
            labels["topology.kubernetes.io/zone"] = zone.into();
        }
        if is_node {
            labels["capv.vmware.com/cluster.role"] = "node".into();
        }
        let object = json!({
            "apiVersion": format!("{GROUP}/v1alpha{version}"),
            "kind": "VirtualMachine",
            "metadata": {"name": name, "labels": labels},
            "spec": {"className": class, "imageName": "vmi-0123456789abcdef0", "storageClass": "default"},
        });
        let command = objects::Command::create(machines(), NAMESPACE, object);
        Command::Supervisor(command.in_version(format!("v1alpha{version}")))
    })
}

fn patch(name: String, patch: Value) -> Command {
    let key = Key::new(machines(), NAMESPACE, name);
    Command::Supervisor(objects::Command::patch(key, PatchKind::Merge, patch))
}

fn write() -> impl Strategy<Value = Command> {
    let power = prop_oneof![Just("PoweredOn"), Just("PoweredOff"), Just("Suspended")];
    let paused = "vmoperator.vmware.com/paused";
    let checked = "delete.check.vmoperator.vmware.com/test";
    let annotation = prop_oneof![Just(paused), Just(checked)];
    prop_oneof![
        6 => create(),
        4 => (name(), power, 2..7_u8).prop_map(|(name, power, version)| {
            let patch = patch(name, json!({"spec": {"powerState": power}}));
            match patch {
                Command::Supervisor(it) => {
                    Command::Supervisor(it.in_version(format!("v1alpha{version}")))
                }
                other => other,
            }
        }),
        2 => (name(), annotation, any::<bool>()).prop_map(|(name, annotation, is_set)| {
            let value = if is_set { json!("") } else { Value::Null };
            patch(name, json!({"metadata": {"annotations": {annotation: value}}}))
        }),
        1 => name().prop_map(|name| {
            patch(name, json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}}))
        }),
        4 => name().prop_map(|name| {
            Command::Supervisor(objects::Command::delete(Key::new(machines(), NAMESPACE, name)))
        }),
        1 => Just(Command::Supervisor(objects::Command::create(classes(), NAMESPACE, json!({
            "apiVersion": format!("{GROUP}/v1alpha6"),
            "kind": "VirtualMachineClass",
            "metadata": {"name": "huge"},
            "spec": {"hardware": {"cpus": 64, "memory": "1Ti"}},
        })))),
        1 => prop_oneof![Just("huge"), Just("best-effort-small")].prop_map(|name| {
            Command::Supervisor(objects::Command::delete(Key::new(classes(), NAMESPACE, name)))
        }),
        1 => prop_oneof![Just("zone-a"), Just("zone-b")].prop_map(|name| {
            let zones = GroupResource::of("topology.tanzu.vmware.com", "availabilityzones");
            Command::Supervisor(objects::Command::delete(Key::new(zones, "", name)))
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::VmAccepted),
        Just(Step::VmPrerequisites),
        Just(Step::VmCreated),
        Just(Step::VmIdentified),
        Just(Step::VmPower),
        Just(Step::VmStatus),
        Just(Step::VmDeleted),
    ]
}

fn operator() -> impl Strategy<Value = Command> {
    let flag = || prop::option::weighted(0.4, any::<bool>());
    prop_oneof![
        3 => (flag(), flag(), flag(), flag()).prop_map(
            |(reconciles, webhooks, upper_case_uuids, tells_zones)| {
                Command::SetVmOperator(OperatorChange {
                    reconciles,
                    webhooks,
                    upper_case_uuids,
                    tells_zones,
                })
            }
        ),
        2 => Just(Command::SetVmOperator(OperatorChange::back())),
        3 => (step(), 0..3_u8).prop_map(|(step, n)| Command::SetTiming {
            step,
            completion: match n {
                0 => Completion::Immediately,
                1 => Completion::After(Duration::from_secs(3)),
                _ => Completion::WhenTold,
            },
        }),
        2 => prop::option::of(step()).prop_map(|step| Command::Tell { step, machine: None }),
        1 => (0..8_u64).prop_map(|n| Command::SetQuota(Quota {
            namespace: NAMESPACE.into(),
            name: "machines".into(),
            hard: match n {
                0 => BTreeMap::new(),
                n => [("count/virtualmachines.vmoperator.vmware.com".to_owned(), n)].into(),
            },
        })),
        1 => (0..10_usize).prop_map(|keep| Command::CompactCluster {
            plane: ControlPlane::Supervisor,
            keep,
        }),
        // May give two machines the same UUID, as after a restore.
        2 => (machine(), 0..3_u128).prop_map(|(machine, n)| Command::SetUuid {
            machine,
            uuid: (n > 0).then(|| uuid::Uuid::from_u128(n)),
        }),
    ]
}

fn history() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let command = prop_oneof![
        5 => write(), 4 => operator(), 3 => super::power(), 2 => super::guest(), 1 => super::service()
    ];
    prop::collection::vec((0..40_u64, command), 1..40)
}

/// Returns a new world with this seed, from 0 to 2. Builds the three worlds once and clones them.
fn fresh(seed: u64) -> World {
    static FOUNDED: LazyLock<Vec<World>> = LazyLock::new(|| {
        let epoch = "2026-01-01T00:00:00Z".parse().expect("a valid timestamp");
        let found = |seed| Topology::zones(2).machines(4).supervisor().build(epoch, seed);
        (0..3).map(found).collect()
    });
    let mut world = FOUNDED[usize::try_from(seed).expect("a seed below 3")].clone();
    world.retain(Retain::Everything);
    world
}

/// Starts VM Operator and its webhooks, makes its steps end at once, releases held steps, and lets
/// an hour pass, so that every step ends.
fn heal(world: &mut World) {
    let now = |world: &World| world.next_look();
    let steps = [
        Step::VmAccepted,
        Step::VmPrerequisites,
        Step::VmCreated,
        Step::VmIdentified,
        Step::VmPower,
        Step::VmStatus,
        Step::VmDeleted,
    ];
    for step in steps {
        let completion = Completion::Immediately;
        world.apply(now(world), Command::SetTiming { step, completion }).expect("a valid timing");
    }
    let back = Command::SetVmOperator(OperatorChange::back());
    world.apply(now(world), back).expect("a world with a Supervisor");
    world.apply(now(world), Command::Tell { step: None, machine: None }).expect("a valid command");
    world.advance(Time::after_start(world.age() + Duration::from_secs(3600)));
}

/// Configuration with 24 cases, or with the number in `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 24 };
    ProptestConfig { cases, failure_persistence: kept!("supervisor.txt"), ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_world_with_a_supervisor_keeps_its_invariants_and_its_log_replays_to_its_state(
        history in history(),
    ) {
        let mut world = fresh(0);
        play(&mut world, &history);
        replays(&world);
    }

    #[test]
    fn the_same_seed_gives_the_same_log(history in history(), seed in 0..3_u64) {
        repeats(|| fresh(seed), &history);
    }

    #[test]
    fn a_restored_snapshot_continues_like_the_original(history in history(), cut in 0..40_usize) {
        goes_on(fresh(1), &history, cut);
    }

    #[test]
    fn objects_stop_changing_after_vm_operator_starts_again(history in history()) {
        let mut world = fresh(2);
        play(&mut world, &history);
        heal(&mut world);
        prop_assert_eq!(world.violations(), Vec::<String>::new());
        let revision = world.supervisor.objects.revision();
        world.advance(Time::after_start(world.age() + Duration::from_secs(3600)));
        prop_assert_eq!(
            world.supervisor.objects.revision(),
            revision,
            "objects still change an hour after VM Operator started"
        );
    }
}

/// Checks that random histories contain the cases that the properties are meant to test.
#[test]
fn random_histories_reach_the_cases_of_the_properties() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..60 {
        let history = history().new_tree(&mut runner).expect("a history").current();
        let mut world = fresh(0);
        let mut now = Duration::ZERO;
        for (pause, command) in history {
            now += Duration::from_secs(pause);
            let what = match world.apply(Time::after_start(now), command) {
                Err(fault) => refusal(&fault.to_string()),
                Ok(_) => "accepted",
            };
            *seen.entry(what).or_default() += 1;
        }
        heal(&mut world);
        for (_, event) in world.log().entries() {
            *seen.entry(reached(event)).or_default() += 1;
        }
    }
    for what in [
        "quota",
        "webhook away",
        "conversion away",
        "made",
        "powered on",
        "removed",
        "upper case",
        "lost",
        "VM Operator away",
    ] {
        assert!(
            seen.get(what).is_some_and(|n| *n > 2),
            "{what} must occur more than twice, found {seen:?}"
        );
    }
}

fn refusal(message: &str) -> &'static str {
    [
        ("exceeded quota", "quota"),
        ("failed calling webhook", "webhook away"),
        ("conversion webhook for", "conversion away"),
        ("not found", "not found"),
    ]
    .into_iter()
    .find(|(text, _)| message.contains(text))
    .map_or("refused otherwise", |(_, name)| name)
}

/// Returns the case of the property tests that an event belongs to.
fn reached(event: &Event) -> &'static str {
    let Event::Supervisor(event) = event else {
        return match event {
            Event::OperatorSet(operator) if !operator.reconciles => "VM Operator away",
            _ => "something else",
        };
    };
    if event.key.resource != machines() {
        return "something else";
    }
    let text = |pointer| event.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_new = !event.key.name.starts_with("node-");
    let conditions = event.object["status"]["conditions"].as_array().into_iter().flatten();
    let is_lost = conditions
        .into_iter()
        .any(|it| it["type"] == "VirtualMachineCreated" && it["status"] == "False");
    let bios = text("/status/biosUUID");
    match event.op {
        Op::Deleted => "removed",
        _ if is_lost => "lost",
        _ if bios.chars().any(|c| c.is_ascii_uppercase()) => "upper case",
        _ if is_new && text("/status/powerState") == "PoweredOn" => "powered on",
        _ if is_new && !text("/status/uniqueID").is_empty() => "made",
        _ => "something else",
    }
}
