//! LIVE: after every failure a provider must resume its work by itself.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::{Command, ControlPlane, objects};

use crate::checks::build::{
    GRACE, SETTLED, T_INIT, T_LIFE, T_STATUS, WRITE_NODE, WRITE_STATUS, create_joining_machine,
    machine, s, set_address, vanishing, with_outage, world, world_with,
};
use crate::checks::nodes::identity::rebuilt;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::liveness;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::lives::{self, Life};
use crate::scenario::{Act, Backend, FaultKind, Initializer, Scenario, fault_kinds};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("LIVE-001", every_fault(backend)),
        Check::new("LIVE-002", restarts(backend)),
        Check::new("LIVE-003", outage_at_start(backend)),
        Check::new("LIVE-004", watches(backend)),
        Check::new("LIVE-005", unanswered(backend)),
        Check::new("LIVE-009", lives(backend)),
    ];
    if backend.is_vcenter() {
        checks.push(Check::new("LIVE-008", long_polls()));
    }
    checks
}

/// Passes if every liveness invariant holds at the end of the run.
fn liveness_holds(run: &Run) -> Verdict {
    liveness(run).first().map_or(Verdict::Pass, Verdict::fail)
}

/// Creates a case for every life, without the failures that the sweeps add.
fn lives(backend: Backend) -> Vec<Case> {
    let case = |life: Life| {
        // Counts the invariants from which the life is not exempt.
        let right = |run: &Run| Life::broken(run).first().map_or(Verdict::Pass, Verdict::fail);
        Case::new(life.scenario, right).named(life.name)
    };
    lives::all(backend).into_iter().map(case).collect()
}

/// Creates a case per face and kind of failure: machines change, stop and are deleted while all
/// calls to the face fail until 300 s. Adds the case of [`still_shown`].
fn every_fault(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    let faces: &[Face] = match backend {
        Backend::VCenter => &[Face::Soap, Face::Vapi, Face::Cluster],
        Backend::Supervisor => &[Face::Supervisor, Face::Cluster],
    };
    for &face in faces {
        for FaultKind { name: kind, actions, .. } in fault_kinds(face) {
            let rule = Rule::new("outage", actions).on(face);
            let scenario = world(4, s(1500))
                .at(s(2), rule)
                .at(s(100), set_address(1, &["10.6.0.1"]))
                .at(s(110), Command::PowerOff(machine(2)))
                .at(s(120), Command::DeleteMachine(machine(3)))
                .at(s(125), backend.disconnect())
                .at(s(130), Command::StartKubelet(machine(4)))
                .at(s(300), Act::RemoveRules);
            let label = format!("{} {kind}", face.as_str());
            // The provider reads tags only at its start and for new nodes, so this scenario has
            // both during the failures.
            let scenario = if face == Face::Vapi { joining(scenario) } else { scenario };
            cases.push(Case::new(scenario, liveness_holds).named(label));
        }
    }
    cases.push(still_shown(backend));
    cases
}

/// Creates a case in which a machine is deleted, and the provider's next read still returns it, as
/// from a stale cache.
fn still_shown(backend: Backend) -> Case {
    let ops: &[&str] = match backend {
        Backend::VCenter => &["Retrieve*"],
        Backend::Supervisor => &["get virtualmachines"],
    };
    let late = Rule::new("late", [Action::ReadStale(1)]).on(backend.face()).op(ops.iter().copied());
    let scenario = world(4, s(600))
        .at(SETTLED, Command::DeleteMachine(machine(2)))
        .at(SETTLED, late.first(1))
        .at(s(300), Act::RemoveRules);
    Case::new(scenario, liveness_holds).named("a deleted machine is still shown by one read")
}

/// Adds steps to a scenario: the provider restarts at 10 s, and a machine is created whose node
/// joins.
fn joining(scenario: Scenario) -> Scenario {
    scenario
        .at(s(10), Act::Crash(0))
        .at(s(11), Act::Start(0))
        .at(s(12), create_joining_machine("newcomer", None))
}

fn restarts(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    for (case, down) in [("two minutes", 120), ("a moment", 1), ("half an hour", 1800)] {
        let scenario = with_outage(world(6, s(3600)), backend, SETTLED, SETTLED + s(down))
            .at(SETTLED + s(5), set_address(1, &["10.6.0.1"]))
            .at(SETTLED + s(5), Command::PowerOff(machine(2)))
            .at(SETTLED + s(5), Command::StopKubelet(machine(4)))
            .at(SETTLED + s(down + 900), Command::StartKubelet(machine(4)));
        cases.push(
            Case::new(scenario, move |run| {
                let back = SETTLED + s(down + 60);
                let shown = run.when(&name(1), |node| node.ips().any(|ip| ip == "10.6.0.1"));
                liveness_holds(run)
                    .and(|| {
                        Verdict::pass_if(
                            shown.is_some_and(|at| at.since_start() < back + T_STATUS * 2),
                            || format!("the node shows the new address {shown}; the backend has answered again since {back:?}", shown = when(shown)).at(shown),
                        )
                    })
                    .and(|| {
                        let starts = run.exits.len();
                        Verdict::pass_if(starts <= 1, || format!("the provider process ended {starts} times; at most 1 is allowed, at the end of the run"))
                    })
            })
            .named(format!("{} gone for {case}", backend.name())),
        );
    }
    cases.push(refused_takeover());
    cases
}

