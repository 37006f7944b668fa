//! `sim serve --record`: writes the world and its events to a file as they happen, on a separate thread.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::CliError;
use crate::recording::Recorder;
use crate::{Sim, files};

/// Time between writes: at most this much is lost if the process is killed.
const EVERY: Duration = Duration::from_millis(500);

/// A recording under way.
pub(super) struct Recording {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

/// Opens the file, which no other sim may write.
pub(super) fn file(path: &Path) -> Result<File, CliError> {
    files::exclusive(path).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => CliError::input(
            format!("--record {}: another sim writes it", path.display()),
            "stop that one, or choose another file",
        ),
        _ => CliError::file("--record", path, &error),
    })
}

impl Recording {
    /// Writes the state of the world, and then its events until [`end`](Self::end).
    pub(super) fn begin(sim: &Sim, to: File) -> io::Result<Self> {
        let mut recorder = Recorder::begin(sim.world().clone(), BufWriter::new(to))?;
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                recorder.catch_up()?;
            }
            recorder.catch_up()
        })?;
        Ok(Self { stop, thread })
    }

    /// Writes the last events, and waits until they are written.
    pub(super) fn end(self) -> io::Result<()> {
        let Self { stop, thread } = self;
        drop(stop);
        thread.join().map_err(|_| io::Error::other("the thread that writes it panicked"))?
    }
}
