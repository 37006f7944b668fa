//! NODE-SHUT and LIFE-…: nodes whose machines are off or have an unreadable power state.

use std::time::Duration;

use serde_json::Value;
use sim::Face;
use sim::faults::{Action, MissingPaths, Rule};
use sim::world::objects::{self, Key, PatchKind};
use sim::world::{Command, Event, Time};

use super::build::{
    GRACE, SETTLED, T_LIFE, T_MONITOR, WRITE_NODE, about_machines, machine, s, world,
};
use super::canary::Canary;
use super::deletion::PATIENCE;
use super::observe::name;
use super::{Case, Check};
use crate::backend::Backend;
use crate::lab::Run;
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("NODE-SHUT-003", [suspended(backend)]),
        Check::new("NODE-SHUT-004", [flapping(backend)]),
        Check::new(
            "LIFE-005",
            [
                Case::new(world(3, s(300)).at(SETTLED, Command::PowerOff(machine(1))), |run| {
                    marked(run, 1).and(|| {
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
                        Verdict::of(ok, || format!("the taint is {taint:?}"))
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
                    marked_once(run, 1).and(|| {
                    Verdict::of(deleted.is_some_and(|at| at.since_start() <= s(200) + T_LIFE), || {
                        format!("the node was deleted at {deleted:?}; its machine is gone since 200 s").at(deleted)
                    })
                })
                },
            )],
        ),
    ]
}

/// A suspended machine counts as shut down in vCenter mode, and as running in a Supervisor.
fn suspended(backend: Backend) -> Case {
    let scenario = world(3, s(300)).at(SETTLED, Command::Suspend(machine(1)));
    match backend {
        Backend::VCenter => Case::new(scenario, |run| marked(run, 1)),
        Backend::Supervisor => {
            let judge = |run: &Run| {
                let marked = run.when(&name(1), |node| node.shutdown);
                run.was_not_ready(&name(1)).and(|| {
                    Verdict::of(marked.is_none(), || format!("marked at {marked:?}").at(marked))
                })
            };
            Case::new(scenario, judge).canary(Canary::Off(2), SETTLED)
        }
    }
}

fn power_unreadable(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => {
            vec![unreadable(Since::Watching), unreadable(Since::Starting), stays()]
        }
        Backend::Supervisor => [500, 503, 401, 403, 404].map(marked_while_failing).into(),
    }
}

/// All reads fail while one node has the shutdown taint and its machine is off. That node keeps the taint, and no other gets it.
fn marked_while_failing(code: u16) -> Case {
    let (broken, healed) = (s(200), s(400));
    let failing = [match code {
        // A 404 of the collection.
        404 => Action::NotServed,
        _ => Action::Status { code, retry_after: None, message: None },
    }];
    let scenario = world(12, s(600))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(broken, about_machines(Backend::Supervisor, "failing", failing))
        .at(broken, Act::Crash(0))
        .at(broken + s(1), Act::Start(0))
        .at(broken, Command::StopKubelet(machine(2)))
        .at(healed, Act::Heal);
    let case = Case::new(scenario, move |run| {
        let lost = run.when_after(&name(1), broken, |node| !node.shutdown);
        let marked = run.when(&name(2), |node| node.shutdown);
        marked_once(run, 1)
            .and(|| run.was_not_ready(&name(2)))
            .and(|| {
                Verdict::of(lost.is_none(), || format!("the taint was lost at {lost:?}").at(lost))
            })
            .and(|| {
                Verdict::of(marked.is_none(), || {
                    format!("one that runs was marked at {marked:?}").at(marked)
                })
            })
    });
    case.canary_within(Canary::Gone(3), healed, PATIENCE).named(format!("{code}"))
}

/// A node stays Ready for a while after its machine was switched off; the provider sets the taint only once it is NotReady.
fn ready_and_off() -> Case {
    let judge = |run: &Run| {
        let marked = run.when(&name(1), |node| node.shutdown);
        let missed = run.when(&name(1), |node| !node.is_ready());
        let early = marked.is_some_and(|at| missed.is_none_or(|missed| at < missed));
        Verdict::of(!early, || {
            format!("a Ready node was marked shut down at {marked:?}, NotReady at {missed:?}")
                .at(marked)
        })
    };
    Case::new(world(3, SETTLED), judge).canary(Canary::Off(1), SETTLED)
}

/// Passes if the node was NotReady, got the shutdown taint in time and still exists.
fn marked(run: &Run, n: u32) -> Verdict {
    let at = run.when(&name(n), |node| node.shutdown);
    run.was_not_ready(&name(n))
        .and(|| {
            Verdict::of(at.is_some_and(|at| at.since_start() <= SETTLED + GRACE + T_LIFE), || {
                format!("the shutdown taint came at {at:?}; the machine is off since {SETTLED:?}")
                    .at(at)
            })
        })
        .and(|| Verdict::of(run.node(&name(n)).is_some(), || "the node was deleted".to_owned()))
}

