//! Plays random histories: events in any order break no invariant, and after a calm end everything
//! is right.
//!
//! The generator draws abstract events, which become steps of a [`Scenario`] that proptest shrinks.
//! The test writes a failing scenario as YAML to `tests/it/regressions/`, and later runs play it.
//! Half of the histories have two replicas, one of which leads until it is killed, stopped or
//! suspended. Other histories begin with a life, in any mode, and continue with such events.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::judge::{Invariant, Violation, liveness, safety, takeovers};
use conformance::lab::{Mode, Mutant, Run, Stage, run};
use conformance::lives::sweep::mode_name;
use conformance::lives::{self, Life};
use conformance::scenario::periods::Periods;
use conformance::scenario::{Act, Initializer, Scenario, fault_kinds};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRng, TestRunner};
use sha2::{Digest, Sha256};
use sim::Face;
use sim::faults::Rule;
use sim::ledger::Record;
use sim::world::objects::{self, Key, PatchKind};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Grant, Named, PROVIDER_USER, Topology};

/// Number of machines at the beginning.
const MACHINES: u32 = 4;

/// Address sync period of the provider; short, so that a history has many periods.
const STATUS_PERIOD: Duration = Duration::from_secs(100);

/// An event, described by small numbers.
#[derive(Clone, Debug)]
enum Happening {
    Power {
        machine: u32,
        on: bool,
    },
    Address {
        machine: u32,
        last: u8,
    },
    ClearAddresses(u32),
    VMotion {
        machine: u32,
        host: u32,
    },
    Delete(u32),
    Inaccessible(u32),
    Connect(u32),
    Reregister(u32),
    Kubelet {
        machine: u32,
        runs: bool,
    },
    Sessions,
    Stop,
    Start,
    /// The replica with this index, leader or standby, is killed and restarted at once.
    Crash(usize),
    Fault {
        face: u8,
        kind: u8,
        first: u8,
    },
    /// The leader is killed or stopped, and comes back after `back` seconds.
    Failover {
        crash: bool,
        back: u8,
    },
    /// The leader is suspended, as by SIGSTOP, and resumed after `back` seconds.
    Suspend {
        back: u8,
    },
    /// Every wall clock steps by this number of minutes.
    StepClocks(i8),
    /// The provider's account loses the privilege to see a machine, and gets it back after `back`
    /// seconds.
    Hide {
        machine: u32,
        back: u8,
    },
    /// Another controller adds its taint with the number `n` to a node.
    Taint {
        machine: u32,
        n: u8,
    },
    /// A machine is created, and its node joins.
    Newcomer(u8),
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
        1 => (machine.clone(), 0..200_u8).prop_map(|(machine, back)| H::Hide { machine, back }),
        2 => (machine.clone(), any::<u8>()).prop_map(|(machine, n)| H::Taint { machine, n }),
        1 => any::<u8>().prop_map(H::Newcomer),
        2 => (0..90_u8).prop_map(|back| H::Suspend { back }),
        1 => any::<i8>().prop_map(H::StepClocks),
        3 => (machine, any::<bool>()).prop_map(|(machine, runs)| H::Kubelet { machine, runs }),
        1 => Just(H::Sessions),
        1 => Just(H::Stop),
        2 => Just(H::Start),
        1 => (0..2_usize).prop_map(H::Crash),
        3 => (any::<bool>(), 0..90_u8).prop_map(|(crash, back)| H::Failover { crash, back }),
        4 => (0..3_u8, any::<u8>(), 1..6_u8)
            .prop_map(|(face, kind, first)| H::Fault { face, kind, first }),
    ]
}

fn named(machine: u32) -> Named {
    format!("node-{machine:04}").as_str().into()
}

/// Returns a command that adds another controller's taint to a node.
fn foreign_taint(machine: u32, n: u8) -> Command {
    let taint = serde_json::json!({"key": format!("example.com/{n}"), "effect": "NoSchedule"});
    let patch = serde_json::json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]);
    let key = Key::node(format!("node-{machine:04}"));
    Command::Cluster(objects::Command::patch(key, PatchKind::Json, patch))
}

