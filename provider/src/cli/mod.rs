//! Parses the command line, which has every flag of upstream.
//!
//! The parser accepts every flag of the Go framework. If a flag without an effect in this provider
//! is set to something that the provider does not do anyway, the provider logs a note once at
//! start; if such a flag concerns security, the start fails. Durations have Go's form, underscores
//! in names of flags count as dashes, `--flag value` and `--flag=value` both work (except that a
//! boolean flag needs the second form), and a boolean flag without a value means true.

mod controllers;
mod duration;
mod flags;
mod serving;
mod supervisor;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

use self::flags::{FALSE, FLAGS, Fate, Flag, Kind, TRUE};
use crate::{
    InstancesMode, LeaderElection, Options, SupervisorSettingsError, UnknownKeys,
    controllers::node::valid_label,
};

pub use duration::{ParseDurationError, parse_duration};
pub use serving::ServingArguments;
pub use supervisor::SupervisorArguments;

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// `--cloud-config`.
    pub cloud_config: PathBuf,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`; with 0 the provider has no HTTPS endpoint.
    pub secure_port: u16,
    /// Settings of the HTTPS endpoint.
    pub serving: ServingArguments,
    /// `--strict-config`.
    pub unknown_keys: UnknownKeys,
    /// `--v`: 0 logs least, 2 is usual, 4 and more are for debugging.
    pub verbosity: u8,
    /// `--logging-format`: true if log lines are JSON.
    pub json_logs: bool,
    /// `--cloud-provider=vsphere-paravirtual` and its flags; `None` in vCenter mode.
    pub supervisor: Option<SupervisorArguments>,
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
    /// Flags of Supervisor mode that are invalid or contradict each other.
    #[error("{0}")]
    Supervisor(#[from] SupervisorSettingsError),
    /// A flag with an invalid value, or a flag that this provider refuses.
    #[error("--{flag}: {what}")]
    Value {
        /// Name of the flag.
        flag: &'static str,
        /// The problem and the remedy.
        what: String,
    },
}

fn fail(flag: &'static str, what: impl Into<String>) -> ArgumentsError {
    ArgumentsError::Value { flag, what: what.into() }
}

/// Returns the clap command with all flags, for parsing, help and completion.
pub fn command() -> Command {
    let mut command = Command::new("provider")
        .about("A vSphere cloud provider for Kubernetes (vCenter and Supervisor mode)")
        .version(env!("CARGO_PKG_VERSION"))
        .args_override_self(true);
    for flag in FLAGS {
        let mut arg = Arg::new(flag.name).long(flag.name).help(flag.help);
        arg = match flag.kind {
            Kind::Bool => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_name("BOOL"),
            Kind::Value(name) | Kind::List(name) => {
                arg.num_args(1).value_name(name).allow_hyphen_values(true)
            }
        };
        if flag.name == "v" {
            arg = arg.short('v');
        }
        command = match (flag.fate, flag.kind) {
            (Fate::Read, Kind::List(_)) => {
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
    let is_supervisor = match flags.text("cloud-provider").as_str() {
        "vsphere" => false,
        "vsphere-paravirtual" => true,
        other => {
            let what = format!(
                "unknown cloud provider {other:?}; expected vsphere or vsphere-paravirtual"
            );
            return Err(fail("cloud-provider", what));
        }
    };
    let cloud_config = flags.text("cloud-config");
    if cloud_config.is_empty() {
        return Err(fail("cloud-config", "is required; give the path of vsphere.conf"));
    }
    let path = |name| Some(flags.text(name)).filter(|t| !t.is_empty());
    let mut notes = notes(flags)?;
    let secure_port = flags.parsed("secure-port", "a port number")?;
    let serving = serving::read(flags, &mut notes)?;
    if secure_port == 0 {
        notes.extend(serving::notes_without_port(flags));
    }
    let mut options = options(flags, &mut notes)?;
    let mode = flags.text("instances-mode");
    let mode = mode.parse::<InstancesMode>().map_err(|what| fail("instances-mode", what))?;
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
    Ok(Arguments {
        cloud_config: cloud_config.into(),
        kubeconfig: path("kubeconfig").map(PathBuf::from),
        master: path("master"),
        bind_address: flags.parsed("bind-address", "an IP address")?,
        secure_port,
        serving,
        unknown_keys: if flags.flag("strict-config")? {
            UnknownKeys::Refuse
        } else {
            UnknownKeys::Warn
        },
        verbosity: flags.parsed("v", "a number from 0 to 255")?,
        json_logs: is_json(flags)?,
        supervisor,
        options,
        notes,
    })
}

/// Parses `--logging-format`, or its older name `--log-format`; returns true for JSON.
fn is_json(flags: Flags<'_>) -> Result<bool, ArgumentsError> {
    let (format, older) = (flags.text("logging-format"), flags.text("log-format"));
    if !older.is_empty() && flags.is_given("logging-format") && older != format {
        let what = format!("{older:?} contradicts --logging-format; omit --log-format");
        return Err(fail("log-format", what));
    }
    let (flag, text) =
        if older.is_empty() { ("logging-format", format) } else { ("log-format", older) };
    match text.as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        other => Err(fail(flag, format!("{other:?} is neither text nor json"))),
    }
}

fn options(flags: Flags<'_>, notes: &mut Vec<String>) -> Result<Options, ArgumentsError> {
    let controllers = controllers::select(&flags.all("controllers").join(","))
        .map_err(|what| fail("controllers", what))?;
    let period = |name: &'static str| {
        parse_duration(&flags.text(name)).map_err(|err| fail(name, err.to_string()))
    };
    let positive = |name: &'static str| match period(name)? {
        period if period.is_zero() => Err(fail(name, "must be more than zero")),
        period => Ok(period),
    };
    let workers: usize = flags.parsed("concurrent-node-syncs", "a number of workers")?;
    if workers == 0 {
        return Err(fail(
            "concurrent-node-syncs",
            "must be at least 1: with 0 no node is initialized",
        ));
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
    let qps: f64 = flags.parsed("kube-api-qps", "a number of requests per second")?;
    if !qps.is_finite() {
        return Err(fail("kube-api-qps", format!("{qps} is not a number of requests per second")));
    }
    // A negative rate means no limit, and then the burst does not matter; it may be negative,
    // because it is signed in Go.
    let burst = if qps < 0.0 {
        flags.parsed::<i32>("kube-api-burst", "a number of requests")?.max(0).unsigned_abs()
    } else {
        flags.parsed("kube-api-burst", "a number of requests")?
    };
    if qps > 0.0 && burst == 0 {
        let what = "must be more than 0, because --kube-api-qps is";
        return Err(fail("kube-api-burst", what));
    }
    Ok((qps, burst))
}

fn leader_election(
    flags: Flags<'_>,
    period: &dyn Fn(&'static str) -> Result<std::time::Duration, ArgumentsError>,
) -> Result<LeaderElection, ArgumentsError> {
    if flags.text("leader-elect-resource-lock") != "leases" {
        return Err(fail("leader-elect-resource-lock", "only the value leases is supported"));
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
            return Err(fail("node-labels", format!("{pair:?} is not of the form KEY=VALUE")));
        };
        if !valid_label(key) {
            return Err(fail(
                "node-labels",
                format!("invalid key {key:?} of a label; write it like role or example.com/role"),
            ));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// Returns notes about the flags that have no effect and are set to something that the provider
/// does not do anyway.
///
/// # Errors
///
/// If such a flag concerns security, or if a boolean flag without effect has an invalid value.
fn notes(flags: Flags<'_>) -> Result<Vec<String>, ArgumentsError> {
    let mut notes = Vec::new();
    for Flag { name, kind, fate, .. } in FLAGS {
        let values = match fate {
            Fate::Read => continue,
            Fate::Noted(values) | Fate::Refused(values, _) => values,
        };
        let texts = flags.all(name);
        if let (Kind::Bool, Some(text)) = (kind, texts.last()) {
            boolean(name, text)?;
        }
        // Only the last value of a boolean counts, as in Go.
        let counted = if matches!(kind, Kind::Bool) { texts.len().saturating_sub(1) } else { 0 };
        if texts[counted..].iter().all(|text| values.contains(&text.as_str())) {
            continue;
        }
        if let Fate::Refused(_, remedy) = fate {
            return Err(fail(
                name,
                format!("has no effect in this provider and is about security; {remedy}"),
            ));
        }
        notes.push(format!("--{name} has no effect in this provider"));
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
        expected: &str,
    ) -> Result<T, ArgumentsError> {
        let text = self.text(name);
        text.parse().map_err(|_| fail(name, format!("{text:?} is not {expected}")))
    }
}

/// Parses a boolean as Go does.
fn boolean(name: &'static str, text: &str) -> Result<bool, ArgumentsError> {
    match text {
        text if TRUE.contains(&text) => Ok(true),
        text if FALSE.contains(&text) => Ok(false),
        other => Err(fail(name, format!("{other:?} is neither true nor false"))),
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
