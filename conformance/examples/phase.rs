//! One phase of the cost table, call by call.
#![expect(clippy::print_stdout, reason = "an example prints")]
use conformance::cost::PHASES;
use conformance::lab::{Stage, run};
fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let n = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    for phase in PHASES.iter().filter(|phase| phase.name == name) {
        let run = run(&(phase.scenario)(n), &Stage::default());
        for call in run.calls_in(phase.name) {
            println!("{call}   {}", call.req.detail.chars().take(80).collect::<String>());
        }
    }
}