/// Returns the steps of an event, each with its delay after the event. `n` makes the IDs of fault
/// rules unique.
fn steps(n: usize, happening: &Happening, mode: Mode) -> Vec<(Duration, Act)> {
    let now = Duration::ZERO;
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
        // A machine without its storage cannot be registered.
        Happening::Reregister(machine) => {
            let steps = [Command::Connect(named(machine)), Command::Reregister(named(machine))];
            return steps.map(|command| (now, Act::World(command))).to_vec();
        }
        Happening::Kubelet { machine, runs: true } => Command::StartKubelet(named(machine)),
        Happening::Kubelet { machine, runs: false } => Command::StopKubelet(named(machine)),
        Happening::Sessions => Command::ExpireSessions { vcenter: None, family: None },
        Happening::Stop => Command::StopVCenter { vcenter: None },
        Happening::Start => Command::StartVCenter { vcenter: None },
        Happening::Crash(replica) => {
            return vec![(now, Act::Crash(replica)), (now, Act::StartAll)];
        }
        Happening::Failover { crash, back } => {
            let fail = if crash { Act::CrashLeader } else { Act::StopLeader };
            let back = Duration::from_secs(u64::from(back));
            return vec![(now, fail), (back, Act::StartAll)];
        }
        Happening::Suspend { back } => {
            let back = Duration::from_secs(u64::from(back));
            return vec![(now, Act::SuspendLeader), (back, Act::ResumeAll)];
        }
        Happening::StepClocks(minutes) => {
            return vec![(now, Act::StepClocks(i64::from(minutes) * 60))];
        }
        Happening::Hide { machine, back } => {
            let (user, object) = (PROVIDER_USER.to_owned(), format!("node-{machine:04}"));
            let grant = Grant { vcenter: None, user, object };
            let back = Duration::from_secs(u64::from(back));
            return vec![
                (now, Act::World(Command::RevokePrivilege(grant.clone()))),
                (back, Act::World(Command::GrantPrivilege(grant))),
            ];
        }
        Happening::Taint { machine, n } => foreign_taint(machine, n),
        Happening::Newcomer(n) => Command::CreateMachine {
            vcenter: None,
            spec: MachineSpec { name: Some(format!("late-{n}")), ..MachineSpec::default() },
            cluster: None,
            power_on: true,
            kubelet: true,
        },
        Happening::Fault { face, kind, first } => {
            let faces = match mode {
                Mode::VCenter(_) => [Face::Soap, Face::Vapi, Face::Cluster],
                Mode::Supervisor(_) => [Face::Supervisor, Face::Supervisor, Face::Cluster],
            };
            let face = faces[usize::from(face) % 3];
            let kinds = fault_kinds(face);
            let kind = &kinds[usize::from(kind) % kinds.len()];
            let rule = Rule::new(format!("fault-{n}"), kind.actions.clone()).on(face);
            return vec![(now, Act::Fault(rule.first(u64::from(first))))];
        }
    };
    vec![(now, Act::World(command))]
}

/// Returns the history as a scenario with a calm end: faults healed, vCenters up, every replica
/// running, machines connected and reporting, and as much time as the provider's periods require.
/// If `by` is set, `by` initializes all nodes before the provider starts.
fn scenario(replicas: usize, by: Option<Initializer>, history: &[(u8, Happening)]) -> Scenario {
    let mut scenario =
        Scenario::new("history", Topology::zones(3).machines(MACHINES), Duration::ZERO)
            .with_provider(|it| (it.replicas, it.status_period) = (replicas, STATUS_PERIOD));
    if let Some(by) = by {
        scenario = scenario
            .with_provider(|it| it.start = false)
            .at(Duration::from_secs(5), Act::Initialize { node: None, by })
            .at(Duration::from_secs(10), Act::StartAll);
    }
    let mut at = Duration::from_secs(20);
    for (n, (pause, happening)) in history.iter().enumerate() {
        at += Duration::from_secs(u64::from(*pause));
        for (after, act) in steps(n, happening, Mode::default()) {
            scenario = scenario.at(at + after, act);
        }
    }
    calm(scenario)
}

/// Adds a calm end: faults healed, vCenters up, replicas running, machines connected and reporting.
fn calm(scenario: Scenario) -> Scenario {
    let last = scenario.timeline.last().map_or(Duration::ZERO, |step| step.at);
    let calm = last + Duration::from_secs(30);
    let mut scenario = scenario.at(calm, Act::RemoveRules);
    for n in 0..scenario.topology.vcenters {
        let vcenter = Some(format!("vc{n}"));
        scenario = scenario.at(calm, Command::StartVCenter { vcenter });
    }
    scenario = scenario.at(calm, Act::ResumeAll).at(calm, Act::StartAll);
    for machine in 1..=MACHINES {
        scenario = scenario.at(calm, Command::Connect(named(machine)));
        // Guests without running tools report again; guests that are off ignore this command.
        scenario = scenario.at(calm, Command::StartTools(named(machine)));
    }
    scenario.settling()
}

type History = (usize, Option<Initializer>, Vec<(u8, Happening)>);

