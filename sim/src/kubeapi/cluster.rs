//! Access of an API server to the objects of one of the world's clusters.

use jiff::Timestamp;
use sim_world::objects::{Command, Reply, Status, Store};
use sim_world::{ControlPlane, Fault, Outcome, Time};

use crate::signal::Changes;
use crate::{Face, WorldHandle};

/// The objects of one cluster of a shared world.
#[derive(Clone, Debug)]
pub(crate) struct ClusterHandle {
    world: WorldHandle,
    plane: ControlPlane,
}

impl ClusterHandle {
    pub(crate) fn new(world: WorldHandle, plane: ControlPlane) -> Self {
        Self { world, plane }
    }

    pub(super) fn plane(&self) -> ControlPlane {
        self.plane
    }

    /// Face that ledgers and rules give to the calls of this cluster.
    pub(super) fn face(&self) -> Face {
        match self.plane {
            ControlPlane::Workload => Face::Cluster,
            ControlPlane::Supervisor => Face::Supervisor,
        }
    }

    /// Reads the cluster's objects.
    pub(super) fn read<R>(&self, look: impl FnOnce(&Store) -> R) -> R {
        self.world.read(|world| look(world.objects(self.plane)))
    }

    /// Carries out a client's command.
    ///
    /// # Errors
    /// The store's refusal; the cluster is unchanged.
    pub(super) fn apply(&self, command: Command) -> Result<Reply, Status> {
        let command = match self.plane {
            ControlPlane::Workload => sim_world::Command::Cluster(command),
            ControlPlane::Supervisor => sim_world::Command::Supervisor(command),
        };
        match self.world.apply(command).map(|applied| applied.outcome) {
            Ok(Outcome::Object(reply)) => Ok(reply),
            Err(Fault::Cluster(status)) => Err(status),
            #[allow(
                unreachable_patterns,
                reason = "a world of more than a cluster has more faults"
            )]
            Ok(_) | Err(_) => {
                let why = "Internal error occurred: unexpected outcome";
                Err(Status::new(500, "InternalError", why))
            }
        }
    }

    /// The current world time.
    pub(super) fn now(&self) -> Time {
        self.world.now()
    }

    /// The current time as objects record it.
    pub(super) fn timestamp(&self) -> Timestamp {
        self.world.now().timestamp(self.world.clock().epoch())
    }

    /// A signal whose value grows with every change of the world.
    pub(super) fn changes(&self) -> Changes {
        self.world.changes()
    }
}
