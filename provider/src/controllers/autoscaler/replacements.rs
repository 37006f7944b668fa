//! Pauses before machines that replace failed ones.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use tokio::time::Instant;

/// Pause before a machine whose creation failed is made again in a group at its minimum. It doubles
/// with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

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
