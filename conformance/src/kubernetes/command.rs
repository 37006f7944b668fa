//! `conformance kubernetes`: lists, plays, records and compares sequences of requests.

use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::known::{self, State};
use super::normal::StepAnswer;
use super::peer::Peer;
use super::sequence::Sequence;
use super::store::Folder;
use super::target::TargetServer;
use super::{VERSION, compare, fuzz};
use crate::scenario::InputError;

/// Subcommands of `conformance kubernetes`.
#[derive(Debug, Subcommand)]
pub enum KubernetesCommand {
    /// Lists the sequences with their subject, number of requests and known differences.
    List,
    /// Plays the sequences on a real API server and on the simulated one, and compares the answers.
    /// Also compares the recorded answers with those of the real server.
    Diff(LiveOptions),
    /// Plays the sequences on a real API server and records its answers.
    Record(LiveOptions),
    /// Prints the differences of the simulated API server from the recorded answers.
    Known {
        /// Updates known-differences.yaml: removes differences that are gone, adds new ones, keeps
        /// remarks.
        #[arg(long)]
        write: bool,
        /// Prints every step whose answers differ, with a diff.
        #[arg(long)]
        show: bool,
        /// Text that selects sequences by name.
        #[arg(long, requires = "show")]
        only: Option<String>,
    },
    /// Plays generated sequences of requests on a real API server and on the simulated one until
    /// the answers differ, shortens that sequence, and prints it.
    Fuzz {
        /// Number of generated sequences.
        #[arg(long, default_value = "300")]
        runs: NonZeroU32,
        /// Seed of all random draws.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// The real API server to compare with.
        #[command(flatten)]
        live: ServerOptions,
    },
}

impl KubernetesCommand {
    /// Returns the text that selects sequences by name, or `None` to select all.
    fn only(&self) -> Option<&str> {
        match self {
            Self::Diff(live) | Self::Record(live) => live.only.as_deref(),
            Self::Known { only, .. } => only.as_deref(),
            Self::List | Self::Fuzz { .. } => None,
        }
    }
}

/// Options that select sequences and the real server.
#[derive(Debug, Args)]
pub struct LiveOptions {
    /// Text that selects sequences by name.
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// Options that select the real server.
#[derive(Debug, Args)]
pub struct ServerOptions {
    /// URL of a running API server [default: conformance/peers/cluster.sh starts one].
    #[arg(long, requires = "token", value_parser = url)]
    server: Option<String>,
    /// Bearer token of an administrator of that server.
    #[arg(long, requires = "server")]
    token: Option<String>,
    /// URL of that server's etcd; sequences with compactions need it.
    #[arg(long, requires = "server", value_parser = url)]
    etcd: Option<String>,
}

fn url(text: &str) -> Result<String, &'static str> {
    let parts = text.parse::<http::Uri>().ok().map(http::Uri::into_parts);
    match parts {
        Some(http::uri::Parts { scheme: Some(_), authority: Some(_), .. }) => Ok(text.to_owned()),
        _ => Err("not a valid URL; write one such as https://127.0.0.1:6443"),
    }
}

/// Runs a subcommand and returns its exit code: 1 if `diff` finds a difference that is not listed,
/// a listed one that no longer exists, or a recorded answer that is out of date; 1 if `fuzz` finds
/// a difference; else 0.
///
/// # Errors
/// Fails with an [`InputError`] if `--only` selects no sequence. Fails if the harness fails.
pub fn run(out: &mut impl Write, what: &KubernetesCommand) -> anyhow::Result<ExitCode> {
    let folder = Folder::default();
    if let Some(only) = what.only()
        && !folder.topics()?.iter().flat_map(|it| &it.sequences).any(|it| wants(it, Some(only)))
    {
        let problem = "no sequence has this text in its name";
        let none = InputError::in_flag("--only", only, problem);
        return Err(none.remedy("`conformance kubernetes list` prints the names").into());
    }
    match what {
        KubernetesCommand::List => list(out, &folder),
        KubernetesCommand::Diff(live) => diff(out, &folder, live),
        KubernetesCommand::Record(live) => record(out, &folder, live),
        KubernetesCommand::Known { write, show, only } => {
            differences(out, &folder, *write, *show, only.as_deref())
        }
        KubernetesCommand::Fuzz { runs, seed, live } => {
            let real = Real::open(live)?;
            fuzz::run(out, &real.runtime, &real.target, runs.get(), *seed)
        }
    }
}

/// A real API server of version [`VERSION`], and the runtime for requests to it.
struct Real {
    runtime: Runtime,
    target: TargetServer,
    /// The server, if this program started it; dropping it stops the server.
    _peer: Option<Peer>,
}

impl Real {
    fn open(server: &ServerOptions) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context(
                "cannot make the async runtime of the program; raise the limit of open files",
            )?;
        let (peer, url, token, etcd) = match (&server.server, &server.token) {
            (Some(url), Some(token)) => (None, url.clone(), token.clone(), server.etcd.clone()),
            _ => {
                let peer = Peer::start().context(
                    "cannot start a real API server; name a running one with --server and \
                     --token, or set KUBEBUILDER_ASSETS",
                )?;
                let (url, token) = (peer.server.clone(), peer.token.clone());
                let etcd = Some(peer.etcd.clone());
                (Some(peer), url, token, etcd)
            }
        };
        let target = {
            let _inside = runtime.enter();
            TargetServer::live(&url, &token, etcd.as_deref())?
        };
        let version = runtime.block_on(version(&target))?;
        ensure!(
            version == VERSION,
            "the server at {url} has version {version}, but answers are compared with {VERSION}; \
             name a server of that version, or leave --server out and unset KUBEBUILDER_ASSETS to have it built"
        );
        Ok(Self { runtime, target, _peer: peer })
    }

    fn answers(&self, sequence: &Sequence, n: usize) -> anyhow::Result<Vec<StepAnswer>> {
        // The process ID makes the namespaces of several processes on one server differ.
        let id = format!("kd-{:x}-{n}", std::process::id());
        self.runtime.block_on(super::answers(sequence, &self.target, &id))
    }
}

