//! Measures the wall time that a day of virtual time takes, with a provider, a sim and 200 nodes,
//! with and without kubelet heartbeats.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "the bench measures wall time")]

use std::time::{Duration, Instant};

use benches::DAY;
use conformance::lab::{Stage, run};
use conformance::scenario::Scenario;
use sim::world::{Command, Topology};

fn main() {
    let stage = Stage { light: true, ..Stage::default() };
    for (name, every) in [("off", None), ("on", Some(Duration::from_secs(10)))] {
        let scenario = Scenario::new("day", Topology::zones(3).machines(200), DAY)
            .at(Duration::ZERO, Command::SetHeartbeats { every });
        let begin = Instant::now();
        let run = run(&scenario, &stage);
        let took = begin.elapsed();
        let calls = run.calls().filter(|call| call.is_vcenter_call()).count();
        println!(
            "24 h, 200 nodes, heartbeats {name}: {took:.2?} of wall time, {calls} vCenter calls"
        );
    }
}
