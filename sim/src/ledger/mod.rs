//! Every call in the order it came in: what was asked, which rules fired, what the caller met.
//!
//! Append-only. Nothing secret is ever written: the faces classify calls without passwords, and a
//! session appears as a short digest. In virtual time two runs of one seed write the same bytes.
//!
//! [`Ledger::counts`] answers how often what was called, [`Ledger::records`] what exactly, a
//! [`Record`]'s text is a line of a transcript, and [`Ledger::to_jsonl`] is all of it for other tools.

mod answer;
mod query;
mod record;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};

pub use answer::Digest;
pub use query::Counts;
pub use record::{Ended, Kind, Record};

use sha2::{Digest as _, Sha256};
use sim_world::Time;

use crate::Call;
use crate::faults::Evaluation;
use crate::signal::{Changes, Signal};

/// How many records are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    #[default]
    All,
    /// The last so many; older ones are in the spill file, if there is one.
    Last(usize),
}

/// The ledger of one sim. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    inner: Arc<Mutex<Inner>>,
    changed: Signal,
}

struct Inner {
    keep: Keep,
    /// Sequence number of the first record in memory.
    first: u64,
    records: VecDeque<Record>,
    phase: Option<Arc<str>>,
    spill: Option<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { keep, first, records, phase, spill } = self;
        f.debug_struct("Ledger")
            .field("keep", keep)
            .field("first", first)
            .field("records", &records.len())
            .field("phase", phase)
            .field("spills", &spill.is_some())
            .finish()
    }
}

impl Ledger {
    /// An empty ledger.
    pub fn new(keep: Keep) -> Self {
        let inner = Inner { keep, first: 1, records: VecDeque::new(), phase: None, spill: None };
        Self { inner: Arc::new(Mutex::new(inner)), changed: Signal::default() }
    }

    /// Writes records that leave memory to `sink`, as JSON lines.
    pub fn spill_to(&self, sink: impl Write + Send + 'static) {
        self.lock().spill = Some(Box::new(sink));
    }

    /// Makes sure that what has been spilled is written, and spills no more.
    pub fn end_spill(&self) -> std::io::Result<()> {
        self.lock().spill.take().map_or(Ok(()), |mut sink| sink.flush())
    }

    /// Names what is going on from now on; records carry it.
    pub fn set_phase(&self, phase: Option<&str>) {
        self.lock().phase = phase.map(Arc::from);
    }

    /// Everything in memory, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.iter().cloned().collect()
    }

    /// Records from sequence number `from` on, as far as they are in memory.
    pub fn since(&self, from: u64) -> Vec<Record> {
        let inner = self.lock();
        let skip = usize::try_from(from.saturating_sub(inner.first)).unwrap_or(usize::MAX);
        inner.records.iter().skip(skip).cloned().collect()
    }

    /// The sequence number that the next record will have.
    pub fn next_seq(&self) -> u64 {
        let inner = self.lock();
        inner.first + inner.records.len() as u64
    }

    /// Looks at every record in memory without copying it.
    pub fn visit(&self, mut look: impl FnMut(&Record)) {
        self.lock().records.iter().for_each(&mut look);
    }

    /// A signal whose value grows with every record, and once more when its call ends.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }

    /// What `look` finds in the ledger, as soon as there is something to find.
    ///
    /// Cancel safe. It waits for ever for what never comes: give it a deadline.
    pub async fn wait_for<R>(&self, mut look: impl FnMut(&Self) -> Option<R>) -> R {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if let Some(found) = look(self) {
                return found;
            }
            changes.changed().await;
        }
    }

    /// Calls so far, to count.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.visit(|record| counts.add(record));
        counts
    }

    /// Everything in memory as JSON lines.
    pub fn to_jsonl(&self) -> String {
        let mut out = String::new();
        self.visit(|record| {
            out.push_str(&record.to_line());
            out.push('\n');
        });
        out
    }

    /// Forgets everything; sequence numbers go on.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.first += inner.records.len() as u64;
        inner.records.clear();
    }

    /// Records something that is no call: a world event, a rule added, a note of the driver.
    pub fn note(&self, at: Time, kind: Kind, text: impl Into<String>) -> u64 {
        self.push(|seq, phase| Record::note(seq, at, kind, text.into(), phase))
    }

    /// Records that a call came in.
    pub(crate) fn open(&self, at: Time, call: &Call, rules: Vec<Evaluation>) -> u64 {
        self.push(|seq, phase| Record::call(seq, at, call, rules, phase))
    }

    /// Records how a call ended.
    pub(crate) fn close(&self, seq: u64, ended: Ended) {
        let mut inner = self.lock();
        let Some(at) = seq.checked_sub(inner.first).and_then(|at| usize::try_from(at).ok()) else {
            return;
        };
        if let Some(record) = inner.records.get_mut(at) {
            record.ended = Some(ended);
        }
        drop(inner);
        self.changed.send();
    }

    fn push(&self, make: impl FnOnce(u64, Option<Arc<str>>) -> Record) -> u64 {
        let mut inner = self.lock();
        let seq = inner.first + inner.records.len() as u64;
        let phase = inner.phase.clone();
        inner.records.push_back(make(seq, phase));
        if let Keep::Last(kept) = inner.keep {
            while inner.records.len() > kept {
                let Some(record) = inner.records.pop_front() else { break };
                inner.first += 1;
                if let Some(sink) = &mut inner.spill
                    && let Err(error) = writeln!(sink, "{}", record.to_line())
                {
                    tracing::warn!(%error, "the ledger cannot be spilled; records are dropped");
                    inner.spill = None;
                }
            }
        }
        drop(inner);
        self.changed.send();
        seq
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the ledger panics")
    }
}

/// A short one-way digest of a session or credential, the same for the same one.
pub(crate) fn digest(secret: &str) -> String {
    let hash = Sha256::digest(secret.as_bytes());
    hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_record_is_woken_by_it() {
        let ledger = Ledger::new(Keep::All);
        let wait = ledger.wait_for(|ledger| ledger.records().into_iter().find(|it| it.op == "b"));
        let write = async {
            for text in ["a", "b"] {
                tokio::task::yield_now().await;
                ledger.note(Time::ZERO, Kind::Note, text);
            }
        };
        let both = async { tokio::join!(wait, write) };
        let (found, ()) =
            tokio::time::timeout(Duration::from_secs(1), both).await.expect("it wakes");
        assert_eq!(found.seq, 2);
    }
}
