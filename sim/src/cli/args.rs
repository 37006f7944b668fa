//! Definition of the command line: commands, options and their help.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sim_world::Nodes;

use super::host;
use super::world_file::{EVENT_TTL_REMEDY, is_event_ttl};
use crate::Profile;

/// Simulates vCenters, a Supervisor and a workload cluster over one world.
#[derive(Debug, Parser)]
#[command(name = "sim", version, arg_required_else_help = true, max_term_width = 100)]
pub(super) struct Arguments {
    /// Log filter for standard error: error, warn, info, debug, or directives such as sim=debug
    #[arg(long, global = true, env = "SIM_LOG", default_value = "warn", value_name = "FILTER")]
    pub(super) log: String,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Serve(Box<Serve>),
    #[command(subcommand)]
    World(World),
    #[command(subcommand)]
    Fault(Fault),
    Ledger(Ledger),
    Health(Health),
}

/// Examples at the end of the help of `sim serve`.
const EXAMPLES: &str = "\
Examples:
  sim serve
      The default inventory on the default ports
  sim serve --vms 20 --zones 3 --env lab.env
      20 machines in 3 zones, each with a Node; then: . ./lab.env && govc about && kubectl get nodes
  sim serve --vms 1000 --nodes 0 --state lab
      A large inventory without Nodes, kept in the directory lab over restarts
  sim world vm power-off node-0001
      In another terminal: powers a machine off
  sim fault add '{\"id\": \"slow\", \"match\": {\"op\": \"@login\"}, \"do\": [{\"delay\": \"2s\"}]}'
      In another terminal: delays logins by two seconds";

