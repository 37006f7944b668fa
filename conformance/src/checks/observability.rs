//! OBS: signals that an operator can see from outside.
//!
//! The checks read metrics and health of our provider in process. They do not read the endpoint of a provider that is a
//! process.

use std::time::Duration;

use sim::world::objects::GroupResource;
use sim::world::{Command, Event, Grant, Named, PROVIDER_USER, Topology};

use super::build::{
    KNOWN_UUID, SETTLED, T_MONITOR, T_STATUS, away, forget_reference, hidden, known_uuid, machine,
    s, world, world_with,
};
use super::observe::{name, names};
use super::{Case, Check};
use crate::backend::Backend;
use crate::foreign::Pace;
use crate::lab::{Run, Scrape, sum};
use crate::scenario::{Act, Initializer, Scenario};
use crate::verdict::{Told as _, Verdict};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut healths = vec![outage(backend), outage_from_the_start(backend)];
    if backend.is_vcenter() {
        healths.extend([
            one_of_two(),
            unknown_vcenter(),
            hidden_machine(),
            lost_privilege(),
            lost_again(),
            many_hidden(),
        ]);
    } else {
        healths.push(one_uuid_twice());
    }
    vec![
        Check::new("OBS-001", [failures_are_counted(backend)]),
        Check::new("OBS-002", healths),
        Check::new("OBS-004", [readiness(backend), leadership()]),
    ]
    .into_iter()
    .map(|check| Check {
        cases: check.cases.into_iter().map(|case| case.paced(ENDPOINT)).collect(),
        ..check
    })
    .collect()
}

const ENDPOINT: Pace = Pace::Virtual("the endpoint of a provider that is a process is not read");
/// Duration of the outages.
const DOWN: Duration = s(180);
/// Time from the end of an outage until health must be good: a vCenter that starts answers 503 for a minute.
const RECOVERY: Duration = s(240);

/// Two VirtualMachines report the same BIOS UUID, as a clone does until it has its own. The metric counts them, and health
/// stays good.
fn one_uuid_twice() -> Case {
    const SEEN: Duration = s(120);
    let scenario = known_uuid(Backend::Supervisor, world_with(2, 3, s(240)), 1)
        .at(SETTLED, Command::SetUuid { machine: machine(3), uuid: Some(KNOWN_UUID) })
        .at(SEEN, Act::Scrape);
    Case::new(scenario, |run| is_ready(run, SEEN)).named("two machines have one UUID")
}

/// Returns the scrape at this moment, of the first replica that was read then.
fn scrape_at(run: &Run, at: Duration) -> Option<&Scrape> {
    run.scrapes.iter().find(|scrape| scrape.at.since_start() == at)
}

/// Judges the scrape at this moment; inconclusive without one.
fn at(run: &Run, moment: Duration, judge: impl FnOnce(&Scrape) -> Verdict) -> Verdict {
    match scrape_at(run, moment) {
        Some(scrape) => judge(scrape),
        None => Verdict::inconclusive(format!("no replica was read at {moment:?}")),
    }
}

/// Passes if every check of `/readyz` and `/livez` passes at this moment.
fn is_ready(run: &Run, moment: Duration) -> Verdict {
    at(run, moment, |scrape| {
        let mut bad: Vec<_> = scrape.unready().collect();
        bad.extend(dead(scrape));
        Verdict::of(bad.is_empty(), || format!("{bad:?} at {moment:?}").at(moment))
    })
}

/// Passes if exactly these checks of `/readyz` fail at this moment, and none of `/livez`.
fn fails(run: &Run, moment: Duration, wanted: &[&str]) -> Verdict {
    at(run, moment, |scrape| {
        let failing: Vec<_> = scrape.unready().map(|(name, _)| name).collect();
        Verdict::of(failing == wanted, || {
            format!("{failing:?} fail in /readyz at {moment:?}; {wanted:?} have to").at(moment)
        })
        .and(|| {
            let dead: Vec<_> = dead(scrape).collect();
            Verdict::of(dead.is_empty(), || {
                format!("{dead:?} fail in /livez at {moment:?}").at(moment)
            })
        })
    })
}

fn dead(scrape: &Scrape) -> impl Iterator<Item = (&str, &str)> {
    scrape.live.iter().filter_map(|(name, outcome)| Some((&**name, &**outcome.as_ref().err()?)))
}

/// vCenter or Supervisor is away for a while; the scenario reads health before, during and after that.
fn disturbed(backend: Backend) -> Scenario {
    let end = SETTLED + DOWN;
    away(world(4, end + RECOVERY + T_STATUS), backend, SETTLED, end)
        .at(SETTLED, Act::Scrape)
        // A node that is not ready makes the provider ask.
        .at(SETTLED + s(5), Command::StopKubelet(machine(2)))
        .at(SETTLED + s(70), Act::Scrape)
        .at(end - s(1), Act::Scrape)
        .at(end + s(1), Command::StartKubelet(machine(2)))
        .at(end + RECOVERY, Act::Scrape)
        .at(end + RECOVERY + s(120), Act::Scrape)
}

