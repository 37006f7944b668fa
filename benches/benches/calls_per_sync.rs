//! Calls per node and sync: exact counts, compared with the committed budgets. No timing.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use conformance::cost;
use conformance::lab::Stage;

fn main() {
    let table = cost::measure(&Stage::default());
    println!("{}", table.text());
    let deviations = table.deviations();
    for deviation in &deviations {
        println!("{deviation}");
    }
    assert!(deviations.is_empty(), "the counts are not the committed ones");
}
