//! OBS-003 and CCM-023: a provider writes few Kubernetes Events, but does not omit those that
//! report a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Between, HttpStatus, Rule};
use sim::world::objects::{GroupResource, Op};
use sim::world::{Command, Event, Time};

use crate::checks::build::{SETTLED, create_joining_machine, machine, s, with_outage, world};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::Verdict;
use crate::lab::Run;
use crate::scenario::{Act, Backend, Pace};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let hours = Pace::Virtual("the case lasts hours");
    vec![
        Check::new(
            "OBS-003",
            [long_outage(backend), refused_deletions(), expired()].map(|case| case.paced(hours)),
        ),
        Check::new("CCM-023", [storm().paced(hours)]),
    ]
}

/// Time that the provider needs to recover after an outage. A vCenter answers 503 in the first
/// minute after its start.
const RECOVERY: Duration = s(240);

/// Returns the number of times that a provider may write events about one object in this time: 25,
/// plus one per five minutes.
fn allowed(lasts: Duration) -> u64 {
    25 + lasts.as_secs() / 300
}

/// Fails if the provider wrote events about one object between `since` and `until` more often than
/// allowed; repetitions of an event count. Inconclusive if it wrote no event in this time.
fn few_events(run: &Run, since: Duration, until: Duration) -> Verdict {
    let mut by_object: BTreeMap<String, u64> = BTreeMap::new();
    for event in written(run) {
        if (since..until).contains(&event.at.since_start()) {
            *by_object.entry(event.kind + " " + &event.object).or_default() += 1;
        }
    }
    let allowed = allowed(until - since);
    match by_object.iter().max_by_key(|(_, n)| **n) {
        None => Verdict::inconclusive("the provider wrote no event"),
        Some((about, n)) => Verdict::pass_if(*n <= allowed, || {
            format!(
                "the provider made {n} writes of events about {about} in {:?}; at most {allowed} \
                 are allowed",
                until - since
            )
        }),
    }
}

/// Creates a case in which the backend is down for an hour, while two nodes are not ready and
/// another node joins.
fn long_outage(backend: Backend) -> Case {
    let (begin, end) = (SETTLED, SETTLED + s(3600));
    let mut scenario = with_outage(world(4, end + RECOVERY), backend, begin, end)
        .at(begin + s(5), Command::StopKubelet(machine(2)))
        .at(begin + s(5), Command::StopKubelet(machine(3)))
        .at(begin + s(10), create_joining_machine("newcomer", None));
    if !backend.is_vcenter() {
        scenario = scenario.at(end + s(1), Command::StartKubelet(machine(2)));
    }
    Case::new(scenario, move |run| {
        few_events(run, s(0), end).and(|| run.initializes(&names(4), s(0), SETTLED))
    })
    .named("an outage")
}

/// Creates a case in which the API server refuses for an hour to delete a Node whose machine is
/// gone. So every attempt of the provider fails.
fn refused_deletions() -> Case {
    let (begin, end) = (SETTLED, SETTLED + s(3600));
    let refused = Rule::new("refused", [status(403, None)]).on(Face::Cluster).op(["delete nodes"]);
    let scenario = world(12, end + s(300))
        .at(begin, refused)
        .at(begin, Command::DeleteMachine(machine(3)))
        .at(end, Act::RemoveRules);
    Case::new(scenario, move |run| {
        few_events(run, begin, end).and(|| {
            let told =
                run.events().into_iter().any(|it| it.object == name(3) && it.kind == "Warning");
            Verdict::pass_if(told, || {
                "no Warning event reports the Node that the provider cannot delete".to_owned()
            })
        })
    })
    .named("refused deletions")
}

fn status(code: u16, message: Option<String>) -> Action {
    HttpStatus::new(code).message(message).into()
}

/// A stored version of a Kubernetes Event.
struct EventVersion {
    at: Time,
    /// Kind of the object that the event is about.
    kind: String,
    /// Name of this object.
    object: String,
    /// Number of occurrences that the event counts.
    count: u64,
}

