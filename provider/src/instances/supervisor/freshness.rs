//! State machine of the trust in the view. Pure: events and their times in, a state out.

use std::time::Duration;

use tokio::time::Instant;

use crate::mutant::{Active, mutant};

/// Silence after which a watch counts as dead, without even a bookmark (they come once a minute).
pub(super) const T_STALE: Duration = Duration::from_secs(180);
/// Interval of polls without a question.
pub(super) const POLL_IDLE: Duration = Duration::from_secs(300);
/// Maximum age of an answer about existence or power state; also the minimum time between two polls.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

/// Method that keeps the view, as far as the Supervisor permits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One list and one watch.
    Watch,
    /// Lists, when a question needs one.
    Poll,
    /// One machine at a time; lists are forbidden.
    Get,
}

/// State of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewState {
    /// No complete list has come in yet.
    Syncing,
    /// The watch delivers.
    Fresh,
    /// The watch has been silent for too long, or is broken.
    Stale,
    /// Watching is forbidden: questions make lists.
    Poll,
    /// Listing is forbidden too: machines are read one at a time.
    Get,
}

impl ViewState {
    /// All states.
    pub(crate) const ALL: [Self; 5] =
        [Self::Syncing, Self::Fresh, Self::Stale, Self::Poll, Self::Get];

    /// Name of the state, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Poll => "poll",
            Self::Get => "get",
        }
    }
}

/// Purpose of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Addresses of an initialized node.
    Addresses,
    /// Existence or power state of a machine, or initialization of a node.
    Life,
}

/// Event that concerns the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// A complete list was taken over.
    Listed,
    /// The server accepted a watch.
    WatchOpened,
    /// The watch delivered an event or a bookmark.
    Heard,
    /// A list or a watch failed, for this reason.
    Failed(String),
    /// The server forbids the watch.
    WatchForbidden,
    /// The server forbids the list.
    ListForbidden,
}

/// The state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    mode: Mode,
    is_synced: bool,
    /// True if something has failed since the last success.
    is_broken: bool,
    last_contact: Option<Instant>,
    listed_at: Option<Instant>,
    /// Reason for which no question should reach the Supervisor now.
    trouble: Option<String>,
    pub active: Active,
}

impl Freshness {
    pub(super) fn new(mode: Mode) -> Self {
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

    /// Applies an event.
    pub(super) fn fold(&mut self, happened: Happened, now: Instant) {
        match happened {
            Happened::Listed => {
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
            Happened::WatchOpened => {
                self.mode = Mode::Watch;
                self.is_broken = false;
                self.trouble = None;
            }
            Happened::Heard => {
                self.is_broken = false;
                self.trouble = None;
                self.last_contact = Some(now);
            }
            Happened::Failed(why) => {
                self.is_broken = true;
                self.trouble = Some(why);
            }
            Happened::WatchForbidden => {
                self.mode = Mode::Poll;
                self.is_broken = false;
                self.trouble = None;
            }
            Happened::ListForbidden => {
                self.mode = Mode::Get;
                self.is_broken = false;
                self.trouble = None;
            }
        }
    }

    /// Returns the state at a time.
    pub(super) fn state(&self, now: Instant) -> ViewState {
        match self.mode {
            Mode::Get => ViewState::Get,
            _ if !self.is_synced => ViewState::Syncing,
            Mode::Poll => ViewState::Poll,
            Mode::Watch if self.is_broken || self.is_silent(now) => ViewState::Stale,
            Mode::Watch => ViewState::Fresh,
        }
    }

    /// True if the view is fresh enough for this purpose.
    pub(super) fn is_current(&self, purpose: Purpose, now: Instant) -> bool {
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

    /// True if the last list or event is older than [`T_STALE`].
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_silent = self.age(now).is_none_or(|age| age > T_STALE);
        is_silent && !mutant!(self.active, WatchStallUnnoticed)
    }

    /// Time since the last list or event.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.last_contact.map(|at| now.saturating_duration_since(at))
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Time at which the last list was taken over.
    pub(super) fn listed_at(&self) -> Option<Instant> {
        self.listed_at
    }

    /// Returns why the Supervisor should be left alone: the backend's own list or watch fails. Otherwise an outage
    /// would cost one request per node and period.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folds events, given in seconds after the start, and returns the state at the end.
    fn state_after(mode: Mode, history: &[(u64, Happened)], at: u64) -> (Freshness, ViewState) {
        let start = Instant::now();
        let mut freshness = Freshness::new(mode);
        for (seconds, happened) in history {
            freshness.fold(happened.clone(), start + Duration::from_secs(*seconds));
        }
        let state = freshness.state(start + Duration::from_secs(at));
        (freshness, state)
    }

    fn failed() -> Happened {
        Happened::Failed("503".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn the_view_state_follows_from_lists_watches_and_failures() {
        use Happened::{Heard, ListForbidden, Listed, WatchForbidden, WatchOpened};
        use ViewState::{Fresh, Get, Poll, Stale, Syncing};
        for (name, history, at, want) in [
            ("at the beginning", vec![], 0, Syncing),
            ("nobody answers", vec![(0, failed()), (9, failed())], 10, Syncing),
            ("listed", vec![(0, Listed)], 1, Fresh),
            ("watching", vec![(0, Listed), (0, WatchOpened)], 180, Fresh),
            ("silent", vec![(0, Listed), (0, WatchOpened)], 181, Stale),
            ("a bookmark", vec![(0, Listed), (0, WatchOpened), (100, Heard)], 280, Fresh),
            ("and silent", vec![(0, Listed), (0, WatchOpened), (100, Heard)], 281, Stale),
            (
                "opening alone is no life",
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
        let (freshness, _) = state_after(Mode::Poll, &[(0, Happened::Listed)], 0);
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
        let listed = (0, Happened::Listed);
        let (freshness, _) = state_after(Mode::Watch, &[listed.clone(), (1, failed())], 1);
        assert_eq!(freshness.trouble(), Some("503"));
        for success in [Happened::Listed, Happened::WatchOpened, Happened::Heard] {
            let history = [listed.clone(), (1, failed()), (2, success)];
            let (freshness, _) = state_after(Mode::Watch, &history, 2);
            assert_eq!(freshness.trouble(), None);
        }
    }
}
