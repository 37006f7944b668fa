//! NODE-020 to NODE-025: addresses from the kubelet's command line, which an annotation of the Node carries.

use sim::world::{Command, Topology};

use super::build::{SETTLED, T_INIT, T_STATUS, machine, patch, s, set_address};
use super::observe::{name, names};
use super::{Case, Check};
use crate::judge::NodeFacts;
use crate::lab::Run;
use crate::scenario::{Act, Scenario};
use crate::verdict::{Told as _, Verdict};

const ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";
/// Start of the provider; the Node has the annotation by then.
const START: std::time::Duration = s(5);
const V4: &str = "10.6.0.1";
const V6: &str = "fd00::6:1";
const V6_LONG: &str = "fd00:0000:0000:0000:0000:0000:0006:0001";

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("NODE-020", [first_and_alone(V4), first_and_alone(V6)]),
        Check::new("NODE-021", [in_order([V4, V6]), in_order([V6, V4])]),
        Check::new("NODE-022", [spelled()]),
        Check::new("NODE-023", [unknown(), not_reported_yet()]),
        Check::new("NODE-024", malformed()),
        Check::new("NODE-025", [disappears()]),
    ]
}

/// A machine with an address of each family, whose Node has this annotation.
fn provided(annotation: &str) -> Scenario {
    let topology = Topology { dual_stack: true, ..Topology::zones(3).machines(3) };
    Scenario::new("", topology, SETTLED + T_STATUS + s(60))
        .with(|it| it.families = vec!["ipv4".to_owned(), "ipv6".to_owned()])
        .with(|it| it.start = false)
        .at(s(0), set_address(1, &[V4, V6]))
        .at(s(1), annotate(annotation))
        .at(START, Act::StartAll)
}

fn annotate(annotation: &str) -> Command {
    patch(&name(1), serde_json::json!({"metadata": {"annotations": {ANNOTATION: annotation}}}))
}

/// Returns the addresses that the node shows at the end, as type and text, without the host name.
fn shown(run: &Run) -> Vec<(String, String)> {
    let node = run.node(&name(1));
    let all = node.map(|node| node.addresses).unwrap_or_default();
    all.into_iter().filter(|(kind, _)| kind != "Hostname").collect()
}

/// Fails unless each address type that has a wanted address shows exactly these, in this order, and they come first.
fn shows(run: &Run, wanted: &[&str]) -> Verdict {
    let shown = shown(run);
    let kinds: Vec<&String> = shown.iter().map(|(kind, _)| kind).collect();
    let of = |wanted_kind: &String| -> Vec<&str> {
        let is_it = |(kind, _): &&(String, String)| kind == wanted_kind;
        shown.iter().filter(is_it).map(|(_, text)| text.as_str()).collect()
    };
    let mut matched = kinds.iter().filter(|kind| of(kind).iter().any(|it| wanted.contains(it)));
    let is_alone = matched.clone().all(|kind| of(kind) == wanted);
    let is_first = shown.first().is_some_and(|(_, text)| text == wanted[0]);
    // Not every cloud reports a host name.
    let names_itself = |node: &NodeFacts| node.addresses.iter().any(|(kind, _)| kind == "Hostname");
    let had_name = run.when(&name(1), names_itself).is_some();
    let has_name = run.node(&name(1)).is_some_and(|node| names_itself(&node));
    run.initializes(&names(3), START, T_INIT)
        .and(|| {
            let holds = matched.next().is_some() && is_alone && is_first;
            Verdict::of(holds, || format!("{wanted:?} are provided, and the node shows {shown:?}"))
        })
        .and(|| Verdict::of(has_name == had_name, || "the hostname is gone".to_owned()))
}

fn first_and_alone(address: &'static str) -> Case {
    Case::new(provided(address), move |run| shows(run, &[address])).named(address)
}

fn in_order(both: [&'static str; 2]) -> Case {
    Case::new(provided(&both.join(",")), move |run| shows(run, &both)).named(both.join(", then "))
}

fn spelled() -> Case {
    Case::new(provided(V6_LONG), |run| shows(run, &[V6]))
}

/// Fails if the node lost its taint before `until`, or if the other nodes were not initialized in time.
fn waits(run: &Run, until: std::time::Duration) -> Verdict {
    let initialized = run.initialized(&name(1)).filter(|at| at.since_start() < until);
    run.initializes(&names(3)[1..], START, T_INIT).and(|| {
        Verdict::of(initialized.is_none(), || {
            format!("the node was initialized at {initialized:?}").at(initialized)
        })
    })
}

fn unknown() -> Case {
    let comes = SETTLED + s(60);
    let scenario = provided("10.6.0.99").at(comes, set_address(1, &["10.6.0.99", V6]));
    // The Node changes a moment later, because a Supervisor shows the address with a delay.
    let scenario = scenario.at(
        comes + s(20),
        patch(&name(1), serde_json::json!({"metadata": {"labels": {"touched": "true"}}})),
    );
    Case::new(scenario, move |run| {
        waits(run, comes).and(|| run.initializes(&[name(1)], comes + s(20), T_INIT))
    })
}

/// The machine reports no address at all for a while.
fn not_reported_yet() -> Case {
    let comes = SETTLED + s(60);
    let touched = serde_json::json!({"metadata": {"labels": {"touched": "true"}}});
    let scenario = provided("10.6.0.99")
        .at(s(2), Command::ClearAddresses(machine(1)))
        .at(comes, set_address(1, &["10.6.0.99", V6]))
        .at(comes + s(20), patch(&name(1), touched));
    Case::new(scenario, move |run| {
        waits(run, comes).and(|| run.initializes(&[name(1)], comes + s(20), T_INIT))
    })
    .named("the machine reports no address yet")
}

fn malformed() -> Vec<Case> {
    [
        ("empty", String::new()),
        ("with a space", format!("{V4}, {V6}")),
        ("three", format!("{V4},{V6},{V4}")),
        ("two of one family", format!("{V4},10.6.0.2")),
        ("unspecified", format!("0.0.0.0,{V6}")),
        ("not an address", "node-0001".to_owned()),
    ]
    .into_iter()
    .map(|(case, annotation)| {
        Case::new(provided(&annotation), |run| waits(run, SETTLED + T_STATUS)).named(case)
    })
    .collect()
}

fn disappears() -> Case {
    let scenario = Scenario {
        horizon: SETTLED + T_STATUS * 2 + s(30),
        ..provided(V4).at(SETTLED, set_address(1, &["10.6.0.2", V6]))
    };
    Case::new(scenario, |run| {
        let at = SETTLED - s(1);
        let before =
            run.versions(&name(1)).into_iter().rfind(|(moment, _)| moment.since_start() <= at);
        let before = before.and_then(|(_, node)| node).map(|node| node.addresses);
        let after = run.node(&name(1));
        let is_tainted = after.as_ref().is_some_and(|node| node.uninitialized);
        let after = after.map(|node| node.addresses);
        run.initializes(&names(3), START, T_INIT)
            .and(|| Verdict::of(!is_tainted, || "the taint came back".to_owned()))
            .and(|| {
                Verdict::of(before == after, || {
                    format!("the addresses were {before:?} and are {after:?}")
                })
            })
    })
}
