//! Points in simulated time.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A point in simulated time, as nanoseconds since the world began.
///
/// [`Time::timestamp`] gives its wall-clock reading, which depends on the world's epoch.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The moment the world began.
    pub const ZERO: Self = Self(0);

    /// The point `since_start` after the world began. Saturates after 584 years.
    pub fn after_start(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time passed since the world began.
    pub fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Time passed since `earlier`, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The wall-clock time of this point in a world that began at `epoch`; [`Timestamp::MAX`] if
    /// that time is too late to represent.
    pub fn timestamp(self, epoch: Timestamp) -> Timestamp {
        SignedDuration::try_from(self.since_start())
            .ok()
            .and_then(|since| epoch.checked_add(since).ok())
            .unwrap_or(Timestamp::MAX)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", self.since_start().as_secs_f64())
    }
}
