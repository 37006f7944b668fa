//! What can be written on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sim_world::Nodes;

use super::host;
use crate::Profile;

/// A fake vCenter and a fake workload cluster over one simulated world.
#[derive(Debug, Parser)]
#[command(name = "sim", version, arg_required_else_help = true, max_term_width = 100)]
pub(super) struct Arguments {
    /// What is logged to standard error: error, warn, info, debug, or a filter such as sim=debug
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

/// What is typed first.
const EXAMPLES: &str = "\
Examples:
  sim serve
      The default inventory on the default ports
  sim serve --vms 20 --zones 3 --env lab.env
      20 machines in 3 zones, each with a Node; then: . ./lab.env && govc about && kubectl get nodes
  sim serve --vms 1000 --nodes 0 --state lab
      A large inventory without Nodes, kept in the directory lab over restarts
  sim world vm power-off node-0001
      In another terminal: something happens to a machine
  sim fault add '{\"id\": \"slow\", \"match\": {\"op\": \"@login\"}, \"do\": [{\"delay\": \"2s\"}]}'
      In another terminal: logins take two seconds";

/// Serves a vCenter and a cluster until SIGTERM or SIGINT; another one a second or more later aborts.
///
/// Prints endpoints, credentials and what to export for govc and kubectl. Without any option the world
/// is the default inventory of simulators: one datacenter, a cluster of three hosts, a standalone host,
/// four machines, no nodes. With --vms, --zones or --nodes it has what they say and nothing else.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Serve {
    /// The world to begin with, YAML or JSON (apiVersion: sim.vsphere/v1alpha1, kind: World); options
    /// here override it
    #[arg(long, value_name = "FILE", help_heading = "World")]
    pub(super) world: Option<PathBuf>,
    /// Machines per vCenter: node-0001, node-0002, …; none if only --zones or --nodes is given
    #[arg(long, value_name = "N", help_heading = "World")]
    pub(super) vms: Option<u32>,
    /// How many of them run a kubelet and have a Node in the cluster, all of them at most and if left out
    #[arg(long, value_name = "N|all", value_parser = nodes, help_heading = "World")]
    pub(super) nodes: Option<Nodes>,
    /// Clusters per vCenter, each tagged as a zone; one without a tag if left out
    #[arg(long, value_name = "Z", help_heading = "World")]
    pub(super) zones: Option<u32>,
    /// How many vCenters there are: vc0, vc1, …, 100 at most; one if left out
    #[arg(long, value_name = "K", help_heading = "World")]
    pub(super) vcenters: Option<u32>,
    /// Where ids, UUIDs, passwords and draws come from: same seed, same world; 0 if left out
    #[arg(long, value_name = "S", help_heading = "World")]
    pub(super) seed: Option<u64>,
    /// Whether kubelets renew leases; off keeps nodes Ready without any work
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true,
        help_heading = "World"
    )]
    pub(super) heartbeats: Switch,
    /// Lets roles and bindings decide who may do what in the cluster, as real ones do; without it, whoever
    /// has a token that is good may do everything
    #[arg(long, help_heading = "World")]
    pub(super) rbac: bool,
    /// Fault rules to begin with: a YAML or JSON list, as `sim fault add` takes it
    #[arg(long, value_name = "FILE", help_heading = "World")]
    pub(super) faults: Option<PathBuf>,
    /// Has a Supervisor too, whose VirtualMachines the machines of vc0 are, and writes below DIR what a
    /// provider mounts: etc/cloud/ccm-provider and etc/kubernetes/guestclusters/cluster
    #[arg(long, value_name = "DIR", help_heading = "Supervisor")]
    pub(super) supervisor: Option<PathBuf>,
    /// What the provider may do there: the role that Tanzu provisions, the same with watch on
    /// VirtualMachines, or everything that providers ask for, as it is if left out
    #[arg(
        long,
        value_name = "tanzu|watch|full",
        hide_possible_values = true,
        help_heading = "Supervisor"
    )]
    pub(super) supervisor_profile: Option<SupervisorProfile>,

    /// Writes what is printed to FILE, for `. FILE`. Written last: when it is there, everything listens
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(super) env: Option<PathBuf>,
    /// Keeps certificates, keys, ports and the world in DIR, within seconds of every change; a sim that
    /// finds them goes on from there, whatever --world, --vms and the like say. Fault rules and the ledger
    /// are not kept
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub(super) state: Option<PathBuf>,
    /// Writes every record of the ledger to FILE, as JSON lines, each within a second of the end of its call
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(super) ledger: Option<PathBuf>,

    /// Where the first vCenter listens; others count ports up. Port 0 picks one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8989", help_heading = "Listeners")]
    pub(super) vcenter_listen: SocketAddr,
    /// Where the cluster's API server listens
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:26443",
        help_heading = "Listeners"
    )]
    pub(super) cluster_listen: SocketAddr,
    /// Where the Supervisor's API server listens, if there is a Supervisor
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:26444",
        help_heading = "Listeners"
    )]
    pub(super) supervisor_listen: SocketAddr,
    /// Where the admin port listens. Beyond loopback it wants the bearer token in the --env file
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8900", help_heading = "Listeners")]
    pub(super) admin_listen: SocketAddr,
    /// The bearer token that the admin port wants; if left out a random one, and on loopback none
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SIM_ADMIN_TOKEN",
        hide_env_values = true,
        value_parser = host::token,
        help_heading = "Listeners"
    )]
    pub(super) admin_token: Option<String>,
    /// Name under which clients reach the vCenters; the address they listen on if left out
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) vcenter_advertise: Option<String>,
    /// Name under which clients reach the cluster; its address if left out
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) cluster_advertise: Option<String>,
    /// Name under which clients reach the Supervisor; its address if left out
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) supervisor_advertise: Option<String>,
    /// Name under which clients reach the admin port; its address if left out
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host::advertised, help_heading = "Listeners")]
    pub(super) admin_advertise: Option<String>,
    /// One more name or address that certificates are good for; may be given again
    #[arg(long = "tls-san", value_name = "NAME", value_parser = host::name, help_heading = "Listeners")]
    pub(super) tls_sans: Vec<String>,
    /// Speaks HTTP without TLS
    #[arg(long, help_heading = "Listeners")]
    pub(super) plain_text: bool,
}

