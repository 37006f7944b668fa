//! Parses the command line of `provider autoscaler`.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, parser::ValueSource};

use super::{ArgumentsError, ServingArguments};
use crate::{
    AccessSettings, AllowedPaths, ClusterApiSettings, InputError, KubeletReservation,
    NodeGroupSettings, ServingTls, VmOperatorVersion, input::check_dns_label,
};

/// Word after the program's name that selects this command line.
pub const COMMAND: &str = "autoscaler";

/// Platform on which the server makes machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerBackendName {
    /// VirtualMachine objects of a Supervisor.
    Supervisor,
    /// Clones of templates in a vCenter.
    Vcenter,
    /// MachineDeployments and MachineSets of Cluster API.
    ClusterApi,
}

impl AutoscalerBackendName {
    const ALL: [Self; 3] = [Self::Supervisor, Self::Vcenter, Self::ClusterApi];

    /// Returns the value of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Supervisor => "supervisor",
            Self::Vcenter => "vcenter",
            Self::ClusterApi => "cluster-api",
        }
    }
}

impl FromStr for AutoscalerBackendName {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let err = InputError::unknown("unknown backend", text);
            err.condition("expected supervisor, vcenter or cluster-api")
        })
    }
}

/// Options that only some backends have, by name, with these backends.
const OPTIONS_OF: [(&str, &[AutoscalerBackendName]); 16] = {
    use AutoscalerBackendName::{ClusterApi, Supervisor, Vcenter};
    [
        ("groups", &[Supervisor, Vcenter]),
        ("groups_from_cluster", &[Supervisor, Vcenter]),
        ("groups_kubeconfig", &[Supervisor, Vcenter]),
        ("groups_namespace", &[Supervisor, Vcenter]),
        ("bootstrap_directory", &[Vcenter]),
        ("namespace", &[Supervisor, ClusterApi]),
        ("supervisor_kubeconfig", &[Supervisor]),
        ("workload_kubeconfig", &[Supervisor, Vcenter]),
        ("vm_operator_api_version", &[Supervisor]),
        ("cloud_config", &[Vcenter]),
        ("journal", &[Vcenter]),
        ("journal_config_map", &[Vcenter]),
        ("journal_kubeconfig", &[Vcenter]),
        ("management_kubeconfig", &[ClusterApi]),
        ("cluster_name", &[ClusterApi]),
        ("reserved", &[ClusterApi]),
    ]
};