fn failures_are_counted(backend: Backend) -> Case {
    let failures = move |scrape: &Scrape| {
        let samples = scrape.samples();
        match backend {
            Backend::VCenter => {
                const CALLS: &str = "cloudprovider_vsphere_api_request_duration_seconds_count";
                sum(&samples, CALLS, &[]) - sum(&samples, CALLS, &[("code", "ok")])
            }
            Backend::Supervisor => {
                const REQUESTS: &str = "rest_client_requests_total";
                let of = [("server", "supervisor"), ("code", "200")];
                sum(&samples, REQUESTS, &of[..1]) - sum(&samples, REQUESTS, &of)
            }
        }
    };
    Case::new(disturbed(backend), move |run| {
        let end = SETTLED + DOWN;
        let moments =
            [SETTLED, SETTLED + s(70), end - s(1), end + RECOVERY, end + RECOVERY + s(120)];
        let counts: Vec<f64> =
            moments.iter().filter_map(|at| scrape_at(run, *at)).map(failures).collect();
        let [before, early, late, after, calm] = counts[..] else {
            return Verdict::inconclusive(format!("{} of 5 scrapes were made", counts.len()));
        };
        Verdict::of(before < early && early < late && after == calm, || {
            format!(
                "failures counted: {before} before the outage, {early} and {late} in it, {after} after it and \
                 {calm} two minutes later"
            )
        })
        .and(|| run.initializes(&names(4), s(0), SETTLED))
    })
}

/// Name of the check of `/readyz` that is about the only vCenter, or about the Supervisor.
fn health_of(backend: Backend) -> &'static str {
    match backend {
        Backend::VCenter => "vcenter-vc0",
        Backend::Supervisor => "supervisor",
    }
}

/// vCenter or Supervisor does not answer before the provider has run for a while. No metric may tell of an answer until then.
fn outage_from_the_start(backend: Backend) -> Case {
    let end = DOWN;
    let scenario = away(world(4, end + RECOVERY + T_STATUS), backend, s(0), end)
        .at(s(60), Act::Scrape)
        .at(end - s(1), Act::Scrape)
        .at(end + RECOVERY, Act::Scrape);
    Case::new(scenario, move |run| {
        let failing = [health_of(backend)];
        fails(run, s(60), &failing)
            .and(|| fails(run, end - s(1), &failing))
            .and(|| is_ready(run, end + RECOVERY))
            .and(|| run.initializes(&names(4), end, RECOVERY))
    })
    .named("an outage from the start")
}

fn outage(backend: Backend) -> Case {
    Case::new(disturbed(backend), move |run| {
        let end = SETTLED + DOWN;
        let failing = health_of(backend);
        is_ready(run, SETTLED)
            .and(|| fails(run, SETTLED + s(70), &[failing]))
            .and(|| fails(run, end - s(1), &[failing]))
            .and(|| is_ready(run, end + RECOVERY))
            .and(|| {
                let restarts = run.exits.len();
                Verdict::of(restarts == 1, || format!("{restarts} ends of the process"))
            })
    })
    .named("an outage")
}

/// One of two vCenters is away.
fn one_of_two() -> Case {
    let end = SETTLED + DOWN;
    let topology = Topology::zones(3).machines(3).vcenters(2);
    let vcenter = Some("vc1".to_owned());
    let scenario = Scenario::new("", topology, end + RECOVERY + T_STATUS)
        .at(SETTLED, Act::Scrape)
        .at(SETTLED, Command::StopVCenter { vcenter: vcenter.clone() })
        .at(end - s(1), Act::Scrape)
        .at(end, Command::StartVCenter { vcenter })
        .at(end + RECOVERY, Act::Scrape);
    Case::new(scenario, move |run| {
        is_ready(run, SETTLED)
            .and(|| fails(run, end - s(1), &["vcenter-vc1"]))
            .and(|| is_ready(run, end + RECOVERY))
    })
    .named("one of two vCenters")
}

/// Fails unless the metric has `wanted` nodes in this kind of trouble at a moment, and none in another kind.
fn troubled(run: &Run, moment: Duration, kind: &str, wanted: u32) -> Verdict {
    at(run, moment, |scrape| {
        let samples = scrape.samples();
        let [of_kind, all] = [&[("kind", kind)][..], &[]]
            .map(|labels| sum(&samples, "vsphere_nodes_troubled", labels));
        Verdict::of(of_kind == f64::from(wanted) && all == of_kind, || {
            format!(
                "vsphere_nodes_troubled of {kind} is {of_kind} at {moment:?} and {all} in all; {wanted} nodes are in \
                 this trouble"
            )
            .at(moment)
        })
    })
}