/// What a provider may do in the Supervisor.
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

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

/// Where the admin port of a running sim is.
#[derive(Debug, Args)]
pub(super) struct Admin {
    /// The admin port of the sim
    #[arg(long, value_name = "URL", env = "SIM_ADMIN", default_value = "http://127.0.0.1:8900")]
    pub(super) admin: String,
    /// Its bearer token, where it wants one
    #[arg(long, value_name = "TOKEN", env = "SIM_ADMIN_TOKEN", hide_env_values = true)]
    pub(super) admin_token: Option<String>,
}

/// Looks at the world of a running sim, and makes things happen in it.
#[derive(Debug, Subcommand)]
pub(super) enum World {
    /// Lists the machines
    List {
        /// As JSON, with vCenters and clock
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        admin: Admin,
    },
    /// Carries out a command, such as '{"vm.rename": {"machine": "node-0001", "to": "other"}}'
    Event {
        /// The command or a list of them, as JSON; - reads standard input
        #[arg(value_name = "JSON")]
        event: String,
        #[command(flatten)]
        admin: Admin,
    },
    /// Does something to machines
    Vm {
        /// What
        #[arg(value_enum)]
        verb: Verb,
        /// Machines by name; vc1/NAME where several vCenters have one
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        admin: Admin,
    },
}

/// What can be done to a machine without further words.
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
    /// The world's command.
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

/// Fault rules of a running sim.
#[derive(Debug, Subcommand)]
pub(super) enum Fault {
    /// Lists failures with names, which `sim fault add` and --faults take in place of rules
    Known,
    /// Adds rules, such as '{"id": "slow", "match": {"op": "@login"}, "do": [{"delay": "2s"}]}'
    Add {
        /// A YAML or JSON file, the rules themselves as JSON, a name of `sim fault known`, or - for standard
        /// input
        #[arg(value_name = "FILE|JSON|NAME")]
        rules: String,
        #[command(flatten)]
        admin: Admin,
    },
    /// Lists the rules with their counters
    List {
        #[command(flatten)]
        admin: Admin,
    },
    /// Removes rules
    Rm {
        /// Their ids
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// All of them
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        admin: Admin,
    },
}

/// Reads the ledger of a running sim: every call, as JSON lines.
#[derive(Debug, Args)]
pub(super) struct Ledger {
    /// Counts calls per server and operation
    #[arg(long)]
    pub(super) counts: bool,
    /// Only these operations: exact, with *, or a class (@read, @write, @login, @longpoll, @task)
    #[arg(long, value_name = "PATTERN")]
    pub(super) op: Option<String>,
    /// From this sequence number on
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(super) since: u64,
    #[command(flatten)]
    pub(super) admin: Admin,
}

/// Asks a sim whether it serves: ends with 0 if it does, with 1 if not. For health checks of containers.
#[derive(Debug, Args)]
pub(super) struct Health {
    #[command(flatten)]
    pub(super) admin: Admin,
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
