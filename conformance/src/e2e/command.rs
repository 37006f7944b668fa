//! `conformance e2e`: parses the subcommands and runs them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand};

use super::bench::{self, BenchOptions};
use super::interrupt::until_signal;
use super::lab::{LabSpec, project};
use super::play::{self, PlayOptions};
use crate::scenario::{Backend, InputError};

/// Subcommands of `conformance e2e`.
#[derive(Clone, Debug, Subcommand)]
pub enum E2eCommand {
    /// Creates a lab: a kind cluster of three nodes, a simulator with their machines, and our
    /// provider.
    Up(Options),
    /// Plays the scenarios in a lab.
    Run {
        /// Selection of scenarios.
        #[command(flatten)]
        play: PlayOptions,
        /// Selection of the lab.
        #[command(flatten)]
        options: Options,
    },
    /// Counts the calls of providers in a lab and compares them with virtual time. Creates a
    /// temporary lab if none was made with `up`.
    Bench {
        /// Selection of fleets and modes.
        #[command(flatten)]
        bench: BenchOptions,
        /// Selection of the lab.
        #[command(flatten)]
        options: Options,
    },
    /// Deletes a lab: its cluster, its containers and its state.
    Down(Options),
    /// Creates a lab, plays the scenarios, and deletes the lab, even after a failure or Ctrl-C.
    All {
        /// Selection of scenarios.
        #[command(flatten)]
        play: PlayOptions,
        /// Selection of the lab.
        #[command(flatten)]
        options: Options,
    },
}

/// Selection of the lab, and its parts.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Name of the lab; labs of different names can run in parallel.
    #[arg(long, default_value = "vsphere-lab", value_parser = name)]
    name: String,
    /// Node image [default: kind's public image if it can be pulled, else the one that
    /// kind/node-image builds].
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Mode of the provider: vcenter or supervisor. An existing lab keeps its mode.
    #[arg(long, default_value = "vcenter")]
    mode: Backend,
    /// Starts dockerd if no Docker engine answers; needs root.
    #[arg(long)]
    start_engine: bool,
    /// Checkout of this project [default: the one that contains the working directory].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
}

/// Paths that the environment determines.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The working directory.
    pub directory: PathBuf,
    /// `$XDG_CACHE_HOME/vsphere-lab` or, if the variable is not set, `~/.cache/vsphere-lab`.
    pub cache: PathBuf,
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = (1..=40).contains(&text.len()) && text.chars().all(is_plain);
    if fits && text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.ends_with('-') {
        return Ok(text.to_owned());
    }
    Err("write 1 to 40 lower-case letters, digits and dashes, a letter first and no dash at the end".to_owned())
}

fn checkout(directory: &Path) -> anyhow::Result<PathBuf> {
    let named = directory.display();
    let found = std::fs::canonicalize(directory).map_err(|error| {
        let missing = InputError::in_flag("--project", named, error.to_string());
        missing.remedy("name a checkout of this project")
    })?;
    project(&found)
}

impl Options {
    fn wanted(&self, surroundings: &Surroundings) -> anyhow::Result<LabSpec> {
        let project = match &self.project {
            Some(directory) => checkout(directory)?,
            None => project(&surroundings.directory)?,
        };
        Ok(LabSpec {
            name: self.name.clone(),
            project,
            cache: surroundings.cache.clone(),
            image: self.image.clone(),
            start_engine: self.start_engine,
            backend: self.mode,
        })
    }
}

/// Runs a subcommand and returns its exit code.
///
/// # Errors
/// Fails with an [`InputError`] for wrong usage. Fails if the harness fails.
pub fn run(
    out: &mut impl Write,
    what: &E2eCommand,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(carry_out(out, what, surroundings))
}

