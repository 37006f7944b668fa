//! Pauses before machines that replace failed ones.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

/// Pause before a machine whose creation failed is made again in a group at its minimum. It doubles
/// with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// True if a pause that ends at this time is over, or is longer than any pause, which proves that the
/// clock has stepped back.
pub(crate) fn is_over(until: Timestamp, now: Timestamp) -> bool {
    until <= now || until.duration_since(now).unsigned_abs() > LONGEST_PAUSE
}

/// Number of replacements in a row and time of the last one, by group.
#[derive(Default)]
pub(crate) struct Replacements(Mutex<BTreeMap<String, (u32, Instant)>>);

impl Replacements {
    /// Counts a replacement in a group and returns the pause before it.
    pub(crate) fn pause(&self, group: &str) -> Duration {
        let mut all = self.0.lock().expect("no holder panics");
        let (n, last) = all.entry(group.to_owned()).or_insert((0, Instant::now()));
        if last.elapsed() > 2 * LONGEST_PAUSE {
            *n = 0;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << (*n).min(8)).min(LONGEST_PAUSE);
        (*n, *last) = (*n + 1, Instant::now());
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_also_if_the_clock_steps_back() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (until, now, want) in
            [(100, 99, false), (100, 100, true), (700, 100, false), (701, 100, true)]
        {
            assert_eq!(is_over(at(until), at(now)), want, "{until} at {now}");
        }
    }
}
