//! NODE-DEL: when a node must not be deleted.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Between, Rule};
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource, Key};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Completion, Grant, Named, PROVIDER_USER, Step};

use super::build::{
    NAMESPACE, SETTLED, about_machines, fault_kinds, forget_reference, machine, s, world,
};
use super::canary::Canary;
use super::observe::{name, names};
use super::{Case, Check};
use crate::backend::Backend;
use crate::foreign::Pace;
use crate::judge::NodeFacts;
use crate::lab::Run;
use crate::scenario::{Act, Scenario};
use crate::verdict::Verdict;

/// The invariants about deletion.
pub(super) const SAFE: &[u8] = &[1, 4, 5, 6];

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("NODE-DEL-001", errors(backend)),
        Check::new("NODE-DEL-002", partial(backend)),
        Check::new("NODE-DEL-003", silent(backend)),
        Check::new("NODE-DEL-004", states()),
        Check::new("NODE-DEL-005", [young()]),
        Check::new("NODE-DEL-006", [vmotion(), host_failure()]),
        Check::new("NODE-DEL-007", [false, true].map(|cold| privilege_lost(backend, cold))),
    ];
    if backend.is_vcenter() {
        checks.push(Check::new("NODE-DEL-009", [another_identity()]));
    }
    checks
}

/// When the faults of a deletion check end.
const HEALED: Duration = s(300);
/// Until a provider asks again after that: its longest pause.
const PATIENCE: Duration = s(90);
/// The same where listing was forbidden: whether it is granted again is tried every ten minutes.
pub(super) const FORBIDDEN: Duration = s(660);

/// The first `n` nodes survive, and somebody had reason to ask about the first: it was NotReady.
pub(super) fn survives(run: &Run, n: u32) -> Verdict {
    let alive = run.nodes();
    let lost: Vec<String> = names(n).into_iter().filter(|name| !alive.contains(name)).collect();
    Verdict::of(lost.is_empty(), || format!("deleted: {}", lost.join(", ")))
        .and(|| run.keeps(SAFE))
        .and(|| run.was_not_ready(&name(1)))
}

/// A NotReady node whose machine exists, and failures on every call about machines. Once they end, the node of
/// a machine that is really gone goes.
fn errors(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in fault_kinds(backend.face()) {
        for restarted in [false, true] {
            let rule = about_machines(backend, "errors", kind.actions.clone());
            let mut scenario =
                world(4, s(400)).at(SETTLED, Command::StopKubelet(machine(1))).at(s(100), rule);
            if restarted {
                scenario = scenario.at(s(100), Act::Crash(0)).at(s(101), Act::Start(0));
            }
            // The long poll ends by itself, so that a warm view meets the failures too.
            scenario = scenario.at(s(130), backend.cut()).at(HEALED, Act::Heal);
            let name = format!("{}{}", kind.name, if restarted { ", cold cache" } else { "" });
            let judge = |run: &Run| survives(run, 3).and(|| same_taints(run, 3));
            let patience = if kind.name == "403" { FORBIDDEN } else { PATIENCE };
            let case = Case::new(scenario, judge).canary_within(Canary::Gone(4), HEALED, patience);
            cases.push(case.named(name));
        }
    }
    cases
}

/// The cloud's taints of the first `n` nodes do not change once they are initialized. Those that the control plane
/// gives to nodes that are not Ready are its own.
fn same_taints(run: &Run, n: u32) -> Verdict {
    for name in names(n) {
        let cloud = |node: NodeFacts| -> Vec<String> {
            let is_cloud = |key: &String| key.contains("cloudprovider.kubernetes.io");
            node.taints.into_iter().filter(is_cloud).collect()
        };
        let shown: Vec<_> = run
            .versions(&name)
            .into_iter()
            .filter_map(|(at, node)| Some((at, cloud(node?))))
            .filter(|(at, _)| at.since_start() >= SETTLED)
            .collect();
        if let Some(pair) = shown.windows(2).find(|pair| pair[0].1 != pair[1].1) {
            return Verdict::Fail(format!(
                "taints of {name} went from {:?} to {:?} at {}",
                pair[0].1, pair[1].1, pair[1].0
            ));
        }
    }
    Verdict::Pass
}

