//! NODE-006, NODE-019, NODE-029, NODE-030 and NODE-037: nodes that wait for data of their machines,
//! the provider's attempts meanwhile, and joins with several workers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, PatchKind};
use sim::world::supervisor::OperatorChange;
use sim::world::{Command, Completion, ControlPlane, Step};

use crate::checks::build::{
    KNOWN_UUID, SETTLED, T_INIT, T_STATUS, WRITE_NODE, WRITE_STATUS, create_joining_machine,
    create_node_early, hidden, known_uuid, machine, machine_object, patch, s, set_address, world,
    world_with,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Pace};

/// Time in which a provider must not initialize a waiting node: `T_quiet` of the catalogue, which
/// is 30 s because no period applies to such nodes.
const T_QUIET: Duration = s(30);
/// Time within which the provider must initialize a node after the change for which it waits.
const AT_ONCE: Duration = s(2);

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("NODE-006", [without_identity(backend)]),
        Check::new("NODE-029", [mended_annotation(), touched(backend)]),
        Check::new("NODE-030", [hopeless()]),
        Check::new("NODE-037", many_workers(backend)),
    ];
    if backend == Backend::Supervisor {
        checks.push(Check::new("NODE-019", [without_addresses()]));
    }
    checks
}

/// Creates a case in which a machine runs and has addresses, but the backend does not report its
/// UUID until 40 s. The provider must not initialize the machine's node before 40 s.
fn without_identity(backend: Backend) -> Case {
    let told = s(10) + T_QUIET;
    let scenario = match backend {
        Backend::VCenter => known_uuid(backend, world(2, s(220)), 1)
            .at(s(0), Command::SetUuid { machine: machine(1), uuid: None })
            .at(told, Command::SetUuid { machine: machine(1), uuid: Some(KNOWN_UUID) }),
        Backend::Supervisor => world(2, s(220))
            .with_provider(|it| it.start = false)
            .at(s(5), reconciles(false))
            .at(s(6), without_uuids(1))
            .at(s(10), Act::StartAll)
            .at(told, reconciles(true)),
    };
    let scenario = scenario.at(told - s(5), touch(1));
    Case::new(scenario, move |run| {
        let opened = run.initialized(&name(1));
        let node = run.node(&name(1));
        let has_id = node.is_some_and(|node| node.provider_id.is_some());
        Verdict::pass_if(opened.is_none_or(|at| at.since_start() >= told), || {
            format!("the provider initialized the node {opened}, before the backend reported the UUID of its machine", opened = when(opened))
                .at(opened)
        })
        .and(|| run.initializes(&[name(2)], s(10), T_INIT))
        .and(|| run.initializes(&[name(1)], told, s(170)))
        .and(|| Verdict::pass_if(has_id, || "the node is initialized without a provider ID".to_owned()))
    })
    .paced(Pace::Real)
}

/// Returns the command that turns the reconciliation of VM Operator on or off.
fn reconciles(does: bool) -> Command {
    Command::SetVmOperator(OperatorChange { reconciles: Some(does), ..OperatorChange::default() })
}

/// Returns the command that removes the UUIDs from the status of the `n`-th machine's object.
fn without_uuids(n: u32) -> Command {
    let untold = json!({"status": {"biosUUID": null, "instanceUUID": null}});
    let patch = objects::Command::patch(machine_object(n), PatchKind::Merge, untold);
    Command::Supervisor(patch.on_status())
}

/// Returns the command that sets a label of the `n`-th node. The label says nothing about the
/// node's machine.
fn touch(n: u32) -> Command {
    patch(&name(n), json!({"metadata": {"labels": {"touched": "true"}}}))
}

