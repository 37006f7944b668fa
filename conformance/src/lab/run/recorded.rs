//! Recorded runs, which the lab did not play: what `sim serve --record` and `sim serve --ledger`
//! wrote about any provider.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use sim::ledger::{Kind, Record};
use sim::world::objects::{self, Key};
use sim::world::{Command, Time, Topology};

use crate::lab::{ByHand, Exit, LabEvent, Mode, RecordedLabEvent, Run, Stage};
use crate::scenario::{InputError, ProviderSetup, Scenario};

/// Tolerance for the times of starts: a start counts from 5 s before its noted time on, and may be
/// noted up to 5 s outside the recording. The world begins up to some seconds after its epoch, and
/// people often note starts without fractions of a second.
const SLACK: Duration = Duration::from_secs(5);

/// Data about a recorded run, from which judges get a [`Run`].
#[derive(Debug)]
pub struct RecordedRun {
    /// First state of the world, and every event of the world until the last mark.
    pub recording: sim::Recording,
    /// Every record of the ledger except calls of other clients, in order: calls of the provider,
    /// and notes.
    pub ledger: Vec<Record>,
    /// Every call of other clients, in order.
    pub of_others: Vec<Record>,
    /// Log of the provider; empty if it is not known.
    pub provider_log: String,
    /// Tokens that the provider used and must not reveal.
    pub tokens: Vec<String>,
    /// Backend and instances mode of the provider.
    pub mode: Mode,
    /// Set-up of the provider.
    pub provider: ProviderSetup,
    /// Wall-clock times at which a replica was started.
    pub starts: Vec<Timestamp>,
    /// True if a replica was killed, so that it could not log out.
    pub killed: bool,
}

impl RecordedRun {
    /// Returns the run for judges. Leaves out records of [`Self::ledger`] after the end of the
    /// recording. A call that began before the end of the recording and ended after it counts as
    /// open.
    ///
    /// # Errors
    /// Fails if the recording has no first state, or if a start is more than 5 s outside the
    /// recording.
    pub fn into_run(self) -> Result<Run, InputError> {
        let Self { recording, mut ledger, of_others, .. } = self;
        let sim::Recording { log, until, has_ended: _ } = recording;
        ledger.retain(|call| call.t <= until);
        for call in &mut ledger {
            call.ended.take_if(|ended| ended.at > until);
        }
        let base = log.base().cloned().ok_or_else(no_state)?;
        let end = log.replay(until).ok_or_else(no_state)?;
        let started = |start: Timestamp| {
            let since = (start + SLACK).duration_since(base.epoch());
            let since = Duration::try_from(since).map_err(|_| is_outside(start))?;
            let at = Time::after_start(since.saturating_sub(2 * SLACK));
            if since < base.age() || at > until {
                return Err(is_outside(start));
            }
            let seq = ledger.iter().find(|call| call.t >= at).map_or(u64::MAX, |call| call.seq);
            Ok(RecordedLabEvent { at, seq, what: LabEvent::Starts(0) })
        };
        let happened = self.starts.into_iter().map(started).collect::<Result<_, _>>()?;
        let topology = Topology { zones: u32::from(self.provider.zones), ..Topology::default() };
        let scenario = Scenario::new("recorded", topology, end.age());
        let exit = if self.killed { Exit::Killed } else { Exit::Stopped };
        Ok(Run {
            scenario: scenario.with_provider(|it| *it = self.provider),
            stage: Stage { mode: self.mode, ..Stage::default() },
            hosted: true,
            mirrored: false,
            by_hand: of_others.iter().filter_map(deletion).collect(),
            happened,
            ledger,
            log,
            after: end.clone(),
            end,
            fired: Vec::new(),
            exits: vec![exit],
            ended_at: vec![until],
            exceeded_bound: None,
            logs: self.provider_log,
            n_lines_dropped: 0,
            debug_words: String::new(),
            tokens: self.tokens,
            scrapes: Vec::new(),
            answers: Vec::new(),
            certificates: Vec::new(),
            nodes: OnceLock::new(),
        })
    }
}

fn no_state() -> InputError {
    InputError::new("the recording has no state of the world before the first event")
        .remedy("record a whole run with `sim serve --record`")
}

/// Returns the error for the start of a replica more than 5 s outside the recording.
fn is_outside(start: Timestamp) -> InputError {
    InputError::new("the time is outside the recording")
        .at_key(format!("--start {start}"))
        .remedy("give a time within it")
}

/// Returns `call` as a change by hand if it is a request to delete one Node that the API server did
/// not refuse, else `None`. `call` must be of another client than the provider.
fn deletion(call: &Record) -> Option<ByHand> {
    let is_deletion =
        call.kind == Kind::Call && call.is_cluster_call() && call.op == "delete nodes";
    let status = call.ended.as_ref().and_then(|ended| ended.status);
    let is_refused = status.is_some_and(|status| status >= 400);
    let name = call.target.name.as_deref().filter(|_| is_deletion && !is_refused)?;
    let act = Command::Cluster(objects::Command::delete(Key::node(name))).into();
    let to = call.ended.as_ref().map_or(call.t, |ended| ended.at);
    Some(ByHand { from: call.t, to, act })
}