/// Serves Cluster Autoscalers (`--cloud-provider=externalgrpc`) with machines of a Supervisor, a
/// vCenter or Cluster API.
///
/// A machine is a VirtualMachine object in one namespace of the Supervisor, a clone of a template in
/// the vCenter, or a Machine of a MachineDeployment or MachineSet. Over a vCenter a journal holds the
/// state of the server; over the others the API server does. The server may restart at any time.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct AutoscalerArguments {
    /// Platform of the machines: supervisor, vcenter or cluster-api
    #[arg(long, value_name = "NAME", default_value = "supervisor")]
    pub backend: AutoscalerBackendName,
    /// supervisor, vcenter: file with the groups; the server reads it again while it runs
    #[arg(long, value_name = "FILE")]
    pub groups: Option<PathBuf>,
    /// supervisor, vcenter: reads the groups from NodeGroup objects of a cluster, instead of --groups
    #[arg(long)]
    pub groups_from_cluster: bool,
    /// Kubeconfig of the cluster with the NodeGroups [default: the cluster of this pod]
    #[arg(long, value_name = "FILE", requires = "groups_from_cluster")]
    pub groups_kubeconfig: Option<PathBuf>,
    /// Namespace of the NodeGroups [default: all namespaces]
    #[arg(long, value_name = "NAME", value_parser = namespace, requires = "groups_from_cluster")]
    pub groups_namespace: Option<String>,
    /// vcenter: directory with the files of bootstrap data that NodeGroups may name
    #[arg(long, value_name = "DIRECTORY", requires = "groups_from_cluster")]
    pub bootstrap_directory: Option<PathBuf>,
    /// Prints the CustomResourceDefinition of NodeGroups, and exits
    #[arg(long, exclusive = true)]
    pub print_crd: bool,
    /// supervisor: kubeconfig of the Supervisor; its context names the namespace of the machines
    #[arg(long, value_name = "FILE")]
    pub supervisor_kubeconfig: Option<PathBuf>,
    /// supervisor, vcenter: kubeconfig of the cluster that the machines join, in which the server creates the
    /// bootstrap tokens of groups with `token` [default: the cluster of this pod]
    #[arg(long, value_name = "FILE")]
    pub workload_kubeconfig: Option<PathBuf>,
    /// cluster-api: kubeconfig of the management cluster [default: the cluster of this pod]
    #[arg(long, value_name = "FILE")]
    pub management_kubeconfig: Option<PathBuf>,
    /// Namespace of the machines [default: supervisor: that of the kubeconfig's context; cluster-api: all
    /// namespaces]
    #[arg(long, value_parser = namespace)]
    pub namespace: Option<String>,
    /// cluster-api: name of the Cluster of the groups [default: that of all groups, which must be one]
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    pub cluster_name: Option<String>,
    /// cluster-api: resources that each kubelet keeps for the system: cpu, memory and ephemeral-storage,
    /// such as cpu=100m,memory=256Mi
    #[arg(long, value_name = "RESOURCES", default_value = "")]
    pub reserved: KubeletReservation,
    /// supervisor: API version of VirtualMachines: v1alpha5 or v1alpha6
    #[arg(long, value_name = "VERSION", default_value = "v1alpha5", value_parser = version)]
    pub vm_operator_api_version: VmOperatorVersion,
    /// vcenter: configuration with the vCenter and its credential, as of the cloud provider
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// vcenter: file with the journal of the machines
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// vcenter: ConfigMap with the journal of the machines, instead of --journal
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map)]
    pub journal_config_map: Option<(String, String)>,
    /// vcenter: kubeconfig of the cluster with the ConfigMap, with the Secret that the configuration names, and for events
    /// [default: the cluster of this pod]
    #[arg(long, value_name = "FILE")]
    pub journal_kubeconfig: Option<PathBuf>,
    /// Address and port on which autoscalers connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8086")]
    pub listen: SocketAddr,
    /// Certificate of the server and of the HTTPS endpoint, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", requires_all = ["tls_private_key_file", "client_ca_file"])]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Authorities whose client certificates the server accepts, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub client_ca_file: Option<PathBuf>,
    /// Serves without TLS on an address that other hosts can reach. Whoever connects can create and
    /// delete machines
    #[arg(long, conflicts_with = "tls_cert_file")]
    pub insecure_plain_text: bool,
    /// Label of Nodes with GPUs
    #[arg(long, value_name = "KEY", default_value = "")]
    pub gpu_label: String,
    /// Port of the HTTPS endpoint for /metrics, /healthz, /livez and /readyz [default: no endpoint]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub secure_port: Option<u16>,
    /// Address of the HTTPS endpoint [default: 0.0.0.0]
    #[arg(long, value_name = "ADDRESS", requires = "secure_port")]
    pub bind_address: Option<IpAddr>,
    /// Kubeconfig of the cluster that reviews the tokens of callers of the HTTPS endpoint [default: the
    /// cluster of this pod]
    #[arg(long, value_name = "FILE", requires = "secure_port")]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the cluster that reviews the permissions of callers of the HTTPS endpoint [default:
    /// the cluster of this pod]
    #[arg(long, value_name = "FILE", requires = "secure_port")]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Paths of the HTTPS endpoint that need no permission, separated by commas [default:
    /// /healthz,/readyz,/livez]
    #[arg(long, value_name = "PATHS", requires = "secure_port")]
    pub authorization_always_allow_paths: Option<AllowedPaths>,
    /// Verbosity of the log: 0 to 3 logs info and above, 4 and 5 also debug, 6 and more also trace
    #[arg(short, long, default_value_t = 2)]
    pub v: u8,
    /// True if the machines are those of the Supervisor that the provider around the server uses.
    #[arg(skip)]
    pub shares_supervisor: bool,
}

