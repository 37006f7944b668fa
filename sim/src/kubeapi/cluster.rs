//! Access of an API server to the objects of one control plane of the world.

use jiff::Timestamp;
use sim_world::objects::{Command, Reply, Status, Store};
use sim_world::{ControlPlane, Fault, Outcome, Time};

use crate::signal::Changes;
use crate::{Face, WorldHandle};

/// Handle to the objects of one control plane of a shared world.
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

    /// Face of the calls to this cluster in the ledger and in rules.
    pub(super) fn face(&self) -> Face {
        match self.plane {
            ControlPlane::Workload => Face::Cluster,
            ControlPlane::Supervisor => Face::Supervisor,
        }
    }

    /// Calls `look` with the objects of the control plane and returns the result of `look`.
    pub(super) fn read<R>(&self, look: impl FnOnce(&Store) -> R) -> R {
        self.world.read(|world| look(world.objects(self.plane)))
    }

    /// Applies a client's command to the objects.
    ///
    /// # Errors
    /// The `Status` with which the store refuses the command; the command changes no object then.
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
                reason = "`Outcome` and `Fault` have variants besides those of object commands"
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

    /// The current world time as a timestamp for objects.
    pub(super) fn timestamp(&self) -> Timestamp {
        self.world.now().timestamp(self.world.clock().epoch())
    }

    /// A waiter for changes of the world, also outside this control plane.
    pub(super) fn changes(&self) -> Changes {
        self.world.changes()
    }
}
