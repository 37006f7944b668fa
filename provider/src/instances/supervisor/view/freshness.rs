//! State machine that decides how current the view is. Pure: events and their times in, a state
//! out.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    model::ViewState,
    mutant::{Active, mutant},
};

/// Time without a list or event after which a watched view is stale. A live watch delivers a
/// bookmark about once a minute.
pub(in crate::instances::supervisor) const T_STALE: Duration = Duration::from_secs(180);
/// Interval of lists in polling mode without a question.
pub(in crate::instances::supervisor) const POLL_IDLE: Duration = Duration::from_secs(300);
/// Maximum age of a list or read that answers about existence or power state, where no watch keeps
/// the view current. Also the minimum time in polling mode from the start of a list until a
/// question may start the next one.
pub(in crate::instances::supervisor) const WINDOW: Duration = Duration::from_secs(5);

/// Requests that keep the view, as far as the Supervisor permits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) enum Mode {
    /// One list and one watch.
    Watch,
    /// Lists, periodically and when a question needs one.
    Poll,
    /// Reads of single machines by name, because lists are forbidden.
    Get,
}

/// Purpose of an answer from the view. It decides how old the view may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) enum Purpose {
    /// Addresses of an initialized node.
    Addresses,
    /// Existence or power state of a machine, or initialization of a node.
    Life,
}

/// Event that concerns the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) enum ViewEvent {
    /// A complete list replaced the view.
    Listed,
    /// The server accepted a watch.
    WatchOpened,
    /// The watch delivered an event or a bookmark.
    Heard,
    /// The watch, or a list that must replace the view, failed for this reason.
    Failed(String),
    /// The backend stops watching, because the server forbids the watch or the watch keeps failing.
    WatchForbidden,
    /// The server forbids the list.
    ListForbidden,
}

/// Mode, age and last failure of the view, from which [`Freshness::state`] follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) struct Freshness {
    mode: Mode,
    /// True if a complete list has arrived since the start.
    is_synced: bool,
    /// True if a [`ViewEvent::Failed`] has happened since the last success or change of mode.
    is_broken: bool,
    /// Time of the last list or event; `None` before the first one.
    last_contact: Option<Instant>,
    listed_at: Option<Instant>,
    /// Reason of the last [`ViewEvent::Failed`], until a list or watch succeeds or the mode
    /// changes. While it is set, questions that the view cannot answer send no request.
    trouble: Option<String>,
    pub active: Active,
}

impl Freshness {
    pub(in crate::instances::supervisor) fn new(mode: Mode) -> Self {
        Self {
            mode,
            is_synced: false,
            is_broken: false,
            last_contact: None,
            listed_at: None,
            trouble: None,
            active: Active::default(),
        }
    }

    /// Applies an event that happened at `now`.
    pub(in crate::instances::supervisor) fn fold(&mut self, happened: ViewEvent, now: Instant) {
        match happened {
            ViewEvent::Listed => {
                if self.mode == Mode::Get {
                    self.mode = Mode::Poll;
                }
                self.is_synced = true;
                self.is_broken = false;
                self.trouble = None;
                self.listed_at = Some(now);
                self.last_contact = Some(now);
            }
            // An accepted watch says nothing about machines, so `last_contact` stays.
            ViewEvent::WatchOpened => {
                self.mode = Mode::Watch;
                self.is_broken = false;
                self.trouble = None;
            }
            ViewEvent::Heard => {
                self.is_broken = false;
                self.trouble = None;
                self.last_contact = Some(now);
            }
            ViewEvent::Failed(why) => {
                self.is_broken = true;
                self.trouble = Some(why);
            }
            ViewEvent::WatchForbidden => {
                self.mode = Mode::Poll;
                self.is_broken = false;
                self.trouble = None;
            }
            ViewEvent::ListForbidden => {
                self.mode = Mode::Get;
                self.is_broken = false;
                self.trouble = None;
            }
        }
    }

    /// Returns the state of the view at `now`.
    pub(in crate::instances::supervisor) fn state(&self, now: Instant) -> ViewState {
        match self.mode {
            Mode::Get => ViewState::Get,
            _ if !self.is_synced => ViewState::Syncing,
            Mode::Poll => ViewState::Poll,
            Mode::Watch if self.is_broken || self.is_silent(now) => ViewState::Stale,
            Mode::Watch => ViewState::Fresh,
        }
    }

    /// True if the view is recent enough for this purpose.
    pub(in crate::instances::supervisor) fn is_current(
        &self,
        purpose: Purpose,
        now: Instant,
    ) -> bool {
        match self.state(now) {
            ViewState::Fresh => true,
            ViewState::Poll => {
                let limit = match purpose {
                    Purpose::Addresses => POLL_IDLE * 2,
                    Purpose::Life => WINDOW,
                };
                self.listed_at.is_some_and(|at| now.saturating_duration_since(at) <= limit)
            }
            ViewState::Syncing | ViewState::Stale | ViewState::Get => false,
        }
    }

