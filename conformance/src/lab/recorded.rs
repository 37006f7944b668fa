//! A run that the lab did not play: what `sim serve --record` and `sim serve --ledger` wrote about any provider.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use sim::ledger::Record;
use sim::world::{Log, Time, Topology};

use super::{Exit, Happened, Happening, Mode, Run, Stage};
use crate::scenario::{ProviderSetup, Scenario};

/// Everything that is known about a recorded run.
#[derive(Debug)]
pub struct Recorded {
    /// Every event of the world, from its first state on.
    pub log: Log,
    /// Every call of the provider, in order.
    pub ledger: Vec<Record>,
    /// Log of the provider; empty if unknown.
    pub provider_log: String,
    /// Tokens that the provider was given.
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

impl Recorded {
    /// Returns the run, for judges. `None` if the log keeps nothing.
    pub fn into_run(self) -> Option<Run> {
        let Self { log, ledger, provider_log, tokens, mode, provider, starts, killed } = self;
        let base = log.base()?;
        let epoch = base.epoch();
        let last = log.entries().last().map_or(Time::after_start(base.age()), |(at, _)| *at);
        let end = log.replay(last)?;
        let starts = starts.into_iter().map(|start| {
            let since = Duration::try_from(start - epoch).unwrap_or_default();
            let at = Time::after_start(since);
            let seq = ledger.iter().find(|call| call.t >= at).map_or(u64::MAX, |call| call.seq);
            Happened { at, seq, what: Happening::Starts(0) }
        });
        let happened = starts.collect();
        let topology = Topology { zones: u32::from(provider.zones), ..Topology::default() };
        let scenario = Scenario::new("recorded", topology, end.age());
        let exit = if killed { Exit::Killed } else { Exit::Stopped };
        Some(Run {
            scenario: scenario.with(|it| *it = provider),
            stage: Stage { mode, ..Stage::default() },
            hosted: true,
            mirrored: false,
            by_hand: Vec::new(),
            happened,
            ledger,
            log,
            after: end.clone(),
            end,
            fired: Vec::new(),
            exits: vec![exit],
            ended_at: vec![last],
            passed: None,
            logs: provider_log,
            n_lines_dropped: 0,
            whispers: String::new(),
            tokens,
            scrapes: Vec::new(),
            answers: Vec::new(),
            certificates: Vec::new(),
            nodes: OnceLock::new(),
        })
    }
}
