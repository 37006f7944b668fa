//! Changes to the content of an answer that a caller of the server can request, for tests of
//! clients.

use std::time::Duration;

use kube_sim_store::Outage;

/// Changes to the content of one answer. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// True if the answer must be empty: an empty list, a get that answers 404, a watch without
    /// initial objects.
    pub empty_result: bool,
    /// Names of objects to hide from the client.
    pub hidden: Vec<String>,
    /// Effects on the events and the duration of a watch.
    pub watch: WatchEffects,
    /// Maximum number of objects in a list, or in the initial state of a watch; `None` for all.
    pub partial: Option<usize>,
    /// Number of changes by which reads that accept any state (`resourceVersion=0`) lag behind;
    /// `None` for none.
    pub stale: Option<usize>,
    /// Number of changes by which reads lag behind, even those that must be consistent; `None` for
    /// none.
    pub read_stale: Option<usize>,
    /// True if requests for a further page of a list get 410.
    pub continue_expired: bool,
    /// Outage of the conversion webhook; `None` while the webhook works.
    pub conversion_outage: Option<Outage>,
}

impl Effects {
    /// Maximum number of objects in a list, or in the initial state of a watch: 0 with
    /// `empty_result`, else `partial`. `None` for no limit.
    pub(crate) fn max_objects(&self) -> Option<usize> {
        if self.empty_result { Some(0) } else { self.partial }
    }

    /// True if the object with this name is hidden.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }
}

/// Effects on a Kubernetes watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchEffects {
    /// True if the watch sends an ERROR event with code 410 at once and ends.
    pub gone410: bool,
    /// Number of events, without bookmarks, after which the watch sends an ERROR event with code
    /// 410 and ends; `None` for no limit.
    pub gone_after: Option<u64>,
    /// True if the watch stays open until its timeout without any event or bookmark.
    pub silent: bool,
    /// True if the watch sends events, but no bookmarks.
    pub no_bookmark: bool,
    /// Number of events, without bookmarks, after which the watch ends; `None` for no limit.
    pub close_after: Option<u64>,
    /// True if the watch sends every event twice, except bookmarks and errors.
    pub duplicate: bool,
    /// Time by which the watch delays each event that happens after its beginning; `None` for no
    /// delay.
    pub delay: Option<Duration>,
    /// Time after which the watch ends, in place of the requested timeout; `None` keeps the
    /// timeout.
    pub lasts: Option<Duration>,
    /// Number of events, without bookmarks, after which the watch sends nothing more and never ends
    /// by itself; `None` for no limit.
    pub hold_after: Option<u64>,
}
