//! NODE-SHUT and LIFE-…: the shutdown taint of nodes whose machines are powered off, suspended or
//! have an unreadable power state.

use std::time::Duration;

use serde_json::Value;
use sim::Face;
use sim::faults::{Action, MissingPaths, Rule};
use sim::world::objects::{self, Key, PatchKind};
use sim::world::{Command, Event, Time};

use super::deletion::PATIENCE;
use crate::checks::build::{
    GRACE, SETTLED, T_LIFE, T_MONITOR, WRITE_NODE, about_machines, machine, s, world,
};
use crate::checks::canary::Canary;
use crate::checks::queries::name;
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("NODE-SHUT-003", [suspended(backend)]),
        Check::new("NODE-SHUT-004", [flapping(backend)]),
        Check::new(
            "LIFE-005",
            [
                Case::new(world(3, s(300)).at(SETTLED, Command::PowerOff(machine(1))), |run| {
                    got_taint_in_time(run, 1).and(|| {
                        let taint = run.node_object(&name(1)).and_then(|node| {
                            let taints = node["spec"]["taints"].as_array()?.clone();
                            taints
                                .into_iter()
                                .find(|it| it["key"] == "node.cloudprovider.kubernetes.io/shutdown")
                        });
                        let ok = taint.as_ref().is_some_and(|it| {
                            it["effect"] == "NoSchedule"
                                && it["value"].as_str().unwrap_or_default().is_empty()
                        });
                        Verdict::pass_if(ok, || format!("the shutdown taint needs the effect NoSchedule and no value, but is {taint:?}"))
                    })
                }),
                conflicts(),
            ],
        ),
        Check::new("LIFE-006", [written_once(), written_by_another()]),
        Check::new("LIFE-007", [back()]),
        Check::new("LIFE-008", [power_alone()]),
        Check::new("LIFE-009", power_unreadable(backend)),
        Check::new("LIFE-010", [ready_and_off()]),
        Check::new("LIFE-011", [lost_update()]),
        Check::new(
            "LIFE-013",
            [Case::new(
                world(12, s(500))
                    .at(SETTLED, Command::PowerOff(machine(1)))
                    .at(s(200), Command::DeleteMachine(machine(1))),
                |run| {
                    let deleted = run.deleted(&name(1));
                    had_taint(run, 1).and(|| {
                    Verdict::pass_if(deleted.is_some_and(|at| at.since_start() <= s(200) + T_LIFE), || {
                        format!("the Node was deleted {deleted}, too late after the deletion of its machine at 200 s", deleted = when(deleted)).late(deleted)
                    })
                })
                },
            )],
        ),
    ]
}

/// Creates a case with a suspended machine. The machine's node must get the shutdown taint in
/// vCenter mode, but not in Supervisor mode.
fn suspended(backend: Backend) -> Case {
    let scenario = world(3, s(300)).at(SETTLED, Command::Suspend(machine(1)));
    match backend {
        Backend::VCenter => Case::new(scenario, |run| got_taint_in_time(run, 1)),
        Backend::Supervisor => {
            let judge = |run: &Run| {
                let marked = run.when(&name(1), |node| node.shutdown);
                run.was_not_ready(&name(1)).and(|| {
                    Verdict::pass_if(marked.is_none(), || {
                        format!(
                            "a node with a suspended machine got the shutdown taint {marked}",
                            marked = when(marked)
                        )
                        .at(marked)
                    })
                })
            };
            Case::new(scenario, judge).canary(Canary::Off(2), SETTLED)
        }
    }
}

fn power_unreadable(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => {
            vec![
                unreadable(UnreadableFrom::Watching),
                unreadable(UnreadableFrom::Starting),
                stays(),
            ]
        }
        Backend::Supervisor => [500, 503, 401, 403, 404].map(marked_while_failing).into(),
    }
}

