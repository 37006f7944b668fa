//! The recording of a world: its first state and every event since, as lines of JSON.
//!
//! `sim serve --record` writes it, and a judge reads it. The first line has the version and the state. Each other line has an
//! event with its time, or the time until which the lines before it are complete; the last line also has the mark of a clean end.
//! A killed sim leaves no such mark, and may leave half a line. A reader uses the complete lines, and [`Recording::has_ended`]
//! shows that the end is missing.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sim_world::{Event, Log, State, Time};

use crate::WorldHandle;

/// Version of the format.
const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head<S> {
    /// Version of the format.
    recording: u32,
    state: S,
}

/// Every other line.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line<E> {
    /// An event.
    Event { t: Time, event: E },
    /// The lines before this one are complete until this time.
    Mark {
        until: Time,
        /// True if the sim ended cleanly at this time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        end: bool,
    },
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    /// The first state, and every event.
    pub log: Log,
    /// Time until which the events are complete.
    pub until: Time,
    /// True if the sim ended cleanly; false if it still runs or was killed.
    pub has_ended: bool,
}

impl Recording {
    /// Returns the recording without the events after `at`, and without the mark of a clean end.
    #[must_use]
    pub fn cut(self, at: Time) -> Self {
        let until = at.min(self.until);
        let entries = self.log.entries().filter(|(t, _)| *t <= until).cloned().collect::<Vec<_>>();
        let log = match self.log.base() {
            Some(base) => Log::recorded(base.clone(), entries),
            None => self.log,
        };
        Self { log, until, has_ended: false }
    }

    /// Returns the text of the note that a sim adds to its ledger when it begins a recording with this state. It tells which ledger
    /// belongs to which recording.
    pub fn note(state: &State) -> String {
        format!("recording of {} from {:?} on", state.epoch(), state.age())
    }
}

/// A recording that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// The recording has another version.
    #[error("line 1: recording: {0}: this program reads version {VERSION}")]
    Version(u32),
    /// The recording has no first line.
    #[error("line 1: a recording begins with its version and the state of the world")]
    Empty,
    /// A line is malformed.
    #[error("line {line}: {error}")]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// The reason.
        error: serde_json::Error,
    },
    /// No event and no mark follows the first line.
    #[error("it is complete until no time: the sim was killed at once, or has just begun")]
    Nothing,
}

/// Writes the events of a world.
pub(crate) struct Recorder<W> {
    world: WorldHandle,
    to: W,
}

impl<W: Write> Recorder<W> {
    /// Writes the present state, and begins to collect events. Also returns the note for the ledger.
    ///
    /// # Errors
    /// The error of the destination.
    pub(crate) fn begin(world: WorldHandle, mut to: W) -> io::Result<(Self, String)> {
        let state = world.start_tape();
        write_line(&mut to, &Head { recording: VERSION, state: &state })?;
        Ok((Self { world, to }, Recording::note(&state)))
    }

    /// Writes the events since the last call, with the mark of a clean end if this is the last call.
    ///
    /// # Errors
    /// The error of the destination.
    pub(crate) fn catch_up(&mut self, end: bool) -> io::Result<()> {
        let (events, until) = self.world.take_tape();
        write_events(&events, &mut self.to)?;
        write_line(&mut self.to, &Line::<&Event>::Mark { until, end })?;
        self.to.flush()
    }
}

/// Writes a log that keeps everything, as a sim that ended cleanly at `until` does.
///
/// # Errors
/// The error of the destination, or that the log keeps nothing.
pub fn write_recording(log: &Log, until: Time, mut to: impl Write) -> io::Result<()> {
    let state = log.base().ok_or_else(|| io::Error::other("the log keeps no state"))?;
    write_line(&mut to, &Head { recording: VERSION, state })?;
    write_events(log.entries(), &mut to)?;
    write_line(&mut to, &Line::<&Event>::Mark { until, end: true })
}