/// Creates a case in Supervisor mode in which a guest reports its addresses long after its kubelet
/// has registered. The provider must initialize the node without addresses and add them later.
fn without_addresses() -> Case {
    let late = s(90);
    let timing = |step, after| Command::SetTiming { step, completion: Completion::After(after) };
    let horizon = s(20) + late + T_STATUS + T_INIT + s(60);
    let scenario = world_with(1, 2, horizon)
        .at(s(0), timing(Step::Kubelet, s(2)))
        .at(s(0), timing(Step::Address, late))
        .at(s(20), create_joining_machine("late", None));
    Case::new(scenario, move |run| {
        let node = "late".to_owned();
        let Some(registered) = run.when(&node, |_| true) else {
            return Verdict::inconclusive("the node named late never registered");
        };
        let opened = run.initialized(&node);
        let shown = run.when(&node, |node| node.ips().next().is_some());
        // The earliest time. In addition the machine needs some seconds to power on, and VM
        // Operator to report its addresses.
        let reports = s(20) + late;
        if shown.is_some_and(|at| at.since_start() < reports) {
            let why = "the node showed addresses before its machine had any";
            return Verdict::inconclusive(why);
        }
        let registered = registered.since_start();
        run.initializes(std::slice::from_ref(&node), registered, T_INIT).and(|| {
            let is_in_time =
                shown.is_some_and(|at| at.since_start() <= reports + T_STATUS + T_INIT + s(20));
            Verdict::pass_if(is_in_time, || {
                format!(
                    "the node was initialized {opened}, but shows addresses {shown}, which is too late", opened = when(opened), shown = when(shown)
                )
                .late(shown)
            })
        })
    })
    .paced(Pace::Real)
}

/// Creates a case in which the annotation with the kubelet's address names an address that the
/// machine lacks, and after four minutes the right one. The provider must then initialize the node
/// within [`AT_ONCE`].
fn mended_annotation() -> Case {
    const ADDRESS: &str = "10.6.0.1";
    let provided = |ip: &str| {
        let key = "alpha.kubernetes.io/provided-node-ip";
        patch(&name(1), json!({"metadata": {"annotations": {key: ip}}}))
    };
    let mended = s(240);
    let scenario = world(3, mended + s(60))
        .at(s(0), Command::SetHeartbeats { every: None })
        .at(s(0), set_address(1, &[ADDRESS]))
        .at(s(0), provided("10.6.0.99"))
        .at(mended, provided(ADDRESS));
    Case::new(scenario, move |run| is_tried_at_once(run, mended))
        .paced(Pace::Real)
        .named("an annotation is mended")
}

/// Creates a case in which the backend hides a machine for four minutes, and then the Node changes.
/// The provider must then initialize the node within [`AT_ONCE`].
fn touched(backend: Backend) -> Case {
    let seen = s(240);
    let mut scenario = world(3, seen + s(60))
        .fault(hidden(backend, 1))
        .at(s(0), Command::SetHeartbeats { every: None })
        .at(seen, Act::RemoveRules);
    if backend == Backend::Supervisor {
        // A watch that began while the object was hidden never shows it. So the commands make the
        // provider list again, which other checks test.
        let plane = ControlPlane::Supervisor;
        scenario = scenario
            .at(seen, Command::CompactCluster { plane, keep: 0 })
            .at(seen, backend.disconnect());
    }
    let touched = if backend.is_vcenter() { seen } else { seen + s(10) };
    let scenario = scenario.at(touched, touch(1));
    Case::new(scenario, move |run| is_tried_at_once(run, touched))
        .paced(Pace::Real)
        .named("a machine is found")
}

/// Fails unless the first node is initialized between 60 s before and [`AT_ONCE`] after `changed`,
/// and the other two nodes within [`T_INIT`] of the start.
fn is_tried_at_once(run: &Run, changed: Duration) -> Verdict {
    let opened = run.initialized(&name(1));
    if opened.is_some_and(|at| at.since_start() + s(60) < changed) {
        return Verdict::fail(
            format!(
                "the provider initialized the node {opened}, more than a minute before {changed:?}, when this became possible",
                opened = when(opened)
            )
            .at(opened),
        );
    }
    run.initializes(&names(3)[1..], s(0), T_INIT)
        .and(|| run.initializes(&[name(1)], changed, AT_ONCE))
}

