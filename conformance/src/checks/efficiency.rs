//! EFF and CCM-020: number of calls and bytes that a provider needs, above all while nothing
//! changes, and the maximum rate of its requests to the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::Command;
use sim::world::objects::{self, Key};
use sim::{Class, Face};

use super::build::{
    KNOWN_UUID, SETTLED, T_INIT, T_STATUS, WRITE_NODE, create_machine_of_early, create_node_early,
    machine, patch, s, set_address, world, world_with,
};
use super::canary::Canary;
use super::nodes::addresses;
use super::queries::{name, names};
use super::{Case, Check};
use crate::catalogue;
use crate::checks::lifecycle::required_deletions;
use crate::judge::verdict::{AboutMoment as _, Verdict};
use crate::lab::Run;
use crate::scenario::{Act, Backend};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("EFF-001", [10, 100, 1000].map(|n| slope(backend, n))),
        Check::new("EFF-002", [intercept(backend)]),
        Check::new("EFF-003", [10, 100].map(|n| bytes(backend, n))),
        Check::new("EFF-004", [no_writes(), no_refusals(), late_watch()]),
        Check::new("EFF-005", polling(backend)),
        Check::new("EFF-007", [known_nodes(backend)]),
        Check::new("EFF-009", [required_deletions::cheap_deletion(backend)]),
        Check::new("EFF-011", [left_alone(backend)]),
        Check::new("EFF-012", [burst(backend)]),
        Check::new("CCM-020", [rate()]),
    ]
}

/// Returns a time by which the provider has initialized all `n` nodes of a world.
fn settled(n: u32) -> Duration {
    SETTLED + s(u64::from(n) * 3 / 20)
}

/// Creates a case in which nothing changes for three address periods, the phase `steady`. Then the
/// machine of the last node is deleted as a canary.
fn steady(n: u32, judge: impl Fn(&Run) -> Verdict + Send + Sync + 'static) -> Case {
    quiet(n, T_STATUS * 3, judge)
}

/// Creates the case of [`steady`] with a phase that lasts for `lasts` instead of three address
/// periods.
fn quiet(n: u32, lasts: Duration, judge: impl Fn(&Run) -> Verdict + Send + Sync + 'static) -> Case {
    let end = settled(n) + lasts;
    let scenario = world(n, end)
        .at(settled(n), Act::Phase("steady".into()))
        .at(end, Act::Phase("after".into()));
    let judge = move |run: &Run| run.initializes(&names(n), s(0), settled(n)).and(|| judge(run));
    Case::new(scenario, judge).canary(Canary::Gone(n), end)
}

/// Returns the maximum number of calls that a check permits with this backend, from the catalogue;
/// 0 for an unknown ID. Panics if the check has no number for the backend.
fn allowed(id: &str, backend: Backend) -> u64 {
    catalogue::entry(id).map_or(0, |entry| entry.allowed(backend))
}

/// Creates a case in which two hundred nodes join at once, while each controller may send only five
/// requests per second to the cluster. In any ten seconds the provider may send at most 150
/// requests, three times this rate; watches do not count.
fn rate() -> Case {
    const QPS: u32 = 5;
    const WINDOW: Duration = s(10);
    let scenario = world(200, s(300)).with_provider(|it| it.kube_qps = QPS);
    Case::new(scenario, |run| {
        let moments: Vec<Duration> = run
            .calls()
            .filter(|call| call.is_cluster_call() && !call.op.starts_with("watch"))
            .map(|call| call.t.since_start())
            .collect();
        let within = |from: Duration| {
            let end = moments.partition_point(|at| *at < from + WINDOW);
            end - moments.partition_point(|at| *at < from)
        };
        let most = moments.iter().map(|from| within(*from)).max().unwrap_or_default();
        let allowed = 3 * QPS as usize * WINDOW.as_secs() as usize;
        Verdict::pass_if(most <= allowed, || {
            format!(
                "the provider sent {most} requests to the cluster within ten seconds; at most \
                 {allowed} are allowed"
            )
        })
        .and(|| run.initializes(&names(200), s(0), s(200)))
    })
}

