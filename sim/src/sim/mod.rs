//! A running sim: a world, the servers around it, and the handles for tests.

mod test_macro;
pub mod testing;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sim_world::vcenter::Password;
use sim_world::{Applied, Command, ControlPlane, Fault, Retain, State, Topology, World};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::{Backing, BackingSlot, ClusterFace};
use crate::faults::{Faults, Rule, RuleError, RuleId};
use crate::ledger::{Keep, Ledger};
use crate::server::Server;
use crate::server::autoscaler::{AUTOSCALER, AutoscalerFace, Dial};
use crate::server::call_path::{BodyReader, CallPath, Front};
use crate::shared_world::{Control, RuleGuard};
use crate::supervisor::{self, Profile, SUPERVISOR, Supervisor};
use crate::{Clock, WorldHandle};
use kube_sim_api::{Access, Identity, Tokens};

/// Name of the workload cluster in the ledger and in rules.
pub const CLUSTER: &str = "cluster";

/// Default epoch, the timestamp at which world time is zero: 2026-01-01T00:00:00Z.
pub const VIRTUAL_EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Options for the start of a sim.
#[derive(Clone, Debug)]
pub struct Builder {
    topology: Topology,
    seed: u64,
    epoch: Timestamp,
    keep: Keep,
    retain: Retain,
    restored: Option<Box<State>>,
    secure_cookies: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            topology: Topology::standard(),
            seed: 0,
            epoch: VIRTUAL_EPOCH,
            keep: Keep::All,
            retain: Retain::Nothing,
            restored: None,
            secure_cookies: true,
        }
    }
}

impl Builder {
    /// Sets the initial world; the standard inventory by default.
    #[must_use]
    pub fn topology(self, topology: Topology) -> Self {
        Self { topology, ..self }
    }

    /// Sets the seed; 0 by default. The same seed, topology and epoch give the same world.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the timestamp at which world time is zero; [`VIRTUAL_EPOCH`] by default.
    #[must_use]
    pub fn epoch(self, epoch: Timestamp) -> Self {
        Self { epoch, ..self }
    }