async fn version(target: &TargetServer) -> anyhow::Result<String> {
    let request = http::Request::get("/version").header("accept", "application/json");
    let answer = target.send(request.body(bytes::Bytes::new())?).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let info: Value = serde_json::from_slice(&body).context(
        "the server of --server does not answer GET /version with JSON; name the URL of a \
         kube-apiserver",
    )?;
    Ok(info["gitVersion"].as_str().unwrap_or("unknown").to_owned())
}

fn wants(sequence: &Sequence, only: Option<&str>) -> bool {
    only.is_none_or(|only| sequence.name.contains(only))
}

fn list(out: &mut impl Write, folder: &Folder) -> anyhow::Result<ExitCode> {
    let known = folder.known()?;
    let (mut n, mut requests) = (0, 0);
    for topic in folder.topics()? {
        for sequence in &topic.sequences {
            let asked = sequence.steps.iter().filter(|step| step.request.is_some()).count();
            let listed = known::listed(&known, &sequence.name).len();
            let differing =
                if listed == 0 { String::new() } else { format!("{listed} steps differ") };
            let clause = serde_json::to_value(sequence.clause)?;
            let clause = clause.as_str().unwrap_or_default().to_owned();
            writeln!(out, "{clause:<17} {:<52} {asked:>3} requests  {differing}", sequence.name)?;
            (n, requests) = (n + 1, requests + asked);
        }
    }
    let open = known.iter().filter(|it| it.state == State::Open).count();
    let decided = known.len() - open;
    writeln!(
        out,
        "{n} sequences, {requests} requests; known differences: {open} open, {decided} decided"
    )?;
    Ok(ExitCode::SUCCESS)
}

fn diff(out: &mut impl Write, folder: &Folder, live: &LiveOptions) -> anyhow::Result<ExitCode> {
    let known = folder.known()?;
    let real = Real::open(&live.server)?;
    let (mut n, mut requests, mut failed) = (0, 0, 0);
    for topic in folder.topics()? {
        let recorded = folder.recorded(&topic.name)?;
        for sequence in topic.sequences.iter().filter(|it| wants(it, live.only.as_deref())) {
            n += 1;
            requests += sequence.steps.iter().filter(|step| step.request.is_some()).count();
            let answers = real.answers(sequence, n)?;
            let mut bad = false;
            if let Some(recorded) = recorded.get(&sequence.name)
                && let Some((step, _)) = known::places(&answers, recorded).first_key_value()
            {
                bad = true;
                let (left, right) =
                    (("recorded", &recorded[step - 1]), ("kube-apiserver", &answers[step - 1]));
                writeln!(out, "{}", compare::report(sequence, step - 1, left, right))?;
                writeln!(
                    out,
                    "the recorded answer differs from kube-apiserver's; record it again: conformance kubernetes record --only {}",
                    sequence.name
                )?;
            }
            if let Err(report) =
                known::judge(sequence, &answers, &super::simulated(sequence)?, &known)
            {
                bad = true;
                writeln!(out, "{report}")?;
            }
            failed += usize::from(bad);
            out.flush()?;
        }
    }
    writeln!(
        out,
        "{n} sequences, {requests} requests to each server; {failed} sequences with unexpected results"
    )?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn record(out: &mut impl Write, folder: &Folder, live: &LiveOptions) -> anyhow::Result<ExitCode> {
    let real = Real::open(&live.server)?;
    let mut n = 0;
    for topic in folder.topics()? {
        let mut recorded = folder.recorded(&topic.name)?;
        recorded.retain(|name, _| topic.sequences.iter().any(|it| it.name == *name));
        for sequence in topic.sequences.iter().filter(|it| wants(it, live.only.as_deref())) {
            n += 1;
            recorded.insert(sequence.name.clone(), real.answers(sequence, n)?);
        }
        folder.record(&topic.name, &recorded)?;
    }
    writeln!(out, "{n} sequences recorded")?;
    Ok(ExitCode::SUCCESS)
}

fn differences(
    out: &mut impl Write,
    folder: &Folder,
    write: bool,
    show: bool,
    only: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let known = folder.known()?;
    let mut found = Vec::new();
    for topic in folder.topics()? {
        let recorded = folder.recorded(&topic.name)?;
        for sequence in &topic.sequences {
            let Some(real) = recorded.get(&sequence.name) else { continue };
            let ours = super::simulated(sequence)?;
            let places = known::places(real, &ours);
            if show && wants(sequence, only) {
                for step in places.keys() {
                    let (left, right) =
                        (("kube-apiserver", &real[step - 1]), ("sim", &ours[step - 1]));
                    writeln!(out, "{}", compare::report(sequence, step - 1, left, right))?;
                }
            }
            if !places.is_empty() {
                found.push((sequence.name.clone(), places));
            }
        }
    }
    let updated = known::updated(&known, &found);
    if write {
        folder.keep_known(&updated)?;
        writeln!(out, "{} differences in {} sequences", updated.len(), found.len())?;
    } else if !show {
        write!(out, "{}", known::text(&updated))?;
    }
    Ok(ExitCode::SUCCESS)
}
