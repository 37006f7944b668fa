//! Plays generated histories in Supervisor mode with the instances modes `v1` and `auto` (here
//! "V2"), and requires that V2 writes to Nodes what v1 writes.
//!
//! v1 reads the machines once per period, as upstream does. V2 watches every change. At least one
//! period passes between two steps of a history, so V2 must have written every provider ID, label
//! and list of addresses that v1 wrote, byte for byte, and the Nodes must be equal at the calm end.
//! V2 may write more, because only V2 sees a change that is undone within a period. Both must keep
//! the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use provider::InstancesMode;
use serde_json::Value;
use sim::world::objects::{GroupResource, Op};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, Topology};

use crate::judge;
use crate::lab::{Mode, Run, Stage, run};
use crate::scenario::{Act, Backend, Scenario};

/// Number of machines at the beginning.
const MACHINES: u32 = 6;
/// Address sync period of v1 and V2; short, so that a history of few minutes has many periods.
const STATUS: Duration = Duration::from_secs(60);
/// Minimum pause before a step of a history, in seconds. It exceeds [`STATUS`], so that v1 reads
/// every machine between two steps.
const SEEN: u8 = 70;
/// Pause after the last step of a history. It suffices for two address sync periods, for a decision
/// about a NotReady node including the hold, and for the return of a kubelet.
const CALM: Duration = Duration::from_secs(300);

/// A step of a history: a change of a machine, its guest or its kubelet, or a restart of the
/// provider. A `u32` in first place is the number of the machine.
#[derive(Clone, Debug)]
pub enum HistoryStep {
    /// The machine is switched on (true) or off (false).
    Power(u32, bool),
    /// The guest gets the address 10.77.0.n; n is the second number.
    Address(u32, u8),
    /// VMware Tools in the guest start (true) or stop (false).
    Tools(u32, bool),
    /// The kubelet starts (true) or stops (false).
    Kubelet(u32, bool),
    /// The machine moves to the host whose index is the second number.
    Moved(u32, u32),
    /// The machine is deleted.
    Deleted(u32),
    /// A machine with this number in its name is created and joins the cluster. Nothing happens if
    /// the machine exists already.
    Joins(u8),
    /// The provider is killed and starts again.
    Restart,
}

/// Steps of a history in order, each with the pause before it in seconds.
pub type History = Vec<(u8, HistoryStep)>;

/// Generates histories of one to eleven steps.
pub fn histories() -> impl Strategy<Value = History> {
    use HistoryStep as H;
    let machine = || 1..=MACHINES;
    let happening = prop_oneof![
        3 => (machine(), any::<bool>()).prop_map(|(n, on)| H::Power(n, on)),
        4 => (machine(), 1..250_u8).prop_map(|(n, last)| H::Address(n, last)),
        2 => (machine(), any::<bool>()).prop_map(|(n, runs)| H::Tools(n, runs)),
        2 => (machine(), any::<bool>()).prop_map(|(n, runs)| H::Kubelet(n, runs)),
        1 => (machine(), 0..9_u32).prop_map(|(n, host)| H::Moved(n, host)),
        1 => machine().prop_map(H::Deleted),
        2 => (0..20_u8).prop_map(H::Joins),
        1 => Just(H::Restart),
    ];
    // v1 sees each happening, because at least one period passes between two of them.
    prop::collection::vec((SEEN..SEEN + 60, happening), 1..12)
}

fn named(machine: u32) -> Named {
    format!("node-{machine:04}").as_str().into()
}

