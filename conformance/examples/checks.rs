//! run all
#![allow(clippy::disallowed_methods, clippy::print_stdout)]
use conformance::lab::Stage;
fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let verbose = std::env::args().nth(2).is_some();
    let t0 = std::time::Instant::now();
    let (mut n, mut bad) = (0, 0);
    for check in conformance::checks::all() {
        if !check.id.starts_with(&filter) {
            continue;
        }
        for case in &check.cases {
            let t = std::time::Instant::now();
            let out = case.run(&Stage::default());
            n += 1;
            if out.verdict.reason().is_some() {
                bad += 1;
                println!("{} [{}] {} ({:?})", check.id, case.name, out.verdict, t.elapsed());
                if verbose {
                    for r in &out.run.ledger {
                        println!("{r}   {}", r.req.detail);
                    }
                    println!("{}", out.run.logs);
                }
            }
        }
    }
    println!("{n} cases, {bad} not passed, {:?}", t0.elapsed());
}
