//! Answers each question of the controllers with the calls that upstream makes for it.

use provider_vcenter::{CallError, Chain, FilterSpec, MoRef, ObjectContent};
use tokio::time::Instant;

use super::{Location, Shared, State, search::Found};
use crate::{
    instances::{
        ZoneWanted,
        vcenter::{describe, proof, proof::census, state::VcenterIndex},
    },
    model::{
        AddressOrder, Lookup, MachineId, MachineReference, Metadata, NodeIdentity, NodeName,
        ProviderId, Unknown, parse_uuid, swap_byte_order,
    },
};

/// Property that upstream reads to find out whether a machine exists. To find out whether it is
/// off, upstream reads the whole `summary`.
const STATE: &str = "summary.runtime.powerState";

/// Converts the system UUID that a kubelet reports to vCenter's byte order. A value without dashes
/// is a machine ID, which some systems report in place of the firmware's UUID. The machine ID keeps
/// its byte order, because upstream converts only the longer form with dashes. `None` if the value
/// is not a valid UUID.
fn as_upstream_reads_it(shown: &str) -> Option<MachineId> {
    let uuid = parse_uuid(shown)?;
    Some(if shown.contains('-') { swap_byte_order(uuid) } else { uuid })
}

fn unavailable(err: &CallError) -> Unknown {
    Unknown::Unavailable(Chain(err).to_string())
}

/// Returns the power state from the property `path`, which is the state itself or the whole
/// `summary`; `None` if the state is missing.
fn power_state(object: &ObjectContent, path: &str) -> Option<String> {
    let value = object.properties.get(path)?;
    let value = match path {
        "summary" => value.child("runtime")?.child("powerState")?,
        _ => value,
    };
    Some(value.text.trim().to_owned()).filter(|it| !it.is_empty())
}

impl State {
    /// Stores a node that the cluster shows. Returns true if the node is new. Then also queues the
    /// lookup of the node's machine, and drops the record of an earlier node with the same name.
    pub(super) fn note_seen(&mut self, node: &NodeIdentity) -> bool {
        if self.is_seen(node) {
            self.seen.insert(node.name.clone(), node.clone());
            return false;
        }
        self.forget(&node.name);
        self.seen.insert(node.name.clone(), node.clone());
        self.registrations.insert(node.name.clone(), node.clone());
        true
    }

    /// True if this node is stored. A node with the same name and another UID is another node.
    fn is_seen(&self, node: &NodeIdentity) -> bool {
        self.seen.get(&node.name).is_some_and(|seen| seen.uid == node.uid)
    }

    /// Drops a deleted node.
    pub(super) fn forget(&mut self, name: &NodeName) {
        self.seen.remove(name);
        self.registrations.remove(name);
        self.known.remove(name);
        self.absent.remove(name);
    }
}

impl Shared {
    /// Finds the machine of a new node by the UUID that its kubelet reports, if any. Tries once, as
    /// upstream does; the next question about the node tries again.
    pub(super) async fn register(&self, node: &NodeIdentity) {
        let Some(uuid) = node.system_uuid.as_deref().and_then(as_upstream_reads_it) else { return };
        let noted = match self.discover_by_uuid(uuid).await {
            Ok(Some(found)) => self.note(node, &found).map(drop),
            Ok(None) => Err(Unknown::NotSeen),
            Err(why) => Err(why),
        };
        if let Err(why) = noted {
            tracing::info!(node = %node.name, reason = %why, "found no machine for a new node; the next lookup searches again");
        }
    }

    /// Returns the location of a node's machine, and stores it unless the node was deleted
    /// meanwhile. If another node has that location with another UUID, drops the location of the
    /// other node, because the reference now belongs to another machine.
    ///
    /// # Errors
    ///
    /// If the node belongs to another provider, if the machine has another UUID than the node, or
    /// if the machine already belongs to another node.
    fn note(&self, node: &NodeIdentity, found: &Found) -> Result<Location, Unknown> {
        let candidates = node.candidates().map_err(|err| Unknown::NotOurs(err.to_string()))?;
        if !candidates.is_empty() && !candidates.contains(&found.uuid) {
            let why = format!("the machine found for the node has another UUID, {}", found.uuid);
            return Err(Unknown::Ambiguous(why));
        }
        let known =
            Location { vcenter: found.vcenter, machine: found.reference.clone(), uuid: found.uuid };
        let mut state = self.lock();
        let is_same =
            |other: &Location| (other.vcenter, &other.machine) == (known.vcenter, &known.machine);
        let owner = state.known.iter().find(|(name, other)| **name != node.name && is_same(other));
        let owner = owner.map(|(name, other)| (name.clone(), other.uuid));
        match owner {
            Some((owner, uuid)) if uuid == known.uuid => {
                let why = format!("the node's machine already belongs to node {owner}");
                return Err(Unknown::Ambiguous(why));
            }
            // The reference now means another machine than at the time when that node was matched.
            Some((owner, _)) => drop(state.known.remove(&owner)),
            None => {}
        }
        state.absent.remove(&node.name);
        // Nothing is stored for a node that was deleted meanwhile.
        if state.is_seen(node) {
            state.known.insert(node.name.clone(), known.clone());
        }
        Ok(known)
    }

