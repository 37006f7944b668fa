//! Parses the command line, which has every flag of upstream.
//!
//! The parser accepts every flag of the Go framework. If a flag has no effect in this provider, and
//! its value does not describe what the provider does anyway, the provider logs a note once at
//! start; if such a flag concerns security, the start fails. Durations have Go's form, underscores
//! in names of flags count as dashes, `--flag value` and `--flag=value` both work (except that a
//! boolean flag needs the second form), and a boolean flag without a value means true.

mod autoscaler;
mod capacity;
mod controllers;
mod flags;
mod serving;
mod supervisor;

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

use self::flags::{FALSE, FLAGS, Fate, Flag, FlagKind, TRUE};
use crate::{
    InputError, InstancesMode, LeaderElection, Options, UnknownKeys, controllers::node::valid_label,
};

pub use crate::input::parse_duration;
pub use autoscaler::{
    AutoscalerArguments, AutoscalerBackendName, COMMAND as AUTOSCALER, autoscaler_command,
    parse_autoscaler,
};
pub use capacity::{
    COMMAND as CAPACITY, CapacityArguments, PreviewPaths, capacity_command, parse_capacity,
};
pub use serving::ServingArguments;
pub use supervisor::SupervisorArguments;

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// `--cloud-config`: path of `vsphere.conf`.
    pub cloud_config: PathBuf,
    /// `--kubeconfig`: path of the kubeconfig of the workload cluster; `None` for the in-cluster
    /// configuration, or for the address in `master` without credentials.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: address of the API server; `None` for the address in the kubeconfig.
    pub master: Option<String>,
    /// `--bind-address`: address of the HTTPS endpoint.
    pub bind_address: IpAddr,
    /// `--secure-port`; with 0 the provider has no HTTPS endpoint.
    pub secure_port: u16,
    /// Settings of the HTTPS endpoint.
    pub serving: ServingArguments,
    /// `--strict-config`: treatment of `vsphere.conf` if it causes a warning.
    pub unknown_keys: UnknownKeys,
    /// `--v`: 0 to 3 logs info and above, 4 and 5 also debug, 6 and more also trace.
    pub verbosity: u8,
    /// `--logging-format`: true if log lines are JSON.
    pub json_logs: bool,
    /// `--cloud-provider=vsphere-paravirtual` and its flags; `None` in vCenter mode.
    pub supervisor: Option<SupervisorArguments>,
    /// `--autoscaler`: the server for Cluster Autoscalers beside the controllers; `None` without one.
    pub autoscaler: Option<AutoscalerArguments>,
    /// Options of [`run`](crate::run).
    pub options: Options,
    /// Notes to log once at start.
    pub notes: Vec<String>,
}

