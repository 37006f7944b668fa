//! EFF-010: a provider retries a refused operation with growing pauses, and does not give up.
//!
//! A provider without a back-off behaves like any other until an operation fails for a long time.
//! So most cases disturb something for ten minutes, the phase `refused`, count the attempts or
//! calls in this phase, and check that the provider resumes its work afterwards.

use std::time::Duration;

use serde_json::json;
use sim::Face;
use sim::faults::{Action, HttpStatus, Rule};
use sim::world::vcenter::SessionService;
use sim::world::{Command, Grant, PROVIDER_USER, Time};

use crate::catalogue;
use crate::checks::build::{
    GRACE, SETTLED, T_STATUS, WRITE_NODE, WRITE_STATUS, create_joining_machine, hidden, ips,
    machine, patch, s, set_address, vanishing, world,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let behind: &[(&str, &[&str])] = match backend {
        Backend::VCenter => &[
            ("logins fail", &["Login"]),
            ("searches fail", &["FindAllByUuid", "FindByUuid"]),
            ("views are refused", &["CreateListView", "CreateContainerView"]),
            ("filters are refused", &["CreateFilter"]),
            ("reads fail", &["RetrievePropertiesEx"]),
            ("updates fail", &["WaitForUpdatesEx"]),
            ("updates are unavailable", &["WaitForUpdatesEx"]),
            ("members cannot be changed", &["ModifyListView"]),
        ],
        Backend::Supervisor => &[
            ("lists fail", &["list virtualmachines"]),
            ("lists are forbidden", &["list virtualmachines"]),
            ("lists are throttled for no time", &["list virtualmachines"]),
            ("watches fail", &["watch virtualmachines"]),
            ("watches are throttled for no time", &["watch virtualmachines"]),
        ],
    };
    let mut cases = vec![
        refused_initialization(),
        refused_deletion(),
        unsteady(),
        unseen(backend),
        throttled(),
        throttled_for_two(backend),
    ];
    if !backend.is_vcenter() {
        cases.push(no_last_look());
        cases.push(no_proof());
    }
    if backend.is_vcenter() {
        cases.push(sessions_end_young());
        cases.push(hidden_zone());
        cases.push(found_of_old());
        let view: &[&str] = &["WaitForUpdatesEx"];
        cases.push(found_alone("the view loses a machine", view));
        let all: &[&str] = &["WaitForUpdatesEx", "RetrievePropertiesEx"];
        cases.push(found_alone("searches alone show a machine", all));
    }
    cases.push(ending(Face::Cluster, &["watch nodes"]));
    if !backend.is_vcenter() {
        cases.push(ending(Face::Supervisor, &["watch virtualmachines"]));
    }
    cases.extend(behind.iter().map(|(what, operations)| failing(backend, what, operations)));
    vec![Check::new("EFF-010", cases)]
}

/// Duration of the refusals.
const REFUSED: Duration = s(600);
/// Time after the refusals by which the provider must have reached the right state.
const PAUSE: Duration = s(180);

/// Returns the maximum number of attempts during the refusals if a provider has to retry this many
/// things: one attempt per twenty seconds and thing.
fn allowed(things: usize) -> usize {
    let each = catalogue::entry("EFF-010").map_or(0, |entry| entry.allowed(Backend::VCenter));
    things * usize::try_from(each).unwrap_or(usize::MAX)
}

/// Adds a rule that is in force from `begin` on for [`REFUSED`], the phase `refused`.
fn with_refusals(rule: Rule, begin: Duration, scenario: Scenario) -> Scenario {
    scenario
        .at(begin, rule)
        .at(begin, Act::Phase("refused".into()))
        .at(begin + REFUSED, Act::RemoveRules)
        .at(begin + REFUSED, Act::Phase(String::new()))
}

