//! Histories: whatever happens in the world, in whatever order, no invariant breaks, and once it is
//! calm everything comes right.
//!
//! Actions are abstract while they are generated and become steps of a [`Scenario`], which proptest
//! shrinks; what fails is printed as YAML and kept below `tests/it/regressions/`.

use std::time::Duration;

use conformance::checks::fault_kinds;
use conformance::judge::{Violation, liveness, safety};
use conformance::lab::{Stage, run};
use conformance::scenario::{Act, Scenario};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sim::Face;
use sim::faults::Rule;
use sim::world::{Command, Named, Topology};

/// Machines in the world.
const MACHINES: u32 = 4;

/// Something that can happen, named by small numbers.
#[derive(Clone, Debug)]
enum Happening {
    Power { machine: u32, on: bool },
    Address { machine: u32, last: u8 },
    ClearAddresses(u32),
    VMotion { machine: u32, host: u32 },
    Delete(u32),
    Inaccessible(u32),
    Connect(u32),
    Reregister(u32),
    Kubelet { machine: u32, runs: bool },
    Sessions,
    Stop,
    Start,
    Crash,
    Fault { face: u8, kind: u8, first: u8 },
    Failover,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    let machine = 1..=MACHINES;
    prop_oneof![
        3 => (machine.clone(), any::<bool>()).prop_map(|(machine, on)| H::Power { machine, on }),
        3 => (machine.clone(), 1..250_u8).prop_map(|(machine, last)| H::Address { machine, last }),
        1 => machine.clone().prop_map(H::ClearAddresses),
        2 => (machine.clone(), 0..9_u32).prop_map(|(machine, host)| H::VMotion { machine, host }),
        1 => machine.clone().prop_map(H::Delete),
        1 => machine.clone().prop_map(H::Inaccessible),
        2 => machine.clone().prop_map(H::Connect),
        1 => machine.clone().prop_map(H::Reregister),
        3 => (machine, any::<bool>()).prop_map(|(machine, runs)| H::Kubelet { machine, runs }),
        1 => Just(H::Sessions),
        1 => Just(H::Stop),
        2 => Just(H::Start),
        1 => Just(H::Crash),
        1 => Just(H::Failover),
        4 => (0..3_u8, any::<u8>(), 1..6_u8)
            .prop_map(|(face, kind, first)| H::Fault { face, kind, first }),
    ]
}

fn named(machine: u32) -> Named {
    format!("node-{machine:04}").as_str().into()
}

/// Steps for one happening. The number keeps rule names apart.
fn steps(n: usize, happening: &Happening) -> Vec<Act> {
    let command = match *happening {
        Happening::Power { machine, on: true } => Command::PowerOn(named(machine)),
        Happening::Power { machine, on: false } => Command::PowerOff(named(machine)),
        Happening::Address { machine, last } => Command::SetAddresses {
            machine: named(machine),
            addresses: vec![vec![std::net::Ipv4Addr::new(10, 77, 0, last).into()]],
        },
        Happening::ClearAddresses(machine) => Command::ClearAddresses(named(machine)),
        Happening::VMotion { machine, host } => Command::VMotion {
            machine: named(machine),
            host: format!("DC0_C{}_H{}", host / 3, host % 3),
        },
        Happening::Delete(machine) => Command::DeleteMachine(named(machine)),
        Happening::Inaccessible(machine) => Command::Inaccessible(named(machine)),
        Happening::Connect(machine) => Command::Connect(named(machine)),
        Happening::Reregister(machine) => Command::Reregister(named(machine)),
        Happening::Kubelet { machine, runs: true } => Command::StartKubelet(named(machine)),
        Happening::Kubelet { machine, runs: false } => Command::StopKubelet(named(machine)),
        Happening::Sessions => Command::ExpireSessions { vcenter: None, family: None },
        Happening::Stop => Command::StopVCenter { vcenter: None },
        Happening::Start => Command::StartVCenter { vcenter: None },
        Happening::Crash => return vec![Act::Crash(0), Act::Start(0)],
        Happening::Failover => return vec![Act::Stop(0), Act::Start(0)],
        Happening::Fault { face, kind, first } => {
            let face = [Face::Soap, Face::Vapi, Face::Cluster][usize::from(face) % 3];
            let kinds = fault_kinds(face);
            let kind = &kinds[usize::from(kind) % kinds.len()];
            let rule = Rule::new(format!("fault-{n}"), kind.actions.clone()).on(face);
            return vec![Act::Fault(rule.first(u64::from(first)))];
        }
    };
    vec![Act::World(command)]
}

/// Churn, then calm: faults healed, the vCenter up, machines connected and reporting.
fn scenario(history: &[(u8, Happening)]) -> Scenario {
    let mut scenario =
        Scenario::new("history", Topology::zones(3).machines(MACHINES), Duration::ZERO);
    let mut at = Duration::from_secs(20);
    for (n, (pause, happening)) in history.iter().enumerate() {
        at += Duration::from_secs(u64::from(*pause));
        for act in steps(n, happening) {
            scenario = scenario.at(at, act);
        }
    }
    let calm = at + Duration::from_secs(30);
    scenario = scenario.at(calm, Act::Heal).at(calm, Command::StartVCenter { vcenter: None });
    for machine in 1..=MACHINES {
        scenario = scenario.at(calm, Command::Connect(named(machine)));
        // A guest that was silenced reports again; one that is off does not mind.
        scenario = scenario.at(calm, Command::StartTools(named(machine)));
    }
    scenario.horizon = calm + Duration::from_secs(1800);
    scenario
}

fn broken(scenario: &Scenario) -> Vec<Violation> {
    let run = run(scenario, &Stage::default());
    let mut found = safety(&run);
    found.extend(liveness(&run));
    found
}

#[test]
fn sixty_four_histories_break_nothing_and_end_well() {
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    // The same histories every time: a failure here is for whoever changed the code.
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = prop::collection::vec((0..60_u8, happening()), 1..25);
    let result = runner.run(&strategy, |history| {
        let scenario = scenario(&history);
        match broken(&scenario).first() {
            None => Ok(()),
            Some(violation) => Err(TestCaseError::fail(format!(
                "{violation}\n{}",
                serde_saphyr::to_string(&scenario).unwrap_or_default()
            ))),
        }
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Histories that broke something once.
#[test]
fn regressions_stay_mended() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/regressions");
    let mut files: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "yaml")) {
        let text = std::fs::read_to_string(file).unwrap();
        let scenario: Scenario = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(broken(&scenario), Vec::new(), "{}", file.display());
    }
}
