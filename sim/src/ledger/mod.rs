//! The ledger: all calls in order of arrival, each with its request, the rules that matched, and
//! the answer that the caller received. It also has notes about changes of the world and of the
//! rules.
//!
//! The ledger is append-only. It never contains a secret: the faces classify calls without
//! passwords, and a session appears as a short digest. In virtual time, two runs with the same seed
//! write the same bytes.
//!
//! [`Ledger::counts`] counts the calls in memory, [`Ledger::records`] returns the records in
//! memory, and [`Ledger::to_jsonl`] exports them as JSON lines. The `Display` text of a [`Record`]
//! is one line for people.

mod query;
mod record;
mod spill;

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub use crate::call::Digest;
pub use query::Counts;
pub use record::{Ended, Kind, Record};

use sim_world::Time;

use crate::Call;
use crate::faults::Evaluation;
use kube_sim_api::{Changes, Signal};
use spill::Spill;

/// Interval between searches for calls that are still open.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Maximum number of records of open calls that the ledger writes before it releases its lock.
const MAX_OPEN_AT_ONCE: usize = 100;

/// Limit of the records in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Keeps all records.
    #[default]
    All,
    /// Keeps the last n records. Older ones are in the file of [`Ledger::spill_to`], if one is set.
    Last(usize),
    /// Keeps the last records, up to this many bytes in all, but at least one record. The size
    /// includes the texts that clients send, so that long names and headers cannot fill the memory.
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
    /// Sum of [`Record::size`] of the records in memory. Excludes the ends of calls, so that the
    /// removal of a record subtracts the size that its addition added.
    size: usize,
    phase: Option<Arc<str>>,
    spill: Option<Spill>,
    /// Sequence numbers of the calls in memory that have not ended.
    open: BTreeSet<u64>,
    /// The spill has the records of all open calls with sequence numbers below this one.
    told: u64,
}

impl Inner {
    fn position(&self, seq: u64) -> Option<usize> {
        seq.checked_sub(self.first).and_then(|at| usize::try_from(at).ok())
    }

    /// Writes the records of open calls before `until` that the spill does not have yet, at most
    /// [`MAX_OPEN_AT_ONCE`]. Returns true if more may remain.
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

    /// True if the oldest record must be removed.
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
    /// Returns an empty ledger that keeps the records in memory that `keep` allows.
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

    /// Writes records to `sink` from now on, each as a JSON line: that of a call when the call ends
    /// or the record leaves the memory, any other record when it is added.
    ///
    /// A separate thread writes the lines. While more than 64 MiB of lines wait for a slow sink,
    /// the ledger drops further ones. With [`spill_open`](Self::spill_open), a long call has two
    /// lines with the same `seq`: an early one without `ended`, and a later complete one, which is
    /// the valid one.
    ///
    /// # Errors
    /// An error if the writer thread cannot start.
    pub fn spill_to(&self, sink: impl Write + Send + 'static) -> std::io::Result<()> {
        let spill = Spill::new(sink)?;
        self.lock().spill = Some(spill);
        Ok(())
    }