/// Creates a case in which the API server answers every write of a Node's status with 429 and
/// `Retry-After: 30`.
fn throttled() -> Case {
    let status = Action::from(HttpStatus::new(429).retry_after(30));
    let rule = Rule::new("refused", [status]).on(Face::Cluster).op(WRITE_STATUS);
    let scenario = with_refusals(rule, s(0), world(3, REFUSED + PAUSE + s(60)));
    Case::new(scenario, |run| {
        few_attempts(run, &WRITE_STATUS, 3).and(|| run.initializes(&names(3), REFUSED, PAUSE))
    })
    .named("writes are throttled")
}

/// Creates a case in which two controllers of the provider have to write the second Node: one
/// repairs its labels, the other sets the shutdown taint. The API server answers the first write of
/// this Node with 429 and `Retry-After: 60`. Neither controller may write the Node in this time.
/// Before that, the controller of the shutdown taint gets 429 with `Retry-After: 5` for the first
/// Node.
fn throttled_for_two(backend: Backend) -> Case {
    const PAUSE: Duration = s(60);
    let off = s(20);
    let relabeled = off + vanishing(backend) + GRACE - s(2);
    let by_hand = json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": null,
        "failure-domain.beta.kubernetes.io/zone": "by-hand",
    }}});
    let refused = |n: u32, retry_after| {
        let status = Action::from(HttpStatus::new(429).retry_after(retry_after));
        let rule = Rule::new(format!("refused/{n}"), [status]).on(Face::Cluster).op(WRITE_NODE);
        rule.named(name(n)).first(1)
    };
    let scenario = world(3, s(240))
        .at(off, Command::PowerOff(machine(1)))
        .at(off, Command::PowerOff(machine(2)))
        .at(relabeled, refused(1, 5))
        .at(relabeled, refused(2, 60))
        .at(relabeled, patch(&name(2), by_hand));
    Case::new(scenario, move |run| {
        let node = name(2);
        let writes: Vec<_> =
            run.writes_on(&node).filter(|it| WRITE_NODE.contains(&it.op.as_str())).collect();
        let refused = writes.iter().position(|call| call.was_faulted());
        let early = refused.and_then(|n| {
            let until = writes[n].ended.as_ref()?.at.since_start() + PAUSE - s(1);
            writes[n + 1..].iter().find(|call| call.t.since_start() < until)
        });
        let unmarked = [1, 2].into_iter().find(|n| run.when(&name(*n), |it| it.shutdown).is_none());
        Verdict::none(early, |early| {
            format!(
                "the API server demanded {PAUSE:?} without a write of the Node, but the provider sent: {early}"
            )
        })
        .and(|| Verdict::none(unmarked, |n| format!("node {} never got the shutdown taint", name(n))))
        .and(|| run.initializes(&names(3), s(0), off))
    })
    .named("writes of a Node by two controllers are throttled")
}