    /// Returns the last known location of a node's machine; `None` if it is unknown or belongs to a
    /// node with the same name and another UID.
    fn known_location(&self, node: &NodeIdentity) -> Option<Location> {
        let state = self.lock();
        let is_it = state.is_seen(node);
        state.known.get(&node.name).filter(|_| is_it).cloned()
    }

    /// Returns the UUID of the node's machine: from the provider ID, else from the last known
    /// location, else from a search by the node's name.
    async fn uuid_of(&self, node: &NodeIdentity) -> Result<MachineId, Unknown> {
        if let Some(id) = &node.provider_id {
            let id = id.parse::<ProviderId>();
            return id
                .map(|ProviderId(uuid)| uuid)
                .map_err(|err| Unknown::NotOurs(err.to_string()));
        }
        if let Some(known) = self.known_location(node) {
            return Ok(known.uuid);
        }
        let found = self.discover_by_name(node.name.as_str()).await?.ok_or(Unknown::NotSeen)?;
        self.note(node, &found).map(|known| known.uuid)
    }

    /// Reads the metadata of a node's machine: finds the machine if its location is unknown, reads
    /// its zone, then searches for the machine again and reads its properties. Reads the zone even
    /// if `wanted` requests none, as upstream does, but then leaves it out of the result.
    pub(super) async fn metadata(
        &self,
        node: &NodeIdentity,
        wanted: ZoneWanted,
    ) -> Result<Metadata, Unknown> {
        let uuid = self.uuid_of(node).await?;
        let known = match self.known_location(node) {
            Some(known) => known,
            // Upstream gives up here, and the Node stays unchanged until something else finds the
            // machine.
            None => {
                let found = self.discover_by_uuid(uuid).await?.ok_or(Unknown::NotSeen)?;
                self.note(node, &found)?
            }
        };
        let zone = self.zone(&known).await;
        let found = self.discover_by_uuid(uuid).await?.ok_or(Unknown::NotSeen)?;
        let known = self.note(node, &found)?;
        let zone = match wanted {
            ZoneWanted::Yes => describe::zone_if_whole(&found.machine, zone),
            // The zone was read nevertheless, as upstream does, but the caller does not need it.
            ZoneWanted::No => Ok(None),
        };
        let instance = self.vcenters[known.vcenter].instance_uuid().and_then(parse_uuid);
        let machine = known.machine.id().to_owned();
        Ok(Metadata {
            provider_id: ProviderId(known.uuid).to_string(),
            reference: instance.map(|vcenter| MachineReference { vcenter, machine }),
            instance_type: describe::instance_type(&found.machine),
            addresses: describe::addresses(&self.policy, known.vcenter, &found.machine),
            order: AddressOrder::Any,
            zone,
        })
    }

    /// Answers whether the machine exists. If it does, also reads whether it is off, because the
    /// controller asks for that next.
    pub(super) async fn exists(&self, node: &NodeIdentity) -> Lookup<()> {
        let began_at = Instant::now();
        let uuid = match self.uuid_of(node).await {
            Ok(uuid) => uuid,
            Err(why) => return Lookup::Unknown(why),
        };
        let place = match self.discover_by_uuid(uuid).await {
            Ok(Some(found)) => {
                // The machine exists even if it belongs to another node.
                let _ = self.note(node, &found);
                Ok((found.vcenter, found.reference))
            }
            Ok(None) => self.absent(node, uuid, began_at).await,
            Err(why) => return Lookup::Unknown(why),
        };
        match place {
            Ok((vcenter, machine)) => {
                let off = self.is_off(vcenter, &machine).await;
                self.desk.store_power(&node.name, off);
                Lookup::Found(())
            }
            Err(answer) => answer,
        }
    }

