//! ISO: a failure of one vCenter, call or service must not stop a provider's other work.

mod absence;
mod searches;

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::{Command, Named, Topology};

use crate::checks::build::{
    GRACE, SETTLED, T_INIT, T_LIFE, T_STATUS, create_joining_machine, lists_refused, machine, s,
    set_address, world,
};
use crate::checks::nodes::zones;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check, build};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    match backend {
        Backend::VCenter => vec![
            Check::new("ISO-001", one_of_two_down().into_iter().chain(absence::cases())),
            Check::new("ISO-002", searches::cases()),
            Check::new("ISO-003", [tags_down()]),
        ],
        Backend::Supervisor => {
            vec![Check::new("ISO-002", [one_read_hangs()]), Check::new("ISO-003", [no_zones()])]
        }
    }
}

/// Returns the name of the `n`-th machine of the second vCenter.
fn other(n: u32) -> String {
    format!("node-1-{n:04}")
}

/// Name and action of each way in which a vCenter can be down. If the action is `None`, the vCenter
/// is stopped.
const DOWN: [(&str, Option<Action>); 4] = [
    ("stopped", None),
    ("resets", Some(Action::Reset)),
    ("black hole", Some(Action::Blackhole)),
    ("503", Some(Action::status(503))),
];

fn one_of_two_down() -> Vec<Case> {
    let mut cases = Vec::new();
    for (case, action) in DOWN {
        for from_the_start in [false, true] {
            let begin = if from_the_start { s(0) } else { SETTLED };
            let label = format!("{case}{}", if from_the_start { " from the start" } else { "" });
            let scenario = one_of_two_down_from(begin, action.as_ref());
            cases.push(Case::new(scenario, other_vcenter_is_served).named(label));
        }
    }
    cases
}

/// Returns the scenario in which vc0 is down from `begin` until 600 s: a rule applies `action` to
/// each call to it, or vc0 stops if `action` is `None`.
fn one_of_two_down_from(begin: Duration, action: Option<&Action>) -> Scenario {
    let topology = Topology::zones(3).machines(4).vcenters(2);
    let mut scenario = Scenario::new("", topology, s(900));
    scenario = match action {
        None => scenario.at(begin, Command::StopVCenter { vcenter: Some("vc0".into()) }),
        Some(action) => scenario.at(begin, Rule::new("down", [action.clone()]).at("vc0")),
    };
    let there = |n| Named { vcenter: Some("vc1".into()), name: other(n) };
    let addresses = vec![build::ips(&["10.40.0.1"])];
    scenario
        .at(s(100), Command::SetAddresses { machine: there(1), addresses })
        .at(s(110), Command::PowerOff(there(2)))
        // This Node belongs to the vCenter that is down, so the provider cannot look for its
        // machine.
        .at(s(120), Command::StopKubelet(Named { vcenter: Some("vc0".into()), name: name(1) }))
        .at(s(600), Act::RemoveRules)
        .at(s(600), Command::StartVCenter { vcenter: Some("vc0".into()) })
}

/// Judges a run of [`one_of_two_down_from`]. Fails unless the provider serves the nodes of vc1 as
/// if vc0 were up, initializes the nodes of vc0 by 860 s, and deletes no Node.
fn other_vcenter_is_served(run: &Run) -> Verdict {
    let shown = run.when_after(&other(1), s(100), |it| it.ips().any(|ip| ip == "10.40.0.1"));
    let marked = run.when_after(&other(2), s(110), |it| it.shutdown);
    run.initializes(&(1..=4).map(other).collect::<Vec<_>>(), s(0), T_INIT * 2)
        .and(|| {
            Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(100) + T_STATUS), || {
                format!("a node of the healthy vCenter shows its new address {shown}; the limit is an address period", shown = when(shown))
                    .late(shown)
            })
        })
        .and(|| {
            let bound = s(110) + GRACE + T_LIFE * 2;
            Verdict::pass_if(marked.is_some_and(|at| at.since_start() < bound), || {
                format!("a node of the healthy vCenter got the shutdown taint {marked}; that is too late", marked = when(marked))
                    .late(marked)
            })
        })
        .and(|| {
            Verdict::pass_if(run.nodes().len() == 8, || {
                format!("8 machines run, but the Nodes at the end are {:?}", run.nodes())
            })
        })
        .and(|| run.initializes(&names(4), s(660), s(200)))
}

/// Creates a case in which the provider may not list machines, so it reads each by name. The reads
/// for one node hang. The node that joins next may wait for one of these reads to time out, but not
/// longer.
fn one_read_hangs() -> Case {
    let hang = Rule::new("hang", [Action::Blackhole]).on(Face::Supervisor).named("stuck");
    let scenario = world(3, s(500))
        .fault(lists_refused())
        .fault(hang)
        .at(s(100), create_joining_machine("stuck", None))
        .at(s(102), create_joining_machine("late", None))
        .at(s(400), Act::RemoveRules);
    Case::new(scenario, |run| {
        let works = names(3).iter().all(|it| run.initialized(it).is_some());
        run.supports_missing_list(works)
            .and(|| match run.when("late", |_| true) {
                None => Verdict::inconclusive("the node named late did not register".to_owned()),
                // Allows the deadline of one call plus the time of an initialization.
                Some(at) => run.initializes(&["late".to_owned()], at.since_start(), T_INIT + s(35)),
            })
            .and(|| hung_before(run, "late"))
    })
}

/// Inconclusive unless a read by name hung between the registration and the initialization of this
/// node.
fn hung_before(run: &Run, name: &str) -> Verdict {
    let (joined, opened) = (run.when(name, |_| true), run.initialized(name));
    let hung = run.calls().filter(|call| call.op == "get virtualmachines" && call.was_faulted());
    let meanwhile = hung.into_iter().any(|call| {
        opened.is_some_and(|at| call.t < at)
            && call.ended.as_ref().is_none_or(|ended| joined.is_some_and(|at| ended.at > at))
    });
    match meanwhile {
        true => Verdict::Pass,
        false => Verdict::inconclusive(format!(
            "no read of a machine hung while {name} waited for its initialization"
        )),
    }
}

/// Creates a case in which the objects of all machines lack the zone label. The provider must still
/// initialize the nodes and follow a change of address.
fn no_zones() -> Case {
    let mut scenario = world(4, s(700)).at(s(0), zones::stop_zone_labels());
    for n in 1..=4 {
        let labels = serde_json::json!({"topology.kubernetes.io/zone": null});
        scenario = scenario.at(s(0), zones::relabel(n, labels));
    }
    let scenario = scenario.at(s(150), set_address(1, &["10.6.0.1"]));
    Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(150), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        run.initializes(&names(4), s(0), T_INIT).and(|| {
            Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(150) + T_STATUS), || {
                format!(
                    "the node shows the new address {shown}; the limit is an address period",
                    shown = when(shown)
                )
                .late(shown)
            })
        })
    })
}

fn tags_down() -> Case {
    let down = Rule::new("tags down", [Action::Blackhole]).on(Face::Vapi);
    let scenario = world(4, s(1500))
        .at(SETTLED, down)
        .at(s(70), Command::VMotion { machine: machine(2), host: "DC0_C0_H1".into() })
        .at(s(100), Act::Crash(0))
        .at(s(101), Act::Start(0))
        // The new node makes the provider read tags.
        .at(s(110), create_joining_machine("newcomer", None))
        .at(s(150), set_address(1, &["10.6.0.1"]));
    Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(150), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(150) + T_STATUS * 2), || {
            format!(
                "the node shows the new address {shown}; the limit is two address periods",
                shown = when(shown)
            )
            .late(shown)
        })
    })
}
