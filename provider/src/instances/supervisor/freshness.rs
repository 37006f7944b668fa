//! How far the view can be trusted. Pure: what happened and when in, a state out.

use std::time::Duration;

use tokio::time::Instant;

use crate::mutant::{Active, mutant};

/// A watch that has told nothing for this long, not even a bookmark (they come once a minute), tells nothing any more.
pub(super) const T_STALE: Duration = Duration::from_secs(180);
/// Without a question a namespace is polled this often.
pub(super) const POLL_IDLE: Duration = Duration::from_secs(300);
/// How old an answer about life and death may be; also the least time between two polls.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

/// How the view is kept, as far as we are allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One list and one watch.
    Watch,
    /// Lists, when somebody asks.
    Poll,
    /// One machine at a time; lists are forbidden.
    Get,
}

/// What the state of the view is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewState {
    /// There was no complete list yet.
    Syncing,
    /// The watch tells.
    Fresh,
    /// The watch has not told anything for too long, or is broken.
    Stale,
    /// Watching is forbidden: lists are made when somebody asks.
    Poll,
    /// Listing is forbidden too: machines are read one at a time.
    Get,
}

impl ViewState {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Syncing, Self::Fresh, Self::Stale, Self::Poll, Self::Get];

    /// One word.
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

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Addresses of an initialized node.
    Addresses,
    /// Whether a machine exists or runs, and the beginning of a node.
    Life,
}

/// What happened to the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// A complete list was taken over.
    Listed,
    /// The server accepted a watch.
    WatchOpened,
    /// The watch told an event or a bookmark.
    Heard,
    /// A list or a watch failed, for this reason.
    Failed(String),
    /// The server does not let us watch.
    WatchForbidden,
    /// The server does not let us list.
    ListForbidden,
}

/// The state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    mode: Mode,
    is_synced: bool,
    /// Since the last list or event something failed.
    is_broken: bool,
    last_contact: Option<Instant>,
    listed_at: Option<Instant>,
    /// Why nobody should ask the Supervisor at present.
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

    /// Takes in what happened.
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
            // That it was accepted tells nothing about machines.
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

    /// The state at a time.
    pub(super) fn state(&self, now: Instant) -> ViewState {
        match self.mode {
            Mode::Get => ViewState::Get,
            _ if !self.is_synced => ViewState::Syncing,
            Mode::Poll => ViewState::Poll,
            Mode::Watch if self.is_broken || self.is_silent(now) => ViewState::Stale,
            Mode::Watch => ViewState::Fresh,
        }
    }

    /// Whether the view may be believed for this purpose.
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

    /// Whether nothing was heard for too long.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_silent = self.age(now).is_none_or(|age| age > T_STALE);
        is_silent && !mutant!(self.active, WatchStallUnnoticed)
    }

    /// How long ago something was heard.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.last_contact.map(|at| now.saturating_duration_since(at))
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// When the last list was taken over.
    pub(super) fn listed_at(&self) -> Option<Instant> {
        self.listed_at
    }

    /// Why the Supervisor should be left alone: its answers to our own list and watch fail. Otherwise an outage would
    /// cost one request per node and period.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folds what happened, seconds after the start, and tells the state at the end.
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
    async fn states_follow_from_what_happened() {
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
    async fn a_poll_is_good_for_minutes_or_for_seconds() {
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
