//! Operations on collectors, filters and views, and the blocking wait.

use std::time::Duration;

use sim_world::vcenter::{Kind, MoRef, SessionService};
use tokio::time::Instant;

use super::select::FilterSpec;
use crate::call::operations::soap::Operation as Op;
use crate::call::vim25;
use crate::faults::Effects;
use crate::shared_world::Locked;
use crate::vcenter::vim::data::{Node, Reference, Value, VimFault};
use crate::vcenter::vim::operations::{Caller, Vim};
use crate::vcenter::vim::properties::Reader;
use crate::vcenter::vim::session::objects::{DEFAULT_COLLECTOR, SessionObjects, references};
use crate::vcenter::vim::views::View;
use kube_sim_api::Changes;

/// Maximum duration of a wait if the client sets no limit (30 min of tokio's clock).
const POLICY_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A blocking wait that has no reply yet.
#[derive(Debug)]
pub(crate) struct Wait {
    collector: String,
    /// Number of the wait on its collector. A wait with a higher number ends this one.
    number: u64,
    max_updates: Option<usize>,
    until: Instant,
    /// Signals for changes of the world, and for changes of the sessions of this vCenter and of
    /// their objects.
    changes: (Changes, Changes),
}

/// State of a wait that has just begun.
pub(in crate::vcenter::vim) enum WaitStart {
    /// The wait is over, with this reply; `None` if its time limit is zero and nothing has changed.
    Over(Option<Value>),
    /// The wait goes on, without a reply yet.
    Goes(Wait),
}

impl Vim {
    pub(in crate::vcenter::vim) fn collectors(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        this: &str,
        arguments: &Node,
    ) -> Result<Option<Value>, VimFault> {
        let release = self.release(world);
        let answer = self.with_owned(world, caller, |owned, reader| match operation {
            Op::CreateCollector => {
                owned.collector(this)?;
                Ok(Some(owned.add_collector().into()))
            }
            Op::DestroyCollector => {
                if this == DEFAULT_COLLECTOR {
                    return Err(VimFault::not_supported("PropertyCollector", operation.name()));
                }
                owned.collector(this)?;
                owned.collectors.remove(this);
                Ok(None)
            }
            Op::CreateFilter => {
                let spec =
                    arguments.child("spec").ok_or_else(|| VimFault::invalid_argument("spec"))?;
                let spec = FilterSpec::read(spec, release)?;
                let id = owned.next_id();
                let SessionObjects { views, collectors, .. } = owned;
                let collector = collectors
                    .get_mut(this)
                    .ok_or_else(|| VimFault::not_found("PropertyCollector", this))?;
                spec.check(reader, views)?;
                Ok(Some(collector.add_filter(id, spec, views).into()))
            }
            Op::DestroyFilter => {
                let removed = owned.collectors.values_mut().any(|it| it.remove_filter(this));
                removed.then_some(None).ok_or_else(|| VimFault::not_found("PropertyFilter", this))
            }
            _ => {
                let collector = owned.collector(this)?;
                collector.last_canceled = collector.wait;
                Ok(None)
            }
        })?;
        self.own_changes.send();
        Ok(answer)
    }