/// Creates a case in which all reads of machines fail with this status code, while one node has the
/// shutdown taint and another node is not ready. The first must keep the taint, and the second must
/// not get it.
fn marked_while_failing(code: u16) -> Case {
    let (broken, healed) = (s(200), s(400));
    let failing = [match code {
        // The 404 is about the collection and names no object.
        404 => Action::NotServed,
        _ => Action::status(code),
    }];
    let scenario = world(12, s(600))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(broken, about_machines(Backend::Supervisor, "failing", failing))
        .at(broken, Act::Crash(0))
        .at(broken + s(1), Act::Start(0))
        .at(broken, Command::StopKubelet(machine(2)))
        .at(healed, Act::RemoveRules);
    let case = Case::new(scenario, move |run| {
        let lost = run.when_after(&name(1), broken, |node| !node.shutdown);
        let marked = run.when(&name(2), |node| node.shutdown);
        had_taint(run, 1)
            .and(|| run.was_not_ready(&name(2)))
            .and(|| {
                Verdict::pass_if(lost.is_none(), || {
                    format!(
                        "a node lost its shutdown taint {lost}, while all reads of machines failed",
                        lost = when(lost)
                    )
                    .at(lost)
                })
            })
            .and(|| {
                Verdict::pass_if(marked.is_none(), || {
                    format!(
                        "a node whose machine runs got the shutdown taint {marked}",
                        marked = when(marked)
                    )
                    .at(marked)
                })
            })
    });
    case.canary_within(Canary::Gone(3), healed, PATIENCE).named(format!("{code}"))
}

/// Creates a case in which the canary powers off a machine whose node stays Ready for [`GRACE`].
/// The provider must set the shutdown taint only once the node is NotReady.
fn ready_and_off() -> Case {
    let judge = |run: &Run| {
        let marked = run.when(&name(1), |node| node.shutdown);
        let missed = run.when(&name(1), |node| !node.is_ready());
        let early = marked.is_some_and(|at| missed.is_none_or(|missed| at < missed));
        Verdict::pass_if(!early, || {
            format!(
                "the node got the shutdown taint {marked}, before it was NotReady {missed}",
                marked = when(marked),
                missed = when(missed)
            )
            .at(marked)
        })
    };
    Case::new(world(3, SETTLED), judge).canary(Canary::Off(1), SETTLED)
}

/// Passes if the `n`-th node was NotReady, got the shutdown taint by [`GRACE`] plus [`T_LIFE`]
/// after [`SETTLED`], and still exists.
fn got_taint_in_time(run: &Run, n: u32) -> Verdict {
    let at = run.when(&name(n), |node| node.shutdown);
    run.was_not_ready(&name(n))
        .and(|| {
            Verdict::pass_if(at.is_some_and(|at| at.since_start() <= SETTLED + GRACE + T_LIFE), || {
                format!(
                    "the node got the shutdown taint {at}; its machine has been off since {SETTLED:?}",
                    at = when(at)
                )
                .at(at)
            })
        })
        .and(|| {
            Verdict::pass_if(run.node(&name(n)).is_some(), || {
                "the provider deleted the Node of a machine that exists".to_owned()
            })
        })
}

/// Passes if the `n`-th node had the shutdown taint at some time.
fn had_taint(run: &Run, n: u32) -> Verdict {
    match run.when(&name(n), |node| node.shutdown) {
        Some(_) => Verdict::Pass,
        None => Verdict::fail(
            "the node of the powered-off machine never had the shutdown taint".to_owned(),
        ),
    }
}

/// Returns the number of power changes of the first machine that VM Operator reported from 150 s
/// on. At that time the machine begins to change its power state in [`flapping`].
fn reported_power_changes(run: &Run) -> u64 {
    let mut before = None;
    let mut n = 0;
    for (at, event) in run.log.entries() {
        let Event::Supervisor(event) = event else { continue };
        let power = event.object.pointer("/status/powerState").and_then(Value::as_str);
        if event.key.resource.resource != "virtualmachines" || event.key.name != name(1) {
            continue;
        }
        let is_other = power.is_some() && before.as_deref() != power;
        n += u64::from(is_other && at.since_start() >= s(150));
        before = power.map(str::to_owned);
    }
    n
}