/// Creates a case in which a person deletes ten of twenty Nodes. Their machines stay and change an
/// address once a minute. vCenter must report none of these changes to the provider, and with
/// either backend the provider may make only as many reads as the catalogue allows.
fn left_alone(backend: Backend) -> Case {
    let begin = SETTLED + s(160);
    let mut scenario = world(20, begin).at(begin, Act::Phase("steady".into()));
    for n in 1..=10 {
        let removed = SETTLED + s(u64::from(n) * 10);
        scenario = scenario
            .at(removed - s(1), Command::StopKubelet(machine(n)))
            .at(removed, Command::Cluster(objects::Command::delete(Key::node(name(n)))));
        for minute in 1..=10 {
            let address = format!("10.9.{n}.{minute}");
            scenario = scenario.at(begin + s(60 * minute), set_address(n, &[&address]));
        }
    }
    let end = begin + s(660);
    let scenario = scenario.at(end, Act::Phase("after".into()));
    let case = Case::new(scenario, move |run| {
        let of_machines = || run.calls_in("steady").filter(|call| backend.receives(call));
        // Counts objects only for vCenter, because a Supervisor's watch reports every machine of
        // the namespace to every client.
        let told: u64 = match backend {
            Backend::VCenter => {
                let ended = of_machines().filter_map(|call| call.ended.as_ref());
                ended.filter(|it| it.at.since_start() < end).map(|it| it.objects).sum()
            }
            Backend::Supervisor => 0,
        };
        let reads = of_machines().filter(|call| !run.backend().is_wait(call)).count() as u64;
        let allowed = allowed("EFF-011", backend);
        Verdict::pass_if(told == 0 && reads <= allowed, || {
            format!(
                "the provider made {reads} reads (at most {allowed} are allowed), and its watches \
                 reported {told} objects (0 are allowed), although only machines without a Node \
                 changed"
            )
        })
        .and(|| run.initializes(&names(20), s(0), SETTLED))
    });
    case.canary(Canary::Gone(20), end + s(1))
}

/// Creates a case in which 1,100 machines change address at the same time, more than vCenter
/// reports in one answer. The provider must write all addresses by the limit of
/// [`addresses::all_shown`], and may make only as many calls to the backend as the catalogue
/// allows.
fn burst(backend: Backend) -> Case {
    let (scenario, begin) = addresses::many_changes();
    let end = begin + s(60);
    let scenario =
        scenario.at(begin - s(1), Act::Phase("burst".into())).at(end, Act::Phase("after".into()));
    Case::new(scenario, move |run| {
        let calls = run.calls_in("burst").filter(|call| backend.receives(call)).count() as u64;
        let allowed = allowed("EFF-012", backend);
        Verdict::pass_if(calls <= allowed, || {
            let n = addresses::MANY;
            format!(
                "the provider made {calls} calls for {n} changed machines; at most {allowed} are \
                 allowed"
            )
        })
        .and(|| addresses::all_shown(run, begin))
    })
}

fn slope(backend: Backend, n: u32) -> Case {
    steady(n, move |run| {
        let calls = run.calls_in("steady").filter(|call| backend.receives(call)).count();
        // `budgets.yaml` contains the exact counts of our provider.
        let allowed = allowed("EFF-001", backend);
        Verdict::pass_if(calls as u64 <= allowed, || {
            format!(
                "the provider made {calls} calls in three steady address periods with {n} nodes; \
                 at most {allowed} are allowed"
            )
        })
    })
    .named(format!("{n} nodes"))
}

fn intercept(backend: Backend) -> Case {
    steady(10, move |run| {
        let mut by_operation: BTreeMap<&str, usize> = BTreeMap::new();
        for call in run.calls_in("steady").filter(|call| backend.receives(call)) {
            *by_operation.entry(call.op.as_str()).or_default() += 1;
        }
        let total: usize = by_operation.values().sum();
        let allowed = allowed("EFF-002", backend);
        Verdict::pass_if(total as u64 <= allowed, || {
            format!(
                "the provider made {total} calls in three steady address periods; at most \
                 {allowed} are allowed; calls by operation: {by_operation:?}"
            )
        })
    })
}

/// Maximum number of bytes to and from the backend in three steady address periods, for any number
/// of nodes: the size of fifteen long polls with their answers. Three watches with their bookmarks
/// are smaller.
const STEADY_BYTES: u64 = 60_000;