fn marked_once(run: &Run, n: u32) -> Verdict {
    match run.when(&name(n), |node| node.shutdown) {
        Some(_) => Verdict::Pass,
        None => Verdict::fail("the node never had the shutdown taint".to_owned()),
    }
}

/// Number of power changes that VM Operator reports of the first machine, from the time when it begins to flap (150 s).
fn power_told(run: &Run) -> u64 {
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

fn flapping(backend: Backend) -> Case {
    let mut scenario = world(3, s(900)).at(SETTLED, Command::StopKubelet(machine(1)));
    // VM Operator needs 2.5 s to switch a machine and to report that.
    let (times, pause) = if backend.is_vcenter() { (20, 2) } else { (12, 4) };
    for n in 0..times {
        let act =
            if n % 2 == 0 { Command::PowerOff(machine(1)) } else { Command::PowerOn(machine(1)) };
        scenario = scenario.at(s(150 + pause * n), act);
    }
    Case::new(scenario, move |run| {
        let told = power_told(run);
        if run.backend() == Backend::Supervisor && told < times {
            return Verdict::inconclusive(format!("{told} of {times} power states were told"));
        }
        let node = name(1);
        let writes = run
            .writes_on(&node)
            .filter(|call| (s(150)..s(200)).contains(&call.t.since_start()))
            .count() as u64;
        // The machine flaps for fifty seconds: ten monitor periods.
        let allowed = s(50).as_secs() / T_MONITOR.as_secs();
        Verdict::of(writes <= allowed, || format!("{writes} writes in ten monitor periods")).and(
            || {
                let end = run.node(&name(1));
                Verdict::of(end.is_some_and(|it| it.is_ready() && !it.shutdown), || {
                    "the node did not return to normal".to_owned()
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
        marked(run, 1).and(|| {
            let ready = run.when_after(&name(1), s(200), |node| node.is_ready());
            let clear = run.when_after(&name(1), s(200), |node| node.is_ready() && !node.shutdown);
            match (ready, clear) {
                (Some(ready), Some(clear)) if clear.since(ready) <= T_LIFE => Verdict::Pass,
                _ => Verdict::fail(
                    format!("Ready at {ready:?}, without the taint at {clear:?}").at(ready),
                ),
            }
        })
    })
}

fn power_alone() -> Case {
    // The machine runs again; its kubelet does not.
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
        marked(run, 1).and(|| {
            let node = run.node(&name(1));
            Verdict::of(node.is_some_and(|it| it.shutdown && !it.is_ready()), || {
                "the taint left before the node was Ready".to_owned()
            })
        })
    })
}

/// Time since which a provider cannot read power states.
#[derive(Clone, Copy)]
enum Since {
    /// The provider knew the states before.
    Watching,
    /// The provider has never known them.
    Starting,
}

/// vCenter answers everything about a machine except its power state.
fn no_power() -> Rule {
    let paths = vec!["runtime.powerState".into(), "summary.runtime.powerState".into()];
    let fault = "SystemError".to_owned();
    about_machines(
        Backend::VCenter,
        "no power",
        [Action::MissingSet(MissingPaths { paths, fault })],
    )
}

/// While power states are unreadable, one machine is off, one runs without a kubelet, and one is really gone. The Node of the
/// last shows that the provider asked about existence and got answers.
fn unreadable(since: Since) -> Case {
    let (broken, healed) = (SETTLED + s(1), s(200));
    let mut scenario = world(12, s(400))
        .at(SETTLED, no_power())
        .at(broken, Command::PowerOff(machine(1)))
        .at(broken, Command::StopKubelet(machine(2)))
        .at(broken, Command::DeleteMachine(machine(3)))
        .at(healed, Act::Heal);
    if let Since::Starting = since {
        scenario = scenario.at(broken, Act::Crash(0)).at(broken + s(1), Act::Start(0));
    }
    let case = Case::new(scenario, move |run| {
        for n in [1, 2] {
            let marked = run.when(&name(n), |node| node.shutdown);
            if let Some(at) = marked.filter(|at| at.since_start() < healed) {
                let text = format!("{} was marked shut down at {at}, on an error", name(n)).at(at);
                return Verdict::fail(text);
            }
            let asked = run.when(&name(n), |node| !node.is_ready()).map(|at| at.since_start());
            if asked.is_none_or(|at| at + T_MONITOR * 5 > healed) {
                let text = format!("{} was not NotReady for five monitor periods", name(n));
                return Verdict::inconclusive(text);
            }
        }
        existence_was_answered(run, 3, broken + GRACE + T_LIFE)
            .and(|| {
                // The provider sets the taint once it can read the power state: only the fault prevented it.
                let bound = healed + T_LIFE + s(60);
                let at = run.when(&name(1), |node| node.shutdown);
                match at.filter(|at| at.since_start() <= bound) {
                    Some(_) => Verdict::Pass,
                    None => Verdict::inconclusive(format!(
                        "the machine that is off was marked at {at:?}; its power is readable since {healed:?}"
                    ).at(at)),
                }
            })
            .and(|| {
                Verdict::of(run.when(&name(2), |node| node.shutdown).is_none(), || {
                    "a node whose machine runs was marked shut down".to_owned()
                })
            })
    });
    case.named(match since {
        Since::Watching => "known before",
        Since::Starting => "after a restart",
    })
}

/// A node keeps its shutdown taint when the view is built anew without power states.
fn stays() -> Case {
    let broken = s(200);
    let scenario = world(12, broken + s(120))
        .at(SETTLED, Command::PowerOff(machine(1)))
        .at(broken, no_power())
        .at(broken, Backend::VCenter.cut())
        .at(broken, Command::DeleteMachine(machine(3)));
    let case = Case::new(scenario, move |run| {
        marked(run, 1)
            .and(|| existence_was_answered(run, 3, broken + GRACE + T_LIFE))
            .and(|| {
                let node = name(1);
                let lost = run.when_after(&node, broken, |node| !node.shutdown);
                let end = run.node(&node);
                let kept = lost.is_none() && end.is_some_and(|node| node.shutdown);
                Verdict::of(kept, || format!("{node} lost the shutdown taint at {lost:?}").at(lost))
            })
            .and(|| {
                let node = name(1);
                let written = run.writes_on(&node).find(|call| call.t.since_start() > broken);
                Verdict::of(written.is_none(), || {
                    format!(
                        "written on an error: {}",
                        written.map(ToString::to_string).unwrap_or_default()
                    )
                })
            })
    });
    case.named("marked before")
}

/// Inconclusive unless the provider read a machine without its power state, and the Node of the `gone`-th machine, which was
/// destroyed meanwhile, was deleted in time.
fn existence_was_answered(run: &Run, gone: u32, bound: std::time::Duration) -> Verdict {
    let read = |call: &&sim::ledger::Record| {
        call.was_faulted() && call.ended.as_ref().is_some_and(|ended| ended.objects > 0)
    };
    if run.machine_calls().find(read).is_none() {
        return Verdict::inconclusive("no machine was read while power was unreadable".to_owned());
    }
    match run.deleted(&name(gone)) {
        Some(at) if at.since_start() <= bound => Verdict::Pass,
        other => Verdict::inconclusive(format!(
            "existence was not answered: the node of a destroyed machine was deleted at {other:?}"
        ).at(other)),
    }
}

/// The API server answers four writes of the taint in a row with a conflict. Conflicts are common: the client reads and writes
/// again, which takes less than a second.
fn conflicts() -> Case {
    let status = Action::Status { code: 409, retry_after: None, message: None };
    let conflict =
        Rule::new("conflict", [status]).on(Face::Cluster).op(WRITE_NODE).named(name(1)).first(4);
    let scenario =
        world(3, s(200)).at(SETTLED, conflict).at(SETTLED, Command::PowerOff(machine(1)));
    Case::new(scenario, |run| marked(run, 1)).named("four conflicts in a row")
}

/// Times at which other writers add one taint each.
const FOREIGN: [u64; 11] = [100, 102, 104, 106, 108, 110, 111, 113, 115, 117, 119];

/// Key of the n-th foreign taint.
fn foreign(n: usize) -> String {
    format!("example.com/foreign-{n}")
}

/// Every write of the Node after the taint is there counts.
fn written_once() -> Case {
    Case::new(world(3, s(400)).at(SETTLED, Command::PowerOff(machine(1))), |run| {
        marked(run, 1).and(|| {
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
            Verdict::of(later.is_empty(), || format!("written again: {}", later.join("; ")))
        })
    })
}

/// Another controller writes the same taint while the provider's write is under way.
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
        marked(run, 1).and(|| {
            Verdict::of(later.is_empty(), || format!("written again: {}", later.join("; ")))
        })
    })
    .named("another controller writes it at the same time")
}

fn lost_update() -> Case {
    // The write of the taint is slow; meanwhile others add theirs.
    let slow = Rule::new("slow", [Action::Delay(s(4))])
        .on(Face::Cluster)
        .op(WRITE_NODE)
        .named(name(1))
        .first(1);
    let mut scenario = world(3, s(400)).at(s(59), slow).at(SETTLED, Command::PowerOff(machine(1)));
    for (n, at) in FOREIGN.into_iter().enumerate() {
        // Each writer adds one taint and leaves the others, so that a later write does not repair a list that was overwritten.
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
                "nobody else wrote while the taint was written".to_owned(),
            );
        }
        let node = run.node(&name(1)).unwrap_or_default();
        let is_there = |n: usize| node.taints.contains(&foreign(n));
        Verdict::of(node.shutdown && (0..FOREIGN.len()).all(is_there), || {
            format!("taints at the end: {:?}", node.taints)
        })
    })
}