/// Fails unless the Warning events with this reason are about exactly these nodes.
fn warned(run: &Run, reason: &str, nodes: &[String]) -> Verdict {
    let events = run.events().into_iter().filter(|it| it.reason == reason && it.kind == "Warning");
    let mut about: Vec<String> = events.map(|it| it.object).collect();
    about.sort();
    about.dedup();
    Verdict::of(about == nodes, || format!("events {reason} are about {about:?}, not {nodes:?}"))
}

/// The configuration loses the vCenter of two silent nodes.
fn unknown_vcenter() -> Case {
    let silent = ["node-1-0001", "node-1-0002"];
    let mut scenario = Scenario::new("", Topology::zones(3).machines(3).vcenters(2), s(500))
        .at(s(60), Act::Stop(0))
        .at(s(60), Act::Vcenters(vec!["vc0".to_owned()]))
        .at(s(62), Act::StartAll)
        .at(s(200), Act::Scrape)
        .at(s(250), Act::Stop(0))
        .at(s(250), Act::Vcenters(Vec::new()))
        .at(s(252), Act::StartAll)
        .at(s(450), Act::Scrape);
    for node in silent {
        scenario = scenario
            .at(s(70), Command::StopKubelet(Named::from(node)))
            .at(s(260), Command::StartKubelet(Named::from(node)));
    }
    Case::new(scenario, move |run| {
        let nodes: Vec<String> = (1..=3).map(|n| format!("node-1-000{n}")).collect();
        fails(run, s(200), &["machines"])
            .and(|| troubled(run, s(200), "unknown-vcenter", 3))
            .and(|| warned(run, "MachineInUnknownVCenter", &nodes))
            .and(|| is_ready(run, s(450)))
            .and(|| troubled(run, s(450), "unknown-vcenter", 0))
    })
    .named("a vCenter that is not configured")
}

/// Another initializer initialized a node, and the provider has never seen its machine. An event asks a person to act; the
/// provider stays ready.
fn hidden_machine() -> Case {
    let scenario = world(4, s(400))
        .with(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by: Initializer::Upstream })
        .at(s(10), forget_reference(2))
        .at(s(10), hidden(Backend::VCenter, 2))
        .at(s(10), Act::StartAll)
        .at(s(30), Command::StopKubelet(machine(2)))
        .at(s(250), Act::Scrape)
        .at(s(260), Act::Heal)
        .at(s(260), Command::StartKubelet(machine(2)))
        .at(s(390), Act::Scrape);
    Case::new(scenario, |run| {
        is_ready(run, s(250))
            .and(|| troubled(run, s(250), "unproven", 1))
            .and(|| warned(run, "MachineNotProvenGone", &[name(2)]))
            .and(|| is_ready(run, s(390)))
            .and(|| troubled(run, s(390), "unproven", 0))
    })
    .named("a machine that was never seen")
}

/// A node is not ready, and the login may no longer see its machine. An event names that machine.
fn lost_privilege() -> Case {
    let grant = Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object: name(2) };
    let scenario = world(4, s(400))
        .at(SETTLED, Command::RevokePrivilege(grant.clone()))
        .at(SETTLED, Command::StopKubelet(machine(2)))
        .at(s(250), Act::Scrape)
        .at(s(260), Command::GrantPrivilege(grant))
        .at(s(260), Command::StartKubelet(machine(2)))
        .at(s(390), Act::Scrape);
    Case::new(scenario, |run| {
        is_ready(run, s(250))
            .and(|| troubled(run, s(250), "not-visible", 1))
            .and(|| warned(run, "MachineNotVisible", &[name(2)]))
            .and(|| is_ready(run, s(390)))
            .and(|| troubled(run, s(390), "not-visible", 0))
    })
    .named("a machine that is not visible any more")
}

/// The privilege on a machine is lost, given back, and lost again: each loss must cause an event.
fn lost_again() -> Case {
    let grant = Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object: name(2) };
    let again = s(600);
    let scenario = world(4, s(900))
        .at(SETTLED, Command::RevokePrivilege(grant.clone()))
        .at(SETTLED, Command::StopKubelet(machine(2)))
        .at(s(300), Command::GrantPrivilege(grant.clone()))
        .at(s(300), Command::StartKubelet(machine(2)))
        .at(again, Command::RevokePrivilege(grant))
        .at(again, Command::StopKubelet(machine(2)));
    Case::new(scenario, move |run| {
        let told = |from: Duration, to: Duration| {
            run.log.entries().any(|(at, event)| {
                matches!(event, Event::Cluster(event)
                    if (from..to).contains(&at.since_start())
                        && event.key.resource == GroupResource::core("events")
                        && event.object["reason"] == "MachineNotVisible"
                        && event.object["involvedObject"]["name"] == name(2))
            })
        };
        Verdict::of(told(s(0), s(300)), || {
            "nobody was told that the machine is not visible".to_owned()
        })
        .and(|| {
            Verdict::of(told(again, s(900)), || {
                "the machine is not visible once more, and nobody was told".to_owned()
            })
        })
    })
    .named("a machine that is not visible for the second time")
}

