//! Cases in which a machine disappears from one vCenter while another vCenter does not answer.
//!
//! The machine may have moved to the other vCenter. So the provider must keep the machine's Node
//! until both vCenters have answered. If neither has the machine, the provider must then delete the
//! Node in time.

use std::time::Duration;

use sim::faults::{Action, Rule};
use sim::world::{Command, Named, Topology};

use super::{DOWN, other};
use crate::checks::build::{
    GRACE, SETTLED, T_INIT, T_STATUS, known_machine_arrives, known_uuid, machine, s, world,
};
use crate::checks::lifecycle::deletion::{PATIENCE, survives};
use crate::checks::queries::name;
use crate::checks::{Case, build};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

/// Number of machines per vCenter. Two of the twenty nodes may be gone at once without a hold of
/// deletions.
const N: u32 = 10;
/// Time at which the vCenter that is down starts or, if it was not stopped, answers again.
const BACK: Duration = s(400);
/// Address that a machine of the healthy vCenter gets, for [`worked_meanwhile`]. No other machine
/// has it.
const ADDRESS: &str = "10.40.0.2";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (how, action) in DOWN {
        for restarted in [false, true] {
            let label = |what: &str| {
                format!("{what}, {how}{}", if restarted { ", started anew" } else { "" })
            };
            let action = action.as_ref();
            cases.extend([
                deleted(action, restarted)
                    .named(label("a machine is deleted while the other vCenter is down")),
                moved("vc1", action, restarted)
                    .named(label("a machine moves to a vCenter that is down")),
                moved("vc0", action, restarted)
                    .named(label("a machine moves away from a vCenter that is down")),
            ]);
        }
    }
    cases
}

/// Takes the vCenter `down` out of service from [`SETTLED`] until [`BACK`]: applies `action` to
/// each call to it, or stops it if `action` is `None`. With `restarted`, the provider restarts
/// during this time.
fn one_down(scenario: Scenario, down: &str, action: Option<&Action>, restarted: bool) -> Scenario {
    let vcenter = || Some(down.to_owned());
    let scenario = match action {
        None => scenario
            .at(SETTLED, Command::StopVCenter { vcenter: vcenter() })
            .at(BACK, Command::StartVCenter { vcenter: vcenter() }),
        Some(action) => {
            let rule = Rule::new("down", [action.clone()]).at(down);
            scenario.at(SETTLED, rule).at(BACK, Act::RemoveRules)
        }
    };
    match restarted {
        false => scenario,
        true => scenario.at(s(80), Act::Crash(0)).at(s(81), Act::Start(0)),
    }
}

fn two() -> Scenario {
    let topology = Topology::zones(3).machines(N).vcenters(2);
    Scenario { topology, ..world(N, s(700)) }
}

/// Inconclusive unless this node of the healthy vCenter shows [`ADDRESS`] within 290 s of the
/// change of its machine at 120 s. The other vCenter is down until [`BACK`], which is nearly all of
/// this time.
fn worked_meanwhile(run: &Run, node: &str) -> Verdict {
    let shown = run.when_after(node, s(120), |it| it.ips().any(|ip| ip == ADDRESS));
    let in_time = shown.is_some_and(|at| at.since_start() < s(120) + T_STATUS - T_INIT);
    if in_time {
        return Verdict::Pass;
    }
    Verdict::inconclusive(format!(
        "the provider did not work for the healthy vCenter meanwhile: {node} shows its new address {shown}",
        shown = when(shown)
    ))
}

/// Creates a case in which a machine of the healthy vCenter is deleted. The provider must delete
/// the machine's Node, but not before the other vCenter answers again.
fn deleted(action: Option<&Action>, restarted: bool) -> Case {
    let there = |n| Named { vcenter: Some("vc1".into()), name: other(n) };
    let addresses = vec![build::ips(&[ADDRESS])];
    let scenario = one_down(two(), "vc0", action, restarted)
        .at(s(65), Command::DeleteMachine(there(1)))
        .at(s(120), Command::SetAddresses { machine: there(2), addresses });
    Case::new(scenario, |run| {
        let gone = run.deleted(&other(1));
        let (first, last) = (BACK, BACK + GRACE + PATIENCE);
        run.was_not_ready(&other(1))
            .and(|| {
                let is_held = gone.is_none_or(|at| at.since_start() >= first);
                Verdict::pass_if(is_held, || {
                    format!("the Node was deleted {gone}; the other vCenter, which may have its machine, first answers {first}", gone = when(gone), first = when(first))
                        .at(gone)
                })
            })
            .and(|| {
                Verdict::pass_if(gone.is_some_and(|at| at.since_start() <= last), || {
                    format!("the Node was deleted {gone}; the limit is {last:?}", gone = when(gone)).late(gone)
                })
            })
            .and(|| {
                let left = run.nodes().len();
                Verdict::pass_if(left == 19, || format!("{left} Nodes are left at the end, but 19 machines exist"))
            })
            .and(|| worked_meanwhile(run, &other(2)))
    })
}

/// Creates a case in which a machine moves from the first vCenter to the second, while the vCenter
/// `down` does not answer. The provider must keep the machine's Node.
fn moved(down: &str, action: Option<&Action>, restarted: bool) -> Case {
    let arrives = known_machine_arrives(Some("vc1"));
    let healthy = if down == "vc0" { other(2) } else { name(2) };
    let vcenter = Some(if down == "vc0" { "vc1" } else { "vc0" }.to_owned());
    let change = Command::SetAddresses {
        machine: Named { vcenter, name: healthy.clone() },
        addresses: vec![build::ips(&[ADDRESS])],
    };
    let scenario = one_down(known_uuid(Backend::VCenter, two(), 1), down, action, restarted)
        .at(SETTLED, Command::StopKubelet(machine(1)))
        .at(s(65), Command::DeleteMachine(machine(1)))
        .at(s(65), arrives)
        .at(s(120), change);
    Case::new(scenario, move |run| {
        survives(run, N)
            .and(|| {
                let left = run.nodes().len();
                Verdict::pass_if(left == 20, || {
                    format!("{left} Nodes are left at the end, but 20 machines exist")
                })
            })
            .and(|| worked_meanwhile(run, &healthy))
    })
}
