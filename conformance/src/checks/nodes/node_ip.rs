//! NODE-020 to NODE-025: the addresses of the kubelet's flag `--node-ip`, which the kubelet writes
//! into an annotation of its Node.

use sim::world::{Command, Topology};

use crate::checks::build::{SETTLED, T_INIT, T_STATUS, machine, patch, s, set_address};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::NodeFacts;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Scenario};

/// Annotation with the addresses of `--node-ip`.
const ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";
/// Time at which the provider starts. The Node has the annotation before that.
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

/// Returns a scenario in which the first machine has an IPv4 and an IPv6 address, the machine's
/// Node has this annotation, and the provider starts at [`START`].
fn provided(annotation: &str) -> Scenario {
    let topology = Topology { dual_stack: true, ..Topology::zones(3).machines(3) };
    Scenario::new("", topology, SETTLED + T_STATUS + s(60))
        .with_provider(|it| it.families = vec!["ipv4".to_owned(), "ipv6".to_owned()])
        .with_provider(|it| it.start = false)
        .at(s(0), set_address(1, &[V4, V6]))
        .at(s(1), annotate(annotation))
        .at(START, Act::StartAll)
}

fn annotate(annotation: &str) -> Command {
    patch(&name(1), serde_json::json!({"metadata": {"annotations": {ANNOTATION: annotation}}}))
}

/// Returns the IP addresses of the first Node at the end of the run, as type and text.
fn published_addresses(run: &Run) -> Vec<(String, String)> {
    let node = run.node(&name(1));
    let all = node.map(|node| node.addresses).unwrap_or_default();
    all.into_iter().filter(|(kind, _)| kind != "Hostname").collect()
}

/// Fails unless some address type of the first Node has a wanted address, each such type has
/// exactly the `wanted` addresses in this order, and the first of all addresses is the first wanted
/// one. Fails also if the Node lost its host name, or if one of the three nodes was not initialized
/// within [`T_INIT`] after [`START`].
fn shows(run: &Run, wanted: &[&str]) -> Verdict {
    let shown = published_addresses(run);
    let kinds: Vec<&String> = shown.iter().map(|(kind, _)| kind).collect();
    let of = |wanted_kind: &String| -> Vec<&str> {
        let is_it = |(kind, _): &&(String, String)| kind == wanted_kind;
        shown.iter().filter(is_it).map(|(_, text)| text.as_str()).collect()
    };
    let mut matched = kinds.iter().filter(|kind| of(kind).iter().any(|it| wanted.contains(it)));
    let is_alone = matched.clone().all(|kind| of(kind) == wanted);
    let is_first = shown.first().is_some_and(|(_, text)| text == wanted[0]);
    // Compares with earlier versions, because not every provider reports a host name.
    let names_itself = |node: &NodeFacts| node.addresses.iter().any(|(kind, _)| kind == "Hostname");
    let had_name = run.when(&name(1), names_itself).is_some();
    let has_name = run.node(&name(1)).is_some_and(|node| names_itself(&node));
    run.initializes(&names(3), START, T_INIT)
        .and(|| {
            let holds = matched.next().is_some() && is_alone && is_first;
            Verdict::pass_if(holds, || {
                format!(
                    "the kubelet provides the addresses {wanted:?}, but the node shows {shown:?}"
                )
            })
        })
        .and(|| {
            Verdict::pass_if(has_name == had_name, || {
                "the node lost its address of type Hostname".to_owned()
            })
        })
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

/// Fails if the first node lost its uninitialized taint before `until`, or if the other nodes were
/// not initialized within [`T_INIT`] after [`START`].
fn waits(run: &Run, until: std::time::Duration) -> Verdict {
    let initialized = run.initialized(&name(1)).filter(|at| at.since_start() < until);
    run.initializes(&names(3)[1..], START, T_INIT).and(|| {
        Verdict::pass_if(initialized.is_none(), || {
            format!("the provider initialized the node {initialized}, although its annotation is invalid or names an address that its machine lacks", initialized = when(initialized)).at(initialized)
        })
    })
}

fn unknown() -> Case {
    let comes = SETTLED + s(60);
    let scenario = provided("10.6.0.99").at(comes, set_address(1, &["10.6.0.99", V6]));
    // The Node changes 20 s later, which makes the provider try again. VM Operator reports the
    // address before that, with a delay.
    let scenario = scenario.at(
        comes + s(20),
        patch(&name(1), serde_json::json!({"metadata": {"labels": {"touched": "true"}}})),
    );
    Case::new(scenario, move |run| {
        waits(run, comes).and(|| run.initializes(&[name(1)], comes + s(20), T_INIT))
    })
}

/// Creates a case in which the machine reports no address at all until 120 s, then the provided
/// one. The provider must not initialize the node before.
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
            .and(|| Verdict::pass_if(!is_tainted, || "the node got the uninitialized taint again".to_owned()))
            .and(|| {
                Verdict::pass_if(before == after, || {
                    format!("the provided address disappeared, so the addresses have to stay {before:?}, but are {after:?}")
                })
            })
    })
}