/// One kind of call answers, the next fails.
fn partial(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => partial_searches(),
        Backend::Supervisor => partial_reads(),
    }
}

/// A machine is missing in a list, and the one that would have to confirm it fails.
fn partial_reads() -> Vec<Case> {
    const LIST: &str = "list virtualmachines";
    let on = |id: &str, action, op: &str| Rule::new(id, [action]).on(Face::Supervisor).op([op]);
    let fail = || Action::Status { code: 500, retry_after: None, message: None };
    // What is known is too old, so that machines are listed anew.
    let expired = || on("expired", Action::WatchGone, "watch virtualmachines").first(1);
    let mut cases = Vec::new();
    for cold in [false, true] {
        let mut scenario = world(4, s(400)).at(SETTLED, Command::StopKubelet(machine(1)));
        scenario = match cold {
            true => scenario.at(s(100), Act::Crash(0)).at(s(101), Act::Start(0)),
            false => scenario.at(s(100), expired()).at(s(101), Backend::Supervisor.cut()),
        };
        // A provider that has just started reads what it misses by its name; one that knew it lists again.
        let (ops, from) = if cold { ("get virtualmachines", s(101)) } else { (LIST, s(102)) };
        let mut later = on("faults", fail(), ops);
        later.when.between = Some(Between(from, HEALED));
        let lists = scenario
            .at(s(100), on("missing", Action::Hide(super::observe::name(1)), LIST).first(1))
            .at(s(100), later)
            .at(HEALED, Act::Heal);
        let name = if cold { "cold cache" } else { "warm cache" };
        let name = format!("missing in one list, what follows fails, {name}");
        let case = Case::new(lists, |run| survives(run, 3)).named(name);
        cases.push(case.canary_within(Canary::Gone(4), HEALED, PATIENCE));
    }
    cases
}

/// A search answers and a read fails, or the reverse.
fn partial_searches() -> Vec<Case> {
    let fail = || Action::SoapFault { class: "SystemError".into(), message: None };
    let mut cases = Vec::new();
    for (case, ops) in [
        ("search answers, reads and updates fail", vec!["RetrieveProperties*", "WaitForUpdatesEx"]),
        ("read answers, search fails", vec!["Find*"]),
        ("search is empty, read fails", vec![]),
    ] {
        for cold in [false, true] {
            let mut scenario = world(4, s(400)).at(SETTLED, Command::StopKubelet(machine(1)));
            if ops.is_empty() {
                scenario = scenario
                    .at(
                        s(100),
                        Rule::new("empty", [Action::EmptyResult]).on(Face::Soap).op(["Find*"]),
                    )
                    .at(
                        s(100),
                        Rule::new("faults", [fail()])
                            .on(Face::Soap)
                            .op(["RetrieveProperties*", "WaitForUpdatesEx"]),
                    );
            } else {
                let rule = Rule::new("faults", [fail()]).on(Face::Soap).op(ops.iter().copied());
                scenario = scenario.at(s(100), rule);
            }
            if cold {
                // Without a reference from before, the restarted provider has to search.
                scenario = scenario
                    .at(s(100), Act::Crash(0))
                    .at(s(100), forget_reference(1))
                    .at(s(101), Act::Start(0));
            }
            let rebuild = Backend::VCenter.cut();
            let scenario = scenario.at(s(130), rebuild).at(HEALED, Act::Heal);
            let name = format!("{case}{}", if cold { ", cold cache" } else { "" });
            // A view that is there needs no search: what such a rule would break is not done at all.
            let judge = |run: &Run| survives(run, 3);
            let case = Case::new(scenario, judge).named(name);
            cases.push(case.canary_within(Canary::Gone(4), HEALED, PATIENCE));
        }
    }
    // With a warm view nobody searches: rules about searches cannot fire there.
    cases.retain(|case| {
        !matches!(case.name.as_str(), "read answers, search fails" | "search is empty, read fails")
    });
    cases
}

