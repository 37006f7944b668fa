//! Writes of the mirror to either side. A replacement contains the whole object and the version
//! that the mirror has read. A changed status goes through the status subresource, if the resource
//! has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use serde_json::Value;
use sim::world::objects::{Command, Key, Preconditions, Reply};
use sim::world::{self, Fault, Outcome};

use super::{Attempt, KnownPairs, Mirror};
use crate::foreign::apiserver::merge::without_server_metadata;
use crate::foreign::apiserver::resources::Resource;

impl Mirror {
    pub(super) async fn create_on_server(
        &self,
        known: &mut KnownPairs,
        resource: &Resource,
        key: &Key,
        ours: &Arc<Value>,
    ) -> anyhow::Result<Attempt> {
        let object = without_server_metadata(&known.uids.for_server(ours));
        let created = self.client.create(&resource.collection(&key.namespace), &object).await?;
        let Some(created) = created else { return Ok(Attempt::Overtaken) };
        // Admission on the real server taints a new Node, and the world may have removed that taint
        // already. Recording the copies as agreed with the taint makes its removal a change to
        // carry.
        let mut as_created = Arc::clone(ours);
        let taints = &created["spec"]["taints"];
        if key.resource == Key::node("").resource && *taints != ours["spec"]["taints"] {
            Arc::make_mut(&mut as_created)["spec"]["taints"] = taints.clone();
        }
        let is_done = Arc::ptr_eq(&as_created, ours);
        let agreed = known.agreed(key, as_created, created);
        Ok(if is_done { agreed } else { Attempt::Overtaken })
    }

    pub(super) async fn replace_on_server(
        &self,
        resource: &Resource,
        key: &Key,
        before: &Value,
        object: Value,
    ) -> anyhow::Result<Option<Value>> {
        let path = resource.path(key);
        let doors = Endpoints::for_change(resource, before, &object);
        let mut object = object;
        let mut last = None;
        if doors.main {
            let Some(written) = self.client.put(&path, &object).await? else { return Ok(None) };
            object["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"].clone();
            last = Some(written);
        }
        if doors.status {
            let path = format!("{path}/status");
            let Some(written) = self.client.put(&path, &object).await? else { return Ok(None) };
            last = Some(written);
        }
        Ok(last.or(Some(object)))
    }

    pub(super) fn replace_in_world(
        &self,
        resource: &Resource,
        key: &Key,
        before: &Value,
        object: Value,
    ) -> anyhow::Result<Option<Arc<Value>>> {
        let doors = Endpoints::for_change(resource, before, &object);
        let mut object = object;
        let mut last = None;
        if doors.main {
            let command = Command::update(key.clone(), object.clone());
            let Some(written) = self.apply(key, command)? else { return Ok(None) };
            object["metadata"]["resourceVersion"] =
                written.object["metadata"]["resourceVersion"].clone();
            last = Some(written.object);
        }
        if doors.status {
            let command = Command::update(key.clone(), object.clone()).on_status();
            let Some(written) = self.apply(key, command)? else { return Ok(None) };
            last = Some(written.object);
        }
        Ok(Some(last.unwrap_or_else(|| Arc::new(object))))
    }

    pub(super) fn create_in_world(
        &self,
        known: &mut KnownPairs,
        key: &Key,
        theirs: &Value,
    ) -> anyhow::Result<Attempt> {
        let object = without_server_metadata(&known.uids.for_world(theirs));
        let command = Command::create(key.resource.clone(), key.namespace.clone(), object);
        match self.apply(key, command)? {
            Some(made) => Ok(known.agreed(key, made.object, theirs.clone())),
            None => Ok(Attempt::Overtaken),
        }
    }

    pub(super) fn delete_here(&self, key: &Key, uid: &str) -> anyhow::Result<()> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        self.apply(key, Command::delete_if(key.clone(), preconditions))?;
        Ok(())
    }

    /// Applies a command to the world; returns `None` if the object's UID or version has changed,
    /// or if it no longer exists or already exists.
    fn apply(&self, key: &Key, command: Command) -> anyhow::Result<Option<Reply>> {
        match self.world.apply(world::Command::Cluster(command)).map(|it| it.outcome) {
            Ok(Outcome::Object(reply)) => Ok(Some(reply)),
            Err(Fault::Cluster(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Ok(other) => bail!(
                "{key}: the mirror wrote a change to the simulated world, which returned an \
                 unexpected result: {other:?}; report this bug of conformance"
            ),
            Err(fault) => Err(anyhow!(fault).context(format!(
                "{key}: the mirror wrote a change of the real API server to the simulated world, \
                 which rejects it; report this bug of conformance"
            ))),
        }
    }
}

/// API endpoints through which a change must be written: the object's own one, its status
/// subresource, or both.
struct Endpoints {
    main: bool,
    status: bool,
}

impl Endpoints {
    fn for_change(resource: &Resource, before: &Value, after: &Value) -> Self {
        let status = resource.has_status && before["status"] != after["status"];
        let rest = |object: &Value| {
            let fields = object.as_object().into_iter().flatten();
            let fields = fields.filter(|(name, _)| {
                // A write through the status subresource also carries the metadata.
                !(name.as_str() == "status" && resource.has_status
                    || name.as_str() == "metadata" && status)
            });
            fields.map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<_, _>>()
        };
        Self { main: rest(before) != rest(after), status }
    }
}
