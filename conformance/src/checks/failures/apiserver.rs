//! CCM-012 and CCM-019: an API server that is not up when the provider starts, and an API server
//! that answers with 429.

use sim::Face;
use sim::faults::{Action, HttpStatus, Rule};
use sim::ledger::Record;

use crate::checks::build::{T_INIT, WRITE_NODE, WRITE_STATUS, s, world};
use crate::checks::queries::names;
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict};
use crate::lab::Run;
use crate::scenario::Act;

pub(super) fn checks() -> Vec<Check> {
    let unavailable = Action::status(503);
    vec![
        Check::new(
            "CCM-012",
            [
                absent(Action::Reset).named("connections are reset"),
                absent(Action::Blackhole).named("nothing answers"),
                absent(unavailable).named("503"),
            ],
        ),
        Check::new("CCM-019", [asks_for_patience()]),
    ]
}

/// Creates a case in which `action` applies to every call to the API server in the first ninety
/// seconds. The provider must wait, with at most 60 calls, and then initialize the nodes.
fn absent(action: Action) -> Case {
    let there = s(90);
    let scenario = world(3, s(240))
        .with_provider(|it| it.leader_election = true)
        .fault(Rule::new("absent", [action]).on(Face::Cluster))
        .at(there, Act::RemoveRules);
    Case::new(scenario, move |run| {
        // A candidate requests the lease at most every two seconds.
        let asked = run
            .calls()
            .filter(|call| call.is_cluster_call() && call.t.since_start() < there)
            .count();
        let allowed = 60;
        Verdict::pass_if(asked <= allowed, || {
            format!(
                "the provider made {asked} calls to the API server before it was up; at most \
                 {allowed} are allowed"
            )
        })
        .and(|| run.initializes(&names(3), there, s(60)))
    })
}

/// Creates a case in which the API server answers every second write of a Node with 429 and
/// `Retry-After: 1`. The provider must not repeat a write earlier than a second after the answer,
/// and must initialize the nodes.
fn asks_for_patience() -> Case {
    let status = Action::from(HttpStatus::new(429).retry_after(1));
    let mut rule = Rule::new("patience", [status])
        .on(Face::Cluster)
        .op(WRITE_NODE.into_iter().chain(WRITE_STATUS));
    rule.when.every = Some(2);
    let scenario = world(6, s(120)).fault(rule);
    Case::new(scenario, |run| {
        run.initializes(&names(6), s(0), T_INIT * 3).and(|| match too_early(run) {
            None => Verdict::Pass,
            Some((_, next)) => {
                let node = next.target.name.as_deref().unwrap_or_default();
                let why = format!(
                    "the provider repeated `{} {node}` at {}, less than a second after the API server had answered it with 429 and Retry-After: 1",
                    next.op, next.t
                );
                Verdict::fail(why.at(next.t))
            }
        })
    })
}

/// Returns the first write that the API server refused with 429 and that the provider repeated less
/// than a second after the answer, with its repetition; `None` if the provider always waited
/// longer.
fn too_early(run: &Run) -> Option<(&Record, &Record)> {
    let writes: Vec<&Record> = run
        .calls()
        .filter(|call| {
            WRITE_NODE.contains(&call.op.as_str()) || WRITE_STATUS.contains(&call.op.as_str())
        })
        .collect();
    writes.iter().enumerate().find_map(|(n, first)| {
        let ended = first.ended.as_ref().filter(|it| it.status == Some(429))?;
        let is_early = |next: &&&Record| {
            next.op == first.op
                && next.target.name == first.target.name
                && next.t.since(ended.at) < s(1)
        };
        writes[n + 1..].iter().find(is_early).map(|next| (*first, *next))
    })
}
