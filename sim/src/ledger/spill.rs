//! Writes the ledger to a file as it grows, on a separate thread, so that no call waits for a disk.
//!
//! A line is written when its call has ended, so lines are in the order of the ends; `seq` gives the order of arrival. A call
//! that takes long has an earlier line without `ended`: of two lines with one `seq` the later one counts. Whenever the thread has
//! nothing else to do, it hands its collected lines to the system. A killed process loses no more than these.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

/// Maximum number of lines that are collected before the thread hands them to the system.
const MAX_BATCH: usize = 1000;

/// Maximum bytes that wait for a slow disk (64 MiB); further lines are dropped.
const MAX_WAITING: usize = 64 << 20;

/// A file to which the ledger is written.
pub(super) struct Spill {
    lines: mpsc::Sender<String>,
    waiting: Arc<AtomicUsize>,
    writer: JoinHandle<io::Result<()>>,
    n_dropped: u64,
}

impl Spill {
    /// Starts the writer thread.
    pub(super) fn new(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, received) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&waiting);
        let writer = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write(&received, &taken, BufWriter::new(sink)))?;
        Ok(Self { lines, waiting, writer, n_dropped: 0 })
    }

    /// Queues a line for the writer thread.
    pub(super) fn line(&mut self, line: String) {
        let bytes = line.len() + 1;
        let waiting = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        if waiting > MAX_WAITING || self.lines.send(line).is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.n_dropped += 1;
            if self.n_dropped == 1 {
                tracing::warn!(
                    "the ledger's file cannot be written as fast as it grows, or not at all; records are dropped"
                );
            }
        }
    }

    /// Waits until every line is written.
    ///
    /// # Errors
    /// The first failed write, or the number of dropped lines.
    pub(super) fn end(self) -> io::Result<()> {
        let Self { lines, waiting: _, writer, n_dropped } = self;
        drop(lines);
        writer.join().map_err(|_| io::Error::other("the thread that writes it panicked"))??;
        match n_dropped {
            0 => Ok(()),
            n => Err(io::Error::other(format!("{n} records are missing: the disk was too slow"))),
        }
    }
}

fn write(
    received: &Receiver<String>,
    waiting: &AtomicUsize,
    mut sink: BufWriter<impl Write>,
) -> io::Result<()> {
    while let Ok(first) = received.recv() {
        write_batch(first, received, waiting, &mut sink)?;
    }
    Ok(())
}

/// Writes the lines that wait, at most [`MAX_BATCH`], and hands them to the system.
fn write_batch(
    first: String,
    received: &Receiver<String>,
    waiting: &AtomicUsize,
    sink: &mut BufWriter<impl Write>,
) -> io::Result<()> {
    let more = received.try_iter().take(MAX_BATCH - 1);
    for line in std::iter::once(first).chain(more) {
        waiting.fetch_sub(line.len() + 1, Ordering::Relaxed);
        writeln!(sink, "{line}")?;
    }
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A killed process loses what the thread has not handed over, so the thread never waits for a line with lines in its hands.
    #[test]
    fn every_line_is_handed_to_the_system_before_the_thread_waits_for_more() {
        let (lines, received) = mpsc::channel();
        let waiting = AtomicUsize::new(4);
        let mut sink = BufWriter::new(Vec::new());
        lines.send("b".to_owned()).expect("it is received");
        write_batch("a".to_owned(), &received, &waiting, &mut sink).expect("it is memory");
        assert_eq!((sink.get_ref().as_slice(), sink.buffer().len()), (b"a\nb\n".as_slice(), 0));
        assert_eq!(waiting.into_inner(), 0);
    }
}
