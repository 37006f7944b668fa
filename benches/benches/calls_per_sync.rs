//! Counts the provider's calls exactly, per backend, instances mode, phase and number of nodes, and
//! compares the counts with the committed budgets. Measures no times.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::num::NonZeroUsize;

use conformance::cost;
use conformance::lab::Stage;
use conformance::scenario::Backend;

fn main() {
    let tables = cost::measure(&Stage::default(), &Backend::ALL, NonZeroUsize::MIN);
    for table in &tables {
        println!("{}", table.text());
    }
    let deviations: Vec<String> = tables.iter().flat_map(cost::Table::deviations).collect();
    for deviation in &deviations {
        println!("{deviation}");
    }
    assert!(deviations.is_empty(), "the counts above differ from the committed budgets");
}