fn silent(backend: Backend) -> Vec<Case> {
    let mut cases = vec![heartbeats(), heartbeats_and_a_miss(backend)];
    if backend == Backend::Supervisor {
        cases.extend([
            odd_identity("aws:///eu-west-1a/i-0123456789abcdef0", "somebody else's provider ID"),
            odd_identity("vsphere://", "a provider ID without a UUID"),
            not_told_yet(),
        ]);
    }
    cases
}

/// The Node came with a provider ID that names no machine of a Supervisor. Its machine runs.
fn odd_identity(provider_id: &str, case: &str) -> Case {
    let odd = serde_json::json!({"spec": {"providerID": provider_id, "taints": null}});
    let scenario = world(4, s(400))
        .at(s(0), super::build::patch(&name(1), odd))
        .at(SETTLED, Command::StopKubelet(machine(1)));
    Case::new(scenario, |run| survives(run, 3)).canary(Canary::Gone(4), s(200)).named(case)
}

/// The machine was made anew, and its object does not tell yet which one it is: perhaps the same.
fn not_told_yet() -> Case {
    let told = HEALED;
    let late = Command::SetTiming {
        step: Step::VmIdentified,
        completion: Completion::After(told - s(110)),
    };
    let spec = MachineSpec { name: Some(name(1)), ..MachineSpec::default() };
    let again = Command::CreateMachine {
        vcenter: None,
        spec,
        cluster: None,
        power_on: true,
        kubelet: false,
    };
    let scenario = world(20, s(500))
        .at(SETTLED, Command::DeleteMachine(machine(1)))
        .at(s(99), late)
        .at(s(100), again);
    let case = Case::new(scenario, move |run| {
        let deleted = run.deleted(&name(1));
        run.was_not_ready(&name(1)).and(|| {
            Verdict::of(deleted.is_none_or(|at| at.since_start() >= told - s(10)), || {
                format!("the node was deleted at {deleted:?}; which machine has its name was told at {told:?}")
            })
        })
    });
    case.canary(Canary::Gone(20), s(200)).named("its machine is not identified yet")
}

fn heartbeats() -> Case {
    let mut scenario = world(7, s(600));
    for n in 1..=6 {
        scenario = scenario.at(SETTLED, Command::StopKubelet(machine(n)));
    }
    Case::new(scenario, |run| {
        survives(run, 6).and(|| run.keeps(&[13])).and(|| {
            let marked =
                names(6).into_iter().find(|name| run.node(name).is_some_and(|it| it.shutdown));
            Verdict::of(marked.is_none(), || format!("{marked:?} is marked shut down; it runs"))
        })
    })
    .canary(Canary::Gone(7), s(300))
    .named("machines run")
}

fn heartbeats_and_a_miss(backend: Backend) -> Case {
    // One negative lookup among good ones.
    let miss = match backend {
        Backend::VCenter => {
            Rule::new("miss", [Action::EmptyResult]).on(Face::Soap).op(["Find*"]).first(2)
        }
        Backend::Supervisor => Rule::new("miss", [Action::EmptyResult])
            .on(Face::Supervisor)
            .op(["list virtualmachines"])
            .first(1),
    };
    let scenario = world(4, s(400))
        .at(SETTLED, Command::StopKubelet(machine(1)))
        .at(s(115), Act::Crash(0))
        .at(s(115), forget_reference(1))
        .at(s(115), miss)
        .at(s(116), Act::Start(0));
    Case::new(scenario, |run| survives(run, 3))
        .canary(Canary::Gone(4), s(200))
        .named("one lookup misses")
}

