//! Commands and options of the command line, with their help.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Parser, Subcommand};

use provider::InstancesMode;

use crate::lab::Mutant;
use crate::scenario::{Backend, InputError};
use crate::{e2e, foreign, kubernetes};

/// Judges vSphere cloud providers for Kubernetes by a catalogue of checks.
///
/// Exit codes: 0 no check failed; 1 a check failed; 2 wrong usage; 3 the harness failed; 5 every
/// failed check passed when repeated; 6 the calls of our provider differ from
/// conformance/budgets.yaml; 7 no check failed, but one was inconclusive; 130 Ctrl-C ended the run;
/// 143 SIGTERM ended the run. With --provider only MUST checks count as failed: the exit code can
/// be 0 although a SHOULD check failed.
#[derive(Parser)]
#[command(name = "conformance", version)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Subcommands,
}

#[derive(Subcommand)]
pub(super) enum Subcommands {
    /// Runs the checks against our provider in virtual time, or against any provider with
    /// --provider.
    Run(RunArguments),
    /// Lists the checks of the catalogue.
    List {
        /// IDs, or prefixes of IDs, of the checks to list [default: all].
        ids: Vec<String>,
        /// Surface of the checks to list: node, zone, session, …; repeatable [default: all].
        #[arg(long)]
        surface: Vec<String>,
        /// Also lists aliases, and planned checks, which have no cases yet.
        #[arg(long)]
        all: bool,
    },
    /// Explains a check: its promise, the reason, how it is judged, and how to fix a failure.
    Explain {
        /// ID of the check, such as NODE-DEL-002.
        id: String,
    },
    /// Plays long scenarios (lives) once per possible failure: a call that fails, a crash around a
    /// write, or stale reads.
    ///
    /// A life is a scenario with several phases, for example: nodes join, nothing happens, machines
    /// are deleted. After the last phase nothing changes any more, and the provider must put
    /// everything in order. A trial plays one life with one failure.
    Sweep(super::sweep::Arguments),
    /// Compares the Nodes that the instances modes v1 and auto write in Supervisor mode, in
    /// generated histories.
    Alike {
        /// Number of histories.
        #[arg(long, default_value = "1000")]
        runs: NonZeroU32,
        /// Seed of all random draws.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Counts our provider's calls per phase and compares them with budgets.yaml, or marks the
    /// needless calls of any provider or ledger.
    ///
    /// Without --provider and --ledger, our own provider runs in virtual time.
    ///
    /// With --provider or --ledger, each call is marked: `needed`; `re-read` (the answer equals the
    /// last one); `re-login` (a session was alive, or the client had logged out by itself); `n+1`
    /// (one call per object where one call for all would do). The report names the cause of each
    /// mark and its cost at 1,000 and 5,000 nodes, the most expensive first.
    Cost {
        /// Prints a budgets.yaml with the measured counts.
        #[arg(long)]
        write: bool,
        /// Adds a table with a row per phase and operation.
        #[arg(long, conflicts_with = "write")]
        operations: bool,
        #[command(flatten)]
        bill: foreign::cost::Arguments,
    },
    /// Judges a provider by the files that a simulator recorded: `sim serve --record FILE --ledger
    /// FILE`.
    ///
    /// Checks the invariants, which must hold in every run of every provider, as `run` and `sweep`
    /// do after each case. Names the invariants that the files cannot show, with the reasons.
    Judge(super::judge::Arguments),
    /// Compares the simulated Kubernetes API with a real kube-apiserver, request by request.
    Kubernetes {
        #[command(subcommand)]
        command: kubernetes::command::KubernetesCommand,
    },
    /// Runs scenarios in containers: a kind cluster, a simulator, and a provider deployed from its
    /// manifests.
    E2e {
        #[command(subcommand)]
        command: e2e::command::E2eCommand,
    },
    /// Publishes the capacity of the templates of an example kind (conformance/examples/capacity).
    #[command(hide = true)]
    ExampleReconciler {
        /// Kind of the templates.
        #[arg(long)]
        kind: crate::lab::capacity::Example,
        /// Kubeconfig of the management cluster.
        #[arg(long, value_name = "FILE")]
        kubeconfig: PathBuf,
        /// Name of a deliberate defect.
        #[arg(long)]
        flaw: Option<String>,
    },
    /// Executes a program that the kernel kills when the parent process ends.
    #[command(name = foreign::launch::SUBCOMMAND, hide = true)]
    Launch {
        /// Process ID of the parent.
        parent: i32,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

#[derive(Parser)]
pub(super) struct RunArguments {
    /// IDs, or prefixes of IDs, of the checks to run [default: all].
    pub(super) ids: Vec<String>,
    /// Surface of the checks to run: node, zone, session, …; repeatable [default: all].
    #[arg(long)]
    pub(super) surface: Vec<String>,
    /// Mode of the provider: vcenter, supervisor, autoscaler (its server for the Cluster
    /// Autoscaler), capacity (its reconciler of machine templates) or all.
    #[arg(long, default_value = "all", value_parser = parts, conflicts_with = "provider")]
    pub(super) mode: Parts,
    /// Seed of all random draws and identifiers.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Directory for results.json, junit.xml, summary.md, index.html and ledger.jsonl.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    /// Name of a deliberate defect to enable in our provider, such as ErrorIsGone; an unknown name
    /// prints the list.
    #[arg(long, value_parser = mutant, conflicts_with = "provider")]
    pub(super) mutant: Option<Mutant>,
    /// Does not count calls: omits the table of calls by phase and number of nodes, and the
    /// comparison with conformance/budgets.yaml (exit code 6).
    #[arg(long, conflicts_with = "provider")]
    pub(super) no_cost: bool,
    /// Instances mode of our provider: auto, watch, poll or v1. Checks that count calls or need a
    /// watch fail with poll and v1.
    #[arg(long, value_name = "MODE", default_value = "auto", conflicts_with = "provider")]
    pub(super) instances_mode: InstancesMode,
    /// Stops after the first check that does not pass, and within a check after the first case that
    /// fails.
    #[arg(long, conflicts_with = "provider")]
    pub(super) fail_fast: bool,
    /// Adds a table of calls with a row per phase and operation.
    #[arg(long, conflicts_with_all = ["no_cost", "provider", "ids", "surface"])]
    pub(super) operations: bool,
    #[command(flatten)]
    pub(super) foreign: foreign::command::Arguments,
}

/// Returns the first flag on the command line that needs `--provider`; `None` if `--provider` is
/// given, too, or if no such flag is given.
///
/// The parser does not enforce this requirement if another flag, such as `--mode`, excludes
/// `--provider`.
pub(super) fn for_processes(matches: &ArgMatches) -> Option<String> {
    let (name, matches) = matches.subcommand()?;
    let flags: &[&str] = match name {
        "run" => &[
            "template_crd",
            "binary",
            "apiserver",
            "jobs",
            "compress",
            "longest",
            "retries",
            "no_calibration",
        ],
        "sweep" => &["binary", "compress", "healthy"],
        "cost" => &["binary", "compress", "seed"],
        _ => return None,
    };
    if matches.contains_id("provider") {
        return None;
    }
    first_given(matches, flags)
}

/// Returns the first flag on the command line that has no effect on what `--mode` selects: one that
/// concerns the modes of the cloud controller manager. `--no-cost` also concerns the server for the
/// autoscaler, whose calls are counted too.
pub(super) fn for_modes(matches: &ArgMatches) -> Option<String> {
    let ("run", matches) = matches.subcommand()? else { return None };
    let parts: &Parts = matches.get_one("mode")?;
    if !parts.modes.0.is_empty() {
        return None;
    }
    let of_modes = first_given(matches, &["mutant", "instances_mode", "operations"]);
    of_modes.or_else(|| first_given(matches, &["no_cost"]).filter(|_| !parts.autoscaler))
}

fn first_given(matches: &ArgMatches, flags: &[&str]) -> Option<String> {
    let is_given = |flag: &&&str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    flags.iter().find(is_given).map(|flag| format!("--{}", flag.replace('_', "-")))
}

/// Modes that `--mode` selects, in the order in which the command plays them.
#[derive(Clone, Copy)]
pub(super) struct Modes(pub(super) &'static [Backend]);

/// Parts of the catalogue that `run --mode` selects.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// Modes of the cloud controller manager.
    pub(super) modes: Modes,
    /// True for the server for the Cluster Autoscaler.
    pub(super) autoscaler: bool,
    /// True for the reconciler of machine templates.
    pub(super) capacity: bool,
}

fn parts(text: &str) -> Result<Parts, String> {
    let none = Modes(&[]);
    match (text, modes(text)) {
        ("autoscaler", _) => Ok(Parts { modes: none, autoscaler: true, capacity: false }),
        ("capacity", _) => Ok(Parts { modes: none, autoscaler: false, capacity: true }),
        (_, Ok(modes)) => {
            let is_all = text == "all";
            Ok(Parts { modes, autoscaler: is_all, capacity: is_all })
        }
        (_, Err(_)) => Err("expected vcenter, supervisor, autoscaler, capacity or all".to_owned()),
    }
}

pub(super) fn modes(text: &str) -> Result<Modes, String> {
    let all = &Backend::ALL;
    match all.iter().position(|it| it.as_str() == text) {
        Some(at) => Ok(Modes(&all[at..=at])),
        None if text == "all" => Ok(Modes(all)),
        None => Err("expected vcenter, supervisor or all".to_owned()),
    }
}

/// Checks that the provider in one of the modes has the mutant.
pub(super) fn check_mutant(mutant: Mutant, modes: Modes) -> Result<(), InputError> {
    let only = if Mutant::VCENTER_ONLY.contains(&mutant) {
        Backend::VCenter
    } else if !Mutant::VCENTER.contains(&mutant) {
        Backend::Supervisor
    } else {
        return Ok(());
    };
    if modes.0.contains(&only) {
        return Ok(());
    }
    let problem = format!("changes only {only} mode");
    let idle = InputError::in_flag("--mutant", format!("{mutant:?}"), problem);
    Err(idle.remedy(format!("choose --mode {only}")))
}

fn mutant(text: &str) -> Result<Mutant, String> {
    let further = || Mutant::SUPERVISOR.into_iter().filter(|it| !Mutant::VCENTER.contains(it));
    let all = || Mutant::VCENTER.into_iter().chain(further());
    all().find(|it| format!("{it:?}") == text).ok_or_else(|| {
        let names: Vec<String> = all().map(|it| format!("{it:?}")).collect();
        format!("expected one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_flag_is_refused_only_with_a_mode_on_which_it_has_no_effect() {
        for (mode, flag, is_refused) in [
            ("autoscaler", "--no-cost", false),
            ("autoscaler", "--operations", true),
            ("capacity", "--no-cost", true),
            ("capacity", "--operations", true),
            ("all", "--no-cost", false),
            ("vcenter", "--operations", false),
        ] {
            let given = ["conformance", "run", "--mode", mode, flag];
            let matches = Arguments::command().try_get_matches_from(given).unwrap();
            let refused = is_refused.then(|| flag.to_owned());
            assert_eq!(for_modes(&matches), refused, "{mode} {flag}");
        }
    }

    #[test]
    fn a_mutant_is_refused_only_in_a_mode_that_does_not_have_it() {
        let refused = |mutant, mode| {
            check_mutant(mutant, modes(mode).unwrap_or_else(|it| panic!("{it}"))).is_err()
        };
        for mutant in Mutant::VCENTER {
            assert!(!refused(mutant, "vcenter") && !refused(mutant, "all"), "{mutant:?}");
        }
        for mutant in Mutant::SUPERVISOR {
            assert!(!refused(mutant, "supervisor") && !refused(mutant, "all"), "{mutant:?}");
            let in_both = Mutant::VCENTER.contains(&mutant);
            assert_ne!(refused(mutant, "vcenter"), in_both, "{mutant:?}");
        }
        for mutant in Mutant::VCENTER_ONLY {
            assert!(
                refused(mutant, "supervisor") && Mutant::VCENTER.contains(&mutant),
                "{mutant:?}"
            );
        }
        assert!(!refused(Mutant::GuardSkipped, "vcenter"));
        assert!(!refused(Mutant::ErrorIsGone, "supervisor"));
    }
}