/// Creates a case in which another initializer initialized all nodes but one. The API server
/// refuses the provider's writes of Nodes until 40 s, among them those that store the references to
/// the machines. Later a machine is deleted while the provider is down. The provider must delete
/// the machine's Node.
fn refused_takeover() -> Case {
    let status = Action::status(500);
    let writes = WRITE_NODE.into_iter().chain(WRITE_STATUS);
    let refused = Rule::new("refused", [status]).on(Face::Cluster).op(writes);
    let (healed, destroyed, again) = (s(40), s(120), s(130));
    let scenario = world(12, s(300))
        .with_provider(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by: Initializer::Upstream })
        .at(s(10), Act::StartAll)
        .at(s(10), refused)
        .at(s(10), create_joining_machine("newcomer", None))
        .at(healed, Act::RemoveRules)
        .at(destroyed, Act::Crash(0))
        .at(destroyed, Command::DeleteMachine(machine(1)))
        .at(again, Act::Start(0));
    Case::new(scenario, move |run| {
        let gone = run.deleted(&name(1));
        let by = destroyed + vanishing(run.backend()) + GRACE + T_LIFE + T_INIT;
        run.initializes(&["newcomer".to_owned()], healed, s(60))
            .and(|| run.was_not_ready(&name(1)))
            .and(|| {
                Verdict::pass_if(gone.is_some_and(|at| at.since_start() <= by), || {
                    format!(
                        "the API server refused writes of Nodes until {healed:?}; the Node of the machine that was deleted at \
                         {destroyed:?} was deleted {gone}; the limit is {by:?}", gone = when(gone)
                    )
                    .late(gone)
                })
            })
    })
    .named("the first writes of Nodes are refused")
}

fn outage_at_start(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    let unknown = with_outage(world(5, s(900)), backend, s(0), s(300));
    cases.push(
        Case::new(unknown, |run| {
            run.initializes(&names(5), s(360), T_INIT + s(180)).and(|| liveness_holds(run))
        })
        .named(format!("{} down", backend.name())),
    );
    let known = with_outage(world(5, s(1200)), backend, SETTLED, s(400))
        .at(SETTLED, Act::Crash(0))
        .at(s(65), Command::StopKubelet(machine(1)))
        .at(s(65), set_address(2, &["10.6.0.2"]))
        .at(s(70), Act::Start(0))
        .at(s(900), Command::StartKubelet(machine(1)));
    let label = format!("{} down, nodes known", backend.name());
    cases.push(Case::new(known, liveness_holds).named(label));
    let down = Rule::new("down", [Action::status(503)]).on(Face::Cluster);
    let cluster = world(5, s(900)).fault(down).at(s(200), Act::RemoveRules);
    cases.push(
        Case::new(cluster, |run| {
            run.initializes(&names(5), s(200), T_INIT + s(60)).and(|| liveness_holds(run))
        })
        .named("cluster down"),
    );
    cases
}

/// Longest timeout of a watch. Clients request five to ten minutes.
const WATCH_TIMEOUT: Duration = s(600);

fn watches(backend: Backend) -> Vec<Case> {
    let mut cases = broken_watches(Face::Cluster, "watch nodes");
    if backend == Backend::Supervisor {
        cases.extend(broken_watches(Face::Supervisor, "watch virtualmachines"));
        cases.extend([s(8), s(40)].map(compacted));
        cases.push(rebuilt_unseen());
        cases.extend([400, 502].map(watches_refused));
    }
    cases
}

/// Creates a case in which machines change during an outage of the Supervisor, and the Supervisor
/// then compacts its history. So the provider must list machines again instead of resuming its
/// watch.
fn compacted(outage: Duration) -> Case {
    let plane = ControlPlane::Supervisor;
    let (changed, back) = (SETTLED + s(2), SETTLED + outage);
    let scenario = with_outage(world(4, s(1500)), Backend::Supervisor, SETTLED, back)
        .at(changed, set_address(1, &["10.6.0.1"]))
        .at(changed, Command::PowerOff(machine(2)))
        .at(changed, Command::DeleteMachine(machine(3)))
        .at(back - s(1), Command::CompactCluster { plane, keep: 0 });
    let case = Case::new(scenario, move |run| {
        let shown = run.when_after(&name(1), changed, |node| node.ips().any(|ip| ip == "10.6.0.1"));
        let marked = run.when_after(&name(2), changed, |node| node.shutdown);
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(100) + T_STATUS + T_INIT), || {
            format!("the node shows the new address {shown}, which is too late after the outage", shown = when(shown)).late(shown)
        })
        .and(|| {
            Verdict::pass_if(marked.is_some_and(|at| at.since_start() < s(200)), || {
                format!("the node of the powered-off machine got the shutdown taint {marked}; the limit is 200 s", marked = when(marked)).late(marked)
            })
        })
        .and(|| liveness_holds(run))
    });
    case.named(format!(
        "watch virtualmachines, compacted during an outage of {} s",
        outage.as_secs()
    ))
}