fn states() -> Vec<Case> {
    let host = |run: &str| Named::from(run);
    let cases: [(&str, Command, Command); 3] = [
        ("inaccessible", Command::Inaccessible(machine(1)), Command::Connect(machine(1))),
        ("orphaned", Command::Orphan(machine(1)), Command::Connect(machine(1))),
        (
            "host disconnected",
            Command::DisconnectHost(host("DC0_C0_H0")),
            Command::ReconnectHost(host("DC0_C0_H0")),
        ),
    ];
    let mut all = Vec::new();
    for (state, begin, end) in cases {
        for cold in [false, true] {
            let mut scenario = world(5, s(700))
                .at(SETTLED, begin.clone())
                .at(SETTLED, Command::StopKubelet(machine(1)));
            if cold {
                scenario = scenario.at(s(80), Act::Crash(0)).at(s(81), Act::Start(0));
            }
            let scenario =
                scenario.at(s(400), end.clone()).at(s(410), Command::StartKubelet(machine(1)));
            let name = format!("{state}{}", if cold { ", cold cache" } else { "" });
            let judge = |run: &Run| {
                survives(run, 4).and(|| run.keeps(&[13, 17])).and(|| {
                    let back = run.node(&super::observe::name(1));
                    Verdict::of(back.is_some_and(|it| it.is_ready() && !it.shutdown), || {
                        "the node did not return to normal".to_owned()
                    })
                })
            };
            // While the machine is in that state; this one is in another zone and on another host.
            let case = Case::new(scenario, judge).canary(Canary::Gone(5), s(200));
            all.push(case.named(name));
        }
    }
    all
}

fn young() -> Case {
    // A Node that no machine stands behind yet, NotReady from the start.
    let node = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "young"},
        "spec": {"taints": [{
            "key": "node.cloudprovider.kubernetes.io/uninitialized",
            "value": "true",
            "effect": "NoSchedule",
        }]},
        "status": {
            "nodeInfo": {"systemUUID": "00000000-aaaa-4bbb-8ccc-000000000001"},
            "conditions": [{"type": "Ready", "status": "False"}],
        },
    });
    let create = objects::Command::create(GroupResource::core("nodes"), "", node);
    let born = s(100);
    let scenario = world(3, s(400)).at(born, Command::Cluster(create));
    let judge = move |run: &Run| {
        let versions = run.versions("young");
        if versions.is_empty() {
            return Verdict::Inconclusive("the young node was never there".to_owned());
        }
        // An answer that says nothing about it, after it was there.
        // A Supervisor says with a 404 that an object is not there.
        let is_answered = |call: &Record| {
            let status = call.ended.as_ref().and_then(|ended| ended.status);
            call.succeeded() || status == Some(404)
        };
        let looked = run
            .questions()
            .any(|call| (born..born + s(60)).contains(&call.t.since_start()) && is_answered(call));
        if !looked {
            return Verdict::Inconclusive("nobody looked for the young node's machine".to_owned());
        }
        let deleted = run.deleted("young");
        Verdict::of(deleted.is_none_or(|at| at.since_start() >= born + s(60)), || {
            format!("the node was deleted at {deleted:?}; it registered at {born:?}")
        })
        .and(|| run.keeps(&[6]))
    };
    // How old a node is, is told by a clock that no provider shares with a world that is faster.
    Case::new(scenario, judge).canary(Canary::Gone(3), s(100)).paced(Pace::Real)
}

fn vmotion() -> Case {
    let mut scenario = world(4, s(500)).at(SETTLED, Command::StopKubelet(machine(1)));
    for (at, host) in
        [(70, "DC0_C0_H1"), (150, "DC0_C1_H0"), (200, "DC0_C2_H2"), (280, "DC0_C0_H0")]
    {
        scenario = scenario.at(s(at), Command::VMotion { machine: machine(1), host: host.into() });
    }
    Case::new(scenario, |run| survives(run, 3).and(|| run.keeps(&[17, 25])))
        .canary(Canary::Gone(4), s(150))
        .named("vMotion")
}

fn host_failure() -> Case {
    // The fifth machine is in another zone: its host goes on.
    let scenario = world(5, s(700)).at(SETTLED, Command::FailHost(Named::from("DC0_C0_H0")));
    Case::new(scenario, |run| {
        survives(run, 4).and(|| run.keeps(&[10, 17])).and(|| {
            let node = run.node(&name(1));
            Verdict::of(node.is_some_and(|it| it.is_ready() && it.ips().next().is_some()), || {
                "the node did not come back with addresses".to_owned()
            })
        })
    })
    .canary(Canary::Gone(5), s(100))
    .named("host fails, HA restarts")
}