/// Flags that a server beside the controllers of a provider does not have: the process has one log, one
/// HTTPS endpoint, and its own commands.
const OF_PROCESS: [&str; 7] = [
    "v",
    "secure_port",
    "bind_address",
    "authentication_kubeconfig",
    "authorization_kubeconfig",
    "authorization_always_allow_paths",
    "print_crd",
];

/// Parts of a provider that a server beside its controllers uses unless its flags say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// True in Supervisor mode.
    pub(super) is_supervisor: bool,
    /// `--cloud-config` of the provider.
    pub(super) cloud_config: &'a Path,
    /// `--kubeconfig` of the provider.
    pub(super) kubeconfig: Option<&'a Path>,
}

impl AutoscalerArguments {
    /// Returns the selection of groups of Cluster API.
    pub fn cluster_api(&self) -> ClusterApiSettings {
        ClusterApiSettings {
            namespace: self.namespace.clone(),
            cluster_name: self.cluster_name.clone(),
            reserved: self.reserved.clone(),
        }
    }

    /// Returns the selection of NodeGroups; `None` if they are not the groups.
    pub fn node_groups(&self) -> Option<NodeGroupSettings> {
        self.groups_from_cluster.then(|| NodeGroupSettings {
            namespace: self.groups_namespace.clone(),
            bootstrap_directory: self.bootstrap_directory.clone(),
        })
    }

    /// Returns the address of the HTTPS endpoint and its settings; `None` without endpoint.
    pub fn serving(&self) -> Option<(SocketAddr, ServingArguments)> {
        let address = self.bind_address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let times = AccessSettings::default();
        let serving = ServingArguments {
            certificate: self.tls_cert_file.clone().zip(self.tls_private_key_file.clone()),
            tls: ServingTls::default(),
            authentication_kubeconfig: self.authentication_kubeconfig.clone(),
            authorization_kubeconfig: self.authorization_kubeconfig.clone(),
            always_allowed: self.authorization_always_allow_paths.clone().unwrap_or_default(),
            token_ttl: times.token_ttl,
            allowed_ttl: times.allowed_ttl,
            refused_ttl: times.refused_ttl,
        };
        Some((SocketAddr::new(address, self.secure_port?), serving))
    }
}

fn version(text: &str) -> Result<VmOperatorVersion, InputError> {
    let version: VmOperatorVersion = text.parse()?;
    if version == VmOperatorVersion::V1Alpha2 {
        let err = InputError::invalid(text, "has no field for the BIOS UUID of a new machine");
        return Err(err.condition("expected v1alpha5 or v1alpha6"));
    }
    Ok(version)
}

fn namespace(text: &str) -> Result<String, InputError> {
    check_dns_label(text, 63).map(|()| text.to_owned())
}

/// Returns the name of a Cluster, which is a DNS name and the value of a label.
fn cluster_name(text: &str) -> Result<String, InputError> {
    let is_valid = text.len() <= 63 && text.split('.').all(|it| check_dns_label(it, 63).is_ok());
    if is_valid {
        return Ok(text.to_owned());
    }
    let err = InputError::invalid(text, "is not the name of a Cluster");
    Err(err.remedy(
        "write at most 63 lower-case letters, digits, dashes and dots, with a letter or digit at both ends and around each dot",
    ))
}