fn write_events<'a>(
    events: impl IntoIterator<Item = &'a (Time, Event)>,
    to: &mut impl Write,
) -> io::Result<()> {
    events.into_iter().try_for_each(|(t, event)| write_line(to, &Line::Event { t: *t, event }))
}

fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    to.write_all(&text)
}

/// Reads a recording. Leaves out what follows the last mark.
///
/// # Errors
/// [`RecordingError`] with the line that cannot be read.
pub fn read_recording(mut from: impl BufRead) -> Result<Recording, RecordingError> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(RecordingError::Empty);
    }
    let malformed = |line| move |error| RecordingError::Malformed { line, error };
    // The version first: the state of another version may be of another form.
    let head: Head<&RawValue> = serde_json::from_slice(&line).map_err(malformed(1))?;
    if head.recording != VERSION {
        return Err(RecordingError::Version(head.recording));
    }
    let base: State = serde_json::from_str(head.state.get()).map_err(malformed(1))?;
    let (mut entries, mut n_complete) = (Vec::new(), 0);
    let mut marked = None;
    for n in 2.. {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line)? == 0 || line.last() != Some(&b'\n') {
            break;
        }
        match serde_json::from_slice(&line).map_err(malformed(n))? {
            Line::Event { t, event } => entries.push((t, event)),
            Line::<Event>::Mark { until, end } => {
                n_complete = entries.len();
                marked = Some((until, end));
            }
        }
    }
    entries.truncate(n_complete);
    let (until, has_ended) = marked.ok_or(RecordingError::Nothing)?;
    Ok(Recording { log: Log::recorded(base, entries), until, has_ended })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sim_world::{Command, Topology};

    use super::*;
    use crate::Sim;

    async fn recorded() -> (Vec<u8>, State) {
        let topology = Topology::zones(2).machines(3).supervisor();
        let sim = Sim::builder().topology(topology).start();
        let mut to = Vec::new();
        let (mut recorder, _) = Recorder::begin(sim.world().clone(), &mut to).unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        recorder.catch_up(false).unwrap();
        sim.apply(Command::PowerOff("node-0002".into())).unwrap();
        sim.apply(Command::DeleteMachine("node-0003".into())).unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        sim.world().advance();
        recorder.catch_up(true).unwrap();
        let state = sim.world().read(|world| world.state().clone());
        (to, state)
    }

    #[tokio::test(start_paused = true)]
    async fn a_recording_leads_to_the_state_of_the_world() {
        let (text, state) = recorded().await;
        let read = read_recording(&text[..]).unwrap();
        assert!(read.has_ended);
        assert_eq!(read.log.replay(read.until), Some(state));
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_the_last_mark_is_left_out() {
        let (text, _) = recorded().await;
        let whole = read_recording(&text[..]).unwrap();
        let cut = read_recording(&text[..text.len() - 3]).unwrap();
        assert!(whole.has_ended && !cut.has_ended);
        assert_eq!(cut.until, Time::after_start(Duration::from_secs(30)));
        let until = |log: &Log| log.entries().map(|(at, _)| *at).max().unwrap();
        assert!(until(&cut.log) <= cut.until && cut.until < until(&whole.log));
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_recording_is_refused_with_its_line() {
        let (text, _) = recorded().await;
        let refusal = |text: &str| read_recording(text.as_bytes()).unwrap_err().to_string();
        let text = String::from_utf8(text).unwrap();
        assert!(refusal("").contains("line 1: a recording begins with"));
        let newer = text.replacen("\"recording\":1", "\"recording\":2", 1);
        assert!(refusal(&newer).contains("this program reads version 1"));
        let (head, _) = text.split_once('\n').unwrap();
        assert!(refusal(&format!("{head}\n")).contains("complete until no time"));
        let spoiled = format!("{head}\n{{\"t\":1}}\n");
        assert!(refusal(&spoiled).starts_with("line 2: "), "{}", refusal(&spoiled));
    }
}
