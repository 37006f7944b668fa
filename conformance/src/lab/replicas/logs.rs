//! Output of the processes of a run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use sim::WorldHandle;

use crate::lab::capture::lines;

/// Size of a run's log, in bytes, up to which every line is kept. Of later lines, only the last
/// [`LAST`] are kept.
const MOST: usize = 64 << 20;
/// Maximum number of kept lines beyond [`MOST`]: enough for the message of a crash.
const LAST: usize = 400;

/// Output of the processes of a run, each line with the world time of its arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs(Arc<Mutex<LogBuffer>>);

#[derive(Debug, Default)]
struct LogBuffer {
    text: String,
    /// The last lines after `text` has exceeded [`MOST`], at most [`LAST`].
    last: VecDeque<String>,
    /// Number of all lines after `text` has exceeded [`MOST`], including dropped ones.
    n_beyond: usize,
}

impl Logs {
    /// Returns all kept lines, each with its time.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().expect("no writer panics");
        let last: String = kept.last.iter().map(String::as_str).collect();
        format!("{}{last}", kept.text)
    }

    /// Returns the number of lines that were dropped because the log was too large.
    pub(crate) fn n_dropped(&self) -> usize {
        let kept = self.0.lock().expect("no writer panics");
        kept.n_beyond - kept.last.len()
    }

    /// Returns the last `n` lines, without their times.
    pub(crate) fn tail(&self, n: usize) -> Vec<String> {
        let text = self.text();
        let lines: Vec<&str> = lines(&text).map(|(_, line)| line).collect();
        lines[lines.len().saturating_sub(n)..].iter().map(|it| (*it).to_owned()).collect()
    }

    /// Returns the last of the final 20 lines that is not blank, without its time. Without such a
    /// line, returns a text that says that the output is empty.
    pub(crate) fn last_line(&self) -> String {
        let last = self.tail(20).into_iter().rfind(|line| !line.trim().is_empty());
        last.unwrap_or_else(|| "its output is empty".to_owned())
    }

    /// Adds a line that arrives now.
    pub(crate) fn add(&self, world: &WorldHandle, line: &str) {
        let now = world.now().since_start().as_secs_f64();
        self.0.lock().expect("no writer panics").add(format!("{now:.3} {line}\n"));
    }
}

impl LogBuffer {
    fn add(&mut self, line: String) {
        if self.text.len() <= MOST {
            self.text.push_str(&line);
            return;
        }
        self.n_beyond += 1;
        self.last.push_back(line);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_beyond_its_maximum_size_keeps_the_last_lines_and_counts_the_dropped_ones() {
        let logs = Logs::default();
        let line = "x".repeat(1 << 20);
        for n in 0..600 {
            let line = if n < 70 { line.clone() } else { n.to_string() };
            logs.0.lock().unwrap().add(format!("0.000 {line}\n"));
        }
        assert_eq!(logs.tail(2), ["598", "599"]);
        assert_eq!(logs.n_dropped(), 600 - 65 - LAST + 1);
    }
}