/// Reason why the parser returns no arguments.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// A request for help or version, or a command line that clap cannot parse; the text is clap's.
    #[error("{0}")]
    Clap(#[from] clap::Error),
    /// A flag with an invalid value, flags that contradict each other, or a flag that this provider
    /// refuses.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Returns an error that names the flag and the problem, but not the value.
fn fail(flag: &str, problem: impl Into<Cow<'static, str>>) -> ArgumentsError {
    InputError::new(problem).in_flag(flag).into()
}

/// Adds the flag to the error about its value.
fn in_flag(flag: &str) -> impl Fn(InputError) -> ArgumentsError {
    move |err| err.in_flag(flag).into()
}

/// Returns the clap command with all flags, for parsing, help and completion.
pub fn command() -> Command {
    let mut command = Command::new("provider")
        .about("A vSphere cloud provider for Kubernetes (vCenter and Supervisor mode)")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(
            "Commands:\n  \
             autoscaler  Serves Cluster Autoscalers with machines of a Supervisor or of Cluster API\n  \
             capacity    Publishes the capacity of Cluster API machine templates",
        )
        .args_override_self(true);
    for flag in FLAGS {
        let mut arg = Arg::new(flag.name).long(flag.name).help(flag.help);
        arg = match flag.kind {
            FlagKind::Bool => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_name("BOOL"),
            FlagKind::Value(name) | FlagKind::List(name) => {
                arg.num_args(1).value_name(name).allow_hyphen_values(true)
            }
        };
        if flag.name == "v" {
            arg = arg.short('v');
        }
        command = match (flag.fate, flag.kind) {
            (Fate::Read, FlagKind::List(_)) => {
                command.arg(arg.action(ArgAction::Append).default_value(flag.default))
            }
            (Fate::Read, _) => command.arg(arg.action(ArgAction::Set).default_value(flag.default)),
            _ => command.arg(arg.action(ArgAction::Append).hide(true)),
        };
    }
    command
}

/// Parses a command line whose first word is the name of the program.
///
/// # Errors
///
/// See [`ArgumentsError`].
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Arguments, ArgumentsError> {
    let arguments = arguments.into_iter().map(normalize);
    let arguments = arguments.filter(|argument| argument != "--version=false");
    let matches = command().try_get_matches_from(arguments)?;
    let flags = Flags(&matches);
    let is_supervisor = is_supervisor(flags)?;
    let cloud_config = flags.text("cloud-config");
    if cloud_config.is_empty() {
        let err = InputError::new("is required").remedy("give the path of vsphere.conf");
        return Err(err.in_flag("cloud-config").into());
    }
    let path = |name| Some(flags.text(name)).filter(|t| !t.is_empty());
    let mut notes = notes(flags)?;
    let secure_port = flags.parsed("secure-port", "is not a port number; write 0 to 65535")?;
    let serving = serving::read(flags, &mut notes)?;
    if secure_port == 0 {
        notes.extend(serving::notes_without_port(flags));
    }
    let mut options = options(flags, &mut notes)?;
    let mode = flags.text("instances-mode");
    let mode = mode.parse::<InstancesMode>().map_err(in_flag("instances-mode"))?;
    if mode == InstancesMode::V1 && options.concurrent_node_syncs > 1 {
        let note = "--concurrent-node-syncs has no effect on the look-ups of machines: --instances-mode=v1 makes one at a time";
        notes.push(note.to_owned());
    }
    let supervisor = if is_supervisor {
        let (arguments, tuning) = supervisor::read(flags, mode)?;
        options.supervisor = Some(tuning);
        if !std::mem::take(&mut options.node_labels).is_empty() {
            notes.push("--node-labels has an effect only with --cloud-provider=vsphere".to_owned());
        }
        Some(arguments)
    } else {
        options.tuning.mode = mode;
        notes.extend(supervisor::notes_elsewhere(&matches));
        None
    };
    let (cloud_config, kubeconfig) =
        (PathBuf::from(cloud_config), path("kubeconfig").map(PathBuf::from));
    let around = autoscaler::Surroundings {
        is_supervisor,
        cloud_config: &cloud_config,
        kubeconfig: kubeconfig.as_deref(),
    };
    let flags_of_server = flags.all("autoscaler").into_iter().filter(|it| !it.is_empty());
    let autoscaler = autoscaler::parse_beside(flags_of_server.collect(), around)
        .map_err(|err| InputError::new(err.to_string()).in_flag("autoscaler"))?;
    if autoscaler.is_some() && path("master").is_some() {
        let err = InputError::new("has no effect on the clients of --autoscaler");
        let remedy = "write the address into the file of --kubeconfig, and remove --master";
        return Err(err.remedy(remedy).in_flag("master").into());
    }
    Ok(Arguments {
        cloud_config,
        kubeconfig,
        master: path("master"),
        bind_address: flags
            .parsed("bind-address", "is not an IP address: expected one such as 0.0.0.0 or ::")?,
        secure_port,
        serving,
        unknown_keys: if flags.flag("strict-config")? {
            UnknownKeys::Refuse
        } else {
            UnknownKeys::Warn
        },
        verbosity: flags.parsed("v", "is not a number from 0 to 255")?,
        json_logs: is_json(flags)?,
        supervisor,
        autoscaler,
        options,
        notes,
    })
}

/// Parses `--cloud-provider`; returns true for Supervisor mode.
fn is_supervisor(flags: Flags<'_>) -> Result<bool, ArgumentsError> {
    match flags.text("cloud-provider").as_str() {
        "vsphere" => Ok(false),
        "vsphere-paravirtual" => Ok(true),
        other => {
            let err = InputError::unknown("unknown cloud provider", other);
            let err = err.remedy("expected vsphere or vsphere-paravirtual");
            Err(err.in_flag("cloud-provider").into())
        }
    }
}

/// Parses `--logging-format`, or its older name `--log-format`; returns true for JSON. Fails if
/// both are given and differ.
fn is_json(flags: Flags<'_>) -> Result<bool, ArgumentsError> {
    let (format, older) = (flags.text("logging-format"), flags.text("log-format"));
    if !older.is_empty() && flags.is_given("logging-format") && older != format {
        let err = InputError::invalid(&older, "contradicts --logging-format");
        return Err(err.remedy("omit --log-format").in_flag("log-format").into());
    }
    let (flag, text) =
        if older.is_empty() { ("logging-format", format) } else { ("log-format", older) };
    match text.as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        other => Err(in_flag(flag)(InputError::invalid(other, "is neither text nor json"))),
    }
}

