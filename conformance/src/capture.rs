//! What the provider logs during a run, kept apart from what other runs log.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

/// Log lines of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Runs `work` with its log lines captured. Works for one thread: that of the run.
    pub(crate) fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let subscriber = tracing_subscriber::fmt()
            .with_writer(self.clone())
            .without_time()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .finish();
        tracing::subscriber::with_default(subscriber, work)
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().expect("no writer panics");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