/// Creates a rule by which the API server answers these operations with 403.
fn forbidden(operations: &[&'static str]) -> Rule {
    let status = Action::status(403);
    Rule::new("refused", [status]).on(Face::Cluster).op(operations.iter().copied())
}

/// Fails if the provider tried these operations during the refusals more often than [`allowed`] for
/// `things` things.
fn few_attempts(run: &Run, operations: &[&str], things: usize) -> Verdict {
    let calls =
        run.calls_in("refused").filter(|call| operations.contains(&call.op.as_str())).count();
    let allowed = allowed(things);
    Verdict::pass_if(calls <= allowed, || {
        format!(
            "the provider made {calls} attempts of refused operations in {} s; at most {allowed} \
             are allowed",
            REFUSED.as_secs()
        )
    })
}

/// Fails if the provider called its backend during the refusals more often than [`allowed`] for
/// `things` things.
fn few_calls(run: &Run, things: usize) -> Verdict {
    let asked = run.calls_in("refused").filter(|call| run.backend().receives(call)).count();
    let allowed = allowed(things);
    Verdict::pass_if(asked <= allowed, || {
        format!(
            "the provider made {asked} calls to the backend in {} s; at most {allowed} are allowed",
            REFUSED.as_secs()
        )
    })
}

/// Fails unless the provider has deleted the Node of a deleted machine by [`PAUSE`] after the end
/// of the refusals. A deletion during the refusals passes, too.
fn is_deleted_afterwards(run: &Run, node: &str) -> Verdict {
    let gone = run.deleted(node).map(|at| at.since_start());
    let end = SETTLED + REFUSED + PAUSE;
    Verdict::pass_if(gone.is_some_and(|gone| gone <= end), || {
        format!(
            "the Node of the deleted machine was deleted {gone}; the limit is {end:?}",
            gone = when(gone)
        )
        .late(gone)
    })
}

fn refused_initialization() -> Case {
    let n = 3;
    let scenario = with_refusals(forbidden(&WRITE_NODE), s(0), world(n, REFUSED + PAUSE + s(60)));
    Case::new(scenario, |run| {
        few_attempts(run, &WRITE_NODE, 3).and(|| run.initializes(&names(3), REFUSED, PAUSE))
    })
    .named("nodes cannot be written")
}

fn refused_deletion() -> Case {
    const DELETE: &[&str] = &["delete nodes"];
    let scenario = world(12, SETTLED + REFUSED + PAUSE + s(60))
        .at(SETTLED, Command::DeleteMachine(machine(3)));
    let scenario = with_refusals(forbidden(DELETE), SETTLED, scenario);
    Case::new(scenario, |run| {
        let gone = run.deleted(&name(3)).map(|at| at.since_start());
        few_attempts(run, DELETE, 1).and(|| {
            let end = SETTLED + REFUSED;
            let is_in_time = gone.is_some_and(|gone| gone > end && gone <= end + PAUSE);
            Verdict::pass_if(is_in_time, || {
                format!("the Node of the deleted machine was deleted {gone}; the API server first permits it {end}, and a pause of 180 s is allowed", gone = when(gone), end = when(end))
                    .at(gone)
            })
        })
    })
    .named("nodes cannot be deleted")
}

/// Creates a case in which vCenter ends all SOAP sessions every two seconds.
fn sessions_end_young() -> Case {
    let mut scenario = world(3, SETTLED + REFUSED + PAUSE + T_STATUS)
        .at(SETTLED, Act::Phase("refused".into()))
        .at(SETTLED + REFUSED, Act::Phase(String::new()))
        .at(SETTLED + REFUSED, set_address(1, &["10.6.0.1"]));
    for n in 0..REFUSED.as_secs() / 2 {
        let end = Command::ExpireSessions { vcenter: None, family: Some(SessionService::Soap) };
        scenario = scenario.at(SETTLED + s(2 * n), end);
    }
    Case::new(scenario, |run| {
        let end = SETTLED + REFUSED;
        let shown = run.when_after(&name(1), end, |node| node.ips().any(|ip| ip == "10.6.0.1"));
        few_attempts(run, &["Login"], 1).and(|| {
            Verdict::pass_if(shown.is_some(), || {
                format!(
                    "the node never showed the address that its machine got {end}",
                    end = when(end)
                )
            })
        })
    })
    .named("sessions end at once")
}

/// Creates a case in Supervisor mode in which the provider may list and watch machines, but not
/// read them by name. A machine is deleted, so that the read by name that confirms its absence is
/// refused.
fn no_last_look() -> Case {
    let status = Action::status(403);
    let rule = Rule::new("refused", [status]).on(Face::Supervisor).op(["get virtualmachines"]);
    let scenario = world(12, SETTLED + REFUSED + PAUSE + s(60))
        .at(SETTLED, Command::DeleteMachine(machine(3)));
    Case::new(with_refusals(rule, SETTLED, scenario), |run| {
        few_calls(run, 3).and(|| is_deleted_afterwards(run, &name(3)))
    })
    .named("the last look is refused")
}

/// Creates a case in Supervisor mode in which watches work, lists fail, and a machine is deleted.
/// Only a list could prove its absence.
fn no_proof() -> Case {
    const LISTS: [&str; 1] = ["list virtualmachines"];
    let status = Action::status(500);
    let rule = Rule::new("refused", [status]).on(Face::Supervisor).op(LISTS);
    let scenario = world(12, SETTLED + REFUSED + PAUSE + s(60))
        .at(SETTLED, Command::DeleteMachine(machine(3)));
    Case::new(with_refusals(rule, SETTLED, scenario), |run| {
        few_attempts(run, &LISTS, 1).and(|| is_deleted_afterwards(run, &name(3)))
    })
    .named("machines cannot be listed, and one is gone")
}

/// Creates a case in which the login may not see the vSphere cluster that has the zone tag of a
/// machine. The provider must initialize the node only after the login gets this right.
fn hidden_zone() -> Case {
    let grant =
        Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object: "DC0_C0".to_owned() };
    let scenario = world(3, REFUSED + PAUSE + s(60))
        .at(s(0), Command::RevokePrivilege(grant.clone()))
        .at(s(0), Act::Phase("refused".into()))
        .at(REFUSED, Command::GrantPrivilege(grant))
        .at(REFUSED, Act::Phase(String::new()));
    Case::new(scenario, |run| {
        few_calls(run, 5)
            .and(|| {
                let early = run.initialized(&name(1)).filter(|at| at.since_start() < REFUSED);
                Verdict::pass_if(early.is_none(), || {
                    format!("the provider initialized the node {early}, before it could see the zone of the machine", early = when(early))
                })
            })
            .and(|| run.initializes(&names(3), REFUSED, PAUSE))
    })
    .named("a zone cannot be seen")
}

