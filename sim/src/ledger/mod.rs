//! Records every call in order of arrival: the request, the rules that fired, and the answer that the caller got.
//!
//! Append-only. The ledger never contains a secret: the faces classify calls without passwords, and a session appears as a short
//! digest. In virtual time two runs of one seed write the same bytes.
//!
//! [`Ledger::counts`] counts the calls per operation, [`Ledger::records`] lists them in full, the text of a [`Record`] is a line
//! of a transcript, and [`Ledger::to_jsonl`] exports all of them to other tools.

mod answer;
mod query;
mod record;
mod spill;

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub use answer::Digest;
pub use query::Counts;
pub use record::{Ended, Kind, Record};

use sha2::{Digest as _, Sha256};
use sim_world::Time;

use crate::Call;
use crate::faults::Evaluation;
use crate::signal::{Changes, Signal};
use spill::Spill;

/// Interval between searches for calls that take long.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Maximum number of records of open calls that are written per lock of the ledger.
const MAX_OPEN_AT_ONCE: usize = 100;

/// Limit of the records in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Keeps all records.
    #[default]
    All,
    /// Keeps the last n records. Older ones are in the file of [`Ledger::spill_to`], if one is set.
    Last(usize),
    /// Keeps the last records, up to this many bytes. Texts that a client sends about itself and objects count, so that long
    /// names and headers cannot fill the memory.
    Bytes(usize),
}

/// The ledger of one sim. Clones share its records.
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
    /// Bytes of the records in memory, without the ends of calls, so that a removal subtracts what the addition added.
    size: usize,
    phase: Option<Arc<str>>,
    spill: Option<Spill>,
    /// Calls in memory that have not ended.
    open: BTreeSet<u64>,
    /// Open calls before this sequence number have been written.
    told: u64,
}

impl Inner {
    fn position(&self, seq: u64) -> Option<usize> {
        seq.checked_sub(self.first).and_then(|at| usize::try_from(at).ok())
    }

    /// Writes the records of some open calls before `until` that are not written yet; returns true if more remain.
    fn tell_open(&mut self, until: u64) -> bool {
        if until <= self.told {
            return false;
        }
        let open: Vec<u64> =
            self.open.range(self.told..until).copied().take(MAX_OPEN_AT_ONCE).collect();
        for seq in &open {
            let record = self.position(*seq).and_then(|at| self.records.get(at));
            if let (Some(record), Some(spill)) = (record, &mut self.spill) {
                spill.line(record.to_line());
            }
        }
        let is_all = open.len() < MAX_OPEN_AT_ONCE;
        self.told = if is_all { until } else { open.last().map_or(until, |last| last + 1) };
        !is_all
    }

    /// True if the oldest record must go.
    fn is_full(&self) -> bool {
        match self.keep {
            Keep::All => false,
            Keep::Last(kept) => self.records.len() > kept,
            // A record that is larger than the limit stays until the next one arrives.
            Keep::Bytes(bytes) => self.size > bytes && self.records.len() > 1,
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { keep, first, records, size, phase, spill, open, told } = self;
        f.debug_struct("Ledger")
            .field("keep", keep)
            .field("first", first)
            .field("records", &records.len())
            .field("size", size)
            .field("phase", phase)
            .field("spills", &spill.is_some())
            .field("open", &open.len())
            .field("told", told)
            .finish()
    }
}

impl Ledger {
    /// An empty ledger.
    pub fn new(keep: Keep) -> Self {
        let inner = Inner {
            keep,
            first: 1,
            records: VecDeque::new(),
            size: 0,
            phase: None,
            spill: None,
            open: BTreeSet::new(),
            told: 1,
        };
        Self { inner: Arc::new(Mutex::new(inner)), changed: Signal::default() }
    }

    /// Writes every record to `sink` from now on, as JSON lines, each within a second after its call has ended.
    ///
    /// With [`spill_open`](Self::spill_open), a call that takes long has two lines with the same `seq`: one without `ended` while
    /// the call is open, and a complete one later, which counts.
    ///
    /// # Errors
    /// If no thread can be started for the writes.
    pub fn spill_to(&self, sink: impl Write + Send + 'static) -> std::io::Result<()> {
        let spill = Spill::new(sink)?;
        self.lock().spill = Some(spill);
        Ok(())
    }