/// Creates a case in which a Node registers whose machine never exists, and nothing else changes.
/// The provider may send the same read to its backend at most 16 times in a minute.
fn hopeless() -> Case {
    const MOST: usize = 16;
    let end = SETTLED + s(60);
    let scenario = world(3, end + s(1))
        .at(s(0), Command::SetHeartbeats { every: None })
        .at(SETTLED, Act::Phase("hopeless".into()))
        .at(SETTLED, create_node_early(KNOWN_UUID))
        .at(end, Act::Phase("after".into()));
    Case::new(scenario, |run| {
        let waits = run.node("early").is_some_and(|node| node.uninitialized && node.is_ready());
        if !waits {
            return Verdict::inconclusive("the case needs a Node named early that is Ready and uninitialized at the end");
        }
        // Counts equal reads, because one attempt may consist of several different ones.
        let mut asked: BTreeMap<_, usize> = BTreeMap::new();
        for call in run.calls_in("hopeless").filter(|call| run.backend().receives(call)) {
            if !run.backend().is_wait(call) {
                let key = (call.op.as_str(), call.target.clone(), call.req.detail.as_str());
                *asked.entry(format!("{key:?}")).or_default() += 1;
            }
        }
        let most = asked.into_iter().max_by_key(|(_, n)| *n);
        run.initializes(&names(3), s(0), T_INIT).and(|| {
            let (what, n) = most.unwrap_or_default();
            Verdict::pass_if(n <= MOST, || {
                format!("the provider sent {n} equal reads in a minute for one waiting node; at most {MOST} are allowed: {what}")
            })
        })
    })
    .paced(Pace::Real)
}

/// Number of workers of the provider, and of nodes that join.
const WORKERS: u32 = 10;

/// Creates a case in which as many kubelets as workers register at the same time, while each call
/// that a rule of `slow` matches takes a second. The provider must initialize all nodes within
/// `bound`.
fn joined_by(slow: impl IntoIterator<Item = Rule>, bound: Duration) -> Case {
    let mut scenario = world_with(2, WORKERS + 2, SETTLED + s(120))
        .with_provider(|it| it.workers = WORKERS as usize);
    for rule in slow {
        scenario = scenario.fault(rule);
    }
    for n in 3..=WORKERS + 2 {
        scenario = scenario.at(SETTLED, Command::StartKubelet(machine(n)));
    }
    Case::new(scenario, move |run| {
        let joined = &names(WORKERS + 2)[2..];
        let early = joined
            .iter()
            .find(|node| run.when(node, |_| true).is_none_or(|at| at.since_start() < SETTLED));
        if let Some(node) = early {
            return Verdict::inconclusive(format!(
                "the case needs that node {node} registers {} or later",
                when(SETTLED)
            ));
        }
        run.initializes(&names(2), s(0), SETTLED).and(|| run.initializes(joined, SETTLED, bound))
    })
}

fn many_workers(backend: Backend) -> Vec<Case> {
    let second = || [Action::Delay(s(1))];
    let cluster = Rule::new("slow", second())
        .on(Face::Cluster)
        .op(WRITE_NODE.into_iter().chain(WRITE_STATUS));
    // In vCenter mode several calls for one machine follow each other: search, view, properties,
    // tags. So the bound is `T_init` of the catalogue for a latency of 1 s.
    let (clouds, bound) = match backend {
        Backend::VCenter => (vec![Face::Soap, Face::Vapi], T_INIT + s(4)),
        Backend::Supervisor => (vec![Face::Supervisor], s(6)),
    };
    let clouds = clouds.into_iter().enumerate();
    let clouds = clouds.map(|(n, face)| Rule::new(format!("slow/{n}"), second()).on(face));
    vec![
        joined_by(clouds, bound).named("calls to the cloud take a second"),
        joined_by([cluster], s(6)).named("writes of nodes take a second"),
    ]
}
