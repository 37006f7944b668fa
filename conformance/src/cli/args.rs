//! What can be said on the command line.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Parser, Subcommand};

use provider::InstancesMode;

use crate::backend::Backend;
use crate::lab::Mutants;
use crate::{e2e, foreign, kubernetes};

/// Judges a vSphere cloud provider for Kubernetes against everything it promises.
///
/// Exit codes: 0 all passed; 1 a check failed; 2 usage; 3 the harness itself failed; 5 what failed held when it was
/// tried again; 6 a budget was exceeded or is not the committed one; 7 nothing failed, but a check was inconclusive.
#[derive(Parser)]
#[command(name = "conformance", version)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: What,
}

#[derive(Subcommand)]
pub(super) enum What {
    /// Boot the world, run our provider against it in virtual time, judge it, count its calls.
    Run(Run),
    /// List the checks, with what is run and what is planned.
    List {
        /// Only these IDs, or beginnings of IDs.
        ids: Vec<String>,
        /// Only this surface: node, zone, session, …
        #[arg(long)]
        surface: Vec<String>,
        /// Also those that no scenario exercises yet.
        #[arg(long)]
        all: bool,
    },
    /// Say what a check promises, why, how it is judged and how to mend a failure.
    Explain {
        /// The ID, like NODE-DEL-002.
        id: String,
    },
    /// Play every life with every single failure: each call fails in every way, each write is the last before a crash.
    Sweep(super::sweep::Arguments),
    /// Play generated histories with v1 and V2 of Supervisor mode, and compare what they say of Nodes.
    Alike {
        /// How many histories.
        #[arg(long, default_value = "1000")]
        runs: NonZeroU32,
        /// Where every draw comes from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Count calls by phase, compare with budgets.yaml; or say of any provider or ledger which calls were needed.
    ///
    /// Without --provider and --ledger our own provider is counted in virtual time.
    ///
    /// With --provider each call is marked: `needed`; `re-read`, whose answer is what the client was last served;
    /// `re-login`, while a session was alive or after a logout of its own; `n+1`, one call per object where one for all
    /// would do. Each is named with what brought it about and with its price at 1,000 and 5,000 nodes, and the list is to
    /// be worked off from the top.
    Cost {
        /// Print budgets.yaml as measured.
        #[arg(long)]
        write: bool,
        /// Also a row per phase and operation.
        #[arg(long, conflicts_with = "write")]
        operations: bool,
        #[command(flatten)]
        bill: foreign::cost::Arguments,
    },
    /// Hold the simulated Kubernetes API against a real kube-apiserver, request by request.
    Kubernetes {
        #[command(subcommand)]
        command: kubernetes::command::What,
    },
    /// The stage in containers: a cluster made by kind, a simulator, a provider deployed from its manifests.
    E2e {
        #[command(subcommand)]
        command: e2e::command::What,
    },
    /// Become a program that ends with the process that started this.
    #[command(name = foreign::launch::SUBCOMMAND, hide = true)]
    Launch {
        /// That process.
        parent: i32,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

#[derive(Parser)]
pub(super) struct Run {
    /// Only these IDs, or beginnings of IDs.
    pub(super) ids: Vec<String>,
    /// Only this surface: node, zone, session, …
    #[arg(long)]
    pub(super) surface: Vec<String>,
    /// Where the provider looks for machines: vcenter, supervisor or all.
    #[arg(long, default_value = "all", value_parser = modes, conflicts_with = "provider")]
    pub(super) mode: Modes,
    /// Where every draw and identifier comes from.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Write results.json, junit.xml, summary.md, index.html and ledger.jsonl here.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    /// Give our provider this deliberate defect.
    #[arg(long, value_parser = mutant, conflicts_with = "provider")]
    pub(super) mutant: Option<Mutants>,
    /// Leave the table of calls per node and sync out.
    #[arg(long, conflicts_with = "provider")]
    pub(super) no_cost: bool,
    /// How our provider looks for machines there: auto, poll or v1. Checks that count calls, or need a view that is
    /// told of changes, are about auto and fail with the others.
    #[arg(long, value_name = "MODE", default_value = "auto", conflicts_with = "provider")]
    pub(super) instances_mode: InstancesMode,
    /// End after the first check that does not pass.
    #[arg(long, conflicts_with = "provider")]
    pub(super) fail_fast: bool,
    /// Also a row per phase and operation in that table.
    #[arg(long, conflicts_with_all = ["no_cost", "provider", "ids", "surface"])]
    pub(super) operations: bool,
    #[command(flatten)]
    pub(super) foreign: foreign::command::Arguments,
}

/// The first flag that is given without `--provider` and means nothing then.
///
/// The parser does not ask for `--provider` where another flag excludes that one, such as `--mode`.
pub(super) fn for_processes(matches: &ArgMatches) -> Option<String> {
    let (name, matches) = matches.subcommand()?;
    let flags: &[&str] = match name {
        "run" => {
            &["binary", "apiserver", "jobs", "compress", "longest", "retries", "no_calibration"]
        }
        "sweep" => &["binary", "compress", "healthy"],
        "cost" => &["binary", "compress", "seed"],
        _ => return None,
    };
    if matches.contains_id("provider") {
        return None;
    }
    let is_given = |flag: &&&str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    flags.iter().find(is_given).map(|flag| format!("--{}", flag.replace('_', "-")))
}

/// Some modes, in the order in which they are judged.
#[derive(Clone, Copy)]
pub(super) struct Modes(pub(super) &'static [Backend]);

pub(super) fn modes(text: &str) -> Result<Modes, String> {
    let all = &Backend::ALL;
    match all.iter().position(|it| it.as_str() == text) {
        Some(at) => Ok(Modes(&all[at..=at])),
        None if text == "all" => Ok(Modes(all)),
        None => Err("there are vcenter, supervisor and all".to_owned()),
    }
}

fn mutant(text: &str) -> Result<Mutants, String> {
    let all = || Mutants::ALL.into_iter().chain(Mutants::SUPERVISOR);
    all().find(|it| format!("{it:?}") == text).ok_or_else(|| {
        let names: Vec<String> = all().map(|it| format!("{it:?}")).collect();
        format!("there are {}", names.join(", "))
    })
}