fn config_map(text: &str) -> Result<(String, String), InputError> {
    let parts = text.split_once('/').filter(|(namespace, name)| {
        check_dns_label(namespace, 63).is_ok() && check_dns_label(name, 63).is_ok()
    });
    let parts = parts.ok_or_else(|| {
        let err = InputError::invalid(text, "does not name a ConfigMap");
        err.remedy("write NAMESPACE/NAME")
    })?;
    Ok((parts.0.to_owned(), parts.1.to_owned()))
}

impl AutoscalerArguments {
    /// Sets options that are not given to what the provider around the server uses.
    fn take_from(&mut self, around: Surroundings<'_>) {
        let kubeconfig = || around.kubeconfig.map(Path::to_owned);
        if self.groups_from_cluster && self.groups_kubeconfig.is_none() {
            self.groups_kubeconfig = kubeconfig();
        }
        match self.backend {
            AutoscalerBackendName::Supervisor => {
                self.shares_supervisor =
                    around.is_supervisor && self.supervisor_kubeconfig.is_none();
                if self.workload_kubeconfig.is_none() {
                    self.workload_kubeconfig = kubeconfig();
                }
            }
            AutoscalerBackendName::Vcenter => {
                if !around.is_supervisor && self.cloud_config.is_none() {
                    self.cloud_config = Some(around.cloud_config.to_owned());
                }
                if self.journal_kubeconfig.is_none() {
                    self.journal_kubeconfig = kubeconfig();
                }
                if self.workload_kubeconfig.is_none() {
                    self.workload_kubeconfig = kubeconfig();
                }
            }
            AutoscalerBackendName::ClusterApi => {}
        }
    }
}

/// Parses the flags of a server beside the controllers of a provider; `None` without flags.
pub(super) fn parse_beside(
    flags: Vec<String>,
    around: Surroundings<'_>,
) -> Result<Option<AutoscalerArguments>, InputError> {
    if flags.is_empty() {
        return Ok(None);
    }
    let words = std::iter::once("provider autoscaler".to_owned()).chain(flags);
    let matches = autoscaler_command().try_get_matches_from(words).map_err(|err| one_line(&err))?;
    let given = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    if let Some(id) = OF_PROCESS.iter().find(given) {
        let err = InputError::new("has no effect beside the controllers of a provider");
        return Err(err
            .remedy("remove it, or write the flag of the provider")
            .in_flag(&id.replace('_', "-")));
    }
    checked(&matches, Some(around)).map(Some)
}

/// Returns the problem in an error of clap, without its usage.
fn one_line(err: &clap::Error) -> InputError {
    let text = err.to_string();
    let line = text.lines().next().unwrap_or_default();
    let problem = line.strip_prefix("error: ").unwrap_or("only flags with values are possible");
    InputError::new(problem.to_owned()).remedy("`provider autoscaler --help` lists the flags")
}

/// Checks that the options that the backend needs are given.
fn require_options(of: &AutoscalerArguments) -> Result<(), InputError> {
    let backend = of.backend.as_str();
    let require = |flag: &str, is_given: bool, others: &str| {
        if is_given {
            return Ok(());
        }
        let err = InputError::new(format!("is required with --backend {backend}"));
        Err(err.remedy(format!("add --{flag} FILE, or {others}")).in_flag(flag))
    };
    let another = "choose another --backend";
    if of.backend != AutoscalerBackendName::ClusterApi {
        let is_given = of.groups.is_some() || of.groups_from_cluster;
        require("groups", is_given, "--groups-from-cluster")?;
    }
    if let (Some(file), true) = (&of.groups, of.groups_from_cluster) {
        let file = file.display().to_string();
        let err = InputError::invalid(&file, "is a second source of groups");
        return Err(err.remedy("give --groups or --groups-from-cluster").in_flag("groups"));
    }
    match of.backend {
        AutoscalerBackendName::Supervisor => {
            let is_known = of.supervisor_kubeconfig.is_some() || of.shares_supervisor;
            require("supervisor-kubeconfig", is_known, another)
        }
        AutoscalerBackendName::Vcenter => {
            require("cloud-config", of.cloud_config.is_some(), another)?;
            let is_given = of.journal.is_some() || of.journal_config_map.is_some();
            require("journal", is_given, "--journal-config-map NAMESPACE/NAME")?;
            if of.groups_from_cluster && of.bootstrap_directory.is_none() {
                let err = InputError::new("is required with --groups-from-cluster");
                let remedy = "name the directory with the bootstrap data, because a NodeGroup may name no other file";
                return Err(err.remedy(remedy).in_flag("bootstrap-directory"));
            }
            match (&of.journal, &of.journal_config_map) {
                (Some(file), Some(_)) => {
                    let err =
                        InputError::invalid(&file.display().to_string(), "is a second journal");
                    Err(err.remedy("give --journal or --journal-config-map").in_flag("journal"))
                }
                _ => Ok(()),
            }
        }
        AutoscalerBackendName::ClusterApi => Ok(()),
    }
}

