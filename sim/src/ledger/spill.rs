//! Writes the ledger to a file on a separate thread, so that no call waits for a disk.
//!
//! The ledger queues the line of a call when the call has ended, so the lines are in the order of
//! the ends; `seq` gives the order of arrival. A long call may also have an earlier line without
//! `ended`. Of two lines with the same `seq` the later one is valid. Before the thread waits for
//! more lines, it passes the lines that it has collected to the operating system. A killed process
//! loses only the lines that the thread has not passed on.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

/// Maximum number of lines that the thread collects before it passes them to the operating system.
const MAX_BATCH: usize = 1000;

/// Maximum bytes of lines that wait for a slow disk (64 MiB). The spill drops further lines.
const MAX_WAITING: usize = 64 << 20;

/// Writer of the ledger to a file.
pub(super) struct Spill {
    lines: mpsc::Sender<String>,
    waiting: Arc<AtomicUsize>,
    writer: JoinHandle<io::Result<()>>,
    n_dropped: u64,
}

impl Spill {
    /// Starts the thread that writes queued lines to `sink`. Fails if the system cannot start a
    /// thread.
    pub(super) fn new(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, received) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&waiting);
        let writer = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write(&received, &taken, BufWriter::new(sink)))?;
        Ok(Self { lines, waiting, writer, n_dropped: 0 })
    }

    /// Queues a line for the writer thread. Drops the line if more than [`MAX_WAITING`] bytes wait,
    /// or if a write failed.
    pub(super) fn line(&mut self, line: String) {
        let bytes = line.len() + 1;
        let waiting = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        if waiting > MAX_WAITING || self.lines.send(line).is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.n_dropped += 1;
            if self.n_dropped == 1 {
                tracing::warn!(
                    "the disk is too slow for the ledger file, or a write failed; dropping \
                     records of calls"
                );
            }
        }
    }

    /// Waits until every line is written.
    ///
    /// # Errors
    /// The error of the first failed write, an error with the number of dropped lines, or an error
    /// if the writer thread panicked.
    pub(super) fn end(self) -> io::Result<()> {
        let Self { lines, waiting: _, writer, n_dropped } = self;
        drop(lines);
        writer.join().map_err(|_| io::Error::other("the writer thread panicked"))??;
        match n_dropped {
            0 => Ok(()),
            n => Err(io::Error::other(format!(
                "{n} records are missing in the file, because the disk was too slow"
            ))),
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

/// Writes `first` and the lines that wait, at most [`MAX_BATCH`] in all, and passes them to the
/// operating system. Subtracts their bytes from `waiting`.
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

    /// A killed process loses the lines in the buffer, so the buffer must be empty while the thread
    /// waits.
    #[test]
    fn every_line_is_flushed_before_the_writer_thread_waits_for_more() {
        let (lines, received) = mpsc::channel();
        let waiting = AtomicUsize::new(4);
        let mut sink = BufWriter::new(Vec::new());
        lines.send("b".to_owned()).expect("an open channel");
        write_batch("a".to_owned(), &received, &waiting, &mut sink).expect("a write to memory");
        assert_eq!((sink.get_ref().as_slice(), sink.buffer().len()), (b"a\nb\n".as_slice(), 0));
        assert_eq!(waiting.into_inner(), 0);
    }
}
