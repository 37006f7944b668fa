//! The groups and their instances, as they follow from the known objects. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::Value;

use super::super::{
    super::{
        super::capacity::{
            ObjectName, Objects,
            scale_from_zero::{GroupTemplate, template_reference},
            text,
        },
        group::{Group, GroupId},
        instance::Instance,
    },
    keys::{GroupKind, MACHINE_SETS, MACHINES, Resource},
    objects::{
        Ledger, Machine, UnreadableLedger,
        group::{self, NotListed, replicas},
    },
    settings::ClusterApiSettings,
};

use super::references::{cluster_name, deployment, template, with_infrastructure};

/// The objects of each kind.
pub(crate) type Known = BTreeMap<Resource, Objects>;

/// State of the object of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub(crate) kind: GroupKind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) replicas: u32,
    /// Sum of the sizes of its MachineSets.
    pub(crate) replicas_of_sets: u32,
    /// True if Cluster API has reconciled the object as it is now. The MachineSets come from another
    /// watch, which may be behind.
    pub(crate) is_observed: bool,
    /// Empty if it cannot be read.
    pub(crate) ledger: Ledger,
    pub(crate) unreadable_ledger: Option<UnreadableLedger>,
    /// True if its Machines belong to more than one MachineSet. Cluster API then chooses the
    /// MachineSet that becomes smaller.
    pub(crate) is_rolling_out: bool,
    /// Its Machines, oldest first.
    pub(crate) members: Vec<Arc<Member>>,
}

/// A Machine of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) group: GroupId,
    pub(crate) machine: Machine,
    pub(crate) instance: Instance,
    /// IDs by which a request may name it.
    pub(crate) ids: Vec<String>,
}

/// The groups and their instances at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// The groups that the autoscaler may scale.
    pub(crate) listed: Vec<Arc<Group>>,
    /// Texts about what was left out of the listed groups.
    pub(crate) notes: BTreeMap<GroupId, Vec<String>>,
    /// Groups that are ignored because of a mistake, with the reason.
    pub(crate) wrong: BTreeMap<GroupId, String>,
    /// Groups without machine that cannot grow, with the reason.
    pub(crate) cannot_grow: BTreeMap<GroupId, String>,
    /// Namespaces and names of the Clusters of the groups.
    pub(crate) clusters: BTreeSet<String>,
    /// Kinds of the templates and of the infrastructure machines.
    pub(crate) kinds: BTreeSet<Resource>,
    /// All groups, also those that are not listed.
    pub(crate) states: BTreeMap<GroupId, GroupState>,
    /// The Machine of each ID and of each name of a Node; `None` if two have it.
    by_id: HashMap<String, Option<Arc<Member>>>,
    by_name: HashMap<String, Option<Arc<Member>>>,
}

impl Snapshot {
    /// Derives the groups and instances from the objects.
    pub(crate) fn of(known: &Known, settings: &ClusterApiSettings) -> Self {
        let mut snapshot = Self::default();
        let sets = objects(known, &MACHINE_SETS.into());
        // The group of each MachineSet by UID.
        let mut owners: HashMap<&str, GroupId> = HashMap::new();
        let mut n_used_sets: HashMap<GroupId, BTreeSet<&str>> = HashMap::new();
        for kind in [GroupKind::MachineDeployment, GroupKind::MachineSet] {
            for (name, object) in objects(known, &kind.resource()) {
                if kind == GroupKind::MachineSet && deployment(object).is_some() {
                    continue;
                }
                let id = group::id(kind, &name.namespace, &name.name);
                snapshot.add_group(&id, kind, object, known, settings);
            }
        }
        for (name, set) in sets {
            let (kind, owner, owner_uid) = match deployment(set) {
                Some((owner, uid)) => (GroupKind::MachineDeployment, owner, uid),
                None => (GroupKind::MachineSet, name.name.as_str(), uid(set)),
            };
            let id = group::id(kind, &name.namespace, owner);
            // A MachineDeployment that was created again does not own the sets of the former one.
            let state = snapshot.states.get_mut(&id).filter(|it| it.uid == owner_uid);
            let Some(state) = state else { continue };
            state.replicas_of_sets = state.replicas_of_sets.saturating_add(replicas(set));
            if replicas(set) > 0 {
                n_used_sets.entry(id.clone()).or_default().insert(uid(set));
            }
            owners.insert(uid(set), id);
        }
        let mut members = Vec::new();
        for (_, object) in objects(known, &MACHINES.into()) {
            let Some(machine) = Machine::read(object) else { continue };
            let Some((set, id)) = machine.set.as_deref().and_then(|it| owners.get_key_value(it))
            else {
                continue;
            };
            n_used_sets.entry(id.clone()).or_default().insert(set);
            members.push((id.clone(), with_infrastructure(machine, known)));
        }
        for (id, sets) in n_used_sets {
            if let Some(state) = snapshot.states.get_mut(&id) {
                state.is_rolling_out = sets.len() > 1;
            }
        }
        snapshot.add_members(members);
        snapshot.require_one_cluster();
        snapshot
    }