/// Creates a case in which searches find a machine, but the answers to `operations` leave it out:
/// waits for updates, in one case together with reads of properties.
fn found_alone(name_of: &'static str, operations: &'static [&'static str]) -> Case {
    let rule = Rule::new("refused", [Action::Hide(name(1))]).on(Face::Soap).op(operations.to_vec());
    let scenario = world(3, SETTLED + REFUSED + PAUSE + T_STATUS)
        .at(SETTLED + s(5), Command::StopKubelet(machine(1)))
        .at(SETTLED + REFUSED, Command::StartKubelet(machine(1)))
        .at(SETTLED + REFUSED, set_address(1, &["10.6.0.1"]));
    Case::new(with_refusals(rule, SETTLED, scenario), |run| {
        few_calls(run, 5).and(|| {
            let shown = run.when(&name(1), |node| node.ips().any(|ip| ip == "10.6.0.1"));
            Verdict::pass_if(shown.is_some(), || {
                "the node never showed the address that its machine got after the refusals"
                    .to_owned()
            })
        })
    })
    .named(name_of)
}

/// Creates a case in which searches still find a machine that was deleted.
fn found_of_old() -> Case {
    let rule = Rule::new("refused", [Action::ReadStale(1)]).on(Face::Soap).op(["FindAllByUuid"]);
    let scenario =
        world(3, SETTLED + REFUSED + PAUSE + s(60)).at(SETTLED, Command::DeleteMachine(machine(3)));
    Case::new(with_refusals(rule, SETTLED, scenario), |run| {
        few_calls(run, 5).and(|| is_deleted_afterwards(run, &name(3)))
    })
    .named("a search shows a machine of old")
}

/// Creates a case in which the address of a machine changes every five seconds, as with a broken
/// DHCP server.
fn unsteady() -> Case {
    let mut scenario = world(3, SETTLED + REFUSED + PAUSE + T_STATUS)
        .at(SETTLED, Act::Phase("refused".into()))
        .at(SETTLED + REFUSED, Act::Phase(String::new()));
    let changes = u8::try_from(REFUSED.as_secs() / 5).unwrap_or(u8::MAX);
    for n in 0..=changes {
        let address = format!("10.6.0.{n}");
        scenario = scenario.at(SETTLED + s(5) * u32::from(n), set_address(1, &[&address]));
    }
    Case::new(scenario, move |run| {
        let last = format!("10.6.0.{changes}");
        let shown = run.when(&name(1), |node| node.ips().any(|ip| ip == last));
        few_attempts(run, &WRITE_STATUS, 2).and(|| {
            Verdict::pass_if(shown.is_some(), || {
                format!("the node never showed the last address of its machine, {last}")
            })
        })
    })
    .named("an address changes all the time")
}

/// Creates a case in which a node is not ready and the backend hides its running machine.
fn unseen(backend: Backend) -> Case {
    let scenario =
        world(20, SETTLED + REFUSED + PAUSE).at(SETTLED, Command::StopKubelet(machine(1)));
    Case::new(with_refusals(hidden(backend, 1), SETTLED, scenario), |run| {
        run.was_not_ready(&name(1)).and(|| few_calls(run, 5))
    })
    .named("a machine cannot be seen")
}

/// Creates a case in which the server accepts watches but ends each one before its first event.
fn ending(face: Face, operations: &'static [&'static str]) -> Case {
    let rule = Rule::new("refused", [Action::WatchLasts(Duration::ZERO)])
        .on(face)
        .op(operations.iter().copied());
    let scenario = world(3, SETTLED + REFUSED + PAUSE + s(60))
        .at(SETTLED + REFUSED, create_joining_machine("newcomer", None));
    Case::new(with_refusals(rule, SETTLED, scenario), move |run| {
        let registered = run.when("newcomer", |_| true).map_or(Duration::MAX, Time::since_start);
        few_attempts(run, operations, 4)
            .and(|| run.initializes(&names(3), s(0), SETTLED))
            .and(|| run.initializes(&["newcomer".to_owned()], registered, PAUSE))
    })
    .named(format!("{} end at once", operations.join(", ")))
}

