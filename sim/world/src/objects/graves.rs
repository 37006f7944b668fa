//! Counts of deleted objects by name, so that a new object of an old name gets another uid.
//!
//! Each resource has a maximum number of counted names, because names that occur only once, such as those of
//! Events, would pile up for ever. Beyond it the store stops counting for the resource and tells every new object
//! from its predecessors by the revision of its creation.

use std::collections::BTreeMap;

use super::{GroupResource, Key};

/// Maximum number of counted names per resource.
const MAX_NAMES: usize = 4096;

/// Deleted objects by resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graves(BTreeMap<GroupResource, Names>);

#[derive(Clone, Debug, PartialEq)]
enum Names {
    /// Number of deletions by path.
    Counted(BTreeMap<String, u32>),
    TooMany,
}

impl Graves {
    /// Records the deletion of the object at `key`.
    pub(super) fn dig(&mut self, key: &Key) {
        self.add(key, 1);
    }

    /// Records `n_times` deletions of objects at `key`.
    pub(super) fn add(&mut self, key: &Key, n_times: u32) {
        let none = || Names::Counted(BTreeMap::new());
        let names = self.0.entry(key.resource.clone()).or_insert_with(none);
        let Names::Counted(gone) = names else { return };
        *gone.entry(key.path()).or_default() += n_times;
        if gone.len() > MAX_NAMES {
            *names = Names::TooMany;
        }
    }

    /// Stops counting for a resource.
    pub(super) fn stop(&mut self, resource: GroupResource) {
        self.0.insert(resource, Names::TooMany);
    }

    /// Returns a text that tells an object created at `revision` from all earlier ones of its name; `None` if the
    /// name is new.
    pub(super) fn successor(&self, key: &Key, revision: u64) -> Option<String> {
        match self.0.get(&key.resource)? {
            Names::Counted(gone) => gone.get(&key.path()).map(u32::to_string),
            Names::TooMany => Some(format!("r{revision}")),
        }
    }

    /// Number of deletions by key, for resources that are counted.
    pub(super) fn counted(&self) -> impl Iterator<Item = (Key, u32)> {
        self.0.iter().flat_map(|(resource, names)| {
            let gone = match names {
                Names::Counted(gone) => Some(gone),
                Names::TooMany => None,
            };
            gone.into_iter().flatten().map(|(path, n)| (Key::at(resource.clone(), path), *n))
        })
    }

    /// Resources that are no longer counted.
    pub(super) fn uncounted(&self) -> impl Iterator<Item = &GroupResource> {
        self.0.iter().filter(|(_, names)| **names == Names::TooMany).map(|(resource, _)| resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graves_tell_recreated_objects_apart_and_bound_the_counted_names() {
        let mut graves = Graves::default();
        let key = |n: usize| Key::new("events", "default", format!("e{n}"));
        assert_eq!(graves.successor(&key(0), 7), None);
        graves.dig(&key(0));
        graves.dig(&key(0));
        assert_eq!(graves.successor(&key(0), 7).as_deref(), Some("2"));
        assert_eq!(graves.successor(&key(1), 7), None);
        (1..=MAX_NAMES).for_each(|n| graves.dig(&key(n)));
        assert_eq!(graves.counted().count(), 0);
        assert_eq!(graves.uncounted().count(), 1);
        // Without counts no name is known to be new, so every object gets a text of its own.
        assert_eq!(graves.successor(&key(0), 7).as_deref(), Some("r7"));
        assert_eq!(graves.successor(&key(MAX_NAMES + 1), 8).as_deref(), Some("r8"));
        assert_eq!(graves.successor(&Key::node("e0"), 7), None);
    }
}
