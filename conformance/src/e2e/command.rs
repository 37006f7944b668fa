//! `conformance e2e`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use super::bench::{self, BenchOptions};
use super::lab::{Lab, Wanted, project};
use super::scenarios::{ALL, Scenario};
use crate::backend::Backend;
use crate::verdict::Verdict;

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Make a laboratory: a cluster of three nodes made by kind, a simulator with their machines, our provider.
    Up(Options),
    /// Play the scenarios in it.
    Run {
        /// Only these IDs, or beginnings of IDs.
        ids: Vec<String>,
        /// Which laboratory.
        #[command(flatten)]
        options: Options,
    },
    /// Count what providers cost there, and compare with virtual time; in a cluster of its own where there is none.
    Bench {
        /// What is counted.
        #[command(flatten)]
        bench: BenchOptions,
        /// Which laboratory.
        #[command(flatten)]
        options: Options,
    },
    /// End it: nothing is left.
    Down(Options),
    /// All of that, and the end also after a failure or Ctrl-C.
    All {
        /// Only these IDs, or beginnings of IDs.
        ids: Vec<String>,
        /// Which laboratory.
        #[command(flatten)]
        options: Options,
    },
}

/// Which laboratory, and what it is made of.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Its name; several live beside each other.
    #[arg(long, default_value = "vsphere-lab", value_parser = name)]
    name: String,
    /// The image of its nodes; without it the stock image where it can be pulled, else one made by kind/node-image.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Where its provider looks for machines: vcenter or supervisor. One that is there knows it.
    #[arg(long, default_value = "vcenter", value_parser = backend)]
    mode: Backend,
    /// Start dockerd where no engine answers (as root).
    #[arg(long)]
    start_engine: bool,
    /// A checkout of this project; the one around the working directory if left out.
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
}

/// What the machine tells.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The working directory.
    pub directory: PathBuf,
    /// `$XDG_CACHE_HOME/vsphere-lab`, or the same below `~/.cache`.
    pub cache: PathBuf,
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = (1..=40).contains(&text.len()) && text.chars().all(is_plain);
    if fits && text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.ends_with('-') {
        return Ok(text.to_owned());
    }
    Err("write 1 to 40 lower-case letters, digits and dashes, a letter first".to_owned())
}

fn backend(text: &str) -> Result<Backend, String> {
    let found = Backend::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| "there are vcenter and supervisor".to_owned())
}

impl Options {
    fn wanted(&self, surroundings: &Surroundings) -> anyhow::Result<Wanted> {
        let project = match &self.project {
            Some(project) => std::fs::canonicalize(project)?,
            None => project(&surroundings.directory)?,
        };
        Ok(Wanted {
            name: self.name.clone(),
            project,
            cache: surroundings.cache.clone(),
            image: self.image.clone(),
            start_engine: self.start_engine,
            backend: self.mode,
        })
    }
}

/// Does it.
///
/// # Errors
/// What the harness failed at.
pub fn run(
    out: &mut impl Write,
    what: &What,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match what {
            What::Up(options) => {
                let wanted = options.wanted(surroundings)?;
                guarded(wanted.up(out)).await??;
                writeln!(out, "up: `conformance e2e run` plays the scenarios, `down` ends it")?;
                Ok(ExitCode::SUCCESS)
            }
            What::Run { ids, options } => {
                let lab = options.wanted(surroundings)?.open().await?;
                guarded(play(out, &lab, ids)).await?
            }
            What::Bench { bench, options } => {
                let wanted = options.wanted(surroundings)?;
                let was_there = wanted.is_there();
                let worked = guarded(bench::run(out, bench, &wanted)).await.and_then(|it| it);
                if !was_there {
                    let n = wanted.down().await?;
                    writeln!(out, "down: {n} containers removed")?;
                }
                worked
            }
            What::Down(options) => {
                let n = options.wanted(surroundings)?.down().await?;
                writeln!(out, "down: {n} containers removed")?;
                Ok(ExitCode::SUCCESS)
            }
            What::All { ids, options } => {
                let wanted = options.wanted(surroundings)?;
                let worked = guarded(async {
                    let lab = wanted.up(out).await?;
                    play(out, &lab, ids).await
                });
                let worked = worked.await.and_then(|it| it);
                let n = wanted.down().await?;
                writeln!(out, "down: {n} containers removed")?;
                worked
            }
        }
    })
}

/// Gives up what it does on SIGINT and SIGTERM.
async fn guarded<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => Ok(done),
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("told to end"),
    }
}

async fn play(out: &mut impl Write, lab: &Lab, ids: &[String]) -> anyhow::Result<ExitCode> {
    let is_asked =
        |it: &&Scenario| ids.is_empty() || ids.iter().any(|id| it.id.starts_with(id.as_str()));
    let (mut n_passed, mut n_failed) = (0, 0);
    let is_of = |it: &&Scenario| it.is_of(lab.made.backend);
    for scenario in ALL.iter().filter(is_asked).filter(is_of) {
        let begin = tokio::time::Instant::now();
        let verdict = match scenario.play(lab).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::HarnessError(format!("{error:#}")),
        };
        let took: Duration = begin.elapsed();
        let (id, word, title) = (scenario.id, verdict.word(), scenario.title);
        writeln!(out, "{id:<14} {word:<14} {:>6.1} s  {title}", took.as_secs_f64())?;
        if let Some(why) = verdict.reason() {
            writeln!(out, "    {why}")?;
        }
        out.flush()?;
        match verdict {
            Verdict::Pass => n_passed += 1,
            _ => n_failed += 1,
        }
    }
    writeln!(out, "{n_passed} passed, {n_failed} failed")?;
    Ok(ExitCode::from(u8::from(n_failed > 0)))
}