    pub(in crate::vcenter::vim) fn view_operation(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        this: &str,
        arguments: &Node,
    ) -> Result<Option<Value>, VimFault> {
        let answer = self.with_owned(world, caller, |owned, reader| {
            let unresolved_value =
                |list: Vec<Reference>| (!list.is_empty()).then(|| Value::refs(list));
            match operation {
                Op::CreateListView => {
                    let (known, _) = resolve(reader, arguments, "obj");
                    let reference = Reference::new("ListView", owned.next_id());
                    let view = View::list(reference, known.into_iter().collect());
                    Ok(Some(owned.add_view(view).into()))
                }
                Op::CreateContainerView => {
                    let (container, types, recursive) = container_arguments(reader, arguments)?;
                    let reference = Reference::new("ContainerView", owned.next_id());
                    let view = View::container_of(reference, container, types, recursive)
                        .ok_or_else(|| VimFault::invalid_argument("container"))?;
                    Ok(Some(owned.add_view(view).into()))
                }
                Op::ModifyListView => {
                    let (add, unresolved) = resolve(reader, arguments, "add");
                    // A client may remove objects that have been deleted.
                    let remove =
                        references(arguments, "remove").filter_map(|it| MoRef::parse(it.id));
                    let remove: Vec<MoRef> = remove.collect();
                    if !owned.view(this)?.modify(add, remove) {
                        return Err(VimFault::not_supported("ContainerView", operation.name()));
                    }
                    Ok(unresolved_value(unresolved))
                }
                Op::ResetListView => {
                    let (known, unresolved) = resolve(reader, arguments, "obj");
                    if !owned.view(this)?.reset(known.into_iter().collect()) {
                        return Err(VimFault::not_supported("ContainerView", operation.name()));
                    }
                    Ok(unresolved_value(unresolved))
                }
                _ => {
                    owned.view(this)?;
                    owned.views.remove(this);
                    Ok(None)
                }
            }
        })?;
        self.own_changes.send();
        Ok(answer)
    }

    /// Begins a wait for changes since the version that the client sends. Ends earlier waits on the
    /// same collector. The wait is over at once if a change exists already, or if its time limit is
    /// zero.
    ///
    /// # Errors
    /// `InvalidCollectorVersion` for an unknown version, or if a rule resets all versions,
    /// `InvalidArgument` for an invalid option, `ManagedObjectNotFound` for an unknown collector,
    /// `NotAuthenticated` if the session has ended, or the fault of a selection.
    pub(in crate::vcenter::vim) fn begin_wait(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        this: &str,
        arguments: &Node,
        effects: &Effects,
    ) -> Result<WaitStart, VimFault> {
        let options = arguments.child("options").filter(|_| operation == Op::WaitForUpdatesEx);
        let (limit, max_updates) = limits(operation, options)?;
        let version = arguments.text_of("version").unwrap_or_default();
        let number = self.with_owned(world, caller, |owned, _| {
            let collector = owned.collector(this)?;
            if effects.version_reset {
                collector.reset();
                return Err(VimFault::invalid_collector_version());
            }
            collector.acknowledge(version)?;
            collector.wait += 1;
            Ok(collector.wait)
        })?;
        // Wakes older waits on this collector, which end now.
        self.own_changes.send();
        // The world is locked, so it cannot change between this line and the first look.
        let changes = (self.world.changes(), self.own_changes.changes());
        let wait = Wait {
            collector: this.to_owned(),
            number,
            max_updates,
            until: Instant::now() + limit,
            changes,
        };
        match self.poll_wait(world, caller, &wait, effects)? {
            Some(reply) => Ok(WaitStart::Over(reply)),
            None => Ok(WaitStart::Goes(wait)),
        }
    }

    /// Continues a wait until it is over. Returns the reply; `None` if the time has run out. Fails
    /// if the session or the collector ends, a newer wait replaces this one, or the client cancels
    /// it.
    ///
    /// Cancel safe: a client that disconnects has not acknowledged the reply, so its next wait gets
    /// the changes again.
    pub(crate) async fn wait(
        &self,
        caller: &Caller<'_>,
        mut wait: Wait,
        effects: &Effects,
    ) -> Result<Option<Value>, VimFault> {
        loop {
            let (world, own) = &mut wait.changes;
            tokio::select! {
                biased;
                () = world.changed() => {}
                () = own.changed() => {}
                () = tokio::time::sleep_until(wait.until) => {}
            }
            world.mark_unchanged();
            own.mark_unchanged();
            if let Some(reply) = self.poll_wait(&self.world.lock(), caller, &wait, effects)? {
                return Ok(reply);
            }
        }
    }

