//! The recording of a world: its first state and every event since, as lines of JSON.
//!
//! `sim serve --record` writes it, and a judge reads it. The first line has the version and the state, each other line an event
//! with its time. A killed sim may leave a last line without an end; readers leave it out.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
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
#[serde(deny_unknown_fields)]
struct Line<E> {
    t: Time,
    event: E,
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
}

/// Writes the events of a world that keeps its whole log.
pub(crate) struct Recorder<W> {
    world: WorldHandle,
    to: W,
    /// Number of written events.
    n_written: usize,
}

impl<W: Write> Recorder<W> {
    /// Writes the state before the first event.
    ///
    /// # Errors
    /// The error of the destination.
    pub(crate) fn begin(world: WorldHandle, mut to: W) -> io::Result<Self> {
        let base = world.read(|world| world.log().base().cloned());
        let base = base.ok_or_else(|| io::Error::other("the world keeps no log"))?;
        write_recording(&Log::recorded(base, []), &mut to)?;
        Ok(Self { world, to, n_written: 0 })
    }

    /// Writes the events since the last call.
    ///
    /// # Errors
    /// The error of the destination.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        let n = self.n_written;
        let news: Vec<(Time, Event)> =
            self.world.read(|world| world.log().entries().skip(n).cloned().collect());
        write_events(&news, &mut self.to)?;
        self.n_written += news.len();
        self.to.flush()
    }
}

/// Writes a log that keeps everything.
///
/// # Errors
/// The error of the destination, or that the log keeps nothing.
pub fn write_recording(log: &Log, mut to: impl Write) -> io::Result<()> {
    let state = log.base().ok_or_else(|| io::Error::other("the world keeps no log"))?;
    write_line(&mut to, &Head { recording: VERSION, state })?;
    write_events(log.entries(), &mut to)
}

fn write_events<'a>(
    events: impl IntoIterator<Item = &'a (Time, Event)>,
    to: &mut impl Write,
) -> io::Result<()> {
    events.into_iter().try_for_each(|(t, event)| write_line(to, &Line { t: *t, event }))
}

fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    to.write_all(&text)
}

/// Reads a recording.
///
/// # Errors
/// [`RecordingError`] with the line that cannot be read.
pub fn read_recording(mut from: impl BufRead) -> Result<Log, RecordingError> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(RecordingError::Empty);
    }
    let malformed = |line| move |error| RecordingError::Malformed { line, error };
    // The version first: the state of another version may be of another form.
    let head: Head<&serde_json::value::RawValue> =
        serde_json::from_slice(&line).map_err(malformed(1))?;
    if head.recording != VERSION {
        return Err(RecordingError::Version(head.recording));
    }
    let base: State = serde_json::from_str(head.state.get()).map_err(malformed(1))?;
    let mut entries = Vec::new();
    for n in 2.. {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line)? == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let Line::<Event> { t, event } = serde_json::from_slice(&line).map_err(malformed(n))?;
        entries.push((t, event));
    }
    Ok(Log::recorded(base, entries))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sim_world::{Command, Retain, Topology};

    use super::*;
    use crate::Sim;

    async fn recorded() -> (Vec<u8>, State) {
        let topology = Topology::zones(2).machines(3).supervisor();
        let sim = Sim::builder().topology(topology).retain(Retain::Everything).start();
        let mut to = Vec::new();
        let mut recorder = Recorder::begin(sim.world().clone(), &mut to).unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        recorder.catch_up().unwrap();
        sim.apply(Command::PowerOff("node-0002".into())).unwrap();
        sim.apply(Command::DeleteMachine("node-0003".into())).unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        recorder.catch_up().unwrap();
        let state = sim.world().read(|world| world.state().clone());
        (to, state)
    }

    fn end_of(text: &[u8]) -> State {
        let log = read_recording(text).unwrap();
        let last = log.entries().last().unwrap().0;
        log.replay(last).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_recording_leads_to_the_state_of_the_world() {
        let (text, state) = recorded().await;
        let objects = |state: &State| serde_json::to_value(&state.vcenters).unwrap();
        let end = end_of(&text);
        assert_eq!(objects(&end), objects(&state));
        assert_eq!(end.cluster, state.cluster);
    }

    #[tokio::test(start_paused = true)]
    async fn a_last_line_without_an_end_is_left_out() {
        let (text, _) = recorded().await;
        let whole = read_recording(&text[..]).unwrap().entries().count();
        let cut = read_recording(&text[..text.len() - 3]).unwrap().entries().count();
        assert_eq!(cut, whole - 1);
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
        let spoiled = format!("{head}\n{{\"t\":1}}\n");
        assert!(refusal(&spoiled).starts_with("line 2: "), "{}", refusal(&spoiled));
    }
}
