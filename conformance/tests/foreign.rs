//! A provider of any vendor under plain `cargo test`, one test per check:
//!
//! ```console
//! $ PROVIDER=mine.yaml cargo test -p conformance --test foreign -- NODE-ID
//! ```
//!
//! `PROVIDER` is a `kind: Provider` manifest or the name of a built-in one, `PROVIDER_BINARY` the program where that says
//! `$(binary)`. Checks that need virtual time are ignored. Without `PROVIDER` there is nothing to test.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conformance::checks;
use conformance::foreign::command::{self, Surroundings};
use conformance::foreign::{Settings, Subject};
use conformance::lab::Stage;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio_util::sync::CancellationToken;

fn main() -> anyhow::Result<()> {
    let mut arguments = Arguments::from_args();
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let Some(provider) = variable("PROVIDER") else {
        let usage = "PROVIDER=mine.yaml cargo test -p conformance --test foreign";
        return Ok(writeln!(std::io::stdout(), "nothing to test: {usage}")?);
    };
    let binary = variable("PROVIDER_BINARY");
    #[expect(clippy::disallowed_methods, reason = "the wall time at which the tests begin")]
    let now = jiff::Timestamp::now();
    let program = std::env::current_exe()?;
    let surroundings = Surroundings {
        now,
        variables: std::env::vars().collect(),
        // Tests lie one folder below the programs.
        beside: program.ancestors().nth(2).map(Path::to_owned),
        launcher: env!("CARGO_BIN_EXE_conformance").into(),
        temporary: std::env::temp_dir(),
    };
    let setup =
        Arc::new(command::setup(&provider, binary.as_deref().map(Path::new), &surroundings)?);
    let jobs = arguments.test_threads.unwrap_or(4);
    arguments.test_threads = Some(jobs);
    let settings = Settings {
        seed: 0,
        jobs,
        compress: 10,
        longest: Duration::from_secs(120),
        retries: 1,
        now,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let subject = Arc::new(Subject::new(Arc::clone(&setup), settings));
    let handle = runtime.handle().clone();
    let trials = checks::all(setup.manifest.spec.mode).into_iter().map(|check| {
        let (subject, handle) = (Arc::clone(&subject), handle.clone());
        let (id, plays) = (check.id, subject.plays(&check));
        let test = move || {
            let never = CancellationToken::new();
            let judged = subject.judge(vec![check], &never, |_| Ok(()));
            let conclusions =
                handle.block_on(judged).map_err(|it| Failed::from(format!("{it:#}")))?;
            let bad = conclusions.iter().filter(|it| it.verdict.is_run());
            match bad.filter_map(|it| it.evidence(&Stage::default())).next() {
                None => Ok(()),
                Some(evidence) => Err(Failed::from(evidence)),
            }
        };
        Trial::test(id, test).with_ignored_flag(!plays)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(subject);
    setup.tasks.close();
    runtime.block_on(setup.tasks.wait());
    // What cannot be removed is no failure of a provider.
    let _ = std::fs::remove_dir_all(&setup.scratch);
    conclusion.exit()
}