    /// Reads the machine under its reference after an empty search. Returns the location if the
    /// machine exists, else the answer as an error. A proof by the reference is as old as that
    /// search, which began at `began_at`. Without a reference, answers as [`Self::nowhere`].
    async fn absent(
        &self,
        node: &NodeIdentity,
        uuid: MachineId,
        began_at: Instant,
    ) -> Result<(VcenterIndex, MoRef), Lookup<()>> {
        // This provider did not initialize a node without a provider ID, so it may not delete that
        // node.
        if node.provider_id.is_none() {
            return Err(Lookup::Unknown(Unknown::NotOurs("no provider ID".to_owned())));
        }
        if self.skip_deletion {
            return Err(Lookup::Unknown(Unknown::NotSeen));
        }
        // If the vCenter reported its instance UUID only after the first login, the reference may
        // be one of another server.
        let known =
            self.known_location(node).filter(|it| !self.vcenters[it.vcenter].was_identified_late());
        let is_known = known.is_some();
        let (vcenter, machine) = match (known, &node.reference) {
            (Some(known), _) => (known.vcenter, known.machine),
            (None, Some(noted)) => {
                let instance = |it: &provider_vcenter::Vcenter| {
                    it.instance_uuid().and_then(parse_uuid) == Some(noted.vcenter)
                };
                let Some(vcenter) = self.vcenters.position(instance) else {
                    return Err(Lookup::Unknown(Unknown::Elsewhere(
                        proof::unknown_vcenter_message(noted),
                    )));
                };
                (vcenter, MoRef::new("VirtualMachine", noted.machine.clone()))
            }
            (None, None) => return self.nowhere(node, uuid).await,
        };
        // The call is that of upstream, except that it also reads the UUID under a reference from
        // the node's annotation.
        let paths: &[&str] = if is_known { &[STATE] } else { &[STATE, "config.uuid"] };
        let spec = FilterSpec::of_objects("VirtualMachine", paths, vec![machine.clone()]);
        let is_another = |object: &ObjectContent| {
            let shown = object.text("config.uuid").and_then(parse_uuid);
            shown.is_some_and(|shown| shown != uuid && shown != swap_byte_order(uuid))
        };
        match self.vcenters[vcenter].retrieve(&spec).await {
            // After a restore from backup, vCenter reuses references for other machines.
            Ok(objects) if objects.first().is_some_and(is_another) => {
                Err(Lookup::Unknown(Unknown::Unproven(proof::UNPROVEN.to_owned())))
            }
            Err(err) if err.says_gone(&machine) => self.moved(node, uuid, began_at).await,
            Err(err) => Err(Lookup::Unknown(unavailable(&err))),
            Ok(objects) => match objects.first().map(|object| power_state(object, STATE)) {
                Some(Some(_)) => Ok((vcenter, machine)),
                Some(None) => {
                    let why = "the vCenter reports no power state of the node's machine".to_owned();
                    Err(Lookup::Unknown(Unknown::Incomplete(why)))
                }
                None => Err(Lookup::Unknown(Unknown::Hidden(proof::NOT_VISIBLE.to_owned()))),
            },
        }
    }

    /// Answers for a machine whose reference is gone. With several vCenters, searches again:
    /// vCenters are searched one after the other, so a machine that moved between them during the
    /// search may have been in the other one each time. With one vCenter the earlier search
    /// suffices. If the searches may have left out datacenters, one more search covers all of them.
    async fn moved(
        &self,
        node: &NodeIdentity,
        uuid: MachineId,
        began_at: Instant,
    ) -> Result<(VcenterIndex, MoRef), Lookup<()>> {
        let again =
            if self.vcenters.len() > 1 { self.discover_by_uuid(uuid).await } else { Ok(None) };
        match again {
            Ok(Some(found)) => {
                let _ = self.note(node, &found);
                return Ok((found.vcenter, found.reference));
            }
            Ok(None) => {}
            Err(why) => return Err(Lookup::Unknown(why)),
        }
        // The searches covered only the configured datacenters. The machine may be registered again
        // in another one.
        let is_narrowed = self.lock().is_narrowed.iter().any(|it| *it);
        if is_narrowed && let Some((vcenter, machine)) = self.anywhere(uuid).await? {
            let why = format!(
                "{machine} of {} has the UUID of the node's machine, in a datacenter that the configuration does not name",
                self.vcenters[vcenter].name()
            );
            return Err(Lookup::Unknown(Unknown::Outside(why)));
        }
        Err(Lookup::Gone { proved_at: began_at, matched: true })
    }