/// Creates a case in which a machine with a stopped kubelet is powered off and on in turn for less
/// than 50 s. The provider must write the machine's Node at most once per monitor period.
fn flapping(backend: Backend) -> Case {
    let mut scenario = world(3, s(900)).at(SETTLED, Command::StopKubelet(machine(1)));
    // The pause is longer in Supervisor mode, because VM Operator needs 2.5 s to change the power
    // state and report it.
    let (times, pause) = if backend.is_vcenter() { (20, 2) } else { (12, 4) };
    for n in 0..times {
        let act =
            if n % 2 == 0 { Command::PowerOff(machine(1)) } else { Command::PowerOn(machine(1)) };
        scenario = scenario.at(s(150 + pause * n), act);
    }
    Case::new(scenario, move |run| {
        let told = reported_power_changes(run);
        if run.backend() == Backend::Supervisor && told < times {
            return Verdict::inconclusive(format!(
                "VM Operator reported only {told} of {times} power states"
            ));
        }
        let node = name(1);
        let writes = run
            .writes_on(&node)
            .filter(|call| (s(150)..s(200)).contains(&call.t.since_start()))
            .count() as u64;
        // Allows one write per monitor period in the fifty seconds of the changes.
        let allowed = s(50).as_secs() / T_MONITOR.as_secs();
        Verdict::pass_if(writes <= allowed, || format!(
            "the provider made {writes} writes of the node in ten monitor periods; at most one \
             per period is allowed"
        )).and(
            || {
                let end = run.node(&name(1));
                Verdict::pass_if(end.is_some_and(|it| it.is_ready() && !it.shutdown), || {
                    "at the end the node is not Ready or has the shutdown taint, although its machine runs".to_owned()
                })
            },
        )
    })
}

fn back() -> Case {
    let scenario = world(3, s(500))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(s(200), Command::PowerOn(machine(1)));
    Case::new(scenario, |run| {
        got_taint_in_time(run, 1).and(|| {
            let ready = run.when_after(&name(1), s(200), |node| node.is_ready());
            let clear = run.when_after(&name(1), s(200), |node| node.is_ready() && !node.shutdown);
            match (ready, clear) {
                (Some(ready), Some(clear)) if clear.since(ready) <= T_LIFE => Verdict::Pass,
                _ => Verdict::fail(
                    format!("the node was Ready again {ready}, but lost the shutdown taint only {clear}", ready = when(ready), clear = when(clear)).at(ready),
                ),
            }
        })
    })
}

fn power_alone() -> Case {
    // The kubelet does not start again with the machine.
    let scenario = world(3, s(300))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(
            s(150),
            Command::SetTiming {
                step: sim::world::Step::Kubelet,
                completion: sim::world::Completion::WhenTold,
            },
        )
        .at(s(200), Command::PowerOn(machine(1)));
    Case::new(scenario, |run| {
        got_taint_in_time(run, 1).and(|| {
            let node = run.node(&name(1));
            Verdict::pass_if(node.is_some_and(|it| it.shutdown && !it.is_ready()), || {
                "the provider removed the shutdown taint before the node was Ready".to_owned()
            })
        })
    })
}

/// Start of the time in which a provider cannot read power states.
#[derive(Clone, Copy)]
enum UnreadableFrom {
    /// The provider has read the states before.
    Watching,
    /// The provider has just started and has never read them.
    Starting,
}

/// Creates a rule by which vCenter returns all properties of machines except the power state.
fn no_power() -> Rule {
    let paths = ["runtime.powerState", "summary.runtime.powerState"];
    let missing = MissingPaths::new(paths, "SystemError");
    about_machines(Backend::VCenter, "no power", [Action::MissingSet(missing)])
}

/// Creates a case in which power states are unreadable while one machine is off, one runs without a
/// kubelet, and one is deleted. The provider must set no shutdown taint in this time. The deletion
/// of the third Node proves that the provider could still read which machines exist.
fn unreadable(since: UnreadableFrom) -> Case {
    let (broken, healed) = (SETTLED + s(1), s(200));
    let mut scenario = world(12, s(400))
        .at(SETTLED, no_power())
        .at(broken, Command::PowerOff(machine(1)))
        .at(broken, Command::StopKubelet(machine(2)))
        .at(broken, Command::DeleteMachine(machine(3)))
        .at(healed, Act::RemoveRules);
    if let UnreadableFrom::Starting = since {
        scenario = scenario.at(broken, Act::Crash(0)).at(broken + s(1), Act::Start(0));
    }
    let case = Case::new(scenario, move |run| {
        for n in [1, 2] {
            let marked = run.when(&name(n), |node| node.shutdown);
            if let Some(at) = marked.filter(|at| at.since_start() < healed) {
                let text = format!(
                    "node {} got the shutdown taint at {at}, while the power state of its machine was unreadable",
                    name(n)
                )
                .at(at);
                return Verdict::fail(text);
            }
            let asked = run.when(&name(n), |node| !node.is_ready()).map(|at| at.since_start());
            if asked.is_none_or(|at| at + T_MONITOR * 5 > healed) {
                let text = format!(
                    "node {} was NotReady for less than five monitor periods while power states were unreadable",
                    name(n)
                );
                return Verdict::inconclusive(text);
            }
        }
        existence_was_answered(run, 3, broken + GRACE + T_LIFE)
            .and(|| {
                // Requires the taint after the end of the fault, as proof that only the fault
                // prevented it.
                let bound = healed + T_LIFE + s(60);
                let at = run.when(&name(1), |node| node.shutdown);
                match at.filter(|at| at.since_start() <= bound) {
                    Some(_) => Verdict::Pass,
                    None => Verdict::inconclusive(format!(
                        "the node of the powered-off machine got the shutdown taint {at}; its power state has been readable since {healed:?}", at = when(at)
                    ).at(at)),
                }
            })
            .and(|| {
                Verdict::pass_if(run.when(&name(2), |node| node.shutdown).is_none(), || {
                    "a node whose machine runs got the shutdown taint".to_owned()
                })
            })
    });
    case.named(match since {
        UnreadableFrom::Watching => "known before",
        UnreadableFrom::Starting => "after a restart",
    })
}

