//! Plays each life of a mode once without failures, for all tests that need such a run.

use std::sync::{Mutex, OnceLock};

use conformance::lab::{Mode, Stage, run};
use conformance::lives::sweep::{SweepKind, Trial, trials_of};
use conformance::lives::{self, Life};

/// Violations and trials of the runs of all lives of a mode without failures.
#[derive(Debug, Default)]
pub(crate) struct Healthy {
    /// Violations that no exemption permits, each with the name of its life. Refused steps and rules
    /// that never fired count as violations.
    pub(crate) violations: Vec<String>,
    trials: Vec<(SweepKind, Vec<Trial>)>,
}

impl Healthy {
    /// Plays the lives of the mode, unless another test has played them.
    pub(crate) fn of(mode: Mode) -> &'static Self {
        static ALL: Mutex<Vec<(Mode, &OnceLock<Healthy>)>> = Mutex::new(Vec::new());
        let cell = {
            let mut all = ALL.lock().unwrap();
            let known = all.iter().find(|(it, _)| *it == mode).map(|(_, cell)| *cell);
            known.unwrap_or_else(|| {
                let cell = Box::leak(Box::default());
                all.push((mode, cell));
                cell
            })
        };
        cell.get_or_init(|| Self::play(mode))
    }

    /// Returns every trial of this kind.
    pub(crate) fn trials(&self, kind: SweepKind) -> &[Trial] {
        let of_kind = self.trials.iter().find(|(it, _)| *it == kind);
        of_kind.map_or(&[], |(_, trials)| trials)
    }

    fn play(mode: Mode) -> Self {
        let stage = Stage { mode, ..Stage::default() };
        let mut healthy = Self::default();
        healthy.trials.extend(SweepKind::ALL.map(|kind| (kind, Vec::new())));
        for life in lives::all(mode.backend()) {
            assert!(!life.phases().is_empty(), "{} has no phase", life.name);
            let run = run(&life.scenario, &stage);
            let refused = run.refusals().map(|it| format!("refused: {it}"));
            let idle = run.idle_rules().into_iter().map(|rule| format!("rule {rule} never fired"));
            let broken = Life::broken(&run).into_iter().map(|it| it.to_string());
            let all = refused.chain(idle).chain(broken);
            healthy.violations.extend(all.map(|it| format!("{}: {it}", life.name)));
            for (kind, trials) in &mut healthy.trials {
                trials.extend(trials_of(*kind, &life, &run));
            }
        }
        healthy
    }
}