    /// Writes the record of each call that is still open 0.3 to 0.6 s after its arrival, as long as
    /// this future is polled. The future never ends. Without it, a killed process would lose the
    /// records of its long polls and watches.
    ///
    /// The ledger writes each of these records again when its call ends, if the record is still in
    /// memory.
    pub async fn spill_open(&self) {
        let mut until = self.next_seq();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Skips calls that arrived since the last search: most of them end before the next
            // search.
            while self.lock().tell_open(until) {
                tokio::task::yield_now().await;
            }
            until = self.next_seq();
        }
    }

    /// Ends the writing that [`spill_to`](Self::spill_to) began: writes the records of open calls
    /// that the sink does not have yet, and waits until all records are written. Does nothing
    /// without a sink.
    ///
    /// # Errors
    /// The error of the first failed write, an error with the number of dropped records, or an
    /// error if the writer thread panicked.
    pub fn end_spill(&self) -> std::io::Result<()> {
        let spill = {
            let mut inner = self.lock();
            while inner.tell_open(u64::MAX) {}
            let Some(spill) = inner.spill.take() else { return Ok(()) };
            spill
        };
        spill.end()
    }

    /// Sets the phase of all later records: a name for a part of a test. `None` stands for no
    /// phase.
    pub fn set_phase(&self, phase: Option<&str>) {
        self.lock().phase = phase.map(Arc::from);
    }

    /// Returns all records in memory, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.iter().cloned().collect()
    }

    /// Returns the records in memory from sequence number `from` on.
    pub fn since(&self, from: u64) -> Vec<Record> {
        self.part(from, usize::MAX)
    }

    /// Returns at most `n` records in memory from sequence number `from` on.
    ///
    /// Copies the records under the lock, and calls wait meanwhile. Read the ledger in small parts.
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

    /// Calls `look` with each record in memory, oldest first, without a copy of the record. `look`
    /// runs under the lock and must not use the ledger.
    pub fn visit(&self, mut look: impl FnMut(&Record)) {
        self.lock().records.iter().for_each(&mut look);
    }

    /// Calls `look` as [`Self::visit`] does, with the records from this sequence number on.
    pub fn visit_from(&self, first: u64, look: impl FnMut(&Record)) {
        let inner = self.lock();
        let at = inner.position(first).unwrap_or_default().min(inner.records.len());
        inner.records.range(at..).for_each(look);
    }

    /// Returns a waiter for changes of the ledger: each new record, and each end of a call.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }

    /// Calls `look` now and again after changes of the ledger, until `look` returns `Some`. Returns
    /// the value in it.
    ///
    /// Cancel safe. Has no time limit of its own, so set a deadline.
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

    /// Returns counts of the calls in memory.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.visit(|record| counts.add(record));
        counts
    }

    /// Returns all records in memory as JSON lines.
    pub fn to_jsonl(&self) -> String {
        let mut out = String::new();
        self.visit(|record| {
            out.push_str(&record.to_line());
            out.push('\n');
        });
        out
    }

    /// Removes all records from memory; sequence numbers continue. Calls that are open lose their
    /// end. In the sink of [`spill_to`](Self::spill_to) they are missing altogether, unless
    /// [`spill_open`](Self::spill_open) has already written them.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.first += inner.records.len() as u64;
        inner.records.clear();
        inner.open.clear();
        inner.size = 0;
    }

    /// Adds a record that is not a call: a change of the world or of the rules, or a note of the
    /// code that runs the sim. Returns its sequence number.
    pub fn note(&self, at: Time, kind: Kind, text: impl Into<String>) -> u64 {
        self.push(|seq, phase| Record::note(seq, at, kind, text.into(), phase))
    }

    /// Adds the record of a call that has arrived. Returns its sequence number.
    pub(crate) fn open(&self, at: Time, call: &Call, rules: Vec<Evaluation>) -> u64 {
        self.push(|seq, phase| Record::call(seq, at, call, rules, phase))
    }

    /// Adds the end of a call to its record, if the record is still in memory.
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
            // Writes an open call now, because a record that has left memory never gets its end.
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
        self.inner.lock().expect("the lock of the ledger is not poisoned")
    }
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
            self.0.lock().expect("the lock is not poisoned").write(bytes)
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
        // The record of the slow call has left memory by now, so it gets no end.
        ledger.close(slow, Ended::default());
        call("open");
        ledger.end_spill().expect("a complete spill");
        let text = String::from_utf8(sink.0.lock().expect("the lock is not poisoned").clone())
            .expect("text");
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
        look(1000).await.expect_err("a search without an end");
        let young = call();
        look(500).await.expect_err("a search without an end");
        long.iter().for_each(|seq| ledger.close(*seq, Ended::default()));
        ledger.end_spill().expect("a complete spill");
        let text = String::from_utf8(sink.0.lock().expect("the lock is not poisoned").clone())
            .expect("text");
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
            // The size must not include the end of a call, because a removal does not subtract it.
            ledger.close(seq, Ended { fault: Some("NotAuthenticated".into()), ..Ended::default() });
        }
        let kept = ledger.records();
        assert_eq!((kept.len(), kept[16].op.as_str(), ledger.next_seq()), (17, "call 99", 101));
        ledger.clear();
        ledger.note(Time::ZERO, Kind::Note, "a".repeat(2 << 20));
        assert_eq!(ledger.records().len(), 1, "the last record stays, however large");
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
            tokio::time::timeout(Duration::from_secs(1), both).await.expect("the waiter wakes");
        assert_eq!(found.seq, 2);
    }
}