/// Creates a case in which `operations` of the backend fail while a node joins. After the failures
/// the provider must notice changes of the new machine, too. `what` is the name of the case; the
/// words "unavailable", "throttled" and "forbidden" in it select the status code of the failure.
fn failing(backend: Backend, what: &'static str, operations: &'static [&'static str]) -> Case {
    let action = match backend {
        Backend::VCenter if !what.ends_with("unavailable") => Action::soap_fault("SystemError"),
        Backend::VCenter => Action::status(503),
        Backend::Supervisor if what.contains("throttled") => Action::status(429),
        Backend::Supervisor if what.ends_with("forbidden") => Action::status(403),
        Backend::Supervisor => Action::status(500),
    };
    let rule = Rule::new("refused", [action]).on(backend.face()).op(operations.iter().copied());
    // Long polls fail only after the provider has built its view; all other calls fail from the
    // start.
    let begin = if operations == ["WaitForUpdatesEx"] { SETTLED } else { s(0) };
    let end = begin + REFUSED;
    let later =
        Command::SetAddresses { machine: "newcomer".into(), addresses: vec![ips(&["10.6.0.1"])] };
    let scenario = world(3, end + PAUSE + T_STATUS + s(60))
        .at(begin + s(60), create_joining_machine("newcomer", None))
        .at(end + PAUSE, later);
    Case::new(with_refusals(rule, begin, scenario), move |run| {
        let mut all = names(3);
        all.push("newcomer".to_owned());
        let right = few_attempts(run, operations, 4).and(|| run.initializes(&all, end, PAUSE));
        right.and(|| run.keeps_one_view()).and(|| {
            let shown = run.when("newcomer", |node| node.ips().any(|ip| ip == "10.6.0.1"));
            Verdict::pass_if(shown.is_some_and(|at| at.since_start() <= end + PAUSE + T_STATUS), || {
                format!(
                    "the address of the new machine changed {} s after the refusals, but its node does not show it {} s later",
                    PAUSE.as_secs(),
                    T_STATUS.as_secs()
                )
            })
        })
    })
    .named(what)
}
