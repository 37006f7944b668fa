//! Captures the log of the provider during one run, separate from the logs of other runs.

use std::collections::HashSet;
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

use super::secrets::Secrets;
use crate::scenario::Scenario;

/// Minimum length of a word that [`Words`] keeps, in bytes.
const SHORTEST: usize = 6;

/// Log of one run: the lines of level info and above, and the words of the lines below.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogCapture {
    lines: Lines,
    /// Distinct words of lines below level info.
    whispers: Words,
    begin: SinceBegin,
}

/// Buffer of formatted log lines.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

/// The distinct words of a log that have at least [`SHORTEST`] bytes. The search for secrets needs
/// each word only once, and a provider at level trace logs gigabytes in hours of virtual time,
/// mostly repetitions. A password with blanks is not one word, so a line that contains one of
/// `phrases` is kept whole.
#[derive(Clone, Debug, Default)]
struct Words {
    words: Arc<Mutex<HashSet<Box<[u8]>>>>,
    phrases: Option<Arc<Secrets>>,
}

impl Words {
    /// Returns every kept word and line, sorted, one per line.
    fn text(&self) -> String {
        let words = self.words.lock().expect("no writer panics");
        let mut sorted: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        sorted.sort_unstable();
        String::from_utf8_lossy(&sorted.join(&b'\n')).into_owned()
    }
}

impl io::Write for Words {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut words = self.words.lock().expect("no writer panics");
        // The formatter calls `write` once per event, so `bytes` is a whole line.
        if let Some(phrases) = &self.phrases
            && phrases.find_in(&String::from_utf8_lossy(bytes)).is_some()
        {
            words.insert(bytes.trim_ascii().into());
        }
        for word in bytes.split(|byte| byte.is_ascii_whitespace()) {
            // The search for secrets ignores shorter secrets, and most shorter words are times.
            if word.len() >= SHORTEST && !words.contains(word) {
                words.insert(word.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Words {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no writer panics");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl LogCapture {
    /// Returns an empty capture for a run of `scenario`.
    pub(crate) fn for_scenario(scenario: &Scenario) -> Self {
        let phrases = Secrets::with_blanks(scenario)
            .expect("the few passwords of a scenario fit one searcher");
        let whispers = Words { phrases: phrases.map(Arc::new), ..Words::default() };
        Self { whispers, ..Self::default() }
    }

    /// Runs `work` and captures its log on the current thread: the lines of level info and above,
    /// and the distinct words of the lines below. Leaves out lines of the sim below level info.
    pub(crate) fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        // Leaves out the sim, which runs on the same thread: only the provider's lines below level
        // info are searched for secrets.
        let lower = filter_fn(|it| *it.level() > Level::INFO && !it.target().starts_with("sim"));
        let told = tracing_subscriber::fmt::layer()
            .with_writer(self.lines.clone())
            .with_timer(self.begin.clone())
            .with_ansi(false)
            .with_filter(LevelFilter::INFO);
        let whispered = tracing_subscriber::fmt::layer()
            .with_writer(self.whispers.clone())
            .without_time()
            .with_ansi(false)
            .with_filter(lower);
        let subscriber = tracing_subscriber::registry().with(told.and_then(whispered));
        tracing::subscriber::with_default(subscriber, work)
    }

    /// Marks the beginning of the run, from which the log lines count the time.
    pub(crate) fn begin(&self) {
        self.begin.0.get_or_init(Instant::now);
    }

    /// Returns all captured lines of level info and above.
    pub(crate) fn text(&self) -> String {
        self.lines.text()
    }

    /// Returns the distinct words of all captured lines below level info, and each of these lines
    /// that contains a password with blanks; sorted, one per line.
    pub(crate) fn debug_words(&self) -> String {
        self.whispers.text()
    }
}

/// Timer of log lines: holds the time at which the run began, and writes the seconds of virtual
/// time since then.
#[derive(Clone, Debug, Default)]
struct SinceBegin(Arc<OnceLock<Instant>>);

impl FormatTime for SinceBegin {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let now = Instant::now();
        let begin = self.0.get_or_init(|| now);
        write!(w, "{:.3}", now.duration_since(*begin).as_secs_f64())
    }
}

/// Splits a log into lines with their times: each line begins with the time in seconds since the
/// beginning of the run. Leaves out lines without a time.
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

#[cfg(test)]
mod tests {
    use sim::world::Topology;

    use super::*;
    use crate::scenario::Act;

    #[test]
    fn a_password_with_blanks_is_found_below_level_info() {
        let password = "a new password".to_owned();
        let scenario = Scenario::new("", Topology::zones(1), Duration::ZERO)
            .at(Duration::ZERO, Act::Secret { name: "credentials".to_owned(), password });
        let captured = LogCapture::for_scenario(&scenario);
        captured.during(|| {
            tracing::debug!("logging in");
            tracing::trace!(password = "a new password", "logging in");
        });
        let secrets = Secrets::with_blanks(&scenario).unwrap().unwrap();
        let told = secrets.find_in(&captured.debug_words());
        assert_eq!(told.as_deref(), Some("a password, in plain text"));
    }
}
