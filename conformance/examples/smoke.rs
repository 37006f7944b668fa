//! smoke
use conformance::lab::{Stage, run};
use conformance::scenario::Scenario;
use sim::world::Topology;
use std::time::Duration;
fn main() {
    let n: u32 = std::env::args().nth(1).map(|a| a.parse().unwrap()).unwrap_or(3);
    let t = Topology::zones(3).machines(n);
    let s = Scenario::new("join", t, Duration::from_secs(120));
    #[allow(clippy::disallowed_methods)]
    let t0 = std::time::Instant::now();
    let r = run(&s, &Stage::default());
    eprintln!("{:?}", t0.elapsed());
    if n <= 5 {
        for rec in &r.ledger {
            println!("{rec}   {}", rec.req.detail);
        }
        println!("{}", r.logs);
        for (k, o) in [(
            "n",
            r.end.cluster.all(&sim::world::objects::GroupResource::core("nodes")).next().unwrap(),
        )] {
            println!("{k} {}", serde_json::to_string_pretty(&**o).unwrap());
        }
    }
    println!("{:?}", r.exits);
    println!("{}", r.ledger.iter().cloned().collect::<sim::ledger::Counts>());
    println!("{:?}", r.end.violations());
    println!("{:#?} {:#?}", conformance::judge::safety(&r), conformance::judge::liveness(&r));
}