    fn add_group(
        &mut self,
        id: &GroupId,
        kind: GroupKind,
        object: &Value,
        known: &Known,
        settings: &ClusterApiSettings,
    ) {
        let metadata = &object["metadata"];
        let own = |key: &str| text(&metadata[key]).to_owned();
        let (ledger, unreadable_ledger) = match Ledger::read(object) {
            Ok(ledger) => (ledger, None),
            Err(err) => (Ledger::default(), Some(err)),
        };
        let warning = unreadable_ledger.as_ref().map(ToString::to_string);
        let state = GroupState {
            kind,
            namespace: own("namespace"),
            name: own("name"),
            uid: own("uid"),
            replicas: replicas(object),
            replicas_of_sets: 0,
            is_observed: match (&metadata["generation"], &object["status"]["observedGeneration"]) {
                (Value::Number(wanted), Value::Number(seen)) => seen.as_i64() >= wanted.as_i64(),
                _ => true,
            },
            ledger,
            unreadable_ledger,
            is_rolling_out: false,
            members: Vec::new(),
        };
        let (namespace, reference) = (state.namespace.clone(), template_reference(object));
        self.states.insert(id.clone(), state);
        let mut unread = String::new();
        let template = match &reference {
            Ok(None) => GroupTemplate::Unnamed,
            Ok(Some(reference)) => template(known, &namespace, reference, &mut unread),
            Err(err) => {
                unread = err.to_string();
                GroupTemplate::Unread(&unread)
            }
        };
        let read = group::read(id.clone(), object, template, settings);
        if read.as_ref().err() == Some(&NotListed::Unwanted) {
            return;
        }
        self.clusters.insert(format!("{namespace}/{}", cluster_name(object)));
        if let Ok(Some(it)) = reference {
            self.kinds.insert(Resource { group: it.api_group, name: it.resource });
        }
        match read {
            Ok((group, mut notes)) => {
                notes.extend(warning);
                self.listed.push(Arc::new(group));
                self.notes.insert(id.clone(), notes);
            }
            Err(NotListed::Wrong(why)) => drop(self.wrong.insert(id.clone(), why)),
            Err(NotListed::CannotGrow(why)) => drop(self.cannot_grow.insert(id.clone(), why)),
            Err(NotListed::Unwanted) => {}
        }
    }

    fn add_members(&mut self, mut machines: Vec<(GroupId, Machine)>) {
        machines.sort_by(|(_, a), (_, b)| (a.created, &a.name).cmp(&(b.created, &b.name)));
        for (group, machine) in machines {
            let Some(state) = self.states.get_mut(&group) else { continue };
            let instance = machine.instance(state.ledger.has(&machine));
            let ids = machine.ids(!instance.state.counts());
            let is_listed = self.listed.iter().any(|it| it.id == group);
            if is_listed && let Some((kind, _)) = &machine.infrastructure {
                self.kinds.insert(kind.clone());
            }
            let member = Arc::new(Member { group, machine, instance, ids });
            state.members.push(Arc::clone(&member));
            for id in &member.ids {
                insert(&mut self.by_id, id, &member);
            }
            insert(&mut self.by_name, member.machine.node_name(), &member);
        }
    }

    /// Lists no group if they are of two Clusters: an autoscaler would delete the machines of the
    /// other Cluster, because their Nodes never appear in its own.
    fn require_one_cluster(&mut self) {
        if self.clusters.len() > 1 {
            self.listed.clear();
        }
    }

    /// True if no object is a group, not even one that is ignored for a reason in the log.
    pub(crate) fn has_no_group(&self) -> bool {
        // Each group has a Cluster.
        self.clusters.is_empty()
    }

    /// Returns the Machine of a node. The provider ID decides, byte for byte, because the autoscaler
    /// compares it so; the name decides only for a node without provider ID.
    pub(crate) fn find(&self, id: &str, name: &str) -> Option<&Arc<Member>> {
        let found = if id.is_empty() { self.by_name.get(name) } else { self.by_id.get(id) };
        found?.as_ref()
    }
}

/// Adds a member, or notes that two have this key: a request that could mean two machines must mean
/// none of them.
fn insert(map: &mut HashMap<String, Option<Arc<Member>>>, key: &str, member: &Arc<Member>) {
    map.entry(key.to_owned()).and_modify(|it| *it = None).or_insert(Some(Arc::clone(member)));
}

fn objects<'a>(
    known: &'a Known,
    resource: &Resource,
) -> impl Iterator<Item = (&'a ObjectName, &'a Value)> + use<'a> {
    known.get(resource).into_iter().flat_map(Objects::iter)
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}
