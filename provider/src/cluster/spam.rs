//! Limit of events about one object: one bucket per component and object, as in client-go's
//! `EventSourceObjectSpamFilter`.

use std::collections::BTreeMap;

use super::{
    TokenBucket,
    events::{Key, Subject},
};

/// Number of events of one component about one object that pass at once.
const BURST: u32 = 25;
/// Rate after the burst: one event per five minutes.
const PER_SECOND: f64 = 1.0 / 300.0;
/// Maximum number of pairs of component and object whose buckets the filter remembers; to remember
/// another one, it forgets the pair that was quiet for longest.
const REMEMBERED: usize = 4096;

/// Component and object of an event.
type Source = (&'static str, Subject);

/// Limits the events per component and object.
#[derive(Debug, Default)]
pub(super) struct SpamFilter {
    buckets: BTreeMap<Source, (TokenBucket, u64)>,
    n_seen: u64,
}

impl SpamFilter {
    /// Counts an event, and returns true if it is within the limit.
    pub(super) fn lets_through(&mut self, key: &Key) -> bool {
        self.n_seen += 1;
        let source = (key.component, key.subject.clone());
        if self.buckets.len() >= REMEMBERED && !self.buckets.contains_key(&source) {
            let quietest = self.buckets.iter().min_by_key(|(_, (_, used))| *used);
            let quietest = quietest.map(|(source, _)| source.clone());
            quietest.and_then(|source| self.buckets.remove(&source));
        }
        let new = || (TokenBucket::new(PER_SECOND, BURST), 0);
        let (bucket, used) = self.buckets.entry(source).or_insert_with(new);
        *used = self.n_seen;
        bucket.try_take()
    }
}
