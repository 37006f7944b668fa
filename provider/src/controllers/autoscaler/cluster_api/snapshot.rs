//! The groups and their instances, as they follow from the known objects. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::Value;

use super::{
    super::{
        super::capacity::{
            ObjectName, Objects, Progress,
            scale_from_zero::{GroupTemplate, TemplateReference, template_reference},
            text,
        },
        group::{Group, GroupId},
        instance::Instance,
    },
    group::{self, NotListed, replicas},
    keys::{CLUSTER_LABEL, GroupKind, MACHINE_SETS, MACHINES, Resource},
    ledger::Ledger,
    machine::Machine,
    settings::ClusterApiSettings,
};

/// The objects of each kind.
pub(super) type Known = BTreeMap<Resource, Objects>;

/// State of the object of a group.
#[derive(Clone, Debug)]
pub(super) struct GroupState {
    pub(super) kind: GroupKind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) replicas: u32,
    pub(super) ledger: Ledger,
    /// True if its Machines belong to more than one MachineSet. Cluster API then chooses the
    /// MachineSet that becomes smaller.
    pub(super) is_rolling_out: bool,
    /// Its Machines, oldest first.
    pub(super) members: Vec<Arc<Member>>,
}

/// A Machine of a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) group: GroupId,
    pub(super) machine: Machine,
    pub(super) instance: Instance,
    /// IDs by which a request may name it.
    pub(super) ids: Vec<String>,
}

/// The groups and their instances at one time.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// The groups that the autoscaler may scale.
    pub(super) listed: Vec<Arc<Group>>,
    /// Texts about what was left out of the listed groups.
    pub(super) notes: BTreeMap<GroupId, Vec<String>>,
    /// Groups that are ignored because of a mistake, with the reason.
    pub(super) wrong: BTreeMap<GroupId, String>,
    /// Groups without machine that cannot grow, with the reason.
    pub(super) cannot_grow: BTreeMap<GroupId, String>,
    /// Namespaces and names of the Clusters of the groups.
    pub(super) clusters: BTreeSet<String>,
    /// Kinds of the templates and of the infrastructure machines.
    pub(super) kinds: BTreeSet<Resource>,
    /// All groups, also those that are not listed.
    pub(super) states: BTreeMap<GroupId, GroupState>,
    /// The Machine of each ID and of each name of a Node; `None` if two have it.
    by_id: HashMap<String, Option<Arc<Member>>>,
    by_name: HashMap<String, Option<Arc<Member>>>,
}

impl Snapshot {
    /// Derives the groups and instances from the objects.
    pub(super) fn of(known: &Known, settings: &ClusterApiSettings) -> Self {
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
            let id = match deployment(set) {
                Some(owner) => group::id(GroupKind::MachineDeployment, &name.namespace, owner),
                None => group::id(GroupKind::MachineSet, &name.namespace, &name.name),
            };
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
        let state = GroupState {
            kind,
            namespace: own("namespace"),
            name: own("name"),
            uid: own("uid"),
            replicas: replicas(object),
            ledger: Ledger::read(object),
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
            Ok((group, notes)) => {
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

    /// Returns the Machine of a node. The provider ID decides, byte for byte, because the autoscaler
    /// compares it so; the name decides only for a node without provider ID.
    pub(super) fn find(&self, id: &str, name: &str) -> Option<&Arc<Member>> {
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

/// Returns the name of the MachineDeployment of a MachineSet.
fn deployment(set: &Value) -> Option<&str> {
    let mut owners = set["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|it| it["kind"] == "MachineDeployment")?;
    Some(text(&owner["name"])).filter(|name| !name.is_empty())
}

fn cluster_name(object: &Value) -> &str {
    match text(&object["spec"]["clusterName"]) {
        "" => text(&object["metadata"]["labels"][CLUSTER_LABEL]),
        name => name,
    }
}

/// Returns the template that a group names, or writes the reason into `unread`.
fn template<'a>(
    known: &'a Known,
    namespace: &str,
    reference: &TemplateReference,
    unread: &'a mut String,
) -> GroupTemplate<'a> {
    let resource =
        Resource { group: reference.api_group.clone(), name: reference.resource.clone() };
    let name = ObjectName::new(namespace, &reference.name);
    let objects = known.get(&resource);
    if let Some(object) = objects.and_then(|it| it.get(&name)) {
        return GroupTemplate::Object(object);
    }
    let name = &reference.name;
    *unread = match objects.map(|it| &it.progress) {
        None | Some(Progress::Pending) => format!("{resource} were not listed yet"),
        Some(Progress::Listed) => format!("the namespace has no {resource} {name}"),
        Some(Progress::Absent) => format!("the API server does not serve {resource}"),
        Some(Progress::Failing(why)) => format!("{resource} cannot be listed: {why}"),
    };
    GroupTemplate::Unread(unread)
}

/// Returns the Machine with the provider ID of its infrastructure machine, which has it first.
fn with_infrastructure(mut machine: Machine, known: &Known) -> Machine {
    if machine.provider_id.is_none()
        && let Some((kind, name)) = &machine.infrastructure
    {
        let name = ObjectName::new(&machine.namespace, name);
        let object = known.get(kind).and_then(|it| it.get(&name));
        let id = object.map(|it| text(&it["spec"]["providerID"]).to_owned());
        machine.provider_id = id.filter(|id| !id.is_empty());
    }
    machine
}
