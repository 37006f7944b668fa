//! Runs the catalogue under plain `cargo test`, with one test per check and mode: `cargo test --test
//! catalogue -- NODE-DEL`.

use conformance::lab::Stage;
use conformance::scenario::Backend;
use conformance::suite::Conclusion;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = Backend::ALL.into_iter().flat_map(|backend| {
        conformance::checks::all(backend).into_iter().map(move |check| {
            Trial::test(check.id.as_str(), move || {
                let stage = Stage { mode: backend.into(), ..Stage::default() };
                judged(&Conclusion::run(&check, &stage, Default::default))
            })
            .with_kind(backend.as_str())
        })
    });
    let servers = conformance::checks::autoscaler::all().into_iter().map(|check| {
        let id = check.id.as_str();
        Trial::test(id, move || judged(&Conclusion::of_our_server(&check, 0, Default::default)))
            .with_kind("autoscaler")
    });
    let reconcilers = conformance::checks::capacity::all().into_iter().map(|check| {
        let id = check.id.as_str();
        Trial::test(id, move || judged(&Conclusion::of_our_reconciler(&check, 0, Default::default)))
            .with_kind("capacity")
    });
    let trials = trials.chain(servers).chain(reconcilers).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn judged(conclusion: &Conclusion) -> Result<(), Failed> {
    match conclusion.evidence(&Stage::default()) {
        None => Ok(()),
        Some(evidence) => Err(Failed::from(evidence)),
    }
}