fn options(flags: Flags<'_>, notes: &mut Vec<String>) -> Result<Options, ArgumentsError> {
    let controllers =
        controllers::select(&flags.all("controllers").join(",")).map_err(in_flag("controllers"))?;
    let period = |name: &'static str| flags.duration(name);
    let positive = |name: &'static str| match period(name)? {
        period if period.is_zero() => {
            Err(fail(name, "must be more than zero: expected a time such as 5s"))
        }
        period => Ok(period),
    };
    let workers: usize =
        flags.parsed("concurrent-node-syncs", "is not a number of workers: expected 1 or more")?;
    if workers == 0 {
        let err = InputError::new("must be at least 1").condition("with 0 no node is initialized");
        return Err(err.in_flag("concurrent-node-syncs").into());
    }
    let (kube_api_qps, kube_api_burst) = pace(flags)?;
    let leader_election =
        if flags.flag("leader-elect")? { Some(leader_election(flags, &period)?) } else { None };
    if flags.text("node-status-update-frequency").is_empty() {
        notes.push("--node-status-update-frequency is empty".to_owned());
    }
    Ok(Options {
        cloud_node: controllers.cloud_node,
        cloud_node_lifecycle: controllers.cloud_node_lifecycle,
        node_status_period: positive("node-status-update-frequency")?,
        node_monitor_period: positive("node-monitor-period")?,
        concurrent_node_syncs: workers,
        kube_api_qps,
        kube_api_burst,
        node_labels: node_labels(&flags.text("node-labels"))?,
        leader_election,
        ..Options::default()
    })
}

/// Parses `--kube-api-qps` and `--kube-api-burst`. As in client-go, a positive rate needs a
/// positive burst.
fn pace(flags: Flags<'_>) -> Result<(f64, u32), ArgumentsError> {
    let qps: f64 = flags.parsed(
        "kube-api-qps",
        "is not a number of requests per second: expected one such as 20 or 0.5",
    )?;
    if !qps.is_finite() {
        return Err(fail(
            "kube-api-qps",
            format!("{qps} is not a number of requests per second: expected one such as 20 or 0.5"),
        ));
    }
    // A negative rate means no limit, and then the burst does not matter; it may be negative,
    // because it is signed in Go.
    let burst = if qps < 0.0 {
        flags
            .parsed::<i32>(
                "kube-api-burst",
                "is not a number of requests: expected one such as 30",
            )?
            .max(0)
            .unsigned_abs()
    } else {
        flags.parsed("kube-api-burst", "is not a number of requests: expected one such as 30")?
    };
    if qps > 0.0 && burst == 0 {
        let what = "must be more than 0, because --kube-api-qps is";
        return Err(fail("kube-api-burst", what));
    }
    Ok((qps, burst))
}

