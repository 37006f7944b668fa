//! Which names were borne before: whoever bears one again is somebody else, with another uid.
//!
//! Counted are the names of a resource up to a bound, for names that come once and never again, as those of
//! events, would pile up for ever. Beyond it nobody counts any more, and every new object of the resource is told
//! from its predecessors by the revision that it is made at.

use std::collections::BTreeMap;

use super::{GroupResource, Key};

/// Names of one resource that are counted.
const MAX_NAMES: usize = 4096;

/// Objects that have gone, by resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graves(BTreeMap<GroupResource, Names>);

#[derive(Clone, Debug, PartialEq)]
enum Names {
    /// How often, by path.
    Counted(BTreeMap<String, u32>),
    TooMany,
}

impl Graves {
    /// Notes that the object at `key` has gone.
    pub(super) fn dig(&mut self, key: &Key) {
        self.add(key, 1);
    }

    /// Notes that so many objects of this key have gone.
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

    /// What tells an object that is made at `revision` from all that bore its name; `None` if none did.
    pub(super) fn successor(&self, key: &Key, revision: u64) -> Option<String> {
        match self.0.get(&key.resource)? {
            Names::Counted(gone) => gone.get(&key.path()).map(u32::to_string),
            Names::TooMany => Some(format!("r{revision}")),
        }
    }

    /// How often objects of a key have gone, as far as it is counted.
    pub(super) fn counted(&self) -> impl Iterator<Item = (Key, u32)> {
        self.0.iter().flat_map(|(resource, names)| {
            let gone = match names {
                Names::Counted(gone) => Some(gone),
                Names::TooMany => None,
            };
            gone.into_iter().flatten().map(|(path, n)| (Key::at(resource.clone(), path), *n))
        })
    }

    /// Resources for which nobody counts any more.
    pub(super) fn uncounted(&self) -> impl Iterator<Item = &GroupResource> {
        self.0.iter().filter(|(_, names)| **names == Names::TooMany).map(|(resource, _)| resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_differ_and_names_are_bounded() {
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
        // Nobody knows any more who is new, so nobody is called the same as anybody before.
        assert_eq!(graves.successor(&key(0), 7).as_deref(), Some("r7"));
        assert_eq!(graves.successor(&key(MAX_NAMES + 1), 8).as_deref(), Some("r8"));
        assert_eq!(graves.successor(&Key::node("e0"), 7), None);
    }
}
