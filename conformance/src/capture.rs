//! What the provider logs during a run, kept apart from what other runs log.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;

/// Log lines of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured {
    lines: Lines,
    /// What is logged below the level of `lines`.
    whispers: Lines,
    begin: SinceBegin,
}

/// Where lines go.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no writer panics");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Captured {
    /// Runs `work` with its log lines captured, at every level. Works for one thread: that of the run.
    pub(crate) fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let layer = |lines: &Lines| {
            tracing_subscriber::fmt::layer()
                .with_writer(lines.clone())
                .with_timer(self.begin.clone())
                .with_ansi(false)
        };
        // The sim runs in the same thread, and is not what is looked through.
        let lower = filter_fn(|it| *it.level() > Level::INFO && !it.target().starts_with("sim"));
        let told = layer(&self.lines).with_filter(LevelFilter::INFO);
        let subscriber = tracing_subscriber::registry()
            .with(told.and_then(layer(&self.whispers).with_filter(lower)));
        tracing::subscriber::with_default(subscriber, work)
    }

    /// The run begins now; lines tell the time since then.
    pub(crate) fn begin(&self) {
        self.begin.0.get_or_init(Instant::now);
    }

    /// Everything so far, down to level info.
    pub(crate) fn text(&self) -> String {
        self.lines.text()
    }

    /// Everything so far that is more verbose than that.
    pub(crate) fn whispers(&self) -> String {
        self.whispers.text()
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

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
