//! Effects of fired rules on the handler itself, beyond delaying or replacing its answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Changes that a handler must make to its answer. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Answers as if nothing matched: an empty search, an empty list.
    pub empty_result: bool,
    /// Objects that the caller does not see, by machine name, object name or managed object id.
    pub hidden: Vec<String>,
    /// Property paths that the answer reports as `missingSet` entries.
    pub missing_set: Vec<MissingPaths>,
    /// Treats the collector version in the request as unknown.
    pub version_reset: bool,
    /// Effects on a watch.
    pub watch: WatchEffects,
    /// Maximum number of objects in a list.
    pub partial: Option<usize>,
    /// Number of changes by which reads that accept any state (`resourceVersion=0`) lag behind.
    pub stale: Option<usize>,
    /// Number of changes by which every read lags behind.
    pub read_stale: Option<usize>,
    /// Answers requests that continue a list with 410.
    pub continue_expired: bool,
    /// Makes the conversion webhook unavailable.
    pub conversion_down: bool,
    /// Number of changes per resource that the cluster remembers from this call on.
    pub compact: Option<usize>,
}

/// Property paths that cannot be read, with the fault that explains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingPaths {
    /// Property paths; a path also covers what lies below it.
    pub paths: Vec<String>,
    /// The vim25 fault class.
    pub fault: String,
}

/// Effects on a Kubernetes watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchEffects {
    /// Sends an ERROR event with code 410 at once and ends the stream.
    pub gone410: bool,
    /// Sends an ERROR event with code 410 after this many events and ends the stream.
    pub gone_after: Option<u64>,
    /// Keeps the stream open without any event or bookmark.
    pub silent: bool,
    /// Sends events, but no bookmarks.
    pub no_bookmark: bool,
    /// Ends the stream after this many events.
    pub close_after: Option<u64>,
    /// Sends everything twice.
    pub duplicate: bool,
    /// Delays events by this time.
    pub delay: Option<Duration>,
    /// Ends the stream after this time.
    pub lasts: Option<Duration>,
    /// Sends nothing more after this many events, and does not end the stream.
    pub hold_after: Option<u64>,
}

impl Effects {
    /// True if a Kubernetes API server must change its answer. Effects on vCenter do not count.
    pub(crate) fn bend_a_cluster(&self) -> bool {
        let about_vcenter = Self {
            missing_set: self.missing_set.clone(),
            version_reset: self.version_reset,
            ..Self::default()
        };
        *self != about_vcenter
    }

    /// Maximum number of objects in a list; `None` for no limit.
    pub(crate) fn shown_objects(&self) -> Option<usize> {
        if self.empty_result { Some(0) } else { self.partial }
    }

    /// True if an object with this name or managed object id is hidden.
    pub fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }
}