/// Generates histories. Half of them begin with nodes that another provider or a person
/// initialized.
fn histories() -> impl Strategy<Value = History> {
    let by = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Initializer::Upstream)),
        1 => Just(Some(Initializer::UpstreamHalf)),
        1 => Just(Some(Initializer::Person)),
    ];
    (1..=2_usize, by, prop::collection::vec((0..60_u8, happening()), 1..25))
}

fn played(scenario: &Scenario, stage: &Stage) -> (Run, Vec<Violation>) {
    let run = run(scenario, stage);
    let mut found = safety(&run);
    found.extend(liveness(&run));
    (run, found)
}

fn broken(scenario: &Scenario) -> Vec<Violation> {
    played(scenario, &Stage::default()).1
}

/// Numbers of important events in all histories together, because histories without them would
/// prove nothing.
#[derive(Debug, Default)]
struct Exercised {
    takeovers: usize,
    crashed_leaders: usize,
    stopped_leaders: usize,
    faults: u64,
    deletions: usize,
}

impl Exercised {
    fn note(&mut self, run: &Run) {
        let leads = |what: &str| {
            let notes: Vec<&str> = run.ledger.iter().map(|record| record.op.as_str()).collect();
            notes.windows(2).filter(|it| it[0].ends_with(" leads") && it[1].ends_with(what)).count()
        };
        if run.scenario.provider.elects() {
            self.takeovers += takeovers(run);
            self.crashed_leaders += leads(" is killed");
            self.stopped_leaders += leads(" is told to stop");
        }
        self.faults += run.fired.iter().map(|(_, n)| n).sum::<u64>();
        self.deletions += run.calls().filter(|call| call.op == "delete nodes").count();
    }
}

#[test]
fn sixty_four_random_histories_break_no_invariant() {
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    // The seed is fixed, so that a failure comes from a code change.
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let exercised = RefCell::new(Exercised::default());
    let result = runner.run(&histories(), |(replicas, by, history)| {
        let (run, found) = played(&scenario(replicas, by, &history), &Stage::default());
        exercised.borrow_mut().note(&run);
        match found.first() {
            None => Ok(()),
            Some(violation) => Err(TestCaseError::fail(violation.to_string())),
        }
    });
    if let Err(TestError::Fail(why, (replicas, by, history))) = &result {
        keep(why, Mode::default(), scenario(*replicas, *by, history));
    }
    result.unwrap();
    let Exercised { takeovers, crashed_leaders, stopped_leaders, faults, deletions } =
        exercised.into_inner();
    let seen =
        [takeovers, crashed_leaders, stopped_leaders, usize::try_from(faults).unwrap(), deletions];
    assert!(
        seen.iter().all(|n| *n >= 10),
        "the histories contain too few important events: {seen:?}"
    );
}

/// Content of a file with a history that once failed.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// Name of the mode, as in reports.
    mode: String,
    scenario: Scenario,
}

/// Writes the shrunk scenario to a file, which every later test run plays, and panics.
fn keep(why: impl std::fmt::Display, mode: Mode, scenario: Scenario) -> ! {
    let (mode, life) = (mode_name(mode), scenario.name.clone());
    let text = serde_saphyr::to_string(&Kept { mode: mode.clone(), scenario }).unwrap();
    let digest = Sha256::digest(&text);
    let number = digest[..4].iter().fold(0_u32, |all, it| all << 8 | u32::from(*it));
    let name = format!("{number:08x}.yaml");
    std::fs::write(regressions().join(&name), &text).unwrap();
    panic!("{mode}, {life}: {why}\nkept as tests/it/regressions/{name}:\n{text}");
}

fn modes() -> [Mode; 7] {
    use provider::InstancesMode::{Auto, Poll, V1, Watch};
    let (vcenter, supervisor) = (Mode::VCenter, Mode::Supervisor);
    [
        vcenter(Auto),
        vcenter(Poll),
        vcenter(V1),
        supervisor(Auto),
        supervisor(Watch),
        supervisor(Poll),
        supervisor(V1),
    ]
}

/// Returns a life, followed by the history and a calm end.
fn continued(life: &Life, mode: Mode, history: &[(u8, Happening)]) -> Scenario {
    let mut scenario = life.scenario.clone();
    let mut at = scenario.timeline.last().map_or(Duration::ZERO, |step| step.at);
    for (n, (pause, happening)) in history.iter().enumerate() {
        at += Duration::from_secs(u64::from(*pause));
        for (after, act) in steps(n, happening, mode) {
            scenario = scenario.at(at + after, act);
        }
    }
    calm(scenario)
}

/// Seed of the histories that begin with a life. The generator draws life, mode and events of each.
const LIVES_SEED: [u8; 32] = *b"histories that begin with a life";