fn acts(happening: &HistoryStep) -> Vec<Act> {
    let command = match *happening {
        HistoryStep::Power(n, true) => Command::PowerOn(named(n)),
        HistoryStep::Power(n, false) => Command::PowerOff(named(n)),
        HistoryStep::Address(n, last) => Command::SetAddresses {
            machine: named(n),
            addresses: vec![vec![std::net::Ipv4Addr::new(10, 77, 0, last).into()]],
        },
        HistoryStep::Tools(n, true) => Command::StartTools(named(n)),
        HistoryStep::Tools(n, false) => Command::StopTools(named(n)),
        HistoryStep::Kubelet(n, true) => Command::StartKubelet(named(n)),
        HistoryStep::Kubelet(n, false) => Command::StopKubelet(named(n)),
        HistoryStep::Moved(n, host) => {
            Command::VMotion { machine: named(n), host: format!("DC0_C{}_H{}", host / 3, host % 3) }
        }
        HistoryStep::Deleted(n) => Command::DeleteMachine(named(n)),
        HistoryStep::Joins(n) => Command::CreateMachine {
            vcenter: None,
            spec: MachineSpec { name: Some(format!("joins-{n:02}")), ..MachineSpec::default() },
            cluster: None,
            power_on: true,
            kubelet: true,
        },
        HistoryStep::Restart => return vec![Act::Crash(0), Act::Start(0)],
    };
    vec![Act::World(command)]
}

/// Returns the history as a scenario with a calm end.
pub fn scenario(history: &History) -> Scenario {
    let topology = Topology::zones(3).machines(MACHINES);
    let mut scenario = Scenario::new("alike", topology, Duration::ZERO)
        .with_provider(|it| it.status_period = STATUS);
    let mut at = Duration::from_secs(30);
    for (pause, happening) in history {
        at += Duration::from_secs(u64::from(*pause));
        for act in acts(happening) {
            scenario = scenario.at(at, act);
        }
    }
    // The calm repairs nothing: v1 and V2 must also agree about machines that are off and kubelets
    // that are silent.
    scenario.horizon = at + CALM;
    scenario
}

/// Writes and final state of Nodes in one run.
#[derive(Debug, PartialEq, Eq)]
struct NodeWrites {
    /// Every Node at the end, by name: labels, provider ID, taints without their times, addresses.
    end: BTreeMap<String, Value>,
    /// Every value that the fields `providerID`, `labels` and `addresses` of a Node had while the
    /// Node was initialized, as name of the Node, field and value.
    written: BTreeSet<(String, String, String)>,
    /// Number of calls to the Supervisor.
    calls: u64,
}

fn node_writes(run: &Run) -> NodeWrites {
    let mut end = BTreeMap::new();
    for node in run.end.cluster.all(&GroupResource::core("nodes")) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        // `timeAdded` depends on when a period begins, so it is left out.
        let mut taints = node["spec"]["taints"].clone();
        for taint in taints.as_array_mut().into_iter().flatten() {
            if let Some(taint) = taint.as_object_mut() {
                taint.remove("timeAdded");
            }
        }
        let fields = serde_json::json!({
            "labels": node["metadata"]["labels"],
            "providerID": node["spec"]["providerID"],
            "taints": taints,
            "addresses": node["status"]["addresses"],
        });
        end.insert(name, fields);
    }
    let mut written = BTreeSet::new();
    // `nodes_by_name` includes Nodes that are gone at the end.
    for (name, events) in run.nodes_by_name() {
        for (_, op, node) in events {
            let open = node["spec"]["taints"].as_array().into_iter().flatten();
            let waits = open
                .map(|it| it["key"].as_str())
                .any(|key| key == Some("node.cloudprovider.kubernetes.io/uninitialized"));
            // Skips uninitialized Nodes, whose fields the kubelet wrote, and deletion events, which
            // repeat an earlier state.
            if waits || *op == Op::Deleted {
                continue;
            }
            for (field, value) in [
                ("providerID", &node["spec"]["providerID"]),
                ("labels", &node["metadata"]["labels"]),
                ("addresses", &node["status"]["addresses"]),
            ] {
                written.insert((name.clone(), field.to_owned(), value.to_string()));
            }
        }
    }
    let calls = run.calls().filter(|call| Backend::Supervisor.receives(call)).count() as u64;
    NodeWrites { end, written, calls }
}

