//! Standard output and standard error. No other module writes to them.

use std::io::Write as _;

use tracing_subscriber::EnvFilter;

use super::CliError;

/// Writer to standard output and standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal;

impl Terminal {
    /// Prints to standard output. Ignores an error, because a reader may have closed its end.
    pub(super) fn say(self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Prints an error to standard error.
    pub(super) fn complain(self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "error: {text}");
    }

    /// Prints a warning to standard error.
    pub(super) fn warn(self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "warning: {text}");
    }

    /// Sends log lines that match `filter` to standard error. Fails for an invalid filter.
    pub(super) fn log(self, filter: &str) -> Result<(), CliError> {
        let filter = EnvFilter::try_new(filter).map_err(|error| {
            CliError::input(format!("--log {filter}: {error}"), "write a level, such as info")
        })?;
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter);
        // Fails if the process has a subscriber already, which then stays.
        let _ = subscriber.with_writer(std::io::stderr).try_init();
        Ok(())
    }
}
