//! Numbers of deletions by object name, so that a new object with the name of a deleted one gets
//! another uid.
//!
//! Each resource has a maximum number of counted names, because names that occur only once, such as
//! those of Events, would pile up for ever. Above the maximum, the store stops counting deletions
//! of the resource. From then on, a new object is distinguished from earlier objects of its name by
//! the revision at which it is created.

use std::collections::BTreeMap;

use crate::{GroupResource, Key};

/// Maximum number of counted names per resource.
const MAX_NAMES: usize = 4096;

/// Numbers of deletions by resource and path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Deletions(BTreeMap<GroupResource, Names>);

#[derive(Clone, Debug, PartialEq)]
enum Names {
    /// Number of deletions by path.
    Counted(BTreeMap<String, u32>),
    /// Deletions are not counted, because objects with more than [`MAX_NAMES`] names were deleted.
    TooMany,
}

impl Deletions {
    /// Records the deletion of the object at `key`.
    pub(crate) fn record(&mut self, key: &Key) {
        self.add(key, 1);
    }

    /// Records `n_times` deletions of objects at `key`, if deletions of the resource are counted.
    /// Stops counting for the resource, and drops its numbers, above [`MAX_NAMES`] names.
    pub(crate) fn add(&mut self, key: &Key, n_times: u32) {
        let none = || Names::Counted(BTreeMap::new());
        let names = self.0.entry(key.resource.clone()).or_insert_with(none);
        let Names::Counted(gone) = names else { return };
        *gone.entry(key.path()).or_default() += n_times;
        if gone.len() > MAX_NAMES {
            *names = Names::TooMany;
        }
    }

    /// Stops counting for a resource.
    pub(crate) fn stop(&mut self, resource: GroupResource) {
        self.0.insert(resource, Names::TooMany);
    }

    /// Returns a text that distinguishes an object created at `revision` from all earlier objects
    /// of its name. Returns `None` if deletions of the resource are counted and no object of this
    /// name has been deleted.
    pub(crate) fn incarnation(&self, key: &Key, revision: u64) -> Option<String> {
        match self.0.get(&key.resource)? {
            Names::Counted(gone) => gone.get(&key.path()).map(u32::to_string),
            Names::TooMany => Some(format!("r{revision}")),
        }
    }

    /// Number of deletions by key, for resources whose deletions are counted.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Key, u32)> {
        self.0.iter().flat_map(|(resource, names)| {
            let gone = match names {
                Names::Counted(gone) => Some(gone),
                Names::TooMany => None,
            };
            gone.into_iter().flatten().map(|(path, n)| (Key::from_path(resource.clone(), path), *n))
        })
    }

    /// Resources whose deletions are no longer counted.
    pub(crate) fn uncounted(&self) -> impl Iterator<Item = &GroupResource> {
        self.0.iter().filter(|(_, names)| **names == Names::TooMany).map(|(resource, _)| resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recreated_objects_are_distinguished_and_the_counted_names_are_bounded() {
        let mut graves = Deletions::default();
        let key = |n: usize| Key::new("events", "default", format!("e{n}"));
        assert_eq!(graves.incarnation(&key(0), 7), None);
        graves.record(&key(0));
        graves.record(&key(0));
        assert_eq!(graves.incarnation(&key(0), 7).as_deref(), Some("2"));
        assert_eq!(graves.incarnation(&key(1), 7), None);
        (1..=MAX_NAMES).for_each(|n| graves.record(&key(n)));
        assert_eq!(graves.counted().count(), 0);
        assert_eq!(graves.uncounted().count(), 1);
        // Without counts the store cannot know that a name is new, so every object gets a text.
        assert_eq!(graves.incarnation(&key(0), 7).as_deref(), Some("r7"));
        assert_eq!(graves.incarnation(&key(MAX_NAMES + 1), 8).as_deref(), Some("r8"));
        assert_eq!(graves.incarnation(&Key::node("e0"), 7), None);
    }
}