#[test]
fn histories_that_begin_with_a_life_break_no_invariant() {
    // `PROPTEST_CASES` overrides the number of histories.
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 24 };
    let config = Config { cases, failure_persistence: None, ..asked };
    let rng = TestRng::from_seed(config.rng_algorithm, &LIVES_SEED);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let happenings = prop::collection::vec((0..60_u8, happening()), 1..8);
    let drawn = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), happenings);
    let begun = |mode: &prop::sample::Index, life: &prop::sample::Index| {
        let mode = *mode.get(&modes());
        (mode, life.get(&lives::all(mode.backend())).clone())
    };
    let result = runner.run(&drawn, |(mode, life, history)| {
        let (mode, life) = begun(&mode, &life);
        let stage = Stage { mode, ..Stage::default() };
        let run = run(&continued(&life, mode, &history), &stage);
        match Life::broken(&run).first() {
            None => Ok(()),
            Some(violation) => Err(TestCaseError::fail(violation.to_string())),
        }
    });
    if let Err(TestError::Fail(why, (mode, life, history))) = &result {
        let (mode, life) = begun(mode, life);
        let why = format!("seed {:?}: {why}", String::from_utf8_lossy(&LIVES_SEED));
        keep(why, mode, continued(&life, mode, history));
    }
    result.unwrap();
}

/// Returns a scenario in which a leader is killed and then the next one is stopped, both with work
/// to do.
fn failover() -> Scenario {
    let history = [
        (30, Happening::Power { machine: 1, on: false }),
        (1, Happening::Failover { crash: true, back: 50 }),
        (1, Happening::Address { machine: 2, last: 7 }),
        (58, Happening::Delete(3)),
        (20, Happening::Failover { crash: false, back: 50 }),
        (1, Happening::Address { machine: 2, last: 8 }),
        (40, Happening::Power { machine: 1, on: true }),
    ];
    scenario(2, None, &history)
}

#[test]
fn the_other_replica_takes_over_from_a_lost_leader_within_the_bound() {
    let scenario = failover();
    let (run, found) = played(&scenario, &Stage::default());
    assert_eq!(found, Vec::new());
    assert_eq!(takeovers(&run), 2);
    let bound = Periods::from_setup(&scenario.provider).takeover();
    for (leader, what) in [("provider-1", "is killed"), ("provider", "is told to stop")] {
        let lost = run.ledger.iter().find(|it| it.op.ends_with(what)).unwrap().t;
        let writes = |call: &&Record| {
            call.client.client == leader && call.op.starts_with("patch nodes") && call.t >= lost
        };
        let at = run
            .calls()
            .find(writes)
            .unwrap_or_else(|| panic!("{leader} wrote nothing after the loss of the other leader"))
            .t;
        assert!(
            at.since(lost) <= bound,
            "{leader} writes only {:?} after the loss of the other leader",
            at.since(lost)
        );
    }
}

/// Proves that the judge detects two leaders.
#[test]
fn replicas_that_do_not_elect_a_leader_break_the_leader_invariant() {
    let scenario = failover().with_provider(|it| it.without_election = true);
    let (_, found) = played(&scenario, &Stage::default());
    assert!(found.iter().any(|it| it.invariant == Invariant::OnlyLeaderWrites), "{found:?}");
}

/// The session of the successor reveals that the former leader has left its session open.
#[test]
fn a_leader_that_does_not_log_out_breaks_the_session_invariant() {
    let stops = (0..3).map(|_| (59, Happening::Failover { crash: false, back: 30 }));
    let scenario = scenario(2, None, &stops.collect::<Vec<_>>());
    assert_eq!(broken(&scenario), Vec::new());
    let stage = Stage { mutant: Some(Mutant::NoLogout), ..Stage::default() };
    let (_, found) = played(&scenario, &stage);
    assert!(found.iter().any(|it| it.invariant == Invariant::FewSessions), "{found:?}");
}

fn regressions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/regressions")
}

/// Plays the kept histories, which once broke an invariant.
#[test]
fn kept_histories_that_once_failed_break_no_invariant() {
    let entries = std::fs::read_dir(regressions()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|file| file.extension().is_some_and(|it| it == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty(), "no history is kept in {}", regressions().display());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let Kept { mode, scenario } = serde_saphyr::from_str(&text).unwrap();
        let mode = modes().into_iter().find(|it| mode_name(*it) == mode).unwrap();
        let run = run(&scenario, &Stage { mode, ..Stage::default() });
        assert_eq!(Life::broken(&run), Vec::new(), "{}", file.display());
    }
}
