//! The objects of one control plane of the shared world, as the backend of an API server.

use std::ops::Deref;

use jiff::Timestamp;
use sim_world::objects::{Command, Reply, Status, Store};
use sim_world::{ControlPlane, Fault, Outcome, Time};

use crate::WorldHandle;
use crate::shared_world::Locked;
use kube_sim_api::{Backend, Changes};

/// Backend of an API server: the objects of one control plane of the world.
#[derive(Clone, Debug)]
pub(super) struct PlaneBackend {
    pub(super) world: WorldHandle,
    pub(super) plane: ControlPlane,
}

/// Lock of the world that gives access to the objects of one control plane only.
struct LockedPlane<'a> {
    world: Locked<'a>,
    plane: ControlPlane,
}

impl Deref for LockedPlane<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.world.objects(self.plane)
    }
}

impl Backend for PlaneBackend {
    fn store(&self) -> Box<dyn Deref<Target = Store> + '_> {
        Box::new(LockedPlane { world: self.world.lock(), plane: self.plane })
    }

    fn apply(&self, command: Command) -> Result<Reply, Status> {
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

    fn now(&self) -> Time {
        self.world.now()
    }

    fn epoch(&self) -> Timestamp {
        self.world.clock().epoch()
    }

    fn changes(&self) -> Changes {
        self.world.changes()
    }
}
