//! The catalogue under plain `cargo test`: one test per check, `cargo test --test catalogue -- NODE-DEL`.

use conformance::lab::Stage;
use conformance::suite::Conclusion;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = conformance::checks::all()
        .into_iter()
        .map(|check| {
            Trial::test(check.id, move || {
                let stage = Stage::default();
                let conclusion = Conclusion::reach(&check, &stage, &mut Default::default);
                match conclusion.evidence(&stage) {
                    None => Ok(()),
                    Some(evidence) => Err(Failed::from(evidence)),
                }
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