async fn carry_out(
    out: &mut impl Write,
    what: &E2eCommand,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    match what {
        E2eCommand::Up(options) => {
            let wanted = options.wanted(surroundings)?;
            let made = until_signal(wanted.up(out)).await;
            // Deletes a lab that is only half made. After a usage error, nothing was made.
            match made {
                Err(error) if !error.is::<InputError>() => {
                    remove_lab_after(out, &wanted, Err(error)).await?
                }
                made => made?,
            };
            writeln!(out, "up: `conformance e2e run` plays the scenarios, `down` deletes the lab")?;
            Ok(ExitCode::SUCCESS)
        }
        E2eCommand::Run { play, options } => {
            let wanted = options.wanted(surroundings)?;
            let lab = until_signal(wanted.open(out)).await?;
            wanted.touch()?;
            let code = until_signal(play::play(out, &lab, play)).await?;
            wanted.settle()?;
            Ok(code)
        }
        E2eCommand::Bench { bench, options } => {
            let wanted = options.wanted(surroundings)?;
            if wanted.is_kept() {
                return bench::run(out, bench, &wanted).await;
            }
            with_temporary_lab(out, &wanted, async |out, wanted| {
                bench::run(out, bench, wanted).await
            })
            .await
        }
        E2eCommand::Down(options) => {
            let n = options.wanted(surroundings)?.down().await?;
            writeln!(out, "down: {n} containers removed")?;
            Ok(ExitCode::SUCCESS)
        }
        E2eCommand::All { play, options } => {
            let wanted = options.wanted(surroundings)?;
            // Checks the selection of scenarios before it makes the lab.
            play.wanted(wanted.backend)?;
            let all = async |out: &mut _, wanted: &LabSpec| {
                play.check().await?;
                let lab = wanted.up(out).await?;
                play::play(out, &lab, play).await
            };
            with_temporary_lab(out, &wanted, all).await
        }
    }
}

/// Does `work` with a temporary lab and then deletes the lab, even after a failure. First deletes a
/// temporary lab that a killed run left.
async fn with_temporary_lab<W: Write>(
    out: &mut W,
    wanted: &LabSpec,
    work: impl AsyncFnOnce(&mut W, &LabSpec) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    wanted.begin_passing().await?;
    let worked = until_signal(work(out, wanted)).await;
    remove_lab_after(out, wanted, worked).await
}

/// Deletes a lab and returns the result of the work in it. If only the deletion fails, returns its
/// error. If both fail, returns the error of the work, with that of the deletion as context.
async fn remove_lab_after<T>(
    out: &mut impl Write,
    wanted: &LabSpec,
    worked: anyhow::Result<T>,
) -> anyhow::Result<T> {
    match (wanted.down().await, worked) {
        (Ok(n), worked) => {
            writeln!(out, "down: {n} containers removed")?;
            worked
        }
        (Err(removal), worked) => Err(left_behind(&wanted.name, removal, worked.err())),
    }
}

/// Returns the error for a lab of which parts are left, because its removal failed with `removal`.
/// Also contains the error of the work in the lab, if the work failed before.
fn left_behind(name: &str, removal: anyhow::Error, work: Option<anyhow::Error>) -> anyhow::Error {
    let remedy = format!("delete the rest with `conformance e2e down --name {name}`");
    // Keeps no type of `work`: even if that was wrong usage, the exit code is that of the harness.
    match work {
        None => anyhow!("cannot delete every part of the lab `{name}`: {removal:#}; {remedy}"),
        Some(work) => anyhow!(
            "{work:#}; after that, the program could not delete every part of the lab `{name}`: {removal:#}; {remedy}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_that_is_left_behind_is_a_failure_of_the_harness_with_all_causes() {
        let usage = InputError::invalid("the lab `x`", "exists already");
        for work in [None, Some(usage.into())] {
            let causes = if work.is_some() { "exists already" } else { "" };
            let error = left_behind("x", anyhow!("docker does not answer"), work);
            assert!(!error.is::<InputError>(), "{error:#}: exit code 2");
            let text = format!("{error:#}");
            assert!(text.contains("docker does not answer") && text.contains(causes), "{text}");
            assert!(
                text.contains("delete the rest with `conformance e2e down --name x`"),
                "{text}"
            );
        }
    }
}