/// Returns every stored version of an event, in order of time.
fn written(run: &Run) -> impl Iterator<Item = EventVersion> {
    run.log.entries().filter_map(|(at, event)| match event {
        Event::Cluster(event)
            if event.key.resource == GroupResource::core("events") && event.op != Op::Deleted =>
        {
            let about = |key| event.object["involvedObject"][key].as_str().map(str::to_owned);
            let count = event.object["count"].as_u64().unwrap_or(1);
            Some(EventVersion { at: *at, kind: about("kind")?, object: about("name")?, count })
        }
        _ => None,
    })
}

/// Creates a case in which the API server refuses for two and a half hours to delete a Node. For
/// more than an hour of this time it also refuses writes of events, and the earlier events expire,
/// as they do in every cluster. Afterwards the provider must write an event about the Node again.
fn expired() -> Case {
    let end = SETTLED + s(9000);
    let (from, to) = (s(1800), s(6000));
    let refused = Rule::new("refused", [status(403, None)]).on(Face::Cluster).op(["delete nodes"]);
    let mut writes = Rule::new("unwritten", [status(503, None)]).on(Face::Cluster).op(["*events"]);
    writes.when.between = Some(Between::new(from, to));
    let scenario = world(12, end)
        .at(SETTLED, refused)
        .at(SETTLED, Command::DeleteMachine(machine(3)))
        .at(s(0), writes);
    Case::new(scenario, move |run| {
        let about = |from: Duration, to: Duration| {
            let is_it =
                |it: &EventVersion| it.object == name(3) && (from..to).contains(&it.at.since_start());
            written(run).filter(is_it).count()
        };
        let gone = run.log.entries().any(|(_, event)| {
            matches!(event, Event::Cluster(event) if event.op == Op::Deleted
                && event.key.resource == GroupResource::core("events")
                && event.object["involvedObject"]["name"] == name(3))
        });
        if about(s(0), from) == 0 || !gone {
            return Verdict::inconclusive("no event about the Node was written early and then expired");
        }
        Verdict::pass_if(about(to, end) > 0, || {
            "the first event has expired, and the provider wrote no new event about the Node that it cannot delete".to_owned()
        })
        .and(|| run.initializes(&names(12), s(0), SETTLED))
    })
    .named("an event that has expired")
}

/// Number of refusals with different reasons per Node.
const REFUSALS: u64 = 60;

/// Creates a case in which the API server refuses to delete two Nodes, [`REFUSALS`] times with
/// different reasons and then always with the same reason. The provider may write only a few events
/// about each Node, and must count the repetitions of the last failure in one event.
fn storm() -> Case {
    let (begin, end) = (SETTLED, SETTLED + s(3 * 3600));
    let gone = [3, 17];
    let mut scenario = world(20, end);
    for n in gone {
        for time in 0..REFUSALS {
            let message = Some(format!("refusal {time} of {}", name(n)));
            let id = format!("refusals/{n}-{time}");
            let rule = Rule::new(id, [status(403, message)]).on(Face::Cluster).op(["delete nodes"]);
            scenario = scenario.at(begin, rule.named(name(n)).first(1));
        }
        let message = Some("the reason that stays".to_owned());
        let last = Rule::new(format!("refusals/{n}"), [status(403, message)]).on(Face::Cluster);
        scenario = scenario
            .at(begin, last.op(["delete nodes"]).named(name(n)))
            .at(begin + s(u64::from(n) * 20), Command::DeleteMachine(machine(n)));
    }
    Case::new(scenario, move |run| {
        let refused = |n: u32| {
            let of = run.calls().filter(move |call| {
                call.op == "delete nodes" && call.target.name.as_deref() == Some(&*name(n))
            });
            of.count() as u64
        };
        if let Some(few) = gone.iter().find(|n| refused(**n) <= REFUSALS) {
            let n = refused(*few);
            return Verdict::inconclusive(format!(
                "the provider tried only {n} deletions of {}; the case needs more",
                name(*few)
            ));
        }
        few_events(run, begin, end).and(|| {
            let counted = |n: &&u32| written(run).any(|it| it.object == name(**n) && it.count > 1);
            let uncounted = gone.iter().find(|n| !counted(n));
            Verdict::none(uncounted, |n| {
                let node = name(*n);
                format!("no event about node {node} has a count above 1, although the same failure repeated")
            })
        })
    })
}