/// Creates a case in which the provider has to build its view again while power states are
/// unreadable. A node with the shutdown taint must keep it.
fn stays() -> Case {
    let broken = s(200);
    let scenario = world(12, broken + s(120))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(broken, no_power())
        .at(broken, Backend::VCenter.disconnect())
        .at(broken, Command::DeleteMachine(machine(3)));
    let case = Case::new(scenario, move |run| {
        got_taint_in_time(run, 1)
            .and(|| existence_was_answered(run, 3, broken + GRACE + T_LIFE))
            .and(|| {
                let node = name(1);
                let lost = run.when_after(&node, broken, |node| !node.shutdown);
                let end = run.node(&node);
                let kept = lost.is_none() && end.is_some_and(|node| node.shutdown);
                Verdict::pass_if(kept, || {
                    format!("{node} lost the shutdown taint {lost}", lost = when(lost)).at(lost)
                })
            })
            .and(|| {
                let node = name(1);
                let written = run.writes_on(&node).find(|call| call.t.since_start() > broken);
                Verdict::pass_if(written.is_none(), || {
                    format!(
                        "the provider wrote the node while the power state of its machine was unreadable: {}",
                        written.map(ToString::to_string).unwrap_or_default()
                    )
                })
            })
    });
    case.named("marked before")
}

/// Inconclusive unless the provider read a machine without its power state, and by `bound` deleted
/// the Node of the `gone`-th machine, which the scenario deletes while power states are unreadable.
fn existence_was_answered(run: &Run, gone: u32, bound: std::time::Duration) -> Verdict {
    let read = |call: &&sim::ledger::Record| {
        call.was_faulted() && call.ended.as_ref().is_some_and(|ended| ended.objects > 0)
    };
    if run.machine_calls().find(read).is_none() {
        return Verdict::inconclusive(
            "the provider read no machine while power states were unreadable".to_owned(),
        );
    }
    match run.deleted(&name(gone)) {
        Some(at) if at.since_start() <= bound => Verdict::Pass,
        other => Verdict::inconclusive(format!(
            "the provider did not prove that it reads which machines exist: the Node of the deleted machine was deleted {other}", other = when(other)
        ).at(other)),
    }
}

// ANCHOR: case
/// Creates a case in which the API server answers four writes of the taint in a row with a
/// conflict. Conflicts are common, and a repetition with a fresh read takes less than a second.
fn conflicts() -> Case {
    let status = Action::status(409);
    let conflict =
        Rule::new("conflict", [status]).on(Face::Cluster).op(WRITE_NODE).named(name(1)).first(4);
    let scenario =
        world(3, s(200)).at(SETTLED, conflict).at(SETTLED, Command::PowerOff(machine(1)));
    Case::new(scenario, |run| got_taint_in_time(run, 1)).named("four conflicts in a row")
}
// ANCHOR_END: case

/// Times in seconds at which another client adds one taint to the Node.
const FOREIGN: [u64; 11] = [100, 102, 104, 106, 108, 110, 111, 113, 115, 117, 119];

/// Returns the key of the n-th taint of other clients.
fn foreign(n: usize) -> String {
    format!("example.com/foreign-{n}")
}

