//! Lives in which another initializer initialized the nodes before the provider under test starts.

use sim::faults::{Action, Rule};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Grant, Named, PROVIDER_USER, Topology};

use super::{Life, calm, phase, s};
use crate::scenario::{Act, Backend, Initializer, Scenario};

fn name(n: u32) -> String {
    format!("node-{n:04}")
}

fn machine(n: u32) -> Named {
    Named::from(name(n).as_str())
}

pub(super) fn lives(backend: Backend) -> Vec<Life> {
    let mut lives = vec![
        adopted(
            "by-upstream",
            "the upstream provider initialized every node; the provider takes over and restarts once",
            Initializer::Upstream,
        ),
        adopted(
            "by-upstream-half",
            "the upstream provider was killed between its two writes; the provider takes over and restarts once",
            Initializer::UpstreamHalf,
        ),
        adopted(
            "by-person",
            "a person initialized every node with kubectl; the provider takes over and restarts once",
            Initializer::Person,
        ),
        adopted(
            "by-in-tree",
            "the in-tree provider initialized every node; the provider takes over and restarts once",
            Initializer::InTree,
        ),
        by_path(),
        listed_partly(backend),
        gone_after_adoption(),
    ];
    if backend.is_vcenter() {
        lives.push(hidden_at_adoption());
    }
    lives
}

/// Returns a scenario in which another initializer initializes `n` nodes at 5 s. A later step has
/// to start the provider.
fn initialized(by: Initializer, n: u32) -> Scenario {
    Scenario::new("", Topology::zones(3).machines(n), s(0))
        .with_provider(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by })
}

/// Returns a life in which the provider takes over three initialized nodes and restarts once. Then
/// one machine changes its address, one is powered off and one is deleted.
fn adopted(name: &'static str, about: &'static str, by: Initializer) -> Life {
    let addresses = vec![vec![std::net::Ipv4Addr::new(10, 6, 0, 1).into()]];
    let scenario = initialized(by, 3)
        .at(s(20), phase("takeover"))
        .at(s(20), Act::StartAll)
        .at(s(90), phase("restart"))
        .at(s(92), Act::Crash(0))
        .at(s(95), Act::StartAll)
        .at(s(96), Command::SetAddresses { machine: machine(1), addresses })
        .at(s(160), phase("shutdown"))
        .at(s(165), Command::PowerOff(machine(2)))
        .at(s(310), phase("delete"))
        .at(s(315), Command::DeleteMachine(machine(3)));
    Life::new(name, about, calm(scenario, s(470)))
}

/// Returns the life of [`adopted`] with provider IDs that are paths instead of UUIDs, and with a
/// node that joins. The provider must not delete the Nodes with paths, and must initialize the new
/// one.
fn by_path() -> Life {
    let about = "an old in-tree provider initialized every node, with provider IDs that are paths; the provider takes over and restarts once";
    let newcomer = Command::CreateMachine {
        vcenter: None,
        spec: MachineSpec { name: Some("late".to_owned()), ..MachineSpec::default() },
        cluster: None,
        power_on: true,
        kubelet: true,
    };
    let life = adopted("by-in-tree-path", about, Initializer::InTreePath);
    Life { scenario: life.scenario.at(s(25), newcomer), ..life }
}

/// Returns a life in which the provider takes the nodes over, and a machine is deleted while the
/// provider is down. The references that the provider stored at the takeover must suffice to prove
/// that the machine is gone.
fn gone_after_adoption() -> Life {
    let scenario = initialized(Initializer::Upstream, 20)
        .at(s(20), phase("takeover"))
        .at(s(20), Act::StartAll)
        // At 400 s the provider has read all machines twice, so it has also found a machine that it
        // missed in the first read.
        .at(s(400), phase("restart"))
        .at(s(402), Act::Crash(0))
        .at(s(403), Command::DeleteMachine(machine(1)))
        .at(s(450), Act::StartAll);
    let about = "the upstream provider initialized every node; the provider takes over, and a machine is deleted while it is down";
    Life::new("gone-after-takeover", about, calm(scenario, s(550)))
}

/// Returns a life in which the provider takes the nodes over with a login that cannot see one
/// running machine.
fn hidden_at_adoption() -> Life {
    let user = PROVIDER_USER.to_owned();
    let grant = Grant { vcenter: None, user, object: name(1) };
    let scenario = initialized(Initializer::Upstream, 20)
        .at(s(10), Command::RevokePrivilege(grant.clone()))
        .at(s(20), phase("takeover"))
        .at(s(20), Act::StartAll)
        .at(s(40), Command::StopKubelet(machine(1)))
        .at(s(200), phase("restart"))
        .at(s(202), Act::Crash(0))
        .at(s(205), Act::StartAll)
        .at(s(300), Command::GrantPrivilege(grant))
        .at(s(300), Command::StartKubelet(machine(1)));
    let about = "the upstream provider initialized every node; the provider takes over with a login that cannot see one machine";
    Life::new("hidden-at-takeover", about, calm(scenario, s(320)))
}

/// Returns a life in which the backend shows only one of twenty machines, although its answers
/// claim to be complete: in vCenter mode in every SOAP answer, in Supervisor mode in lists and
/// watches. The rule is in force from before the start of the provider until the calm phase.
fn listed_partly(backend: Backend) -> Life {
    let actions = (2..=20).map(|n| Action::Hide(name(n)));
    let mut partly = Rule::new("partly", actions).on(backend.face());
    if !backend.is_vcenter() {
        partly = partly.op(["list virtualmachines", "watch virtualmachines"]);
    }
    let mut scenario = initialized(Initializer::Upstream, 20)
        .fault(partly)
        .at(s(20), phase("takeover"))
        .at(s(20), Act::StartAll);
    for n in [2, 3] {
        scenario = scenario
            .at(s(40), Command::StopKubelet(machine(n)))
            .at(s(280), Command::StartKubelet(machine(n)));
    }
    let about = "the upstream provider initialized every node; the backend shows only one machine of twenty";
    Life::new("listed-partly", about, calm(scenario, s(300)))
}
