//! Judges a reconciler of machine templates of any platform, as a process on the real clock.

mod check;
mod definition;
mod manifest;
mod process;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, sleep};

use super::command::{JudgeOptions, Surroundings, code};
use super::interruption::Interruptions;
use crate::checks::capacity::{CapacityCheck, Scope};
use crate::lab::Stage;
use crate::lab::capacity::{Configuration, Management, Reconciler as _, Subject};
use crate::scenario::InputError;
use crate::suite::capacity::result;
use crate::suite::report::{self, About};
use crate::suite::{Conclusion, Part};
use process::Program;

pub(super) use manifest::Manifest;

/// Number of lines of the log in the evidence of a check that did not pass.
const LINES: usize = 10;
const LOOK: Duration = Duration::from_millis(100);

/// Judges the reconciler of the manifest, prints the results, and writes the report if the request
/// names a folder. Returns the exit code.
///
/// # Errors
/// If the manifest or the definition is invalid, if a signal ends the run, or if the harness fails.
pub(super) fn run(
    out: &mut impl Write,
    request: &JudgeOptions<'_>,
    manifest: &Manifest,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    let Some(definition) = &request.arguments.template_crd else {
        let missing = InputError::new("--template-crd is missing").in_source(&*manifest.origin);
        return Err(missing.remedy("add --template-crd FILE, the kind of the templates").into());
    };
    let checks = request.filter.capacity_checks();
    if checks.is_empty() {
        let none = InputError::new("no check of reconcilers of templates matches");
        return Err(none.remedy("their IDs begin with CAPZ-").into());
    }
    let definition = definition::load(definition)?;
    let further = manifest.definitions()?;
    let kind = manifest.kind(&definition, &further)?;
    for file in further.iter().chain([&definition.file]).filter(|it| it.has_rules) {
        let (name, path) = (&manifest.name, &file.path);
        writeln!(out, "{name}: the x-kubernetes-validations of {path} are not checked")?;
    }
    let program = Arc::new(Program::new(manifest, surroundings)?);
    let subject = Subject {
        reconciler: Arc::clone(&program) as _,
        reader: None,
        kind,
        is_vsphere: false,
        pace: manifest.pace(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Interruptions::listen()?;
        let judged = judge_all(out, request, manifest, &subject, &program, &checks);
        tokio::select! {
            biased;
            signal = signals.next() => Err(signal.into()),
            code = judged => code,
        }
    })
}

async fn judge_all(
    out: &mut impl Write,
    request: &JudgeOptions<'_>,
    manifest: &Manifest,
    subject: &Subject,
    program: &Program,
    checks: &[CapacityCheck],
) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    if checks.iter().any(|it| it.scope == Scope::AnyKind) {
        try_start(manifest, subject, program, request.seed).await?;
    }
    let mut conclusions = Vec::new();
    for check in checks {
        let from = Instant::now();
        let (verdict, mut transcript, _) = check.play(subject, request.seed).await;
        transcript.push("the last lines of its log:".to_owned());
        transcript.extend(program.log(LINES).into_iter().map(|it| format!("  {it}")));
        let outcome = result(verdict, &transcript, from.elapsed());
        let mut conclusion = Conclusion::of_reconciler(check, outcome);
        let definition = request.arguments.template_crd.as_deref().unwrap_or_default();
        let (id, origin) = (check.id, &manifest.origin);
        conclusion.again =
            Some(format!("conformance run {id} --template-crd {definition} --provider {origin}"));
        write!(out, "{}", report::table(std::slice::from_ref(&conclusion), true))?;
        out.flush()?;
        conclusions.push(conclusion);
    }
    let stage = Stage { seed: request.seed, ..Stage::default() };
    for conclusion in conclusions.iter().filter(|it| it.verdict.is_run()) {
        if let Some(evidence) = conclusion.evidence(&stage) {
            writeln!(out, "\n{evidence}")?;
        }
    }
    if let Some(dir) = request.out {
        report::write(dir, &about(manifest, subject, request.seed), &stage, &conclusions, &[])?;
    }
    let tally = report::Tally::count(&conclusions);
    let took = report::seconds(begin.elapsed());
    writeln!(out, "{}: {tally}; {took} of wall time", manifest.name)?;
    Ok(ExitCode::from(code(&conclusions)))
}

/// Starts the program once, and waits for its first request, so that a wrong command is not judged.
///
/// # Errors
/// If the program ends, or sends no request.
async fn try_start(
    manifest: &Manifest,
    subject: &Subject,
    program: &Program,
    seed: u64,
) -> anyhow::Result<()> {
    let management = Management::new(&subject.kind, seed).await.map_err(|why| {
        InputError::new(format!("the sim cannot install the kinds: {why}"))
            .remedy("correct the definitions")
    })?;
    let wrong = |problem: &str, remedy: &str| {
        let (origin, key) = (&manifest.origin, "spec.run.process.command");
        let log: String = program.log(LINES).iter().map(|line| format!("\n  {line}")).collect();
        anyhow!("{origin}: {key}: {problem}{log}\nremedy: {remedy}")
    };
    let started = program.start(&management, &Configuration::Defaults).await;
    let mut running = started.map_err(|err| {
        wrong(&err.to_string(), "name a program that can be executed, by its path or in PATH")
    })?;
    let end = Instant::now() + subject.pace.within;
    while management.calls().is_empty() {
        if let Some(how) = running.end() {
            let problem = format!("the reconciler ended before its first request: {how}");
            return Err(wrong(&problem, "correct the program or its arguments"));
        }
        if Instant::now() >= end {
            let limit = subject.pace.within.as_secs();
            let problem = format!("the reconciler sent no request within {limit} s");
            return Err(wrong(
                &problem,
                "give the program $(kubeconfig), or write a longer spec.capacity.within",
            ));
        }
        sleep(LOOK).await;
    }
    running.stop().await;
    Ok(())
}

fn about(manifest: &Manifest, subject: &Subject, seed: u64) -> About {
    let provider = serde_json::json!({
        "name": manifest.name,
        "implementation": manifest.spec.implementation,
        "mode": Part::Capacity,
        "manifest": manifest.origin,
        "kind": subject.kind.kind,
        "command": manifest.spec.run.process.command,
    });
    About {
        seed,
        stage: "process, real clock".to_owned(),
        kube: report::FAKE.to_owned(),
        time: "real".to_owned(),
        provider: Some(provider),
    }
}