/// Returns the clap command.
pub fn autoscaler_command() -> Command {
    let command = Command::new("provider autoscaler").version(env!("CARGO_PKG_VERSION"));
    AutoscalerArguments::augment_args(command)
}

/// Parses the words after `provider autoscaler`.
///
/// # Errors
///
/// For a word that clap refuses, for a flag of another backend or one that the backend lacks, and for
/// an address beyond this host without TLS.
pub fn parse_autoscaler(
    arguments: impl IntoIterator<Item = String>,
) -> Result<AutoscalerArguments, ArgumentsError> {
    let words = std::iter::once("provider autoscaler".to_owned()).chain(arguments);
    let matches = autoscaler_command().try_get_matches_from(words)?;
    Ok(checked(&matches, None)?)
}

/// Checks the options together. `around` has the parts of a provider that the server may use.
fn checked(
    matches: &ArgMatches,
    around: Option<Surroundings<'_>>,
) -> Result<AutoscalerArguments, InputError> {
    let parsed = AutoscalerArguments::from_arg_matches(matches);
    let mut parsed = parsed.map_err(|err| one_line(&err))?;
    if parsed.print_crd {
        return Ok(parsed);
    }
    refuse_options_of_other_backends(matches, parsed.backend)?;
    if let Some(around) = around {
        parsed.take_from(around);
    }
    require_options(&parsed)?;
    let is_plain = parsed.tls_cert_file.is_none();
    if is_plain && !parsed.listen.ip().is_loopback() && !parsed.insecure_plain_text {
        let err = InputError::invalid(
            &parsed.listen.to_string(),
            "is an address that other hosts can reach, and whoever connects without TLS can create and delete machines",
        );
        let remedy = "set --tls-cert-file, --tls-private-key-file and --client-ca-file, or --insecure-plain-text";
        return Err(err.remedy(remedy).in_flag("listen"));
    }
    Ok(parsed)
}

/// Refuses an option that has no effect with this backend.
fn refuse_options_of_other_backends(
    matches: &ArgMatches,
    backend: AutoscalerBackendName,
) -> Result<(), InputError> {
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let stray = OPTIONS_OF.iter().find(|(id, of)| given(id) && !of.contains(&backend));
    let Some((id, _)) = stray else { return Ok(()) };
    let values = matches.get_raw(id).into_iter().flatten();
    let value: Vec<_> = values.map(|it| it.to_string_lossy()).collect();
    let problem = match backend {
        AutoscalerBackendName::Supervisor => "has no effect with --backend supervisor",
        AutoscalerBackendName::Vcenter => "has no effect with --backend vcenter",
        AutoscalerBackendName::ClusterApi => "has no effect with --backend cluster-api",
    };
    let err = InputError::invalid(&value.join(","), problem);
    Err(err.remedy("remove it, or choose another --backend").in_flag(&id.replace('_', "-")))
}

#[cfg(test)]
mod tests;