/// A value that v1 wrote and V2 did not, a different Node at the end, or an invariant that v1 or V2
/// breaks.
#[derive(Debug)]
pub struct Difference {
    /// Description of the difference or of the broken invariant.
    pub what: String,
    /// Scenario of the shortest history found that shows the difference. If the generator of
    /// histories gave up, a scenario without steps.
    pub scenario: Scenario,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let history = serde_saphyr::to_string(&self.scenario).unwrap_or_default();
        write!(f, "{}\n{history}", self.what)
    }
}

/// Amounts that [`compare`] compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct ComparisonTotals {
    /// Number of histories.
    pub histories: u32,
    /// Number of Nodes at the ends of the histories, summed over the histories.
    pub nodes: u64,
    /// Number of different values that v1 wrote, summed over the histories.
    pub values: u64,
    /// Number of calls to the Supervisor by v1 and by V2.
    pub calls: (u64, u64),
}

/// Plays `runs` histories with v1 and with V2 and compares the results. If `mutant` is set, V2 runs
/// with this deliberate defect.
///
/// # Errors
/// Returns the first difference or broken invariant, with the shortest history found that shows
/// one, or the reason why the generator of histories gave up.
pub fn compare(
    runs: u32,
    seed: u64,
    mutant: Option<provider::Mutant>,
) -> Result<ComparisonTotals, Box<Difference>> {
    let config = Config {
        cases: runs,
        failure_persistence: None,
        max_shrink_iters: 100,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let compared = std::cell::Cell::new(ComparisonTotals::default());
    let result = TestRunner::new_with_rng(config, rng).run(&histories(), |history| {
        let scenario = scenario(&history);
        let played = |mode, mutant| {
            let stage = Stage { mode: Mode::Supervisor(mode), seed, mutant, ..Stage::default() };
            let run = run(&scenario, &stage);
            (node_writes(&run), judge::all(&run))
        };
        let (v1, broken_by_v1) = played(InstancesMode::V1, None);
        let (v2, broken_by_v2) = played(InstancesMode::Auto, mutant);
        differs(&v1, &v2).map_err(TestCaseError::fail)?;
        // v1 and V2 may be wrong in the same way, so each must also keep the invariants.
        for (name, broken) in [("v1", broken_by_v1), ("auto", broken_by_v2)] {
            if let Some(violation) = broken.first() {
                return Err(TestCaseError::fail(format!("mode {name} breaks {violation}")));
            }
        }
        let mut so_far = compared.get();
        so_far.histories += 1;
        so_far.nodes += v1.end.len() as u64;
        so_far.values += v1.written.len() as u64;
        so_far.calls = (so_far.calls.0 + v1.calls, so_far.calls.1 + v2.calls);
        compared.set(so_far);
        Ok(())
    });
    match result {
        Ok(()) => Ok(compared.get()),
        Err(TestError::Fail(why, history)) => Err(Box::new(Difference {
            what: why.message().to_owned(),
            scenario: scenario(&history),
        })),
        Err(TestError::Abort(why)) => Err(Box::new(Difference {
            what: why.message().to_owned(),
            scenario: scenario(&Vec::new()),
        })),
    }
}

fn differs(v1: &NodeWrites, v2: &NodeWrites) -> Result<(), String> {
    let (first, second): (Vec<_>, Vec<_>) = (v1.end.keys().collect(), v2.end.keys().collect());
    if first != second {
        return Err(format!(
            "the nodes at the end differ: mode v1 has {first:?}, mode auto has {second:?}"
        ));
    }
    for (name, node) in &v1.end {
        if v2.end[name] != *node {
            return Err(format!(
                "node {name} differs at the end: v1 {node}\nauto {}",
                v2.end[name]
            ));
        }
    }
    match v1.written.difference(&v2.written).next() {
        None => Ok(()),
        Some((name, field, value)) => {
            Err(format!("mode v1 wrote {field} of node {name} as {value}, but mode auto never did"))
        }
    }
}