/// Nodes of which an event tells, for one kind of trouble. More events would only repeat it.
const TOLD: usize = 10;

/// Twelve nodes are not ready, and the login may no longer see their machines. The metric counts all of them, and events name
/// some.
fn many_hidden() -> Case {
    const N: u32 = 12;
    let mut scenario = world(N + 2, s(300));
    for n in 1..=N {
        let user = PROVIDER_USER.to_owned();
        let grant = Grant { vcenter: None, user, object: name(n) };
        scenario = scenario
            .at(SETTLED, Command::RevokePrivilege(grant))
            .at(SETTLED, Command::StopKubelet(machine(n)));
    }
    Case::new(scenario.at(s(250), Act::Scrape), |run| {
        let events = run.events().into_iter().filter(|it| it.reason == "MachineNotVisible");
        let mut about: Vec<String> = events.map(|it| it.object).collect();
        about.sort();
        about.dedup();
        is_ready(run, s(250)).and(|| troubled(run, s(250), "not-visible", N)).and(|| {
            Verdict::of((1..=TOLD).contains(&about.len()), || {
                format!(
                    "{} nodes have an event; 1 to {TOLD} of {N} have to: {about:?}",
                    about.len()
                )
            })
        })
    })
    .named("many machines that are not visible any more")
}

/// The provider is not ready before it knows anything, and is ready once the first node is initialized.
fn readiness(backend: Backend) -> Case {
    let scenario = world(4, s(120))
        .with(|it| it.start = false)
        .at(s(10), Act::StartAll)
        .at(s(10), Act::Scrape);
    // One scrape per second from the start of the provider on.
    let scenario = (11..=60).fold(scenario, |scenario, n| scenario.at(s(n), Act::Scrape));
    Case::new(scenario, move |run| {
        let first = names(4).iter().filter_map(|node| run.initialized(node)).min();
        let Some(first) = first else {
            return Verdict::inconclusive("no node was initialized");
        };
        at(run, s(10), |scrape| {
            let is_early = scrape.unready().next().is_none();
            Verdict::of(!is_early, || {
                format!("/readyz passes as the process starts, before {backend} was asked")
                    .at(s(10))
            })
        })
        .and(|| {
            let next = run.scrapes.iter().find(|it| it.at >= first + T_MONITOR);
            let bad = next.and_then(|it| Some((it.at, it.unready().next()?)));
            Verdict::of(bad.is_none(), || {
                format!("a node is initialized at {first}, and /readyz fails: {bad:?}").at(first)
            })
        })
    })
    .named("start")
}

/// Of two replicas only the holder of the lease reports that it leads. After its death the other one does.
fn leadership() -> Case {
    let scenario = world(3, s(150))
        .with(|it| it.replicas = 2)
        .at(SETTLED, Act::Scrape)
        .at(SETTLED, Act::CrashLeader)
        .at(SETTLED + s(45), Act::Scrape);
    Case::new(scenario, |run| {
        let leads = |moment: Duration| {
            let scrapes = run.scrapes.iter().filter(move |it| it.at.since_start() == moment);
            let leads = |it: &Scrape| {
                let samples = it.samples();
                let status = sum(&samples, "leader_election_master_status", &[]);
                let controllers = sum(&samples, "running_managed_controllers", &[]);
                (it.replica, status, controllers)
            };
            scrapes.map(leads).collect::<Vec<_>>()
        };
        let (before, after) = (leads(SETTLED), leads(SETTLED + s(45)));
        let leader = before.iter().find(|(_, status, _)| *status == 1.0).map(|(replica, ..)| *replica);
        let standby = leader.map(|it| 1 - it);
        let of = |status: Option<usize>, list: &[(usize, f64, f64)], both: f64| {
            list.iter().filter(|(replica, ..)| Some(*replica) == status).all(|(_, status, controllers)| {
                *status == both && *controllers == 2.0 * both
            })
        };
        let holds = before.len() == 2
            && leader.is_some()
            && of(leader, &before, 1.0)
            && of(standby, &before, 0.0)
            && after.iter().any(|(replica, ..)| Some(*replica) == standby)
            && of(standby, &after, 1.0);
        Verdict::of(holds, || {
            format!(
                "replica, leader_election_master_status and running_managed_controllers: {before:?}, and after the \
                 leader died {after:?}"
            )
        })
    })
    .named("two replicas")
}