/// Creates a case in which every watch of machines gets this status code, as from a gateway, while
/// lists and reads work.
fn watches_refused(code: u16) -> Case {
    let status = Action::status(code);
    let rule = Rule::new("watch", [status]).on(Face::Supervisor).op(["watch virtualmachines"]);
    let scenario = world(3, s(900))
        .fault(rule)
        .at(s(20), create_joining_machine("newcomer", None))
        .at(s(60), Command::DeleteMachine(machine(1)));
    let case = Case::new(scenario, |run| {
        let deleted = run.deleted(&name(1));
        run.initializes(&["newcomer".to_owned()], s(50), s(60)).and(|| {
            Verdict::pass_if(deleted.is_some(), || {
                "the provider did not delete the Node of the deleted machine".to_owned()
            })
        })
    });
    case.named(format!("watch virtualmachines, refused with {code}"))
}

/// Creates a case in which watches of machines deliver nothing while a person deletes a Node with
/// its machine and creates a new machine of the same name. When the new Node joins, the provider's
/// last list, made after 180 s of silence, still contains the old machine. The new Node must get
/// the provider ID of the new machine.
fn rebuilt_unseen() -> Case {
    let uuid = uuid::Uuid::from_u128(0x4242_0000_1111_4222_8333_abcd_efab_cdef);
    let silent = Rule::new("watch", [Action::WatchSilent]);
    let scenario = world(3, s(900))
        .fault(silent.on(Face::Supervisor).op(["watch virtualmachines"]))
        .at(s(230), Command::DeleteMachine(machine(1)))
        .at(s(231), Command::Cluster(objects::Command::delete(objects::Key::node(name(1)))))
        .at(s(245), rebuilt(uuid))
        // The new Node must stay although its kubelet is silent.
        .at(s(500), Command::StopKubelet(machine(1)));
    let case = Case::new(scenario, move |run| {
        let now = run.node(&name(1)).and_then(|node| node.provider_id);
        Verdict::pass_if(now == Some(format!("vsphere://{uuid}")), || {
            format!("the Node of the new machine has the provider ID {now:?}, not that of its UUID")
        })
    });
    case.named("watch virtualmachines, a machine is rebuilt unseen")
}

fn broken_watches(face: Face, op: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    // The provider notices an end or a failure at once, but silence only after a timeout.
    for (case, action, times, bound) in [
        ("410", Action::WatchGone, 3, s(60)),
        ("silent", Action::WatchSilent, 1, WATCH_TIMEOUT),
        ("held", Action::WatchHoldAfter(0), 1, WATCH_TIMEOUT),
        ("no bookmarks", Action::WatchNoBookmark, 3, s(60)),
        ("closed after each event", Action::WatchCloseAfter(1), 3, s(60)),
        ("reset", Action::Reset, 3, s(60)),
        ("black hole", Action::Blackhole, 3, s(60)),
    ] {
        let rule = Rule::new("watch", [action]).on(face).op([op]).first(times);
        let scenario = world(3, s(1800))
            .fault(rule)
            // One node joins and another machine is powered off while the watch is broken.
            .at(s(20), create_joining_machine("newcomer", None))
            .at(s(60), Command::PowerOff(machine(1)))
            .at(s(60), set_address(2, &["10.6.0.2"]));
        cases.push(
            Case::new(scenario, move |run| {
                run.initializes(&["newcomer".to_owned()], s(50), bound)
                    .and(|| {
                        let marked = run.when_after(&name(1), s(60), |node| node.shutdown);
                        Verdict::pass_if(
                            marked.is_some_and(|at| {
                                at.since_start() < s(60) + GRACE + T_LIFE + bound
                            }),
                            || {
                                format!(
                                    "the machine has been powered off since 60 s; its node got the shutdown taint {marked}, which is too late", marked = when(marked)
                                )
                                .late(marked)
                            },
                        )
                    })
                    .and(|| {
                        let shown = run.when_after(&name(2), s(60), |node| {
                            node.ips().any(|ip| ip == "10.6.0.2")
                        });
                        let by = s(60) + T_STATUS.max(bound);
                        Verdict::pass_if(shown.is_some_and(|at| at.since_start() <= by), || {
                            format!("the machine has had a new address since 60 s; its node shows it {shown}; the limit is {by:?}", shown = when(shown)).late(shown)
                        })
                    })
                    .and(|| liveness_holds(run))
            })
            .named(format!("{op}, {case}")),
        );
    }
    cases
}

