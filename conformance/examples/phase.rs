//! Prints the calls of one phase of a cost table: `phase vcenter-v1 join 10`. The arguments are the
//! word of a [`CountedMode`], the name of a phase, and the number of nodes (default 10).
#![expect(clippy::print_stdout, reason = "an example prints")]
use conformance::cost::CountedMode;
use conformance::lab::{Stage, run};
fn main() {
    let mut arguments = std::env::args().skip(1);
    let subject = arguments.next().unwrap_or_default();
    let name = arguments.next().unwrap_or_default();
    let n = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let is_meant = |it: &CountedMode| serde_json::to_value(it).is_ok_and(|word| word == *subject);
    for subject in CountedMode::ALL.into_iter().filter(is_meant) {
        for phase in subject.phases().iter().filter(|phase| phase.name == name) {
            let run = run(&(phase.scenario)(n), &subject.stage(&Stage::default()));
            for call in run.calls_in(phase.name) {
                println!("{call}   {}", call.req.detail.chars().take(80).collect::<String>());
            }
        }
    }
}