    /// Checks a wait. Returns `None` while the wait goes on, `Some(None)` if its time has run out,
    /// else the reply. Fails if the session or the collector ended, a newer wait replaced this one,
    /// or the client canceled it.
    fn poll_wait(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        wait: &Wait,
        effects: &Effects,
    ) -> Result<Option<Option<Value>>, VimFault> {
        if self.vc(world).logins.session(SessionService::Soap, caller.token).is_none() {
            return Err(VimFault::request_canceled());
        }
        let reply = self.with_owned(world, caller, |owned, reader| {
            let SessionObjects { views, collectors, .. } = owned;
            let id = wait.collector.as_str();
            let collector = collectors
                .get_mut(id)
                .ok_or_else(|| VimFault::not_found("PropertyCollector", id))?;
            if collector.wait != wait.number || collector.last_canceled >= wait.number {
                return Err(VimFault::request_canceled());
            }
            collector.reply(reader, views, effects, wait.max_updates)
        })?;
        let is_over = reply.is_some() || Instant::now() >= wait.until;
        Ok(is_over.then(|| reply.map(Value::from)))
    }
}

/// Returns the maximum duration of a wait (zero for `CheckForUpdates`) and the maximum number of
/// object updates in its reply; `None` for the collector's default. Fails with `InvalidArgument`
/// for an invalid option.
fn limits(operation: Op, options: Option<&Node>) -> Result<(Duration, Option<usize>), VimFault> {
    if operation == Op::CheckForUpdates {
        return Ok((Duration::ZERO, Some(usize::MAX)));
    }
    if operation == Op::WaitForUpdates {
        return Ok((POLICY_LIMIT, Some(usize::MAX)));
    }
    let Some(options) = options else { return Ok((POLICY_LIMIT, None)) };
    let positive = |name: &'static str, least: u64| -> Result<Option<u64>, VimFault> {
        match options.int(name)? {
            None => Ok(None),
            Some(value) => u64::try_from(value)
                .ok()
                .filter(|value| *value >= least)
                .map(Some)
                .ok_or_else(|| VimFault::invalid_argument(name)),
        }
    };
    let limit = positive("maxWaitSeconds", 0)?.map_or(POLICY_LIMIT, Duration::from_secs);
    let max =
        positive("maxObjectUpdates", 1)?.map(|max| usize::try_from(max).unwrap_or(usize::MAX));
    Ok((limit, max))
}

/// Splits the references in the arguments `name` into objects that the caller sees and unresolved
/// references: objects that do not exist or that the caller may not see.
fn resolve(
    reader: &Reader<'_>,
    arguments: &Node,
    name: &'static str,
) -> (Vec<MoRef>, Vec<Reference>) {
    let mut known = Vec::new();
    let mut unresolved = Vec::new();
    for given in references(arguments, name) {
        let id = MoRef::parse(given.id).filter(|id| match id.kind {
            Kind::Task => reader.vc.tasks.contains_key(id),
            _ => reader.vc.inventory.get(*id).is_some() && reader.sees(*id),
        });
        match id {
            Some(id) => known.push(id),
            None => unresolved.push(Reference::new(vim25::reference_type(&given.kind), given.id)),
        }
    }
    (known, unresolved)
}

/// Returns the container, the types and the flag `recursive` of a new container view.
fn container_arguments(
    reader: &Reader<'_>,
    arguments: &Node,
) -> Result<(MoRef, Vec<String>, bool), VimFault> {
    let container = container(reader, arguments)?;
    let types = arguments.all("type").map(|it| it.text.clone()).collect::<Vec<_>>();
    if types.iter().any(|kind| vim25::managed(kind).is_none()) {
        return Err(VimFault::invalid_argument("type"));
    }
    Ok((container, types, arguments.flag("recursive")?.unwrap_or(false)))
}

fn container(reader: &Reader<'_>, arguments: &Node) -> Result<MoRef, VimFault> {
    let given =
        arguments.child("container").ok_or_else(|| VimFault::invalid_argument("container"))?;
    let given = given.reference();
    MoRef::parse(given.id)
        .filter(|id| reader.vc.inventory.get(*id).is_some() && reader.sees(*id))
        .ok_or_else(|| VimFault::not_found(&given.kind, given.id))
}
