//! Plays the phases in virtual time: our provider runs in this process, with the same flags, fleet
//! and windows as in the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use sim::faults::Rule;
use sim_world::{Command, Completion, ControlPlane, Nodes, Step};

use super::plan::{AWAY, FIRST, MONITOR, Phase, Plan, QPS, REAL, SERVICE_START, WORKERS};
use crate::cost::CountedMode;
use crate::e2e::lab::simulator::addresses_of;
use crate::e2e::tally::Tally;
use crate::lab::{Stage, run};
use crate::scenario::{Act, Backend, Scenario};

/// Plays all phases in virtual time and returns the calls by phase.
pub(super) fn tallies(subject: CountedMode, plan: &Plan) -> BTreeMap<&'static str, Tally> {
    played(subject, plan, &Stage::default())
}

fn played(subject: CountedMode, plan: &Plan, stage: &Stage) -> BTreeMap<&'static str, Tally> {
    let scenario = scenario(subject.backend(), plan);
    let run = run(&scenario, &subject.stage(stage));
    let tally = |phase: Phase| {
        let calls = run.calls_in(phase.name());
        (phase.name(), Tally::of_records(calls, subject.backend()))
    };
    Phase::ALL.into_iter().map(tally).collect()
}

fn scenario(backend: Backend, plan: &Plan) -> Scenario {
    let mut topology = plan.topology();
    // Adds machines for the real nodes, which have the first numbers in virtual time. In a cluster
    // they have other names.
    topology.machines += REAL;
    topology.nodes = Nodes::Count(REAL);
    let fleet: Vec<String> =
        (REAL + 1..=topology.machines).map(|n| topology.machine_name(0, n)).collect();
    topology.timing.steps.insert(Step::ServiceStart, Completion::After(SERVICE_START));
    // The provider first runs for one period, in which it initializes the real nodes.
    let mut at = plan.period * 2;
    let mut scenario = Scenario::new("bench", topology, Duration::ZERO).with_provider(|it| {
        it.replicas = 2;
        it.status_period = plan.period;
        it.monitor_period = MONITOR;
        it.workers = WORKERS;
        it.kube_qps = QPS;
        it.secret = Some("vsphere-cloud-secret".to_owned());
    });
    scenario = scenario.at(Duration::ZERO, Command::SetHeartbeats { every: None });
    scenario = scenario.fault(latency());
    scenario = scenario.at(plan.period, Act::Stop(0)).at(plan.period, Act::Stop(1));
    for name in &fleet {
        scenario = scenario.at(plan.period, Command::StartKubelet(name.as_str().into()));
    }
    for phase in Phase::ALL {
        scenario = scenario.at(at, Act::Phase(phase.name().to_owned()));
        match phase {
            Phase::Join => scenario = scenario.at(at, Act::StartAll),
            Phase::Steady => {}
            Phase::Change => {
                for (name, (_, address)) in fleet.iter().zip(plan.changes()) {
                    let command = addresses_of(name, vec![address]);
                    scenario = scenario.at(at + FIRST, command);
                }
            }
            Phase::Restart => {
                for (after, command) in restart(backend) {
                    scenario = scenario.at(at + after, command);
                }
            }
            // Starts the killed replica again a second later, as a kubelet restarts a container
            // soon after its first exit.
            Phase::Failover => {
                scenario =
                    scenario.at(at + FIRST, Act::CrashLeader).at(at + FIRST * 2, Act::StartAll);
            }
        }
        let end = at + plan.length(phase);
        scenario = scenario.at(end, Act::Phase("between".to_owned()));
        // The next window begins a quarter of a period after a pass over the nodes.
        let period = plan.period;
        let whole = period * u32::try_from(end.as_nanos().div_ceil(period.as_nanos())).unwrap_or(0);
        at = whole + period / 4;
        scenario.horizon = end + FIRST;
    }
    scenario
}

/// Delays every answer by 2 ms, as any network does, so that the order of concurrent requests is
/// not arbitrary.
fn latency() -> Rule {
    let rule = json!({"id": "latency", "match": {"op": "*"}, "do": [{"delay": "2ms"}]});
    serde_json::from_value(rule).expect("the rule above is valid")
}

/// Returns the commands of the phase `restart`, each with its time in the phase: vCenter stops and
/// starts again, but a Supervisor only ends its watches.
pub(super) fn restart(backend: Backend) -> Vec<(Duration, Command)> {
    match backend {
        Backend::VCenter => vec![
            (FIRST, Command::StopVCenter { vcenter: None }),
            (FIRST + AWAY, Command::StartVCenter { vcenter: None }),
        ],
        // A Supervisor only ends its watches, as it does when its API server is replaced.
        Backend::Supervisor => {
            vec![(FIRST, Command::EndWatches { plane: ControlPlane::Supervisor })]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a cluster each provider draws its own pauses, so a count that depends on them cannot be
    /// compared.
    #[test]
    fn the_calls_of_a_phase_are_the_same_whatever_pauses_the_provider_draws() {
        let plan = Plan { nodes: 10, period: Duration::from_secs(20) };
        for subject in [CountedMode::Vcenter, CountedMode::SupervisorWatch] {
            let counts = |seed| {
                let tallies = played(subject, &plan, &Stage { seed, ..Stage::default() });
                tallies
                    .into_iter()
                    .map(|(phase, it)| (phase, (it.calls, it.cluster)))
                    .collect::<BTreeMap<_, _>>()
            };
            let wanted = counts(0);
            // Seed 56 draws long pauses.
            for seed in 40..60 {
                assert_eq!(counts(seed), wanted, "{subject:?}, seed {seed}");
            }
        }
    }
}
