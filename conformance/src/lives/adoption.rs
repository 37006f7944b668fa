//! Lives of nodes that another initializer handled before the provider under test started.

use sim::faults::{Action, Rule};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Grant, Named, PROVIDER_USER, Topology};

use super::{Life, calm, phase, s};
use crate::backend::Backend;
use crate::scenario::{Act, Initializer, Scenario};

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
            "the upstream provider died between its two writes; the provider takes over and restarts once",
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

/// The world begins with nodes that another initializer initializes at five seconds; the provider starts at twenty.
fn initialized(by: Initializer, n: u32) -> Scenario {
    Scenario::new("", Topology::zones(3).machines(n), s(0))
        .with(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by })
}

/// The provider takes the nodes over and restarts; then one machine changes its address, one is shut down and one is deleted.
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

/// The same with provider IDs without a UUID: the provider leaves such nodes alone, and initializes a newcomer.
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

/// The provider takes the nodes over, and a machine is destroyed while the provider is down. Its notes from the takeover must
/// prove that.
fn gone_after_adoption() -> Life {
    let scenario = initialized(Initializer::Upstream, 20)
        .at(s(20), phase("takeover"))
        .at(s(20), Act::StartAll)
        // The next look, a status period later, finds a machine that the first look missed.
        .at(s(400), phase("restart"))
        .at(s(402), Act::Crash(0))
        .at(s(403), Command::DeleteMachine(machine(1)))
        .at(s(450), Act::StartAll);
    let about = "the upstream provider initialized every node; the provider takes over, and a machine is destroyed while it is away";
    Life::new("gone-after-takeover", about, calm(scenario, s(550)))
}

/// The provider starts with a login that does not see one running machine, and has never seen it.
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
    let about = "the upstream provider initialized every node; the login of the provider that takes over does not see one machine";
    Life::new("hidden-at-takeover", about, calm(scenario, s(320)))
}

/// Before the provider starts, lists begin to show a part of the machines and claim to be complete.
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
    let about =
        "the upstream provider initialized every node; what is listed shows one machine of twenty";
    Life::new("listed-partly", about, calm(scenario, s(300)))
}
