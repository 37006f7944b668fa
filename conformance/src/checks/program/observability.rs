//! OBS: metrics, health checks and events by which an operator notices trouble.
//!
//! The checks read metrics and health only of our provider in virtual time, inside this process.
//! They do not read the endpoint of a provider that runs as a process.

use std::time::Duration;

use sim::world::objects::GroupResource;
use sim::world::{Command, Event, Grant, Named, PROVIDER_USER, Topology};

use crate::checks::build::{
    KNOWN_UUID, SETTLED, T_MONITOR, T_STATUS, forget_reference, hidden, known_uuid, machine, s,
    with_outage, world, world_with,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Run, Scrape, sum};
use crate::scenario::{Act, Backend, Initializer, Pace, Scenario};

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

const ENDPOINT: Pace =
    Pace::Virtual("the endpoint of a provider that runs as a process is not read");
/// Duration of an outage.
const DOWN: Duration = s(180);
/// Time from the end of an outage until all health checks must pass. A vCenter answers 503 in the
/// first minute after its start.
const RECOVERY: Duration = s(240);

/// Creates a case in which two VirtualMachines report the same BIOS UUID, as an original and its
/// clone do until the clone has a UUID of its own. All health checks must still pass.
fn one_uuid_twice() -> Case {
    const SEEN: Duration = s(120);
    let scenario = known_uuid(Backend::Supervisor, world_with(2, 3, s(240)), 1)
        .at(SETTLED, Command::SetUuid { machine: machine(3), uuid: Some(KNOWN_UUID) })
        .at(SEEN, Act::Scrape);
    Case::new(scenario, |run| is_ready(run, SEEN)).named("two machines have one UUID")
}

/// Returns the first scrape of a replica at this time; `None` if the lab made none then.
fn scrape_at(run: &Run, at: Duration) -> Option<&Scrape> {
    run.scrapes.iter().find(|scrape| scrape.at.since_start() == at)
}

/// Judges the scrape at this time; inconclusive without one.
fn judge_scrape_at(run: &Run, moment: Duration, judge: impl FnOnce(&Scrape) -> Verdict) -> Verdict {
    match scrape_at(run, moment) {
        Some(scrape) => judge(scrape),
        None => Verdict::inconclusive(format!(
            "the lab read no metrics and health of a replica {moment}",
            moment = when(moment)
        )),
    }
}

/// Passes if every check of `/readyz` and `/livez` passes at this time.
fn is_ready(run: &Run, moment: Duration) -> Verdict {
    judge_scrape_at(run, moment, |scrape| {
        let mut bad: Vec<_> = scrape.unready().collect();
        bad.extend(dead(scrape));
        Verdict::pass_if(bad.is_empty(), || {
            format!(
                "checks of /readyz or /livez that fail {moment}, with their messages: {bad:?}",
                moment = when(moment)
            )
            .at(moment)
        })
    })
}

/// Passes if exactly these checks of `/readyz` and none of `/livez` fail at this time.
fn fails(run: &Run, moment: Duration, wanted: &[&str]) -> Verdict {
    judge_scrape_at(run, moment, |scrape| {
        let failing: Vec<_> = scrape.unready().map(|(name, _)| name).collect();
        Verdict::pass_if(failing == wanted, || {
            format!("the failing checks of /readyz {moment} are {failing:?}; they have to be {wanted:?}", moment = when(moment)).at(moment)
        })
        .and(|| {
            let dead: Vec<_> = dead(scrape).collect();
            Verdict::pass_if(dead.is_empty(), || {
                format!("no check of /livez may fail {moment}, but these do: {dead:?}", moment = when(moment)).at(moment)
            })
        })
    })
}

/// Returns the failing checks of `/livez`, as name and message.
fn dead(scrape: &Scrape) -> impl Iterator<Item = (&str, &str)> {
    scrape.live.iter().filter_map(|(name, outcome)| Some((&**name, &**outcome.as_ref().err()?)))
}

/// Returns a scenario in which the backend is down for [`DOWN`], with scrapes before, during and
/// after the outage.
fn disturbed(backend: Backend) -> Scenario {
    let end = SETTLED + DOWN;
    with_outage(world(4, end + RECOVERY + T_STATUS), backend, SETTLED, end)
        .at(SETTLED, Act::Scrape)
        // A node that is not ready makes the provider look for its machine.
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
            return Verdict::inconclusive(format!(
                "the lab made only {} of 5 scrapes",
                counts.len()
            ));
        };
        Verdict::pass_if(before < early && early < late && after == calm, || {
            format!(
                "the metric has to count failures only during the outage; it has {before} before, {early} and {late} \
                 during, {after} after the outage and {calm} two minutes later"
            )
        })
        .and(|| run.initializes(&names(4), s(0), SETTLED))
    })
}

/// Returns the name of the check of `/readyz` about the only vCenter or about the Supervisor.
fn health_of(backend: Backend) -> &'static str {
    match backend {
        Backend::VCenter => "vcenter-vc0",
        Backend::Supervisor => "supervisor",
    }
}

/// Creates a case in which the backend is down for the first [`DOWN`] of the run. `/readyz` must
/// fail until the end of the outage and pass after the recovery.
fn outage_from_the_start(backend: Backend) -> Case {
    let end = DOWN;
    let scenario = with_outage(world(4, end + RECOVERY + T_STATUS), backend, s(0), end)
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
                Verdict::pass_if(restarts == 1, || format!("the provider process ended {restarts} times; it has to end only at the end of the run"))
            })
    })
    .named("an outage")
}

