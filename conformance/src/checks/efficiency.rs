//! EFF: what a steady provider costs.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::Class;

use super::build::{SETTLED, T_INIT, T_STATUS, s, world};
use super::observe::names;
use super::{Case, Check};
use crate::lab::Run;
use crate::scenario::Act;
use crate::verdict::Verdict;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("EFF-001", [10, 100, 1000].map(slope)),
        Check::new("EFF-002", [intercept()]),
        Check::new("EFF-003", [10, 100].map(bytes)),
        Check::new("EFF-004", [no_writes()]),
        Check::new("EFF-005", [no_polling()]),
        Check::new("EFF-007", [known_nodes()]),
    ]
}

/// When every node of such a world has long been initialized.
fn settled(n: u32) -> Duration {
    SETTLED + s(u64::from(n) * 3 / 20)
}

fn steady_world(n: u32) -> crate::scenario::Scenario {
    world(n, settled(n) + T_STATUS * 3).at(settled(n), Act::Phase("steady".into()))
}

fn slope(n: u32) -> Case {
    Case::new(steady_world(n), move |run| {
        let calls = run.calls_in("steady").filter(|call| call.is_vcenter_call()).count();
        // One call per 30 s and vCenter, whatever the number of nodes.
        let allowed = (T_STATUS * 3).as_secs() / 30;
        run.initializes(&names(n), s(0), settled(n)).and(|| {
            Verdict::of(calls as u64 <= allowed, || {
                format!("{calls} calls in three periods with {n} nodes; {allowed} are allowed")
            })
        })
    })
    .named(format!("{n} nodes"))
}

fn intercept() -> Case {
    Case::new(steady_world(10), |run| {
        let mut by_operation: BTreeMap<&str, usize> = BTreeMap::new();
        for call in run.calls_in("steady").filter(|call| call.is_vcenter_call()) {
            *by_operation.entry(call.op.as_str()).or_default() += 1;
        }
        let total: usize = by_operation.values().sum();
        Verdict::of(total <= 15, || format!("{total} calls in three periods: {by_operation:?}"))
    })
}

fn bytes(n: u32) -> Case {
    Case::new(steady_world(n), move |run| {
        let bytes: u64 = run
            .calls_in("steady")
            .filter(|call| call.is_vcenter_call())
            .map(|call| call.req.bytes + call.ended.as_ref().map_or(0, |ended| ended.bytes))
            .sum();
        Verdict::of(bytes <= 60_000, || format!("{bytes} bytes in three periods with {n} nodes"))
    })
    .named(format!("{n} nodes"))
}

fn no_writes() -> Case {
    Case::new(steady_world(30), |run| {
        let writes: Vec<String> = run
            .calls_in("steady")
            .filter(|call| call.is_cluster_call() && call.class == Some(Class::Write))
            .filter(|call| !call.op.contains("leases"))
            .map(ToString::to_string)
            .collect();
        Verdict::of(writes.is_empty(), || format!("{} writes: {}", writes.len(), writes.join("; ")))
    })
}

fn no_polling() -> Case {
    let scenario = world(10, SETTLED + s(3600)).at(SETTLED, Act::Phase("steady".into()));
    Case::new(scenario, |run| {
        let reads = |run: &Run| {
            run.calls_in("steady")
                .filter(|call| {
                    call.op.starts_with("Find")
                        || call.op.starts_with("RetrieveProperties")
                        || call.op.starts_with("list ")
                        || call.op == "get nodes"
                })
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let seen = reads(run);
        Verdict::of(seen.is_empty(), || {
            format!("{} reads in a steady hour: {}", seen.len(), seen.join("; "))
        })
    })
}

fn known_nodes() -> Case {
    let n = 100;
    let scenario = world(n, s(400))
        .at(s(120), Act::Crash(0))
        .at(s(121), Act::Phase("again".into()))
        .at(s(121), Act::Start(0));
    Case::new(scenario, move |run| {
        let calls = run.calls_in("again").filter(|call| call.is_vcenter_call()).count();
        let writes = run
            .calls_in("again")
            .filter(|call| call.is_cluster_call() && call.class == Some(Class::Write))
            .count();
        run.initializes(&names(n), s(0), T_INIT + s(15))
            .and(|| {
                Verdict::of(calls <= 20 + 2 + 10, || format!("{calls} calls for 100 known nodes"))
            })
            .and(|| Verdict::of(writes == 0, || format!("{writes} writes for 100 known nodes")))
    })
}