    /// Writes the records of calls that stay open for longer than about half a second, for as long as this future is polled. A
    /// killed process would otherwise lose those of long polls and watches.
    ///
    /// Each record is written again when its call ends.
    pub async fn spill_open(&self) {
        let mut until = self.next_seq();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Leaves records since the last look to the next one.
            while self.lock().tell_open(until) {
                tokio::task::yield_now().await;
            }
            until = self.next_seq();
        }
    }

    /// Writes the records of calls that have not ended, waits until everything is written, and stops writing.
    ///
    /// # Errors
    /// The first failed write, or the number of missing records.
    pub fn end_spill(&self) -> std::io::Result<()> {
        let spill = {
            let mut inner = self.lock();
            while inner.tell_open(u64::MAX) {}
            let Some(spill) = inner.spill.take() else { return Ok(()) };
            spill
        };
        spill.end()
    }

    /// Sets the phase that records carry from now on.
    pub fn set_phase(&self, phase: Option<&str>) {
        self.lock().phase = phase.map(Arc::from);
    }

    /// All records in memory, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.iter().cloned().collect()
    }

    /// Records from sequence number `from` on, as far as they are in memory.
    pub fn since(&self, from: u64) -> Vec<Record> {
        self.part(from, usize::MAX)
    }

    /// At most `n` records from sequence number `from` on, as far as they are in memory.
    ///
    /// Copies the records under the lock, so read the ledger in small parts.
    pub fn part(&self, from: u64, n: usize) -> Vec<Record> {
        let inner = self.lock();
        let skip = usize::try_from(from.saturating_sub(inner.first)).unwrap_or(usize::MAX);
        inner.records.iter().skip(skip).take(n).cloned().collect()
    }

    /// Sequence number that the next record will have.
    pub fn next_seq(&self) -> u64 {
        let inner = self.lock();
        inner.first + inner.records.len() as u64
    }

    /// Calls `look` with every record in memory, without copying it.
    pub fn visit(&self, mut look: impl FnMut(&Record)) {
        self.lock().records.iter().for_each(&mut look);
    }

    /// A signal whose value grows with every record, and once more when its call ends.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }

    /// Waits until `look` finds something in the ledger, and returns it.
    ///
    /// Cancel safe. Waits for ever if `look` never finds anything: set a deadline.
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

    /// Counts of the calls in memory.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.visit(|record| counts.add(record));
        counts
    }

    /// All records in memory as JSON lines.
    pub fn to_jsonl(&self) -> String {
        let mut out = String::new();
        self.visit(|record| {
            out.push_str(&record.to_line());
            out.push('\n');
        });
        out
    }

    /// Removes all records from memory; sequence numbers continue.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.first += inner.records.len() as u64;
        inner.records.clear();
        inner.open.clear();
        inner.size = 0;
    }

    /// Records something other than a call: a world event, a rule added, a note of the driver.
    pub fn note(&self, at: Time, kind: Kind, text: impl Into<String>) -> u64 {
        self.push(|seq, phase| Record::note(seq, at, kind, text.into(), phase))
    }

    /// Records the arrival of a call.
    pub(crate) fn open(&self, at: Time, call: &Call, rules: Vec<Evaluation>) -> u64 {
        self.push(|seq, phase| Record::call(seq, at, call, rules, phase))
    }

    /// Records the end of a call.
    pub(crate) fn close(&self, seq: u64, ended: Ended) {
        let mut inner = self.lock();
        let Some(at) = inner.position(seq) else { return };
        inner.open.remove(&seq);
        let Inner { records, spill, .. } = &mut *inner;
        if let Some(record) = records.get_mut(at) {
            record.ended = Some(ended);
            if let Some(spill) = spill {
                spill.line(record.to_line());
            }
        }
        drop(inner);
        self.changed.send();
    }

    fn push(&self, make: impl FnOnce(u64, Option<Arc<str>>) -> Record) -> u64 {
        let mut inner = self.lock();
        let seq = inner.first + inner.records.len() as u64;
        let phase = inner.phase.clone();
        let record = make(seq, phase);
        if !record.is_over() {
            inner.open.insert(seq);
        } else if let Some(spill) = &mut inner.spill {
            spill.line(record.to_line());
        }
        inner.size += record.size();
        inner.records.push_back(record);
        while inner.is_full() {
            let Some(record) = inner.records.pop_front() else { break };
            inner.first += 1;
            inner.size -= record.size();
            // The ledger will not learn how this call ends.
            let is_untold = inner.open.remove(&record.seq) && record.seq >= inner.told;
            if let Some(spill) = inner.spill.as_mut().filter(|_| is_untold) {
                spill.line(record.to_line());
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

/// Short one-way digest of a session or credential; equal secrets have equal digests.
pub(crate) fn digest(secret: &str) -> String {
    let hash = Sha256::digest(secret.as_bytes());
    hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Caller;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nobody panics").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_record_is_written_once_when_it_has_ended() {
        let ledger = Ledger::new(Keep::Last(2));
        let sink = Sink::default();
        ledger.note(Time::ZERO, Kind::Note, "before");
        ledger.spill_to(sink.clone()).expect("a thread");
        let call = |name: &str| {
            let note = Record::note(0, Time::ZERO, Kind::Call, name.into(), None);
            ledger.push(|seq, _| Record { seq, ..note })
        };
        let (slow, quick) = (call("slow"), call("quick"));
        ledger.close(quick, Ended::default());
        ledger.note(Time::ZERO, Kind::Note, "noted");
        // The slow call has left memory by now, so the ledger does not learn its end.
        ledger.close(slow, Ended::default());
        call("open");
        ledger.end_spill().expect("it is written");
        let text = String::from_utf8(sink.0.lock().expect("nobody panics").clone()).expect("text");
        let seen: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<Record>(line).expect("a record"))
            .map(|record| (record.op, record.ended.is_some()))
            .collect();
        let want = [("quick", true), ("noted", false), ("slow", false), ("open", false)];
        assert_eq!(seen, want.map(|(op, ended)| (op.to_owned(), ended)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_call_is_written_while_it_is_open_and_again_at_its_end() {
        let ledger = Ledger::new(Keep::All);
        let sink = Sink::default();
        ledger.spill_to(sink.clone()).expect("a thread");
        let call = || {
            let note = Record::note(0, Time::ZERO, Kind::Call, "call".into(), None);
            ledger.push(|seq, _| Record { seq, ..note })
        };
        let long: Vec<u64> = (0..250).map(|_| call()).collect();
        let quick = call();
        ledger.close(quick, Ended::default());
        let look = |ms| tokio::time::timeout(Duration::from_millis(ms), ledger.spill_open());
        look(1000).await.expect_err("it looks for ever");
        let young = call();
        look(500).await.expect_err("it looks for ever");
        long.iter().for_each(|seq| ledger.close(*seq, Ended::default()));
        ledger.end_spill().expect("it is written");
        let text = String::from_utf8(sink.0.lock().expect("nobody panics").clone()).expect("text");
        let record = |line| Record::from_line(line).expect("a record");
        let seen: Vec<_> =
            text.lines().map(record).map(|record| (record.seq, record.ended.is_some())).collect();
        let of = |is_ended| long.iter().map(move |seq| (*seq, is_ended));
        let want: Vec<_> = [(quick, true)]
            .into_iter()
            .chain(of(false))
            .chain([(young, false)])
            .chain(of(true))
            .collect();
        assert_eq!(seen, want);
    }

    #[test]
    fn the_ledger_in_memory_is_bounded_by_bytes() {
        let ledger = Ledger::new(Keep::Bytes(1 << 20));
        for n in 0..100u64 {
            let client = Caller { user_agent: "a".repeat(60_000), ..Caller::default() };
            let note = Record::note(0, Time::ZERO, Kind::Call, format!("call {n}"), None);
            let seq = ledger.push(|seq, _| Record { seq, client, ..note });
            // The end of a call does not count towards the size, because a removal does not subtract it.
            ledger.close(seq, Ended { fault: Some("NotAuthenticated".into()), ..Ended::default() });
        }
        let kept = ledger.records();
        assert_eq!((kept.len(), kept[16].op.as_str(), ledger.next_seq()), (17, "call 99", 101));
        ledger.clear();
        ledger.note(Time::ZERO, Kind::Note, "a".repeat(2 << 20));
        assert_eq!(ledger.records().len(), 1, "the last one is kept, however large");
        ledger.note(Time::ZERO, Kind::Note, "small");
        assert_eq!(ledger.records()[0].op, "small");
    }

    #[test]
    fn an_error_of_the_sink_is_returned_at_the_end_of_the_spill() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let ledger = Ledger::new(Keep::All);
        ledger.spill_to(Full).expect("a thread");
        ledger.note(Time::ZERO, Kind::Note, "lost");
        let error = ledger.end_spill().expect_err("the disk is full");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_is_woken_by_the_record_it_waits_for() {
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