fn bytes(backend: Backend, n: u32) -> Case {
    steady(n, move |run| {
        let bytes: u64 = run
            .calls_in("steady")
            .filter(|call| backend.receives(call))
            .map(|call| call.req.bytes + call.ended.as_ref().map_or(0, |ended| ended.bytes))
            .sum();
        Verdict::pass_if(bytes <= STEADY_BYTES, || {
            format!(
                "the provider caused {bytes} bytes of traffic in three steady address periods \
                 with {n} nodes; at most {STEADY_BYTES} are allowed"
            )
        })
    })
    .named(format!("{n} nodes"))
}

fn no_writes() -> Case {
    steady(30, |run| {
        let writes: Vec<String> = run
            .calls_in("steady")
            .filter(|call| call.is_cluster_call() && call.class == Some(Class::Write))
            .filter(|call| !call.op.contains("leases"))
            .map(ToString::to_string)
            .collect();
        Verdict::pass_if(writes.is_empty(), || {
            format!(
                "the provider made {} writes to the cluster although nothing changed: {}",
                writes.len(),
                writes.join("; ")
            )
        })
    })
}

/// Creates a case in which nothing changes and neither of two replicas may send a request that the
/// cluster refuses, such as an update of an outdated lease.
fn no_refusals() -> Case {
    let end = SETTLED + T_STATUS;
    let scenario = world(3, end + s(1))
        .with_provider(|it| it.replicas = 2)
        .at(SETTLED, Act::Phase("steady".into()))
        .at(end, Act::Phase("after".into()));
    Case::new(scenario, |run| {
        let status = |call: &Record| call.ended.as_ref().and_then(|ended| ended.status);
        let of_cluster = || run.calls_in("steady").filter(|call| call.is_cluster_call());
        let refused: Vec<String> = of_cluster()
            .filter(|call| status(call).is_some_and(|status| status >= 400))
            .map(ToString::to_string)
            .collect();
        let renewals = of_cluster().filter(|call| call.op.contains("leases")).count();
        run.initializes(&names(3), s(0), SETTLED)
            .and(|| {
                Verdict::pass_if(renewals > 0, || {
                    "the replicas did not call the cluster about a lease".to_owned()
                })
            })
            .and(|| {
                Verdict::pass_if(refused.is_empty(), || {
                    format!(
                        "the cluster refused {} calls; the first is: {}",
                        refused.len(),
                        refused[0]
                    )
                })
            })
    })
    .named("two replicas")
}

/// Creates a case in which the watch of Nodes delivers each event ten seconds late. A person adds a
/// label five seconds after the Node registers, so the provider receives this change after it has
/// initialized the Node. An event that is older than the provider's own write must not cause
/// another write.
fn late_watch() -> Case {
    let late = Rule::new("late", [Action::WatchDelay(s(10))]).on(Face::Cluster);
    let label = serde_json::json!({"metadata": {"labels": {"example.com/added": "meanwhile"}}});
    let registers = s(40);
    let scenario = world(2, s(120))
        .fault(late.op(["watch nodes"]))
        .at(s(0), create_machine_of_early(KNOWN_UUID))
        .at(registers, create_node_early(KNOWN_UUID))
        .at(registers + s(5), patch("early", label));
    Case::new(scenario, move |run| {
        let early = ["early".to_owned()];
        let Some(done) = run.initialized("early").filter(|at| at.since_start() < s(60)) else {
            return run.initializes(&early, registers, s(20));
        };
        let again = run.writes_on("early").find(|call| {
            let done = done.since_start();
            WRITE_NODE.contains(&call.op.as_str())
                && call.t.since_start() > done
                && call.t.since_start() <= done + s(30)
        });
        Verdict::pass_if(again.is_none(), || {
            let call = again.map(ToString::to_string).unwrap_or_default();
            format!("the provider initialized the Node at {done} and then wrote it again: {call}")
                .at(done)
        })
    })
    .named("the watch is late")
}

fn polling(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![no_polling()],
        Backend::Supervisor => vec![no_polling(), shared_lists(), other_machines()],
    }
}