    /// Sets the limit of the ledger in memory; no limit by default.
    #[must_use]
    pub fn keep(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// Sets the part of the log of events that the world keeps; nothing by default.
    #[must_use]
    pub fn retain(self, retain: Retain) -> Self {
        Self { retain, ..self }
    }

    /// Continues the world of a snapshot. The topology and the epoch of this builder then have no
    /// effect, and its seed determines only the random draws of fault rules.
    #[must_use]
    pub fn restore(self, state: State) -> Self {
        Self { restored: Some(Box::new(state)), ..self }
    }

    /// Omits `Secure` from cookies, so that clients send them back without TLS too.
    #[must_use]
    pub fn plain_text(self) -> Self {
        Self { secure_cookies: false, ..self }
    }

    /// Starts the world. Its time follows the tokio runtime's clock, which is virtual if paused.
    ///
    /// Must be called inside a tokio runtime.
    pub fn start(self) -> Sim {
        let (world, ledger, faults, secure_cookies) = self.world();
        let control = Control { world, ledger, faults };
        let vcenters = vcenters(&control, secure_cookies);
        let (tokens, access, backed) =
            (Tokens::default(), Access::default(), BackingSlot::default());
        let admin_token = control.world.read(|world| world.ids().token("cluster-token", "admin"));
        tokens.issue(&admin_token, Identity::admin(), None);
        let (plane, allowed) = (ControlPlane::Workload, access.clone());
        let api = ClusterFace::new(CLUSTER, control.world.clone(), plane, tokens.clone(), allowed)
            .with_backing(backed.clone());
        let path = call_path(&control, Front::Cluster(api), &BodyReader::default());
        let cluster = Server::new(CLUSTER.to_owned(), path);
        let supervisor = supervisor(&control);
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(crate::shared_world::run(control.world.clone(), stop.clone()));
        if let Some(supervisor) = &supervisor {
            supervisor.grant(Profile::default());
        }
        Sim {
            control,
            vcenters,
            cluster,
            supervisor,
            tokens,
            access,
            admin_token,
            backed,
            stop,
            tasks,
        }
    }

    /// Builds or restores the world, and creates its ledger and its rules. The last value is true
    /// if vCenters mark their cookies `Secure`.
    fn world(self) -> (WorldHandle, Ledger, Faults, bool) {
        let Self { topology, seed, epoch, keep, retain, restored, secure_cookies } = self;
        let (mut world, clock) = match restored {
            None => {
                let world = topology.build(epoch, seed);
                (world, Clock::starting_at(epoch))
            }
            Some(state) => {
                let clock = Clock::starting_at(state.epoch()).resumed_after(state.age());
                (World::restore(*state), clock)
            }
        };
        world.retain(retain);
        (WorldHandle::new(world, clock), Ledger::new(keep), Faults::new(seed), secure_cookies)
    }
}

/// Returns the path of the calls to a server. All vCenters share one `inbox`, and each API server
/// has its own, so that request bodies to a vCenter cannot use up the memory limit of an API
/// server.
fn call_path(control: &Control, front: Front, inbox: &BodyReader) -> CallPath {
    let Control { world, ledger, faults } = control.clone();
    CallPath { world, ledger, faults, inbox: inbox.clone(), front: Arc::new(front) }
}

fn vcenters(control: &Control, secure_cookies: bool) -> BTreeMap<String, Server> {
    let names: Vec<String> = control.world.read(|world| world.vcenters.keys().cloned().collect());
    let inbox = BodyReader::default();
    let server = |name: String| {
        let front = Front::vcenter(&control.world, &name, secure_cookies);
        let server = Server::new(name.clone(), call_path(control, front, &inbox));
        (name, server)
    };
    names.into_iter().map(server).collect()
}

/// The Supervisor; `None` if the world has none.
fn supervisor(control: &Control) -> Option<Supervisor> {
    let world = &control.world;
    let (namespace, cluster) =
        world.read(|world| (world.supervisor.namespace.clone(), world.supervisor.cluster.clone()));
    if namespace.is_empty() {
        return None;
    }
    let token = |of: &str| world.read(|world| world.ids().token("supervisor-token", of));
    let (admin_token, provider_token) = (token("admin"), token("provider"));
    let tokens = Tokens::default();
    tokens.issue(&admin_token, Identity::admin(), None);
    tokens.issue(&provider_token, supervisor::provider(&namespace), None);
    let access = Access::default();
    access.require_rbac();
    let (plane, allowed) = (ControlPlane::Supervisor, access.clone());
    let api = ClusterFace::new(SUPERVISOR, world.clone(), plane, tokens.clone(), allowed);
    let path = call_path(control, Front::Cluster(api), &BodyReader::default());
    Some(Supervisor {
        server: Server::new(SUPERVISOR.to_owned(), path),
        tokens,
        access,
        admin_token,
        provider_token,
        namespace,
        cluster,
        control: control.clone(),
        given: Arc::default(),
    })
}

/// A running sim. Dropping it stops the world and every listener.
pub struct Sim {
    control: Control,
    vcenters: BTreeMap<String, Server>,
    cluster: Server,
    supervisor: Option<Supervisor>,
    tokens: Tokens,
    access: Access,
    admin_token: String,
    backed: BackingSlot,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Sim {
    /// Returns the default options for the start of a sim.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Handle of the world, to read it and to change it.
    pub fn world(&self) -> &WorldHandle {
        &self.control.world
    }

    /// The ledger, which records every call.
    pub fn ledger(&self) -> &Ledger {
        &self.control.ledger
    }

    /// The fault rules in force, with their counters.
    pub fn faults(&self) -> &Faults {
        &self.control.faults
    }

    /// Names and servers of the vCenters, sorted by name.
    pub fn vcenters(&self) -> impl Iterator<Item = (&str, &Server)> {
        self.vcenters.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Returns a vCenter by name: `vc0`, `vc1`, …; `None` if the world has none of this name.
    pub fn vcenter(&self, name: &str) -> Option<&Server> {
        self.vcenters.get(name)
    }

    /// The workload cluster's API server.
    pub fn cluster(&self) -> &Server {
        &self.cluster
    }

    /// The Supervisor, if the world has one.
    pub fn supervisor(&self) -> Option<&Supervisor> {
        self.supervisor.as_ref()
    }

    /// Returns a server that forwards the calls of Cluster Autoscalers to the server that `dial`
    /// connects to, so that rules can disturb them and the ledger records them. Each call returns
    /// another such server.
    pub fn autoscaler(&self, dial: Dial) -> Server {
        let face = AutoscalerFace::new(dial, self.control.ledger.clone());
        let path = call_path(&self.control, Front::Autoscaler(face), &BodyReader::default());
        Server::new(AUTOSCALER.to_owned(), path)
    }

    /// Bearer tokens that the workload cluster accepts.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Authorization in the workload cluster. Every authenticated caller may do everything until
    /// [`Access::require_rbac`] is called.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The bearer token of the workload cluster's administrator.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Lets `backing` answer requests to the workload cluster, in place of the built-in API
    /// server. Only the first call has an effect.
    ///
    /// The sim does not synchronize the world and `backing`. The caller must carry the changes of
    /// each to the other.
    pub fn back_cluster(&self, backing: Arc<dyn Backing>) {
        self.backed.set(backing);
    }

    /// Current password of an account; `None` if the vCenter or the account does not exist.
    pub fn password(&self, vcenter: &str, user: &str) -> Option<Password> {
        self.control.password(vcenter, user)
    }

    /// Applies a command, and notes it in the ledger if the world accepts it.
    ///
    /// # Errors
    /// The fault with which the world refuses the command. A refused command changes nothing,
    /// except that a failed login counts towards the lock-out.
    pub fn apply(&self, command: Command) -> Result<Applied, Fault> {
        self.control.apply(command)
    }

    /// Adds a fault rule, in force from the next call on, and notes the addition in the ledger.
    /// Dropping the guard removes the rule; [`RuleGuard::keep`] leaves it in force.
    ///
    /// # Errors
    /// [`RuleError`] if the rule is invalid, or if another rule in force has its id. The ledger
    /// then has no note.
    pub fn fault(&self, rule: Rule) -> Result<RuleGuard, RuleError> {
        self.control.fault_all(vec![rule])
    }

    /// Adds fault rules as [`fault`](Self::fault) does, all of them or none. The guard removes all
    /// of them.
    ///
    /// # Errors
    /// [`RuleError`] about the first rule that is invalid, or that has the id of another rule. The
    /// sim then has no rule and no note of the list.
    pub fn fault_all(&self, rules: impl IntoIterator<Item = Rule>) -> Result<RuleGuard, RuleError> {
        self.control.fault_all(rules.into_iter().collect())
    }

    /// Removes every fault rule, and notes the removal in the ledger.
    pub fn heal(&self) {
        self.control.heal();
    }

    /// Number of times that each rule fired: removed rules first, then the rules in force in the
    /// order of evaluation.
    pub fn fired(&self) -> Vec<(RuleId, u64)> {
        self.faults().history()
    }

    /// Token that stops the world and every listener when canceled.
    #[cfg(feature = "listen")]
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// World, ledger and rules. Clones of them outlive a borrow of the sim.
    #[cfg(feature = "listen")]
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// Tasks of this sim, including those of its listeners.
    #[cfg(feature = "listen")]
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Stops the world and every listener, and waits until all their tasks have ended.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Shows only the names of the vCenters, because the world holds sessions and passwords.
impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vcenters: Vec<&String> = self.vcenters.keys().collect();
        f.debug_struct("Sim").field("vcenters", &vcenters).finish_non_exhaustive()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
