//! Option `--record`: writes the world and its events to a file, on a separate thread.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::prepared::exclusive;
use crate::Sim;
use crate::cli::{CliError, Terminal};
use crate::ledger::Kind;
use crate::shared_world::Recorder;

/// Pause between writes. A killed process loses only the events since the last write.
const EVERY: Duration = Duration::from_millis(500);

/// The open file of a recording that has not begun.
pub(super) struct RecordingFile {
    path: PathBuf,
    file: File,
}

/// A recording that has begun.
pub(super) struct Recording {
    path: PathBuf,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl RecordingFile {
    /// Opens, locks and empties the file at `path`. Fails if another sim writes the file, or if the
    /// system cannot open it.
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        Ok(Self { path: path.to_owned(), file: exclusive("--record", path)? })
    }

    /// Writes the state of the world, and then its events until [`Recording::end`] or a failed
    /// write. Also adds a note to the ledger, which links the ledger to the recording. Fails if the
    /// state cannot be written or the thread cannot start.
    pub(super) fn begin(self, sim: &Sim) -> Result<Recording, CliError> {
        let Self { path, file } = self;
        let begun = Recorder::begin(sim.world().clone(), BufWriter::new(file));
        let (mut recorder, note) = begun.map_err(|error| failed(&path, &error))?;
        sim.ledger().note(sim.world().now(), Kind::Note, note);
        let (stop, stopped) = mpsc::channel();
        let name = path.clone();
        let record = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                recorder.catch_up(false).inspect_err(|error| {
                    // Warns now, because the sim may run for hours before it returns the error.
                    Terminal.warn(&format!(
                        "--record {}: {error}; the recording ends here",
                        name.display()
                    ));
                })?;
            }
            recorder.catch_up(true)
        };
        let thread = std::thread::Builder::new().name("recording".to_owned()).spawn(record);
        let thread = thread.map_err(|error| failed(&path, &error))?;
        Ok(Recording { path, stop, thread })
    }
}

impl Recording {
    /// Writes the last events, and waits until they are written. Returns the error if this or an
    /// earlier write failed.
    pub(super) fn end(self) -> Result<(), CliError> {
        let Self { path, stop, thread } = self;
        drop(stop);
        let panicked = || io::Error::other("the writer thread panicked");
        let written = thread.join().unwrap_or_else(|_| Err(panicked()));
        written.map_err(|error| failed(&path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> CliError {
    let what = format!("--record {}: the recording is not complete: {error}", path.display());
    CliError::failed(what, "free space on the disk, or choose another file")
}
