//! Tests call reports against known facts about providers, in virtual time, where the numbers are
//! exact.

use std::collections::BTreeMap;

use conformance::cost::CountedMode;
use conformance::cost::calls::{CallReport, Need, Part, Trigger, life};
use conformance::lab::{Stage, run};
use conformance::scenario::Backend;

/// Returns the call report of our provider in this mode, with fleets of 8 and 16 nodes.
fn bill(subject: CountedMode) -> CallReport {
    let stage = subject.stage(&Stage::default());
    let runs = [8, 16].map(|n| (n, run(&life(n, subject.backend()), &stage)));
    let parts = runs.each_ref().map(|(n, run)| Part { nodes: Some(*n), records: &run.ledger });
    CallReport::of_phases(subject.title(), 300, &parts)
}

/// Returns the number of calls to the backend for this trigger, by need and fleet size.
fn calls(bill: &CallReport, trigger: Trigger, backend: Backend) -> BTreeMap<(Need, u32), u64> {
    let mut calls = BTreeMap::new();
    let about =
        |it: &&conformance::cost::calls::Item| it.trigger == trigger && it.server == backend.name();
    for item in bill.items.iter().filter(about) {
        for (n, count) in item.calls.iter().filter(|(_, count)| **count > 0) {
            *calls.entry((item.need, *n)).or_default() += count;
        }
    }
    calls
}

fn all(calls: &BTreeMap<(Need, u32), u64>, n: u32) -> u64 {
    calls.iter().filter(|((_, of), _)| *of == n).map(|(_, count)| count).sum()
}

use Need::{Needed, PerObject, Relogin, Reread};

/// Upstream, as the mode `v1` imitates it, makes three calls (lists and gets) per joining node, one
/// list per node and period, and two lists per monitor tick and NotReady node. The lists per period
/// and per tick return nothing new.
#[test]
fn upstream_makes_redundant_reads_from_a_supervisor_per_node_and_period() {
    let bill = bill(CountedMode::SupervisorV1);
    let of = |trigger| calls(&bill, trigger, Backend::Supervisor);
    let (join, start) = (of(Trigger::Join), of(Trigger::StartUp));
    for n in [8, 16] {
        assert_eq!(all(&join, n) + all(&start, n), u64::from(3 * n), "{join:?} {start:?}");
        assert_eq!(of(Trigger::StatusPeriod)[&(Reread, n)], u64::from(n));
        assert_eq!(of(Trigger::NotReady)[&(Reread, n)], 12 * 2 * 5);
    }
    let steady = bill.to_do().find(|it| it.trigger == Trigger::StatusPeriod).unwrap();
    assert_eq!(steady.operation, "list virtualmachines");
    assert_eq!((steady.each_time[&5000], steady.per_hour[&5000]), (5000, 60_000));
    assert!(join.contains_key(&(PerObject, 16)), "a get per node: {join:?}");
}

/// Upstream, as the mode `v1` imitates it, makes twenty calls per node and period, ten SOAP and ten
/// REST. Two of them open and close a vAPI session; the others return nothing new.
#[test]
fn upstream_logs_in_to_vcenter_per_node_and_reads_nothing_new() {
    let bill = bill(CountedMode::VcenterV1);
    let steady = calls(&bill, Trigger::StatusPeriod, Backend::VCenter);
    for n in [8, 16] {
        assert_eq!(all(&steady, n), u64::from(20 * n), "{steady:?}");
        // A vAPI login and logout per node; all other calls return nothing new.
        assert_eq!(steady[&(Relogin, n)], u64::from(2 * n), "{steady:?}");
        assert_eq!(steady[&(Reread, n)], u64::from(18 * n), "{steady:?}");
    }
    let change = calls(&bill, Trigger::Change, Backend::VCenter);
    assert!(all(&change, 16) > change[&(Reread, 16)] + change[&(Relogin, 16)], "{change:?}");
}

/// Our provider makes only needed calls to the backend when nodes join, in recurring phases, and
/// after the loss of its session or watch.
#[test]
fn our_provider_makes_no_redundant_call_in_recurring_phases() {
    for subject in [CountedMode::Vcenter, CountedMode::SupervisorWatch] {
        let bill = bill(subject);
        for trigger in [Trigger::Join, Trigger::StatusPeriod, Trigger::NotReady, Trigger::Reconnect]
        {
            let calls = calls(&bill, trigger, subject.backend());
            assert!(
                calls.keys().all(|(need, _)| *need == Needed),
                "{}: {trigger:?} {calls:?}",
                subject.title()
            );
        }
        assert!(bill.needed().next().is_some());
    }
}
