//! What the provider logs during a run, kept apart from what other runs log.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Log lines of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured {
    lines: Arc<Mutex<Vec<u8>>>,
    begin: SinceBegin,
}

impl Captured {
    /// Runs `work` with its log lines captured. Works for one thread: that of the run.
    pub(crate) fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let subscriber = tracing_subscriber::fmt()
            .with_writer(self.clone())
            .with_timer(self.begin.clone())
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .finish();
        tracing::subscriber::with_default(subscriber, work)
    }

    /// The run begins now; lines tell the time since then.
    pub(crate) fn begin(&self) {
        self.begin.0.get_or_init(Instant::now);
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        let bytes = self.lines.lock().expect("no writer panics");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Seconds of virtual time since the run began.
#[derive(Clone, Debug, Default)]
struct SinceBegin(Arc<OnceLock<Instant>>);

impl FormatTime for SinceBegin {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let now = Instant::now();
        let begin = self.0.get_or_init(|| now);
        write!(w, "{:.3}", now.duration_since(*begin).as_secs_f64())
    }
}

/// Lines of captured logs with the time of each, as [`Captured`] writes them.
pub(crate) fn lines(logs: &str) -> impl Iterator<Item = (Duration, &str)> {
    logs.lines().filter_map(|line| {
        let (time, rest) = line.split_once(' ')?;
        Some((Duration::try_from_secs_f64(time.parse().ok()?).ok()?, rest.trim_start()))
    })
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.lock().expect("no writer panics").extend_from_slice(bytes);
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
