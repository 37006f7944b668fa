//! State of one request, and what the services share: reads of the world, changes, and bodies.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sim_world::vcenter::{MoRef, VCenter, VcFault};
use sim_world::{Outcome, VcRequest};

use super::dialect::{Dialect, Error};
use crate::faults::Effects;
use crate::{Reply, WorldHandle};

/// State that the handlers of one request use.
pub(super) struct Context<'a> {
    pub(super) world: &'a WorldHandle,
    pub(super) vcenter: &'a str,
    pub(super) dialect: Dialect,
    pub(super) user: &'a str,
    pub(super) effects: &'a Effects,
}

impl Context<'_> {
    pub(super) fn sees(&self, vc: &VCenter, id: MoRef) -> bool {
        vc.may_see(self.user, id) && !self.effects.hides_object(vc, id)
    }

    /// Parses a specification. In `/rest` it is the field `name` of the body, in `/api` it is the
    /// whole body. The error answers 400.
    pub(super) fn spec<T: DeserializeOwned>(&self, body: &Bytes, name: &str) -> Result<T, Error> {
        let mut value: Value = parse(body)?;
        if self.dialect == Dialect::Rest {
            value = value
                .get_mut(name)
                .map(Value::take)
                .ok_or_else(|| Error::invalid_argument(format!("the body has no {name}")))?;
        }
        serde_json::from_value(value)
            .map_err(|err| Error::invalid_argument(format!("{name}: {err}")))
    }

    pub(super) fn value(&self, value: Value) -> Reply {
        self.dialect.success(value)
    }

    pub(super) fn read<R>(&self, look: impl FnOnce(&VCenter) -> R) -> R {
        self.world.read(|world| {
            look(world.vcenter(self.vcenter).expect("the world has the vCenter of this face"))
        })
    }

    pub(super) fn apply(&self, request: VcRequest) -> Result<Outcome, VcFault> {
        match self.world.request(self.vcenter, request) {
            Ok(outcome) => Ok(outcome),
            Err(sim_world::Fault::VCenter(fault)) => Err(fault),
            Err(_) => Err(VcFault::InvalidState),
        }
    }
}

pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|err| Error::invalid_argument(format!("the body: {err}")))
}
