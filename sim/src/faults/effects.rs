//! What a fired rule asks of the handler itself, beyond delaying or replacing its answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a handler must bend its answer. The default bends nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Answer as if nothing matched: an empty search, an empty list.
    pub empty_result: bool,
    /// Objects the caller does not get to see, by machine name, object name or managed object id.
    pub hidden: Vec<String>,
    /// Property paths that come as `missingSet` entries.
    pub missing_set: Vec<MissingPaths>,
    /// Treat the collector version in the request as unknown.
    pub version_reset: bool,
    /// What happens to a watch.
    pub watch: WatchEffects,
    /// Lists have only so many objects.
    pub partial: Option<usize>,
    /// Reads of any state get that before so many changes.
    pub stale: Option<usize>,
    /// Every read gets the state before so many changes.
    pub read_stale: Option<usize>,
    /// Lists cannot be gone on with.
    pub continue_expired: bool,
    /// The conversion webhook does not answer.
    pub conversion_down: bool,
    /// How many changes per resource the cluster remembers from this call on.
    pub compact: Option<usize>,
}

/// Property paths that cannot be read, and the fault that says why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingPaths {
    /// Property paths; a path also covers what lies below it.
    pub paths: Vec<String>,
    /// The vim25 fault class.
    pub fault: String,
}

/// What happens to a Kubernetes watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchEffects {
    /// An ERROR event with code 410 and the end of the stream, at once.
    pub gone410: bool,
    /// An ERROR event with code 410 and the end of the stream after this many events.
    pub gone_after: Option<u64>,
    /// The stream stays open and says nothing: no events, no bookmarks.
    pub silent: bool,
    /// Events come, bookmarks do not.
    pub no_bookmark: bool,
    /// The stream ends after this many events.
    pub close_after: Option<u64>,
    /// Everything is told twice.
    pub duplicate: bool,
    /// What happens is told this much later.
    pub delay: Option<Duration>,
    /// The stream ends after this long.
    pub lasts: Option<Duration>,
    /// After this many events nothing comes any more, and no end either.
    pub hold_after: Option<u64>,
}

impl Effects {
    /// Whether an API server of Kubernetes has to answer otherwise than it would. What is about vCenter means nothing to it.
    pub(crate) fn bend_a_cluster(&self) -> bool {
        let about_vcenter = Self {
            missing_set: self.missing_set.clone(),
            version_reset: self.version_reset,
            ..Self::default()
        };
        *self != about_vcenter
    }

    /// How many objects a list may show, if not all.
    pub(crate) fn shown_objects(&self) -> Option<usize> {
        if self.empty_result { Some(0) } else { self.partial }
    }

    /// Whether an object with this name or managed object id is hidden.
    pub fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }
}
