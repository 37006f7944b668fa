//! Command line and `vsphere.conf` of our provider in this process, read by the same code as in a
//! process.
//!
//! A process also reads files and environment variables and opens sockets, which the lab does not
//! need.

use ::provider::cli::{self, Arguments, ServingArguments};
use ::provider::{Config, InstancesMode, Options, UnknownKeys};
use sim::Sim;

use super::cloud_config;
use crate::lab::{Mode, Stage};
use crate::scenario::periods::go_duration;
use crate::scenario::{ProviderSetup, Scenario};

/// Name of the configuration file, for messages only.
const FILE: &str = "vsphere.conf";

/// Value of `$(port)` in flags. The HTTPS endpoint of a provider in this process is a pipe, so no
/// port is opened.
const PORT: &str = "10258";

/// The result of reading a command line and a configuration.
pub(super) struct ProviderSettings {
    pub(super) config: Config,
    pub(super) options: Options,
    /// Arguments of the HTTPS endpoint; `None` if the command line sets its port to 0.
    pub(super) serving: Option<ServingArguments>,
}

/// Reads the command line and the configuration of a scenario. Logs their notes and warnings, as a
/// process does.
///
/// # Errors
///
/// Returns the text with which a process would exit.
pub(super) fn open(
    sim: &Sim,
    scenario: &Scenario,
    stage: &Stage,
) -> Result<ProviderSettings, String> {
    let arguments = cli::parse(command_line(&scenario.provider, stage.mode));
    let arguments = arguments.map_err(|error| error.to_string())?;
    for note in &arguments.notes {
        tracing::info!("{note}");
    }
    let text = cloud_config(sim, scenario, None, |vcenter| (vcenter.to_owned(), None));
    let config = match &arguments.supervisor {
        None => read(&text, arguments.unknown_keys)?,
        Some(_) => {
            // In Supervisor mode the provider only checks the file and does not use it.
            let text = scenario.provider.config.as_deref().unwrap_or_default();
            Config::check_unused(FILE, text).map_err(|error| error.to_string())?;
            Config::without_vcenters()
        }
    };
    let serving = (arguments.secure_port != 0).then(|| arguments.serving.clone());
    Ok(ProviderSettings { config, options: options(arguments, scenario, stage), serving })
}

fn read(text: &str, unknown: UnknownKeys) -> Result<Config, String> {
    let (config, warnings) =
        Config::parse(FILE, text, unknown).map_err(|error| error.to_string())?;
    for warning in warnings {
        tracing::warn!(file = FILE, "{warning}");
    }
    Ok(config)
}

/// Returns the options of a run: those of the command line, and settings that have no flag.
fn options(arguments: Arguments, scenario: &Scenario, stage: &Stage) -> Options {
    Options {
        // A process reads this setting from its environment.
        skip_node_deletion: scenario.provider.skip_deletion,
        mutant: stage.mutant,
        ..arguments.options
    }
}

/// Returns the command line that an administrator would write for this set-up, beginning with the
/// program's name.
fn command_line(setup: &ProviderSetup, mode: Mode) -> Vec<String> {
    let (provider, instances) = match mode {
        Mode::VCenter(instances) => ("vsphere", instances),
        Mode::Supervisor(instances) => ("vsphere-paravirtual", instances),
    };
    let mut line = vec![
        "provider".to_owned(),
        format!("--cloud-provider={provider}"),
        format!("--cloud-config={FILE}"),
        format!("--instances-mode={}", instances.as_str()),
        format!("--leader-elect={}", setup.elects()),
        format!("--node-status-update-frequency={}", go_duration(setup.status_period)),
        format!("--node-monitor-period={}", go_duration(setup.monitor_period)),
        format!("--kube-api-qps={}", setup.kube_qps),
    ];
    // The instances mode `v1` has one worker anyway and logs a note about the flag.
    if setup.workers != 1 || instances != InstancesMode::V1 {
        line.push(format!("--concurrent-node-syncs={}", setup.workers));
    }
    if !setup.node_labels.is_empty() {
        let pairs = setup.node_labels.iter().map(|(key, value)| format!("{key}={value}"));
        line.push(format!("--node-labels={}", pairs.collect::<Vec<_>>().join(",")));
    }
    if matches!(mode, Mode::Supervisor(_)) && !setup.families.is_empty() {
        line.push(format!("--cluster-ip-family={}", setup.families.concat()));
        line.push("--vm-operator-api-version=v1alpha6".to_owned());
    }
    if setup.config.is_none() {
        line.push("--strict-config".to_owned());
    }
    line.extend(setup.flags.iter().map(|flag| flag.replace("$(port)", PORT)));
    line
}
