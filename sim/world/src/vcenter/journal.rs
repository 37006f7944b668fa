//! The journal: a log of property changes. Property filters read it instead of comparing the
//! inventory.

use std::collections::VecDeque;

use super::refs::MoRef;

/// A change of an object, as a property filter sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The object was created.
    Created,
    /// The object was removed.
    Removed,
    /// The object has another parent, host or pool. These property paths changed, and views may
    /// have gained or lost the object.
    Moved(Vec<&'static str>),
    /// These property paths changed. A path covers everything below it.
    Changed(Vec<&'static str>),
}

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The version after this change.
    pub version: u64,
    /// Object that changed.
    pub object: MoRef,
    /// Kind of the change, with the changed property paths.
    pub touch: Touch,
}

/// Maximum number of entries in a journal. A reader that is further behind must start over.
const KEPT: usize = 262_144;

/// A bounded log of property changes with consecutive versions.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    head: u64,
    entries: VecDeque<Entry>,
}

impl Journal {
    /// The version of the newest change; 0 before the first.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Adds a change under the next version. Drops the oldest change above [`KEPT`] changes.
    pub(super) fn push(&mut self, object: MoRef, touch: Touch) {
        self.head += 1;
        self.entries.push_back(Entry { version: self.head, object, touch });
        if self.entries.len() > KEPT {
            self.entries.pop_front();
        }
    }

    /// The changes after `version`, oldest first. `None` when some of them were dropped, or
    /// `version` is newer than the newest change.
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = &Entry>> {
        let first_kept = self.head - self.entries.len() as u64;
        if version > self.head || version < first_kept {
            return None;
        }
        let skip = usize::try_from(version - first_kept).ok()?;
        Some(self.entries.range(skip..))
    }
}

/// True if a change of `changed` affects the property `asked`: the paths are equal, or one is below
/// the other.
pub fn touches(changed: &str, asked: &str) -> bool {
    let (short, long) =
        if changed.len() <= asked.len() { (changed, asked) } else { (asked, changed) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcenter::refs::Kind;

    #[test]
    fn a_changed_path_touches_its_parents_and_children() {
        for (changed, asked, want) in [
            ("guest.net", "guest.net", true),
            ("guest.net", "guest", true),
            ("guest", "guest.net", true),
            ("guest.net", "guest.network", false),
            ("config.hardware.device", "config.hardware.device[4000]", true),
            ("runtime.powerState", "summary.runtime.powerState", false),
        ] {
            assert_eq!(touches(changed, asked), want, "{changed} {asked}");
        }
    }

    #[test]
    fn the_journal_refuses_a_reader_that_is_too_far_behind() {
        let mut journal = Journal::default();
        for _ in 0..KEPT + 2 {
            journal.push(MoRef::new(Kind::Machine, 1), Touch::Created);
        }
        assert!(journal.since(1).is_none());
        assert_eq!(journal.since(2).map(Iterator::count), Some(KEPT));
        assert!(journal.since(journal.head() + 1).is_none());
    }
}
