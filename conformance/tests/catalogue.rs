//! Runs the catalogue under plain `cargo test`, with one test per check and backend: `cargo test
//! --test catalogue -- NODE-DEL`.

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
                let conclusion = Conclusion::run(&check, &stage, Default::default);
                match conclusion.evidence(&stage) {
                    None => Ok(()),
                    Some(evidence) => Err(Failed::from(evidence)),
                }
            })
            .with_kind(backend.as_str())
        })
    });
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit();
}
