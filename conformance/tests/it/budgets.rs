//! Compares the number of calls per phase with the committed numbers.

use conformance::cost::{self, CountedMode, Fleet};
use conformance::lab::Stage;

#[test]
fn calls_per_phase_are_the_committed_ones() {
    // `conformance run` also counts larger fleets, in a release build.
    for subject in CountedMode::ALL {
        let sizes = &subject.sizes()[..2];
        let table = cost::measure_sizes(&Stage::default(), subject, sizes);
        assert_eq!(table.deviations(), Vec::<String>::new());
    }
}

#[test]
fn calls_of_the_autoscalers_server_are_the_committed_ones() {
    // `conformance cost` also counts a group of 10,000 machines, in a release build.
    let counted = cost::measure_server(&Fleet::SMALL).unwrap();
    assert_eq!(counted.deviations(&Fleet::SMALL), Vec::<String>::new());
}

#[test]
fn counts_do_not_depend_on_the_seed() {
    for subject in CountedMode::ALL {
        let count = |seed| {
            let stage = Stage { seed, ..Stage::default() };
            let table = cost::measure_sizes(&stage, subject, &[10]);
            table.rows.into_iter().map(|row| (row.phase, row.calls)).collect::<Vec<_>>()
        };
        assert_eq!(count(1), count(2), "{}", subject.title());
    }
}

/// In an inventory of ten thousand machines, ten joining nodes cost at most two calls each, besides
/// at most 20 other calls. So the provider does not read all machines page by page.
#[test]
fn few_joins_in_a_large_inventory_cost_two_calls_each() {
    use conformance::lab::run;
    use conformance::scenario::Scenario;
    use sim::world::{Nodes, Topology};

    let topology = Topology::zones(3).machines(10_000).nodes(Nodes::Count(10));
    let scenario = Scenario::new("join", topology, std::time::Duration::from_secs(60));
    let run = run(&scenario, &Stage { light: true, ..Stage::default() });
    let calls = run.calls().filter(|call| call.is_vcenter_call()).count();
    let open = run.end.kubelets.keys().filter(|name| {
        let node = run.end.cluster.get(&sim::world::objects::Key::node(name.as_str()));
        node.is_some_and(|node| !conformance::judge::facts(node).uninitialized)
    });
    assert_eq!(open.count(), 10, "not all nodes joined");
    assert!(calls <= 20 + 2 * 10, "{calls} calls");
}