/// Creates a case in which the provider may not watch machines. All lookups within five seconds
/// must then share one list.
fn shared_lists() -> Case {
    let status = Action::status(403);
    let forbidden =
        Rule::new("forbidden", [status]).on(Face::Supervisor).op(["watch virtualmachines"]);
    let (n, silent) = (30, 8);
    let mut scenario = world(n, s(700)).fault(forbidden);
    for n in 1..=silent {
        scenario = scenario.at(SETTLED, Command::StopKubelet(machine(n)));
    }
    let (begin, end) = (s(300), s(600));
    let scenario = scenario.at(begin, Act::Phase("asked".into())).at(end, Act::Phase("".into()));
    let case = Case::new(scenario, move |run| {
        let calls = run.calls_in("asked").filter(|call| Backend::Supervisor.receives(call)).count();
        let allowed = (end - begin).as_secs() / 5 + 1;
        run.was_not_ready(&super::queries::name(silent)).and(|| {
            Verdict::pass_if(calls as u64 <= allowed, || {
                format!(
                    "the provider made {calls} calls in five minutes; at most {allowed} are \
                     allowed, one list per 5 s"
                )
            })
        })
    });
    case.canary(Canary::Gone(n), end).named("where watching is forbidden")
}

/// Creates a case in which half of two thousand machines are nodes of the cluster. The steady phase
/// lasts ten address periods, which are 600 monitor periods. In this phase the provider may only
/// list the machines, with at most eight calls.
fn other_machines() -> Case {
    let n = 1000;
    let begin = settled(n);
    let end = begin + T_STATUS * 10;
    let scenario = world_with(n, 2 * n, end)
        .at(s(0), Command::SetHeartbeats { every: None })
        .at(begin, Act::Phase("steady".into()))
        .at(end, Act::Phase("after".into()));
    let case = Case::new(scenario, move |run| {
        let reads: Vec<_> = run
            .calls_in("steady")
            .filter(|call| run.backend().receives(call) && !run.backend().is_wait(call))
            .collect();
        // Allows one or two complete lists in pages of 500: the provider lists all machines again
        // every half hour, in case it missed an event.
        let relists = reads.iter().filter(|call| call.op == "list virtualmachines").count();
        run.initializes(&names(n), s(0), begin).and(|| {
            let allowed = reads.len() == relists && relists <= 2 * 4;
            Verdict::pass_if(allowed, || {
                format!(
                    "the provider made {} reads, {relists} of them lists; only lists are allowed, \
                     at most 8",
                    reads.len()
                )
            })
        })
    });
    case.canary(Canary::Gone(n), end).named("1,000 nodes among 2,000 machines")
}

fn no_polling() -> Case {
    quiet(10, s(3600), |run| {
        // Allows two lists: the provider lists a Supervisor's machines again every 24 to 36
        // minutes, in case it missed an event.
        let lists = run.calls_in("steady").filter(|call| call.op == RELIST).count();
        if lists > 2 {
            return Verdict::fail(format!(
                "the provider listed machines {lists} times in a steady hour; at most 2 are allowed"
            ));
        }
        let seen: Vec<String> = run
            .calls_in("steady")
            .filter(|call| {
                call.op.starts_with("Find")
                    || call.op.starts_with("RetrieveProperties")
                    || (call.op.starts_with("list ") && call.op != RELIST)
                    || call.op == "get nodes"
                    || call.op == "get virtualmachines"
            })
            .map(ToString::to_string)
            .collect();
        Verdict::pass_if(seen.is_empty(), || {
            format!(
                "the provider made {} reads in a steady hour, 0 are allowed: {}",
                seen.len(),
                seen.join("; ")
            )
        })
    })
}

/// Operation of the periodic list in Supervisor mode.
const RELIST: &str = "list virtualmachines";

fn known_nodes(backend: Backend) -> Case {
    let n = 100;
    let allowed = allowed("EFF-007", backend);
    let scenario = world(n, s(400))
        .at(s(120), Act::Crash(0))
        .at(s(121), Act::Phase("again".into()))
        .at(s(121), Act::Start(0))
        .at(s(400), Act::Phase("after".into()));
    let judge = move |run: &Run| {
        let calls = run.calls_in("again").filter(|call| backend.receives(call)).count();
        let writes = run
            .calls_in("again")
            .filter(|call| call.is_cluster_call() && call.class == Some(Class::Write))
            .count();
        run.initializes(&names(n), s(0), T_INIT + s(15))
            .and(|| {
                Verdict::pass_if(calls as u64 <= allowed, || {
                    format!(
                        "the provider made {calls} calls after a restart with 100 initialized \
                         nodes; at most {allowed} are allowed"
                    )
                })
            })
            .and(|| Verdict::pass_if(writes == 0, || format!(
                "the provider made {writes} writes after a restart with 100 initialized nodes; 0 \
                 are allowed"
            )))
    };
    Case::new(scenario, judge).canary(Canary::Gone(n), s(400))
}