    /// Searches every vCenter, in all its datacenters, for a machine with this UUID in either byte
    /// order. Returns the first one found, or `None`. Returns an unknown answer as the error if a
    /// search fails before a machine is found.
    async fn anywhere(&self, uuid: MachineId) -> Result<Option<(VcenterIndex, MoRef)>, Lookup<()>> {
        for vcenter in self.vcenters.indexes() {
            let client = &self.vcenters[vcenter];
            for uuid in [uuid, swap_byte_order(uuid)] {
                let text = uuid.hyphenated().to_string();
                let machines = client.find_all_by_uuid(&text).await;
                let machines = machines.map_err(|err| Lookup::Unknown(unavailable(&err)))?;
                if let Some(machine) = machines.into_iter().next() {
                    return Ok(Some((vcenter, machine)));
                }
            }
        }
        Ok(None)
    }

    /// Answers for a machine without a reference after an empty search. Upstream believes one empty
    /// search of the configured datacenters. This backend needs a person's confirmation, two empty
    /// searches a period apart, one empty search of all datacenters, and a census of each vCenter
    /// that rules out that the machine is there.
    async fn nowhere(
        &self,
        node: &NodeIdentity,
        uuid: MachineId,
    ) -> Result<(VcenterIndex, MoRef), Lookup<()>> {
        if !node.confirmed_gone {
            return Err(Lookup::Unknown(Unknown::Unproven(proof::UNPROVEN.to_owned())));
        }
        let now = Instant::now();
        let since = {
            let mut state = self.lock();
            *state.absent.entry(node.name.clone()).or_insert(now)
        };
        if now.duration_since(since) < self.tuning.absence_period {
            return Err(Lookup::Unknown(Unknown::NotSeen));
        }
        if let Some(found) = self.anywhere(uuid).await? {
            return Ok(found);
        }
        for vcenter in self.vcenters.indexes() {
            match self.doubt(vcenter, uuid, since).await {
                Ok(None) => {}
                Ok(Some(why)) => return Err(Lookup::Unknown(Unknown::Unavailable(why))),
                Err(err) => return Err(Lookup::Unknown(unavailable(&err))),
            }
        }
        Err(Lookup::Gone { proved_at: now, matched: false })
    }

    /// Returns why the machine may be in this vCenter although no search finds it; `None` if a
    /// census that began at `since` or later rules that out. Upstream makes no such check.
    async fn doubt(
        &self,
        vcenter: VcenterIndex,
        uuid: MachineId,
        since: Instant,
    ) -> Result<Option<String>, CallError> {
        let client = &self.vcenters[vcenter];
        if !census::sees_inventory(client).await? {
            return Ok(Some(census::INVISIBLE.to_owned()));
        }
        Ok(self.censuses.after(vcenter, since).await.reason_to_doubt(uuid, client.name()))
    }

    /// Reads whether the machine is off, that is, in any other state than powered on.
    async fn is_off(&self, vcenter: VcenterIndex, machine: &MoRef) -> Lookup<bool> {
        let spec = FilterSpec::of_objects("VirtualMachine", &["summary"], vec![machine.clone()]);
        match self.vcenters[vcenter].retrieve(&spec).await {
            Err(err) => Lookup::Unknown(unavailable(&err)),
            Ok(objects) => {
                match objects.first().and_then(|object| power_state(object, "summary")) {
                    Some(power) => Lookup::Found(power != "poweredOn"),
                    None => Lookup::Unknown(Unknown::Incomplete(
                        "the vCenter reports no power state of the node's machine".to_owned(),
                    )),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_id_without_dashes_is_not_byte_swapped() {
        let read = |shown: &str| as_upstream_reads_it(shown).map(|it| it.to_string());
        let firmware = read("cee2ebb0-43ed-4aaa-8b87-2bbce64f4bec");
        assert_eq!(firmware.as_deref(), Some("b0ebe2ce-ed43-aa4a-8b87-2bbce64f4bec"));
        let machine_id = read("cee2ebb043ed4aaa8b872bbce64f4bec");
        assert_eq!(machine_id.as_deref(), Some("cee2ebb0-43ed-4aaa-8b87-2bbce64f4bec"));
        assert_eq!(read(""), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_state_keeps_nothing_of_a_node_that_was_deleted() {
        let mut state = State::default();
        let node = serde_json::json!({"metadata": {"name": "a", "uid": "uid"}});
        let node = crate::model::Node::from_json(&node).unwrap().identity();
        assert!(state.note_seen(&node) && !state.note_seen(&node));
        state.absent.insert("a".into(), Instant::now());
        state.forget(&"a".into());
        assert!(state.absent.is_empty() && state.seen.is_empty() && state.registrations.is_empty());
    }
}
