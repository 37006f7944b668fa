//! States of the view of a Supervisor's machines.

/// State of the view of a Supervisor's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewState {
    /// No complete list has arrived yet.
    Syncing,
    /// The backend watches. The last list or event is at most three minutes old, and neither the
    /// watch nor a list that must replace the view has failed since the last success. A periodic
    /// list may fail for a passing reason.
    Fresh,
    /// The backend watches. The last list or event is more than three minutes old, or the watch or
    /// a list that must replace the view has failed since the last success.
    Stale,
    /// The backend does not watch, because that is forbidden, fails or is switched off. It lists
    /// every five minutes, and when a question needs a list.
    Poll,
    /// The Supervisor forbids listing. The backend reads each machine by name.
    Get,
}

impl ViewState {
    /// All states.
    pub(crate) const ALL: [Self; 5] =
        [Self::Syncing, Self::Fresh, Self::Stale, Self::Poll, Self::Get];

    /// Name of the state in metrics and messages.
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