/// Creates a case in which the provider must not write the Node again once the Node has the
/// shutdown taint.
fn written_once() -> Case {
    Case::new(world(3, s(400)).at(SETTLED, Command::PowerOff(machine(1))), |run| {
        got_taint_in_time(run, 1).and(|| {
            let since = run
                .when(&name(1), |node| node.shutdown)
                .map(|at| at.since_start())
                .unwrap_or_default();
            let node = name(1);
            let later: Vec<String> = run
                .writes_on(&node)
                .filter(|call| call.t.since_start() > since + s(1))
                .map(ToString::to_string)
                .collect();
            Verdict::pass_if(later.is_empty(), || {
                format!(
                    "the provider wrote the node again although it has the shutdown taint: {}",
                    later.join("; ")
                )
            })
        })
    })
}

/// Creates a case in which another controller sets the shutdown taint while the provider's write of
/// this taint is under way. The provider must not write the Node again.
fn written_by_another() -> Case {
    const SLOW: Duration = s(8);
    let other = SETTLED + GRACE + s(7);
    let slow = Rule::new("slow", [Action::Delay(SLOW)]).on(Face::Cluster).op(WRITE_NODE);
    let taint = serde_json::json!({
        "key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule",
    });
    let add = serde_json::json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]);
    let write = objects::Command::patch(Key::node(name(1)), PatchKind::Json, add);
    let scenario = world(3, s(180))
        .at(SETTLED - s(1), slow.named(name(1)).first(1))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(other, Command::Cluster(write));
    Case::new(scenario, move |run| {
        let node = name(1);
        let others = Time::after_start(other);
        let is_raced = run.writes_on(&node).any(|call| {
            call.t <= others && call.ended.as_ref().is_some_and(|ended| ended.at > others)
        });
        if !is_raced {
            let what = "the provider did not write the taint while another controller did";
            return Verdict::inconclusive(what.to_owned());
        }
        let later: Vec<String> = run
            .writes_on(&node)
            .filter(|call| call.t > others && call.succeeded())
            .map(ToString::to_string)
            .collect();
        got_taint_in_time(run, 1).and(|| {
            Verdict::pass_if(later.is_empty(), || {
                format!(
                    "the provider wrote the node again although it has the shutdown taint: {}",
                    later.join("; ")
                )
            })
        })
    })
    .named("another controller writes it at the same time")
}

fn lost_update() -> Case {
    // The provider's write of its taint takes four seconds, in which other clients add taints.
    let slow = Rule::new("slow", [Action::Delay(s(4))])
        .on(Face::Cluster)
        .op(WRITE_NODE)
        .named(name(1))
        .first(1);
    let mut scenario = world(3, s(400)).at(s(59), slow).at(SETTLED, Command::PowerOff(machine(1)));
    for (n, at) in FOREIGN.into_iter().enumerate() {
        // Each client adds one taint without writing the others, so that its write cannot restore a
        // taint that the provider overwrote.
        let taint = serde_json::json!({"key": foreign(n), "effect": "NoSchedule"});
        let (kind, patch) = if n == 0 {
            (PatchKind::Merge, serde_json::json!({"spec": {"taints": [taint]}}))
        } else {
            let add = serde_json::json!({"op": "add", "path": "/spec/taints/-", "value": taint});
            (PatchKind::Json, serde_json::json!([add]))
        };
        let write = objects::Command::patch(Key::node(name(1)), kind, patch);
        scenario = scenario.at(s(at), Command::Cluster(write));
    }
    Case::new(scenario, |run| {
        let slowed = run.calls().filter(|call| call.was_faulted());
        let raced = slowed.filter_map(|call| Some((call.t, call.ended.as_ref()?.at))).any(
            |(begun, ended)| {
                FOREIGN.iter().any(|at| (begun..=ended).contains(&Time::after_start(s(*at))))
            },
        );
        if !raced {
            return Verdict::inconclusive(
                "no other client wrote the Node while the provider's write of the taint was under way".to_owned(),
            );
        }
        let node = run.node(&name(1)).unwrap_or_default();
        let is_there = |n: usize| node.taints.contains(&foreign(n));
        Verdict::pass_if(node.shutdown && (0..FOREIGN.len()).all(is_there), || {
            format!(
                "the node needs the shutdown taint and all taints of other clients; at the end it has {:?}",
                node.taints
            )
        })
    })
}