/// Serves a vCenter and a cluster until SIGTERM or SIGINT. A second signal, at least a second
/// later, aborts.
///
/// Prints endpoints, credentials and the variables that govc and kubectl need. Without
/// --world, --vms, --zones and --nodes the world has one datacenter, a cluster of three hosts, a
/// standalone host, four machines and no nodes. With --vms, --zones or --nodes the world instead
/// has the machines that these options request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Serve {
    /// World file, YAML or JSON (apiVersion: sim.vsphere/v1alpha1, kind: World); the options below
    /// override its values
    #[arg(long, value_name = "FILE", help_heading = "World")]
    pub(super) world: Option<PathBuf>,
    /// Number of machines per vCenter: node-0001, node-0002, … [default: the default world; 0 with
    /// --zones or --nodes]
    #[arg(long, value_name = "N", help_heading = "World")]
    pub(super) vms: Option<u32>,
    /// Number of machines per vCenter that run a kubelet and have a Node in the cluster [default:
    /// all; none in the default world]
    #[arg(long, value_name = "N|all", value_parser = nodes, help_heading = "World")]
    pub(super) nodes: Option<Nodes>,
    /// Number of clusters per vCenter, each tagged as a zone [default: one cluster without a tag]
    #[arg(long, value_name = "Z", help_heading = "World")]
    pub(super) zones: Option<u32>,
    /// Number of vCenters: vc0, vc1, …, at most 100 [default: 1]
    #[arg(long, value_name = "K", help_heading = "World")]
    pub(super) vcenters: Option<u32>,
    /// Seed of ids, UUIDs, passwords and random draws; the same seed gives the same world
    /// [default: 0]
    #[arg(long, value_name = "S", help_heading = "World")]
    pub(super) seed: Option<u64>,
    /// Renewal of leases by the kubelets; off keeps Nodes Ready without renewals
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true,
        help_heading = "World"
    )]
    pub(super) heartbeats: Switch,
    /// Runs a scheduler, the controllers of Deployments, ReplicaSets, DaemonSets, Jobs and
    /// disruption budgets, and the pods on the Nodes of the machines; without this option pods stay
    /// as clients leave them
    #[arg(long, help_heading = "World")]
    pub(super) workloads: bool,
    /// Time for which the clusters keep an Event after its last write, in whole seconds
    /// [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = event_ttl, help_heading = "World")]
    pub(super) event_ttl: Option<Duration>,
    /// Authorizes requests to the cluster by roles and bindings (RBAC); without this option every
    /// valid token may do everything
    #[arg(long, help_heading = "World")]
    pub(super) rbac: bool,
    /// Fault rules in force from the start: a YAML or JSON list, as for `sim fault add`
    #[arg(long, value_name = "FILE", help_heading = "World")]
    pub(super) faults: Option<PathBuf>,
    /// Adds a Supervisor that manages the machines of vc0 as VirtualMachines, and writes the files
    /// that a provider mounts below DIR: etc/cloud/ccm-provider and
    /// etc/kubernetes/guestclusters/cluster
    #[arg(long, value_name = "DIR", help_heading = "Supervisor")]
    pub(super) supervisor: Option<PathBuf>,
    /// Role of the provider in the Supervisor: tanzu is the role that Tanzu provisions, watch adds
    /// watch on VirtualMachines to it, full has every verb that providers use [default: full]
    #[arg(
        long,
        value_name = "tanzu|watch|full",
        hide_possible_values = true,
        help_heading = "Supervisor"
    )]
    pub(super) supervisor_profile: Option<SupervisorProfile>,

    /// Writes endpoints and credentials to FILE as shell variables, for `. FILE`. The file appears
    /// once every listener accepts connections
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(super) env: Option<PathBuf>,
    /// Saves certificates, keys, ports, admin token and world in DIR, within seconds of a change of
    /// the world. A sim that finds a saved world continues it and ignores --world, --vms and other
    /// options about the world. Fault rules and the ledger are not saved
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub(super) state: Option<PathBuf>,
    /// Writes every ledger record to FILE as a JSON line, within a second of the end of its call
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(super) ledger: Option<PathBuf>,
    /// Memory for ledger records, in MiB; the oldest records are removed first. About 1,200 calls
    /// fit in one MiB
    #[arg(
        long,
        value_name = "MIB",
        default_value = "128",
        value_parser = clap::value_parser!(u16).range(1..),
        help_heading = "Files"
    )]
    pub(super) ledger_memory: u16,
    /// Writes the world and each of its events to FILE, within a second, for `conformance judge`.
    /// The file holds every password and session
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(super) record: Option<PathBuf>,

    /// Address of the first vCenter; further vCenters use the next ports. Port 0 picks free ports
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8989", help_heading = "Listeners")]
    pub(super) vcenter_listen: SocketAddr,
    /// Address of the cluster's API server
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:26443",
        help_heading = "Listeners"
    )]
    pub(super) cluster_listen: SocketAddr,
    /// Address of the Supervisor's API server, with --supervisor
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:26444",
        help_heading = "Listeners"
    )]
    pub(super) supervisor_listen: SocketAddr,
    /// Address of the admin port. Beyond loopback it requires the bearer token in the --env file
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8900", help_heading = "Listeners")]
    pub(super) admin_listen: SocketAddr,
    /// Forwards calls of Cluster Autoscalers (--cloud-provider=externalgrpc) to this server, so that
    /// rules can disturb them and the ledger has them. In plain text
    #[arg(long, value_name = "HOST:PORT", value_parser = host::with_port, help_heading = "Listeners")]
    pub(super) autoscaler_server: Option<String>,
    /// Address on which Cluster Autoscalers connect, with --autoscaler-server
    /// [default: 127.0.0.1:8085]
    #[arg(long, value_name = "ADDR", requires = "autoscaler_server", help_heading = "Listeners")]
    pub(super) autoscaler_listen: Option<SocketAddr>,
    /// Bearer token of the admin port [default: a random one; none on loopback]
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SIM_ADMIN_TOKEN",
        hide_env_values = true,
        value_parser = host::token,
        help_heading = "Listeners"
    )]
    pub(super) admin_token: Option<String>,
    /// Host name under which clients reach the vCenters [default: the listen address]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) vcenter_advertise: Option<String>,
    /// Host name under which clients reach the cluster [default: the listen address]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) cluster_advertise: Option<String>,
    /// Host name under which clients reach the Supervisor [default: the listen address]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) supervisor_advertise: Option<String>,
    /// Host name under which clients reach the admin port [default: the listen address]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) admin_advertise: Option<String>,
    /// Additional name or address in the certificates; repeatable
    #[arg(long = "tls-san", value_name = "NAME", value_parser = host::name, help_heading = "Listeners")]
    pub(super) tls_sans: Vec<String>,
    /// Serves HTTP without TLS
    #[arg(long, help_heading = "Listeners")]
    pub(super) plain_text: bool,
}

/// Role of a provider in the Supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SupervisorProfile {
    Tanzu,
    Watch,
    Full,
}

impl From<SupervisorProfile> for Profile {
    fn from(profile: SupervisorProfile) -> Self {
        match profile {
            SupervisorProfile::Tanzu => Self::Tanzu,
            SupervisorProfile::Watch => Self::Watch,
            SupervisorProfile::Full => Self::Full,
        }
    }
}

