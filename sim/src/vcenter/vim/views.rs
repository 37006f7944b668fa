//! Views of a session: list views, which a client maintains, and container views, which follow the
//! inventory.

use std::collections::{BTreeSet, VecDeque};

use sim_world::vcenter::{Data, Kind, MoRef, VCenter};

use super::properties::Reader;
use crate::call::vim25;
use crate::vcenter::vim::data::Reference;

/// Maximum number of changes that a list view keeps for filters that have not reported them yet.
/// The view drops the oldest changes first.
const KEPT_CHANGES: usize = 65_536;

/// A list view or container view, owned by a session.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) reference: Reference,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    List {
        objects: BTreeSet<MoRef>,
        /// Number of objects that were added or removed since the creation of the view. `changes`
        /// has the last of them.
        generation: u64,
        changes: VecDeque<MoRef>,
    },
    Container {
        container: MoRef,
        types: Vec<String>,
        recursive: bool,
    },
}

impl View {
    /// Returns a list view of these objects.
    pub(crate) fn list(reference: Reference, objects: BTreeSet<MoRef>) -> Self {
        Self {
            reference,
            content: Content::List { objects, generation: 0, changes: VecDeque::new() },
        }
    }

    /// Returns a view of the objects of `types` below `container`: of its direct children, or of
    /// all its descendants if `recursive` is true. Empty `types` select every type. `None` if
    /// objects of the container's type cannot contain others.
    pub(crate) fn container_of(
        reference: Reference,
        container: MoRef,
        types: Vec<String>,
        recursive: bool,
    ) -> Option<Self> {
        let contains =
            !matches!(container.kind, Kind::Machine | Kind::Task | Kind::Datastore | Kind::Network);
        let content = Content::Container { container, types, recursive };
        contains.then_some(Self { reference, content })
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.reference.kind
    }

    pub(crate) fn container(&self) -> Option<MoRef> {
        match &self.content {
            Content::Container { container, .. } => Some(*container),
            Content::List { .. } => None,
        }
    }

    pub(crate) fn types(&self) -> Option<&[String]> {
        match &self.content {
            Content::Container { types, .. } => Some(types),
            Content::List { .. } => None,
        }
    }

    pub(crate) fn recursive(&self) -> Option<bool> {
        match &self.content {
            Content::Container { recursive, .. } => Some(*recursive),
            Content::List { .. } => None,
        }
    }

    /// Removes the objects `remove` from a list view, then adds the objects `add`. Returns `false`
    /// for a container view, which clients cannot change.
    pub(crate) fn modify(
        &mut self,
        add: impl IntoIterator<Item = MoRef>,
        remove: impl IntoIterator<Item = MoRef>,
    ) -> bool {
        let Content::List { objects, generation, changes } = &mut self.content else {
            return false;
        };
        let removed: Vec<MoRef> = remove.into_iter().filter(|id| objects.remove(id)).collect();
        let added: Vec<MoRef> = add.into_iter().filter(|id| objects.insert(*id)).collect();
        for id in removed.into_iter().chain(added) {
            *generation += 1;
            changes.push_back(id);
        }
        while changes.len() > KEPT_CHANGES {
            changes.pop_front();
        }
        true
    }

    /// Sets the objects of a list view; returns `false` for a container view.
    pub(crate) fn reset(&mut self, objects: BTreeSet<MoRef>) -> bool {
        let Content::List { objects: old, .. } = &self.content else { return false };
        let gone: Vec<MoRef> = old.difference(&objects).copied().collect();
        self.modify(objects, gone)
    }

    /// Number of objects that were added to or removed from a list view since its creation; always
    /// 0 for a container view.
    pub(crate) fn generation(&self) -> u64 {
        match &self.content {
            Content::List { generation, .. } => *generation,
            Content::Container { .. } => 0,
        }
    }

    /// Returns the objects that were added to or removed from a list view since the generation
    /// `since`, which must not exceed the present one. `None` if the view does not keep these
    /// changes any more. Always empty for a container view.
    pub(crate) fn changed_since(&self, since: u64) -> Option<Vec<MoRef>> {
        match &self.content {
            Content::Container { .. } => Some(Vec::new()),
            Content::List { generation, changes, .. } => {
                let behind = usize::try_from(generation - since).ok()?;
                let skip = changes.len().checked_sub(behind)?;
                Some(changes.range(skip..).copied().collect())
            }
        }
    }

