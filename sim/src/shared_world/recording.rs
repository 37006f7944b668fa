//! Recordings of a world, as lines of JSON: its state at the beginning, and every event since.
//!
//! `sim serve --record` writes a recording, and `conformance judge` reads it. The first line has
//! the version and the state. Each further line is an event with its time, or a mark: the time
//! until which the lines before it are complete. The last mark of a sim that ended cleanly also
//! says so. A killed sim writes no such mark, and may leave half a line. A reader uses the lines up
//! to the last mark. [`Recording::has_ended`] is true if that mark says that the sim ended cleanly.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sim_world::{Event, Log, State, Time};

#[cfg(feature = "cli")]
use crate::WorldHandle;

/// Version of the format that this program writes and reads.
const VERSION: u32 = 1;

/// First line of a recording: the version of the format and the first state.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head<S> {
    /// Version of the format of the recording.
    recording: u32,
    state: S,
}

/// A line of a recording after the first, as a recorder writes it: an event or a mark.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<E> {
    /// An event of the world, with the world time at which it happened.
    Event { t: Time, event: E },
    /// The lines before this one are complete until this time.
    Mark {
        until: Time,
        /// True if the sim ended cleanly at this time.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        end: bool,
    },
}

/// Fields of a line after the first, as a reader parses them. serde cannot read [`Line`] itself: for
/// an untagged enum it keeps the keys of maps as texts, and an event may have maps with numbers as
/// keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    t: Option<Time>,
    event: Option<Event>,
    until: Option<Time>,
    end: Option<bool>,
}

impl TryFrom<Fields> for Line<Event> {
    type Error = serde_json::Error;

    fn try_from(fields: Fields) -> Result<Self, serde_json::Error> {
        match fields {
            Fields { t: Some(t), event: Some(event), until: None, end: None } => {
                Ok(Self::Event { t, event })
            }
            Fields { t: None, event: None, until: Some(until), end } => {
                Ok(Self::Mark { until, end: end.unwrap_or(false) })
            }
            _ => Err(serde::de::Error::custom("expected `t` and `event`, or `until`")),
        }
    }
}

/// Content of a recording: the events, and whether the sim ended cleanly.
#[derive(Debug)]
pub struct Recording {
    /// The first state, and every event up to [`until`](Self::until).
    pub log: Log,
    /// Time until which the events are complete.
    pub until: Time,
    /// True if the sim ended cleanly; false if it still ran or was killed, and after
    /// [`cut`](Self::cut).
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

    /// Returns the text of the note that a sim adds to its ledger when it begins a recording with
    /// `state`. The note links the ledger to the recording.
    pub fn note(state: &State) -> String {
        format!("recording of {} from {:?} on", state.epoch(), state.age())
    }
}

/// Reason why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// The recording has another version.
    #[error(
        "line 1: recording: unknown version {0}: expected {VERSION}, the version that this \
         program reads"
    )]
    Version(u32),
    /// The recording has no line.
    #[error("the file is empty: expected the version and the state of the world in line 1")]
    Empty,
    /// A line is not valid JSON of the expected form.
    // The message of the parser would name a second line, because it counts lines within this one.
    #[error("line {line}: not valid in a recording from column {} on", .error.column().max(1))]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// Error of the JSON parser.
        error: serde_json::Error,
    },
    /// No mark follows the first line, so no time is known until which the recording is complete.
    #[error(
        "the recording has no events yet: the sim was killed at its start, or has just started; \
         use a longer run"
    )]
    Nothing,
}

/// Writer of the recording of a running world.
#[cfg(feature = "cli")]
pub(crate) struct Recorder<W> {
    world: WorldHandle,
    to: W,
}

#[cfg(feature = "cli")]
impl<W: Write> Recorder<W> {
    /// Writes the present state and makes the world collect its events. Returns the recorder and
    /// the note for the ledger.
    ///
    /// # Errors
    /// The error from writing to `to`.
    pub(crate) fn begin(world: WorldHandle, mut to: W) -> io::Result<(Self, String)> {
        let state = world.start_recording();
        write_line(&mut to, &Head { recording: VERSION, state: &state })?;
        Ok((Self { world, to }, Recording::note(&state)))
    }

    /// Writes the events since the last call, or since [`begin`](Self::begin), and a mark. If `end`
    /// is true, the mark says that the sim ended cleanly.
    ///
    /// # Errors
    /// The error from writing.
    pub(crate) fn catch_up(&mut self, end: bool) -> io::Result<()> {
        let (events, until) = self.world.take_recorded();
        write_events(&events, &mut self.to)?;
        write_line(&mut self.to, &Line::<&Event>::Mark { until, end })?;
        self.to.flush()
    }
}