/// Value of an option that is `on` or `off`, such as `--heartbeats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

/// Address and token of the admin port of a running sim.
#[derive(Debug, Args)]
pub(super) struct Admin {
    /// Admin port of the sim
    #[arg(long, value_name = "URL", env = "SIM_ADMIN", default_value = "http://127.0.0.1:8900")]
    pub(super) admin: String,
    /// Bearer token of the admin port, if required
    #[arg(long, value_name = "TOKEN", env = "SIM_ADMIN_TOKEN", hide_env_values = true)]
    pub(super) admin_token: Option<String>,
}

/// Shows and changes the world of a running sim.
#[derive(Debug, Subcommand)]
pub(super) enum World {
    /// Lists the machines
    List {
        /// Prints JSON, with vCenters and clock
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        admin: Admin,
    },
    /// Applies a world command, such as '{"vm.rename": {"machine": "node-0001", "to": "other"}}'
    Event {
        /// A world command or a list of them, as JSON; - reads standard input
        #[arg(value_name = "JSON")]
        event: String,
        #[command(flatten)]
        admin: Admin,
    },
    /// Changes the power or registration state of machines
    Vm {
        /// Action. inaccessible: the machine's storage is lost; orphan: its host unregisters it
        /// without vCenter; connect: ends either; reregister: registers it again with a new id
        #[arg(value_enum)]
        verb: Verb,
        /// Names of machines; vc1/NAME if several vCenters have a machine of that name
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        admin: Admin,
    },
}

/// A change of a machine that needs no argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Verb {
    PowerOn,
    PowerOff,
    Suspend,
    Reset,
    Delete,
    Inaccessible,
    Orphan,
    Connect,
    Reregister,
}

impl Verb {
    /// Returns the name of the world's command for this change.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::PowerOn => "vm.powerOn",
            Self::PowerOff => "vm.powerOff",
            Self::Suspend => "vm.suspend",
            Self::Reset => "vm.reset",
            Self::Delete => "vm.delete",
            Self::Inaccessible => "vm.inaccessible",
            Self::Orphan => "vm.orphan",
            Self::Connect => "vm.connect",
            Self::Reregister => "vm.reregister",
        }
    }
}

/// Lists, adds and removes fault rules of a running sim.
#[derive(Debug, Subcommand)]
pub(super) enum Fault {
    /// Lists the named failures, which `sim fault add` and --faults accept in place of rules
    Known,
    /// Adds rules, such as '{"id": "slow", "match": {"op": "@login"}, "do": [{"delay": "2s"}]}'
    Add {
        /// A YAML or JSON file, rules as JSON, a name from `sim fault known`, or - for standard
        /// input
        #[arg(value_name = "FILE|JSON|NAME")]
        rules: String,
        #[command(flatten)]
        admin: Admin,
    },
    /// Lists the rules, and how often each one matched and fired
    List {
        #[command(flatten)]
        admin: Admin,
    },
    /// Removes rules
    Rm {
        /// Ids of the rules
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// Removes all rules
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        admin: Admin,
    },
}

/// Prints the ledger of a running sim as JSON lines: the calls and notes in memory.
#[derive(Debug, Args)]
pub(super) struct Ledger {
    /// Prints counts of calls per server and operation, not the records
    #[arg(long)]
    pub(super) counts: bool,
    /// Only operations that match: a name, a pattern with *, or a class (@read, @write, @login,
    /// @longpoll, @task)
    #[arg(long, value_name = "PATTERN")]
    pub(super) op: Option<String>,
    /// First sequence number to print
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(super) since: u64,
    #[command(flatten)]
    pub(super) admin: Admin,
}

/// Checks the health of a sim: exits with 0 if it serves, else with 1. For health checks of
/// containers.
#[derive(Debug, Args)]
pub(super) struct Health {
    #[command(flatten)]
    pub(super) admin: Admin,
}

fn event_ttl(text: &str) -> Result<Duration, String> {
    let ttl = sim_world::duration::parse(text).map_err(|error| error.to_string())?;
    if is_event_ttl(ttl) { Ok(ttl) } else { Err(EVENT_TTL_REMEDY.to_owned()) }
}

fn nodes(text: &str) -> Result<Nodes, String> {
    match text {
        "all" => Ok(Nodes::All),
        count => {
            let count = count.parse();
            count.map(Nodes::Count).map_err(|_| "write a number or all".to_owned())
        }
    }
}