    /// True if the object exists and is in the view now, and the caller may see it. Every caller
    /// may see tasks.
    pub(crate) fn includes(&self, reader: &Reader<'_>, id: MoRef) -> bool {
        let known = match id.kind {
            Kind::Task => reader.vc.tasks.contains_key(&id),
            _ => reader.vc.inventory.get(id).is_some() && reader.sees(id),
        };
        known
            && match &self.content {
                Content::List { objects, .. } => objects.contains(&id),
                Content::Container { container, types, recursive } => {
                    wanted(types, id.kind)
                        && if *recursive {
                            is_within(reader.vc, *container, id)
                        } else {
                            children(reader.vc, *container).contains(&id)
                        }
                }
            }
    }

    /// Returns the objects that are in the view now and that the caller may see, ordered by type
    /// and then by number.
    pub(crate) fn objects(&self, reader: &Reader<'_>) -> Vec<MoRef> {
        match &self.content {
            Content::List { objects, .. } => {
                objects.iter().copied().filter(|id| self.includes(reader, *id)).collect()
            }
            Content::Container { container, types, recursive: false } => {
                children(reader.vc, *container)
                    .into_iter()
                    .filter(|id| wanted(types, id.kind) && reader.sees(*id))
                    .collect()
            }
            Content::Container { container, types, recursive: true } => {
                let everything = *container == reader.vc.root();
                KINDS
                    .into_iter()
                    .filter(|kind| wanted(types, *kind))
                    .flat_map(|kind| reader.vc.inventory.of_kind(kind))
                    .map(|(id, _)| id)
                    .filter(|id| id != container && reader.sees(*id))
                    .filter(|id| everything || is_within(reader.vc, *container, *id))
                    .collect()
            }
        }
    }
}

/// Every kind of inventory object.
const KINDS: [Kind; 14] = {
    use sim_world::vcenter::FolderKind as F;
    [
        Kind::Folder(F::Datacenters),
        Kind::Folder(F::Machines),
        Kind::Folder(F::Hosts),
        Kind::Folder(F::Datastores),
        Kind::Folder(F::Networks),
        Kind::Datacenter,
        Kind::Cluster,
        Kind::Standalone,
        Kind::Host,
        Kind::Pool,
        Kind::VirtualApp,
        Kind::Datastore,
        Kind::Network,
        Kind::Machine,
    ]
};

fn wanted(wanted: &[String], kind: Kind) -> bool {
    wanted.is_empty() || wanted.iter().any(|base| vim25::is_a(kind.type_name(), base))
}

/// True if `id` is below `container` in the inventory, or is a datastore or network of the compute
/// resource `container`.
fn is_within(vc: &VCenter, container: MoRef, id: MoRef) -> bool {
    if id != container && vc.inventory.is_below(id, container) {
        return true;
    }
    match vc.inventory.get(id).map(|entity| &entity.data) {
        Some(Data::Datastore { .. } | Data::Network { .. }) => {
            match vc.inventory.get(container).map(|entity| &entity.data) {
                Some(Data::Compute { datastores, networks, .. }) => {
                    datastores.contains(&id) || networks.contains(&id)
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Returns the direct children of a container; empty if the object does not exist or cannot have
/// children.
fn children(vc: &VCenter, container: MoRef) -> BTreeSet<MoRef> {
    let Some(entity) = vc.inventory.get(container) else { return BTreeSet::new() };
    match &entity.data {
        Data::Folder { children } => children.clone(),
        Data::Datacenter { machines, hosts, datastores, networks } => {
            [*machines, *hosts, *datastores, *networks].into()
        }
        Data::Compute { hosts, pool, datastores, networks } => {
            hosts.iter().chain(datastores).chain(networks).copied().chain([*pool]).collect()
        }
        Data::Pool { pools, machines, .. } => pools.iter().chain(machines).copied().collect(),
        Data::Host { machines, .. } => machines.clone(),
        Data::Datastore { .. } | Data::Network { .. } | Data::Machine(_) => BTreeSet::new(),
    }
}