fn leader_election(
    flags: Flags<'_>,
    period: &dyn Fn(&'static str) -> Result<Duration, ArgumentsError>,
) -> Result<LeaderElection, ArgumentsError> {
    if flags.text("leader-elect-resource-lock") != "leases" {
        return Err(fail(
            "leader-elect-resource-lock",
            "expected leases, the only supported value",
        ));
    }
    let election = LeaderElection {
        namespace: flags.text("leader-elect-resource-namespace"),
        name: flags.text("leader-elect-resource-name"),
        lease_duration: period("leader-elect-lease-duration")?,
        renew_deadline: period("leader-elect-renew-deadline")?,
        retry_period: period("leader-elect-retry-period")?,
    };
    if election.lease_duration <= election.renew_deadline {
        let what = "must be more than --leader-elect-renew-deadline";
        return Err(fail("leader-elect-lease-duration", what));
    }
    if election.renew_deadline <= election.retry_period.mul_f64(1.2) {
        let what = "must be more than 1.2 times --leader-elect-retry-period";
        return Err(fail("leader-elect-renew-deadline", what));
    }
    Ok(election)
}

fn node_labels(text: &str) -> Result<BTreeMap<String, String>, ArgumentsError> {
    let mut labels = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            let err = InputError::invalid(
                pair,
                "is not of the form KEY=VALUE: expected one such as role=worker",
            );
            return Err(err.in_flag("node-labels").into());
        };
        if !valid_label(key) {
            let err = InputError::new(format!("invalid key {key:?} of a label"));
            let err = err.remedy("write it like role or example.com/role");
            return Err(err.in_flag("node-labels").into());
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// Returns notes about the given flags that have no effect in this provider, unless the value of
/// the flag describes what the provider does anyway.
///
/// # Errors
///
/// If a flag that needs a note concerns security, or if a boolean flag without effect has an
/// invalid value.
fn notes(flags: Flags<'_>) -> Result<Vec<String>, ArgumentsError> {
    let mut notes = Vec::new();
    for Flag { name, kind, fate, .. } in FLAGS {
        let values = match fate {
            Fate::Read => continue,
            Fate::Noted(values) | Fate::Refused(values, _) => values,
        };
        let texts = flags.all(name);
        if let (FlagKind::Bool, Some(text)) = (kind, texts.last()) {
            boolean(name, text)?;
        }
        // Only the last value of a boolean counts, as in Go.
        let counted =
            if matches!(kind, FlagKind::Bool) { texts.len().saturating_sub(1) } else { 0 };
        if texts[counted..].iter().all(|text| values.contains(&text.as_str())) {
            continue;
        }
        if let Fate::Refused(_, remedy) = fate {
            let err =
                InputError::new("does nothing in this provider, although it is about security");
            return Err(err.remedy(*remedy).in_flag(name).into());
        }
        notes.push(format!("--{name} has no effect in this provider; remove it"));
    }
    Ok(notes)
}

/// The flags of a command line, as texts.
#[derive(Clone, Copy)]
struct Flags<'a>(&'a ArgMatches);

impl Flags<'_> {
    fn text(self, name: &str) -> String {
        self.0.get_one::<String>(name).cloned().unwrap_or_default()
    }

    /// True if the command line contains the flag.
    fn is_given(self, name: &str) -> bool {
        self.0.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// All values of a flag that may be repeated, in order.
    fn all(self, name: &str) -> Vec<String> {
        self.0.get_many::<String>(name).into_iter().flatten().cloned().collect()
    }

    /// The last value of a flag that may be repeated; empty if the flag is absent.
    fn last(self, name: &str) -> String {
        let texts = self.0.get_many::<String>(name);
        texts.and_then(Iterator::last).cloned().unwrap_or_default()
    }

    fn flag(self, name: &'static str) -> Result<bool, ArgumentsError> {
        boolean(name, &self.text(name))
    }

    fn last_flag(self, name: &'static str) -> Result<bool, ArgumentsError> {
        match self.last(name).as_str() {
            "" => Ok(false),
            text => boolean(name, text),
        }
    }

    fn parsed<T: std::str::FromStr>(
        self,
        name: &'static str,
        predicate: &'static str,
    ) -> Result<T, ArgumentsError> {
        let text = self.text(name);
        text.parse().map_err(|_| in_flag(name)(InputError::invalid(&text, predicate)))
    }

    fn duration(self, name: &'static str) -> Result<Duration, ArgumentsError> {
        parse_duration(&self.text(name)).map_err(in_flag(name))
    }
}

/// Parses a boolean as Go does.
fn boolean(name: &'static str, text: &str) -> Result<bool, ArgumentsError> {
    match text {
        text if TRUE.contains(&text) => Ok(true),
        text if FALSE.contains(&text) => Ok(false),
        other => Err(in_flag(name)(InputError::invalid(other, "is neither true nor false"))),
    }
}

/// Replaces underscores in the name of a flag by dashes, and component-base's spellings `raw` and
/// `true` of `--version` by the plain flag.
fn normalize(argument: String) -> String {
    if matches!(argument.as_str(), "--version=raw" | "--version=true") {
        return "--version".to_owned();
    }
    let Some(rest) = argument.strip_prefix("--") else { return argument };
    match rest.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
        None => format!("--{}", rest.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests;
