//! Property collectors: their replies to waits have the changes since the version that a client
//! acknowledged.
//!
//! A collector stores the state that its client acknowledged: the journal position and, for each
//! filter, the members. A reply describes the changes from that state to the current one. The
//! client acknowledges a reply when it sends the version of the reply with its next wait. Until
//! then the previous version stays valid, so a client that lost the reply can wait again and gets
//! the same changes again.
//!
//! The work for a filter over views is proportional to the number of changes, unless the filter
//! must select its members anew: for its first reply, after a change of permissions, and when the
//! journal or a list view no longer has the changes. The journal names the changed objects, and the
//! filter checks only these and the objects that its list views have gained or lost. Any other
//! filter repeats its walk over the inventory when a change can alter its members.

mod follow;
mod plan;
mod position;
mod unsent;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::select::{FilterSpec, Obj, Views, with_list};
use crate::faults::Effects;
use crate::vcenter::vim::data::{Object, Reference, VimFault};
use crate::vcenter::vim::properties::Reader;
use follow::Filter;
use position::{Offer, Position};

/// Maximum number of object updates in one reply to `WaitForUpdatesEx` if the client sets no limit.
const DEFAULT_MAX_UPDATES: usize = 100;

/// A property collector of one session: its filters, and the state that its client acknowledged.
#[derive(Debug)]
pub(crate) struct Collector {
    salt: u64,
    serial: u64,
    pub(crate) filters: BTreeMap<Arc<str>, Filter>,
    /// Filter ids in creation order.
    order: Vec<Arc<str>>,
    /// State that the client acknowledged.
    acknowledged: Position,
    /// Version of the reply that the client acknowledged last; `None` before the first
    /// acknowledgment, and after a start over.
    acked_version: Option<String>,
    /// The newest reply, if the client has not acknowledged it yet.
    unacknowledged: Option<Offer>,
    /// Number of waits that have begun. A newer wait has replaced each wait with a lower number.
    pub(crate) wait: u64,
    /// Number of the last canceled wait; earlier waits are canceled too.
    pub(crate) last_canceled: u64,
    /// Properties that a rule made unreadable when a reply should have had them. A later reply has
    /// them once they are readable.
    owed: BTreeMap<(Arc<str>, Obj), BTreeSet<String>>,
}

impl Collector {
    pub(crate) fn new(path: &str) -> Self {
        // FNV-1a. Versions need a stable hash that looks opaque; any would do.
        let salt = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self {
            salt,
            serial: 0,
            filters: BTreeMap::new(),
            order: Vec::new(),
            acknowledged: Position::default(),
            acked_version: None,
            unacknowledged: None,
            wait: 0,
            last_canceled: 0,
            owed: BTreeMap::new(),
        }
    }

    pub(crate) fn add_filter(
        &mut self,
        id: Arc<str>,
        spec: FilterSpec,
        views: &Views,
    ) -> Reference {
        let follows_view = !spec.starts.is_empty()
            && spec.starts.iter().all(|start| match &start.obj {
                Obj::Named(id) => {
                    views.contains_key(id)
                        && start.select.iter().all(|index| {
                            let traversal = &spec.traversals[*index];
                            traversal.path == "view" && traversal.select.is_empty()
                        })
                }
                Obj::Mo(_) => false,
            });
        let reference = Reference::new("PropertyFilter", id.clone());
        self.order.push(id.clone());
        self.filters.insert(id, Filter { reference: reference.clone(), spec, follows_view });
        reference
    }

    pub(crate) fn has_filter(&self, id: &str) -> bool {
        self.filters.contains_key(id)
    }

    /// Removes a filter; returns `false` if the collector does not have it.
    pub(crate) fn remove_filter(&mut self, id: &str) -> bool {
        self.order.retain(|known| &**known != id);
        self.acknowledged.members.remove(id);
        if let Some(offered) = &mut self.unacknowledged {
            offered.rest.retain(|planned| &*planned.filter != id);
        }
        self.filters.remove(id).is_some()
    }

    /// Processes the version that the client sends with a wait. The version of the newest reply
    /// acknowledges that reply, or requests its rest if it was truncated. The version acknowledged
    /// last requests the changes again. An empty version starts over.
    ///
    /// # Errors
    /// `InvalidCollectorVersion` for any other version.
    pub(crate) fn acknowledge(&mut self, version: &str) -> Result<(), VimFault> {
        if version.is_empty() {
            self.acknowledged = Position::default();
            self.acked_version = None;
            self.unacknowledged = None;
            return Ok(());
        }
        let matches_offer =
            self.unacknowledged.as_ref().is_some_and(|offer| offer.version == version);
        if matches_offer {
            if self.unacknowledged.as_ref().is_some_and(|offer| !offer.rest.is_empty()) {
                return Ok(());
            }
            if let Some(offer) = self.unacknowledged.take() {
                self.acknowledged.advance(offer.change, &self.filters);
                self.acked_version = Some(offer.version);
            }
            return Ok(());
        }
        if self.acked_version.as_deref() == Some(version) {
            self.unacknowledged = None;
            return Ok(());
        }
        Err(VimFault::invalid_collector_version())
    }

    /// Makes all versions of earlier replies invalid, as a restart of the real service does.
    /// Forgets the acknowledged state and the owed properties, so the client must start over.
    pub(crate) fn reset(&mut self) {
        self.owed.clear();
        self.acked_version = None;
        self.unacknowledged = None;
        self.acknowledged = Position::default();
    }

    /// Returns the next reply, an `UpdateSet` with at most `max_updates` object updates (100 for
    /// `None`); `None` if no change is to be reported. Stores the reply until the client
    /// acknowledges it. Fails if a filter cannot select its members anew.
    pub(crate) fn reply(
        &mut self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        max_updates: Option<usize>,
    ) -> Result<Option<Object>, VimFault> {
        let max = max_updates.unwrap_or(DEFAULT_MAX_UPDATES).max(1);
        let (mut planned, change) = match self.unacknowledged.take() {
            Some(offer) => (offer.rest, offer.change),
            None => {
                let (planned, change) = self.plan(reader, views, effects)?;
                if planned.is_empty() && !self.can_send_unsent(effects) {
                    // The client would see no change, so the position advances without a reply.
                    self.acknowledged.advance(change, &self.filters);
                    return Ok(None);
                }
                (planned, change)
            }
        };
        self.add_unsent(&mut planned, reader, views, effects);
        let rest = if planned.len() > max { planned.split_off(max) } else { VecDeque::new() };
        self.serial += 1;
        let version = format!("{:016x}-{}", self.salt, self.serial);
        let mut set = Object::new("UpdateSet").with("version", version.as_str());
        let filters = self.order.iter().filter_map(|id| {
            let own = planned.iter().filter(|update| update.filter == *id);
            self.filter_update(reader, views, effects, id, own)
        });
        set = with_list(set, "filterSet", "PropertyFilterUpdate", filters);
        if !rest.is_empty() {
            set = set.with("truncated", true);
        }
        self.unacknowledged = Some(Offer { version, change, rest });
        Ok(Some(set))
    }
}