/// In a Supervisor everything is refused: what may be seen is granted by kind, not by object.
fn lose_privilege(scenario: Scenario, backend: Backend, at: Duration) -> Scenario {
    match backend {
        Backend::VCenter => {
            let user = PROVIDER_USER.to_owned();
            scenario
                .at(at, Command::RevokePrivilege(Grant { vcenter: None, user, object: name(1) }))
        }
        Backend::Supervisor => {
            let bindings = GroupResource::of("rbac.authorization.k8s.io", "rolebindings");
            let key = Key::new(bindings, NAMESPACE, "cloud-provider");
            scenario
                .at(at, Command::Supervisor(objects::Command::delete(key)))
                .at(at, backend.cut())
                .at(HEALED, Command::Supervisor(bound_again()))
        }
    }
}

/// The provider's account gets its role back.
fn bound_again() -> objects::Command {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let binding = serde_json::json!({
        "metadata": {"name": "cloud-provider"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "cloud-provider"},
        "subjects": [{"kind": "ServiceAccount", "name": "cloud-provider", "namespace": NAMESPACE}],
    });
    objects::Command::create(GroupResource::of(GROUP, "rolebindings"), NAMESPACE, binding)
}

fn privilege_lost(backend: Backend, cold: bool) -> Case {
    // With twenty nodes two may be missing before deletion is held back.
    let n = 20;
    let revoked = SETTLED;
    let mut scenario = lose_privilege(world(n, s(600)), backend, revoked)
        .at(s(70), Command::StopKubelet(machine(1)));
    if cold {
        scenario = scenario.at(s(80), Act::Crash(0)).at(s(81), Act::Start(0));
    }
    let judge = move |run: &Run| {
        survives(run, n - 1).and(|| {
            // In a Supervisor it is the right that is missing, not a machine.
            let hidden = if backend.is_vcenter() { name(1) } else { "forbidden".to_owned() };
            let logged = run.logged_after(revoked).any(|line| line.contains(&hidden));
            let told = run.events().iter().any(|it| it.object == hidden && it.kind == "Warning");
            Verdict::of(logged || told, || {
                format!("neither an event nor a log line names {hidden}, though it cannot be seen")
            })
        })
    };
    let case = Case::new(scenario, judge).named(if cold { "cold cache" } else { "warm cache" });
    match backend {
        Backend::VCenter => case.canary(Canary::Gone(n), s(200)),
        Backend::Supervisor => case.canary_within(Canary::Gone(n), HEALED, FORBIDDEN),
    }
}

fn another_identity() -> Case {
    let uuid = uuid::Uuid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_0001);
    let replaced = SETTLED;
    let mut scenario =
        world(5, s(600)).at(replaced, Command::SetInstanceUuid { vcenter: None, uuid });
    for n in 1..=2 {
        // The other server does not know these machines; the truth is that they run elsewhere.
        scenario = scenario.at(s(65), Command::StopKubelet(machine(n)));
    }
    let hide = Rule::new("other inventory", (1..=5).map(|n| Action::Hide(name(n)))).on(Face::Soap);
    let scenario = scenario
        .at(replaced, hide)
        // Our machines are there again, and whoever restarts takes the new identity for granted.
        .at(HEALED, Act::Heal)
        .at(HEALED, Act::Crash(0))
        .at(HEALED + s(1), Act::Start(0));
    let judge = move |run: &Run| {
        survives(run, 4).and(|| {
            let told =
                |text: &str| text.contains(&uuid.to_string()) || text.contains("another vCenter");
            let logged = run.logged_after(replaced).any(told);
            let event = run.events().iter().any(|event| told(&event.message));
            Verdict::of(logged || event, || {
                "neither an event nor a log line tells of the other identity".to_owned()
            })
        })
    };
    Case::new(scenario, judge).canary(Canary::Gone(5), HEALED + s(30))
}