    /// True if the last list or event is older than [`T_STALE`], or if none has arrived.
    pub(in crate::instances::supervisor) fn is_silent(&self, now: Instant) -> bool {
        let is_silent = self.age(now).is_none_or(|age| age > T_STALE);
        is_silent && !mutant!(self.active, WatchStallUnnoticed)
    }

    /// Returns the time since the last list or event; `None` before the first one.
    pub(in crate::instances::supervisor) fn age(&self, now: Instant) -> Option<Duration> {
        self.last_contact.map(|at| now.saturating_duration_since(at))
    }

    pub(in crate::instances::supervisor) fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the time at which the last list replaced the view; `None` before the first list.
    pub(in crate::instances::supervisor) fn listed_at(&self) -> Option<Instant> {
        self.listed_at
    }

    /// Returns why questions should send no request: the backend's own list or watch fails. `None`
    /// if they may send requests. Otherwise an outage would cost one request per node and period.
    pub(in crate::instances::supervisor) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folds events, given in seconds after the start. Returns the freshness, and its state `at`
    /// seconds after the start.
    fn state_after(mode: Mode, history: &[(u64, ViewEvent)], at: u64) -> (Freshness, ViewState) {
        let start = Instant::now();
        let mut freshness = Freshness::new(mode);
        for (seconds, happened) in history {
            freshness.fold(happened.clone(), start + Duration::from_secs(*seconds));
        }
        let state = freshness.state(start + Duration::from_secs(at));
        (freshness, state)
    }

    fn failed() -> ViewEvent {
        ViewEvent::Failed("503".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn the_view_state_follows_from_lists_watches_and_failures() {
        use ViewEvent::{Heard, ListForbidden, Listed, WatchForbidden, WatchOpened};
        use ViewState::{Fresh, Get, Poll, Stale, Syncing};
        for (name, history, at, want) in [
            ("at the beginning", vec![], 0, Syncing),
            ("every list fails", vec![(0, failed()), (9, failed())], 10, Syncing),
            ("listed", vec![(0, Listed)], 1, Fresh),
            ("watching", vec![(0, Listed), (0, WatchOpened)], 180, Fresh),
            ("silent", vec![(0, Listed), (0, WatchOpened)], 181, Stale),
            ("a bookmark", vec![(0, Listed), (0, WatchOpened), (100, Heard)], 280, Fresh),
            ("and silent", vec![(0, Listed), (0, WatchOpened), (100, Heard)], 281, Stale),
            (
                "opening a watch is no sign of life",
                vec![(0, Listed), (0, WatchOpened), (170, WatchOpened)],
                181,
                Stale,
            ),
            ("broken", vec![(0, Listed), (0, WatchOpened), (5, failed())], 5, Stale),
            (
                "opened again",
                vec![(0, Listed), (0, WatchOpened), (5, failed()), (9, WatchOpened)],
                10,
                Fresh,
            ),
            (
                "opened again too late",
                vec![(0, Listed), (5, failed()), (200, WatchOpened)],
                201,
                Stale,
            ),
            (
                "and listed again",
                vec![(0, Listed), (5, failed()), (200, WatchOpened), (201, Listed)],
                202,
                Fresh,
            ),
            ("forbidden to watch", vec![(0, Listed), (0, WatchForbidden)], 999, Poll),
            (
                "allowed later",
                vec![(0, Listed), (0, WatchForbidden), (600, Listed), (600, WatchOpened)],
                601,
                Fresh,
            ),
            ("forbidden to list", vec![(0, ListForbidden)], 1, Get),
            ("allowed to list later", vec![(0, ListForbidden), (600, Listed)], 601, Poll),
        ] {
            let (_, state) = state_after(Mode::Watch, &history, at);
            assert_eq!(state, want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_polled_list_is_current_600_s_for_addresses_and_5_s_for_existence() {
        let start = Instant::now();
        let (freshness, _) = state_after(Mode::Poll, &[(0, ViewEvent::Listed)], 0);
        for (seconds, addresses, life) in [
            (0, true, true),
            (5, true, true),
            (6, true, false),
            (600, true, false),
            (601, false, false),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(freshness.is_current(Purpose::Addresses, now), addresses, "{seconds}");
            assert_eq!(freshness.is_current(Purpose::Life, now), life, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_ends_with_the_first_success() {
        let listed = (0, ViewEvent::Listed);
        let (freshness, _) = state_after(Mode::Watch, &[listed.clone(), (1, failed())], 1);
        assert_eq!(freshness.trouble(), Some("503"));
        for success in [ViewEvent::Listed, ViewEvent::WatchOpened, ViewEvent::Heard] {
            let history = [listed.clone(), (1, failed()), (2, success)];
            let (freshness, _) = state_after(Mode::Watch, &history, 2);
            assert_eq!(freshness.trouble(), None);
        }
    }
}