fn unanswered(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    let calls: Vec<(Face, &[&str])> = match backend {
        Backend::VCenter => vec![
            (Face::Soap, &["Login"]),
            (Face::Soap, &["RetrieveServiceContent"]),
            (Face::Soap, &["Find*"]),
            (Face::Soap, &["RetrieveProperties*"]),
            (Face::Soap, &["CreateListView"]),
            (Face::Soap, &["CreateFilter"]),
            (Face::Soap, &["WaitForUpdatesEx"]),
            (Face::Vapi, &["cis.session.create"]),
            (Face::Vapi, &["tagging.*"]),
        ],
        Backend::Supervisor => vec![
            (Face::Supervisor, &["list virtualmachines"]),
            (Face::Supervisor, &["watch virtualmachines"]),
        ],
    };
    let cluster: [&[&str]; 4] = [&["list nodes"], &WRITE_NODE, &WRITE_STATUS, &["create events"]];
    let calls = calls.into_iter().chain(cluster.map(|ops| (Face::Cluster, ops)));
    for (face, ops) in calls {
        let op = ops[0];
        let rule =
            Rule::new("unanswered", [Action::Blackhole]).on(face).op(ops.iter().copied()).first(2);
        // Our provider searches for a machine only if the nodes are few and the machines many.
        // Otherwise it reads all machines.
        let scenario = match op {
            "Find*" => world_with(3, 400, s(900)),
            _ => world(8, s(900)),
        };
        let scenario = scenario.fault(rule);
        cases.push(
            Case::new(scenario, move |run| {
                // The provider's deadline for a call is 30 s, for a long poll its wait plus 30 s.
                let hung = run.calls().filter(|call| call.was_faulted()).find(|call| {
                    let ended = call.ended.as_ref().map(|ended| ended.at.since(call.t));
                    ended.is_none_or(|took| took > s(150))
                });
                Verdict::pass_if(hung.is_none(), || {
                    format!(
                        "the provider waited more than 150 s for the answer to a call: {}",
                        hung.map(ToString::to_string).unwrap_or_default()
                    )
                })
                .and(|| liveness_holds(run))
            })
            .named(format!("{} {op}", face.as_str())),
        );
    }
    cases
}

fn long_polls() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        ("version reset", Action::VersionReset),
        ("reset", Action::Reset),
        ("black hole", Action::Blackhole),
        ("truncated", Action::truncate(200)),
        ("canceled", Action::soap_fault("RequestCanceled")),
    ]
    .into_iter()
    .map(|(case, action)| {
        let rule = Rule::new("poll", [action]).on(Face::Soap).op(["WaitForUpdatesEx"]).first(4);
        let mut scenario = world(4, s(1500)).at(SETTLED, rule);
        for n in 0..10_u64 {
            scenario = scenario.at(s(60 + 7 * n), set_address(1, &[&format!("10.6.0.{}", n + 1)]));
        }
        Case::new(scenario, liveness_holds).named(case)
    })
    .collect();
    cases.push(deleted_unreported());
    cases.push(never_delivered());
    cases
}

/// Creates a case in which no wait for updates returns the machine of a node that joins, but reads
/// do.
fn never_delivered() -> Case {
    let (hidden, joins) = (SETTLED, SETTLED + s(10));
    let rule = Rule::new("undelivered", [Action::Hide("newcomer".to_owned())]).on(Face::Soap);
    let scenario = world(3, s(180))
        .at(hidden, rule.op(["WaitForUpdatesEx"]))
        .at(joins, create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| run.initializes(&["newcomer".to_owned()], joins, T_INIT + s(60)))
        .named("a machine is never delivered")
}

/// Creates a case in which vCenter's property collector loses its version while a wait hangs, and a
/// machine is deleted meanwhile. The next answer contains only the remaining machines and does not
/// report the deletion.
fn deleted_unreported() -> Case {
    let fault = Action::soap_fault("InvalidCollectorVersion");
    let lost = Rule::new("lost", [Action::Delay(s(5)), fault]).on(Face::Soap);
    let scenario = world(4, s(600))
        .at(SETTLED, lost.op(["WaitForUpdatesEx"]).first(1))
        // Ends the current wait for updates, so that the rule hits the next one.
        .at(SETTLED, set_address(1, &["10.6.0.1"]))
        .at(SETTLED + s(2), Command::DeleteMachine(machine(3)));
    Case::new(scenario, liveness_holds).named("a machine is deleted while the version is lost")
}