/// Writes a log as the recording of a sim that ended cleanly at `until`.
///
/// # Errors
/// The error from writing to `to`, or an error if the log does not keep its first state.
pub fn write_recording(log: &Log, until: Time, mut to: impl Write) -> io::Result<()> {
    let state = log
        .base()
        .ok_or_else(|| io::Error::other("the log of the world does not have its first state"))?;
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

/// Reads a recording up to its last mark. Ignores a last line that is incomplete.
///
/// # Errors
/// [`RecordingError`] if the recording cannot be read, is empty, has another version, has a
/// malformed line, or has no mark. The error names a malformed line.
pub fn read_recording(mut from: impl BufRead) -> Result<Recording, RecordingError> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(RecordingError::Empty);
    }
    let malformed = |line| move |error| RecordingError::Malformed { line, error };
    // Checks the version before it parses the state, whose form depends on the version.
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
        let fields = serde_json::from_slice::<Fields>(&line).map_err(malformed(n))?;
        match Line::try_from(fields).map_err(malformed(n))? {
            Line::Event { t, event } => entries.push((t, event)),
            Line::Mark { until, end } => {
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
#[cfg(feature = "cli")]
mod tests {
    use std::time::Duration;

    use sim_world::vcenter::{DeviceChange, DeviceSpec, MachineSpec, Setting, Structure};
    use sim_world::{Command, Topology, World};

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
    async fn the_replay_of_a_recording_gives_the_state_of_the_world() {
        let (text, state) = recorded().await;
        let read = read_recording(&text[..]).unwrap();
        assert!(read.has_ended);
        assert_eq!(read.log.replay(read.until), Some(state));
    }

    #[tokio::test(start_paused = true)]
    async fn a_recording_of_changed_devices_is_read_back() {
        let sim = Sim::builder().topology(Topology::zones(1).machines(2)).start();
        let mut to = Vec::new();
        let (mut recorder, _) = Recorder::begin(sim.world().clone(), &mut to).unwrap();
        let fields = [("controllerKey", "1000"), ("capacityInKB", "1024")]
            .map(|(name, text)| (name.to_owned(), Setting::Text(text.to_owned())));
        let disk = Structure { kind: "VirtualDisk".to_owned(), fields: fields.into() };
        let disk = DeviceSpec { key: -1, network: None, device: disk };
        let spec =
            MachineSpec { devices: Some(vec![DeviceChange::Add(disk)]), ..MachineSpec::default() };
        sim.apply(Command::Reconfigure { machine: "node-0001".into(), spec }).unwrap();
        recorder.catch_up(true).unwrap();
        let state = sim.world().read(|world| world.state().clone());
        let read = read_recording(&to[..]).unwrap();
        assert!(read.log.entries().next().is_some());
        assert_eq!(read.log.replay(read.until), Some(state));
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_follows_every_event_that_is_due_before_it() {
        let sim = Sim::builder().topology(Topology::zones(1).machines(1)).start();
        // No driver carries out the reactions of this copy.
        let copy = sim.world().read(World::clone);
        let world = WorldHandle::new(copy, sim.world().clock());
        world.apply(Command::PowerOff("node-0001".into())).unwrap();
        world.apply(Command::PowerOn("node-0001".into())).unwrap();
        world.start_recording();
        let boot = Duration::from_secs(60);
        tokio::time::sleep(boot).await;
        let (events, now) = world.take_recorded();
        assert!(!events.is_empty(), "the machine boots within a minute");
        tokio::time::sleep(boot).await;
        let (later, _) = world.take_recorded();
        assert!(events.iter().all(|(at, _)| *at <= now) && later.iter().all(|(at, _)| *at > now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_recording_cut_in_its_last_line_is_read_up_to_the_last_whole_mark() {
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
        assert!(refusal("").contains("the file is empty: expected the version"));
        let newer = text.replacen("\"recording\":1", "\"recording\":2", 1);
        assert!(refusal(&newer).contains("unknown version 2: expected 1"));
        let (head, _) = text.split_once('\n').unwrap();
        assert!(refusal(&format!("{head}\n")).contains("no events yet"));
        for line in [r#"{"t":1}"#, r#"{"t":1,"until":1}"#, r#"{"end":true}"#, "{}", r#"{"x":1}"#] {
            let refusal = refusal(&format!("{head}\n{line}\n"));
            assert!(refusal.starts_with("line 2: "), "{line}: {refusal}");
        }
    }
}
