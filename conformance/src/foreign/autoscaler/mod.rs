//! Judges a server for the Cluster Autoscaler at an address, on the real clock.

mod endpoint;
mod manifest;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use super::command::{JudgeOptions, code};
use crate::checks::autoscaler::AutoscalerCheck;
use crate::lab::Stage;
use crate::lab::autoscaler::{CallError, Credentials, Empty, Groups, Subject};
use crate::scenario::InputError;
use crate::suite::autoscaler::AutoscalerCase;
use crate::suite::report::{self, About};
use crate::suite::{Conclusion, Part};

pub(super) use manifest::Manifest;

/// Judges the server of the manifest, prints the results, and writes the report if the request
/// names a folder. Returns the exit code.
///
/// # Errors
/// If the manifest is invalid, or if the harness fails.
pub(super) fn run(
    out: &mut impl Write,
    request: &JudgeOptions<'_>,
    manifest: &Manifest,
) -> anyhow::Result<ExitCode> {
    let checks = request.filter.autoscaler_checks();
    if checks.is_empty() {
        let none = InputError::new("no check of servers for the autoscaler matches");
        return Err(none.remedy("their IDs begin with CA-").into());
    }
    let subject = endpoint::subject(manifest)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(reach(&subject, manifest))?;
    let begin = now();
    let mut conclusions = Vec::new();
    for check in &checks {
        let conclusion = runtime.block_on(judge(check, &subject, manifest));
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
        report::write(dir, &about(manifest, request.seed), &stage, &conclusions, &[])?;
    }
    let tally = report::Tally::count(&conclusions);
    let took = report::seconds(begin.elapsed());
    writeln!(out, "{}: {tally}; {took} of wall time", manifest.name)?;
    Ok(ExitCode::from(code(&conclusions)))
}

/// Connects to the server and calls `NodeGroups`, so that a wrong address is not judged.
///
/// # Errors
/// If the server does not answer, not even with an error.
async fn reach(subject: &Subject, manifest: &Manifest) -> Result<(), InputError> {
    let asked = async {
        let connection = subject.endpoint.connect(Credentials::Expected).await?;
        connection.channel.call::<Groups>("NodeGroups", &Empty {}, subject.deadline).await
    };
    let limit = 2 * subject.deadline;
    let late = |_| Err(CallError::late("the connection"));
    match tokio::time::timeout(limit, asked).await.unwrap_or_else(late) {
        Err(err) if !err.is_answer => {
            let problem =
                format!("does not answer as a server for the autoscaler: {}", err.message);
            let address = &manifest.spec.address;
            let wrong = InputError::invalid(address, problem).in_source(&*manifest.origin);
            let remedy = "start the server, or correct spec.address and spec.tls";
            Err(wrong.at_key("spec.address").remedy(remedy))
        }
        _ => Ok(()),
    }
}

async fn judge(check: &AutoscalerCheck, subject: &Subject, manifest: &Manifest) -> Conclusion {
    let mut outcomes = Vec::new();
    for case in AutoscalerCase::of(std::slice::from_ref(check)) {
        let begin = now();
        let (verdict, transcript) = check.play(subject, case.generation).await;
        outcomes.push(case.result(verdict, &transcript, begin.elapsed()));
    }
    let mut conclusion = Conclusion::of_server(check, outcomes);
    let again = format!("conformance run {} --provider {}", check.id, manifest.origin);
    conclusion.again = Some(again);
    conclusion
}

#[expect(clippy::disallowed_methods, reason = "the wall time of a run on the real clock")]
fn now() -> Instant {
    Instant::now()
}

fn about(manifest: &Manifest, seed: u64) -> About {
    let provider = serde_json::json!({
        "name": manifest.name,
        "implementation": manifest.spec.implementation,
        "mode": Part::Autoscaler,
        "manifest": manifest.origin,
        "address": manifest.spec.address,
    });
    About {
        seed,
        stage: format!("server at {}, real clock", manifest.spec.address),
        kube: "none".to_owned(),
        time: "real".to_owned(),
        provider: Some(provider),
    }
}