/// Creates a case in which one of two vCenters is down. Only the check of `/readyz` about this
/// vCenter must fail.
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

/// Fails unless the metric `vsphere_nodes_troubled` counts `wanted` nodes in this kind of trouble
/// at this time, and none in another kind.
fn troubled(run: &Run, moment: Duration, kind: &str, wanted: u32) -> Verdict {
    judge_scrape_at(run, moment, |scrape| {
        let samples = scrape.samples();
        let [of_kind, all] = [&[("kind", kind)][..], &[]]
            .map(|labels| sum(&samples, "vsphere_nodes_troubled", labels));
        Verdict::pass_if(of_kind == f64::from(wanted) && all == of_kind, || {
            format!(
                "vsphere_nodes_troubled of kind {kind} is {of_kind} {moment}, of all kinds {all}; both have to be \
                 {wanted}", moment = when(moment)
            )
            .at(moment)
        })
    })
}

/// Fails unless exactly these nodes have Warning events with this reason.
fn warned(run: &Run, reason: &str, nodes: &[String]) -> Verdict {
    let events = run.events().into_iter().filter(|it| it.reason == reason && it.kind == "Warning");
    let mut about: Vec<String> = events.map(|it| it.object).collect();
    about.sort();
    about.dedup();
    Verdict::pass_if(about == nodes, || {
        format!("Warning events {reason} are about {about:?}; they have to be about {nodes:?}")
    })
}

/// Creates a case in which the configuration lacks the vCenter of three nodes from 60 s until 250
/// s, and two of these three are silent. Meanwhile the check `machines` of `/readyz` must fail, and
/// the provider must write an event about each of the three nodes.
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

/// Creates a case in which another initializer initialized a node whose machine the provider has
/// never seen. The provider must write an event about the node and stay ready.
fn hidden_machine() -> Case {
    let scenario = world(4, s(400))
        .with_provider(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by: Initializer::Upstream })
        .at(s(10), forget_reference(2))
        .at(s(10), hidden(Backend::VCenter, 2))
        .at(s(10), Act::StartAll)
        .at(s(30), Command::StopKubelet(machine(2)))
        .at(s(250), Act::Scrape)
        .at(s(260), Act::RemoveRules)
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

/// Creates a case in which a node is not ready and the login may no longer see its machine. The
/// provider must write an event about the node and stay ready.
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

/// Creates a case in which twice a node becomes not ready while the login may not see its machine;
/// in between, the login gets the privilege back and the node becomes ready. The provider must
/// write an event about the node each time.
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
        Verdict::pass_if(told(s(0), s(300)), || {
            "no event MachineNotVisible followed the first loss of the privilege".to_owned()
        })
        .and(|| {
            Verdict::pass_if(told(again, s(900)), || {
                "no event MachineNotVisible followed the second loss of the privilege".to_owned()
            })
        })
    })
    .named("a machine that is not visible for the second time")
}

/// Maximum number of nodes with an event about the same kind of trouble. More events would only
/// repeat it.
const TOLD: usize = 10;

/// Creates a case in which twelve nodes are not ready and the login may no longer see their
/// machines. The metric must count all of them, and events must be about 1 to [`TOLD`] of them.
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
            Verdict::pass_if((1..=TOLD).contains(&about.len()), || {
                format!(
                    "{} nodes have an event MachineNotVisible; 1 to {TOLD} of {N} are allowed: {about:?}",
                    about.len()
                )
            })
        })
    })
    .named("many machines that are not visible any more")
}

/// Creates a case in which the lab reads `/readyz` every second from the start of the provider on.
/// `/readyz` must fail at the start, and pass at the latest one monitor period after the first node
/// is initialized.
fn readiness(backend: Backend) -> Case {
    let scenario = world(4, s(120))
        .with_provider(|it| it.start = false)
        .at(s(10), Act::StartAll)
        .at(s(10), Act::Scrape);
    // One scrape per second from the start of the provider on.
    let scenario = (11..=60).fold(scenario, |scenario, n| scenario.at(s(n), Act::Scrape));
    Case::new(scenario, move |run| {
        let first = names(4).iter().filter_map(|node| run.initialized(node)).min();
        let Some(first) = first else {
            return Verdict::inconclusive("the provider initialized no node");
        };
        judge_scrape_at(run, s(10), |scrape| {
            let is_early = scrape.unready().next().is_none();
            Verdict::pass_if(!is_early, || {
                format!("/readyz passes at the start of the process, before the provider called its backend {backend}")
                    .at(s(10))
            })
        })
        .and(|| {
            let next = run.scrapes.iter().find(|it| it.at >= first + T_MONITOR);
            let bad = next.and_then(|it| Some((it.at, it.unready().next()?)));
            Verdict::pass_if(bad.is_none(), || {
                format!("the first node is initialized at {first}, but /readyz still fails after a monitor period: {bad:?}").at(first)
            })
        })
    })
    .named("start")
}

/// Creates a case in which only the replica with the lease may report in its metrics that it leads.
/// After a crash of this replica the other replica must report it.
fn leadership() -> Case {
    let scenario = world(3, s(150))
        .with_provider(|it| it.replicas = 2)
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
        Verdict::pass_if(holds, || {
            format!(
                "only the leader may report 1 and 2; replica, leader_election_master_status and \
                 running_managed_controllers are {before:?}, and after the crash of the leader {after:?}"
            )
        })
    })
    .named("two replicas")
}
