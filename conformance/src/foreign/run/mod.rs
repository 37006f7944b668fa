//! Judges a provider on the real clock. Each case has its own sim and provider, and several cases
//! run in parallel.

pub(super) mod calibration;
pub(super) mod delay_meter;
pub(super) mod feasibility;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::host::{Host, Setup};
use crate::catalogue::{self, Class, Entry, Requirement};
use crate::checks::{Case, Check, PlayedCase};
use crate::cost::calls;
use crate::judge::verdict::{Reason, Verdict};
use crate::lab::{Lab, Run, Stage};
use crate::scenario::Scenario;
use crate::suite::report::Ledgers;
use crate::suite::{CaseResult, Conclusion};
use calibration::{Calibration, silent};
use delay_meter::{Delay, DelayMeter, doubted, is_final};
use feasibility::{Limits, Plan, pace, paces_of_repetitions};

/// Settings of a run that judges a provider.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Seed of all random draws of a world.
    pub seed: u64,
    /// Number of parallel cases.
    pub jobs: usize,
    /// Seconds of world time per second of the clock, in runs that need not take place in real
    /// time.
    pub compress: u32,
    /// Maximum real time of a case; longer cases are skipped.
    pub longest: Duration,
    /// Maximum number of repetitions of a failed case; safety failures are not repeated.
    pub retries: u32,
    /// Wall-clock time at the start of the run.
    pub now: Timestamp,
}

/// A provider to judge, with the settings of the run.
#[derive(Debug)]
pub struct Subject {
    setup: Arc<Setup>,
    settings: Settings,
    begin: Instant,
    pulse: DelayMeter,
    /// World time by which calibration extends each case; zero unless the provider was slow in the
    /// calibration.
    extra: Duration,
    ledgers: Option<Arc<Ledgers>>,
}

/// A played scenario, with the circumstances that decide if the run proves something.
struct PlayedScenario {
    run: Run,
    /// Reason why the run proves nothing: the environment of the provider could not be made, or a
    /// real API server differed from the world. `None` without such a reason.
    refused: Option<anyhow::Error>,
    /// Delay of this computer during the run, if it was too long.
    late: Option<Delay>,
}

/// Result of the life that measures the cost of calls, played with one fleet.
#[derive(Debug)]
pub(super) struct Life {
    /// Number of nodes in the fleet.
    pub(super) nodes: u32,
    /// Run of the life.
    pub(super) run: Run,
    /// Delay of this computer during the life, if it was too long.
    pub(super) late: Option<Delay>,
}

/// One case to play at `pace`, with the catalogue entry of its check.
struct Job {
    check: Arc<Check>,
    entry: &'static Entry,
    case: usize,
    pace: u32,
}

/// A check whose cases are being played.
struct WaitingCheck {
    entry: &'static Entry,
    /// Result of each case that is played, by its index; `None` until the case has ended.
    cases: BTreeMap<usize, Option<CaseResult>>,
    /// Cases that are not played, by name, with the verdict that says why.
    not_run: Vec<(String, Verdict)>,
    /// Sum of the times of the cases.
    took: Duration,
}

impl Subject {
    /// Prepares to judge a provider, without calibration.
    ///
    /// Must be called inside a tokio runtime whose clock is real.
    pub fn new(setup: Arc<Setup>, settings: Settings) -> Self {
        let pulse = DelayMeter::begin(&setup.tasks);
        let (begin, extra) = (Instant::now(), Duration::ZERO);
        Self { setup, settings, begin, pulse, extra, ledgers: None }
    }

    /// Measures the delays of the provider. If they are long, all later cases are extended.
    ///
    /// # Errors
    /// Fails if the environment of the provider cannot be made, if the provider makes no call, or
    /// if a real API server differed from the world.
    pub async fn calibrate(&mut self) -> anyhow::Result<Calibration> {
        let pace = self.settings.compress;
        // The world begins in the past, with room for the longest measurement.
        let epoch = self.epoch(pace, Duration::from_secs(3600));
        let measured = Calibration::measure(&self.setup, &self.stage(), pace, epoch).await?;
        self.extra = measured.extra();
        Ok(measured)
    }

    /// True if the provider can play at least one case of a check.
    pub fn plays(&self, check: &Check) -> bool {
        let entry = catalogue::entry(check.id.as_str()).expect("every check is in the catalogue");
        let manifest = &self.setup.manifest;
        check
            .cases
            .iter()
            .any(|it| matches!(Plan::for_case(it, entry, manifest, self.limits()), Plan::Play(_)))
    }

    fn limits(&self) -> Limits {
        let Settings { compress, longest, .. } = self.settings;
        Limits { compress, longest, apiserver: self.setup.apiserver() }
    }

    /// Judges the provider by these checks, and calls `done` with each conclusion, in the order of
    /// the checks.
    ///
    /// # Errors
    /// Fails if `stop` is canceled; all cases have ended then. Also fails if `done` fails, or if a
    /// ledger cannot be written.
    pub async fn judge(
        self: &Arc<Self>,
        checks: Vec<Check>,
        stop: &CancellationToken,
        mut done: impl FnMut(&Conclusion) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Conclusion>> {
        let room = Arc::new(Semaphore::new(self.settings.jobs));
        let mut set = JoinSet::new();
        let checks = checks.into_iter().enumerate();
        let mut waiting: Vec<WaitingCheck> =
            checks.map(|(n, check)| self.begin_check(n, check, &room, &mut set)).collect();
        let mut conclusions = Vec::new();
        loop {
            while let Some(check) = waiting.get_mut(conclusions.len())
                && check.cases.values().all(Option::is_some)
            {
                let outcomes: Vec<CaseResult> =
                    std::mem::take(&mut check.cases).into_values().flatten().collect();
                let not_run = std::mem::take(&mut check.not_run);
                let conclusion = self.concluded(check.entry, outcomes, not_run, check.took);
                done(&conclusion)?;
                conclusions.push(conclusion);
            }
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    set.shutdown().await;
                    bail!(
                        "interrupted by SIGINT or SIGTERM; the run is not complete, so play it \
                         again"
                    );
                }
                next = set.join_next() => next,
            };
            match next {
                None => return Ok(conclusions),
                Some(ended) => {
                    let (n, case, judged) = ended?;
                    let judged = judged?;
                    waiting[n].took += judged.took;
                    waiting[n].cases.insert(case, Some(judged));
                }
            }
        }
    }

    /// Begins the cases of the check with index `n` that the provider can play. Adds each to `set`
    /// as a task that waits for a place in `room`. Returns the other cases with their verdicts.
    fn begin_check(
        self: &Arc<Self>,
        n: usize,
        check: Check,
        room: &Arc<Semaphore>,
        set: &mut JoinSet<(usize, usize, anyhow::Result<CaseResult>)>,
    ) -> WaitingCheck {
        let (manifest, limits) = (&self.setup.manifest, self.limits());
        let entry = catalogue::entry(check.id.as_str()).expect("every check is in the catalogue");
        let check = Arc::new(check);
        let (mut cases, mut not_run) = (BTreeMap::new(), Vec::new());
        for (case, it) in check.cases.iter().enumerate() {
            match Plan::for_case(it, entry, manifest, limits) {
                Plan::Not(verdict) => not_run.push((it.name.clone(), verdict)),
                Plan::Play(pace) => {
                    cases.insert(case, None);
                    let job = Job { check: Arc::clone(&check), entry, case, pace };
                    let (subject, room) = (Arc::clone(self), Arc::clone(room));
                    set.spawn(async move {
                        let _permit = room.acquire().await.expect("it is never closed");
                        (n, job.case, subject.judge_case(n, &job).await)
                    });
                }
            }
        }
        WaitingCheck { entry, cases, not_run, took: Duration::ZERO }
    }

    /// Plays and judges one case of the check with index `n`, and keeps its ledger.
    async fn judge_case(&self, n: usize, job: &Job) -> anyhow::Result<CaseResult> {
        let begin = Instant::now();
        let outcome = self.conclude(job).await;
        self.keep(n, job, &outcome)?;
        Ok(CaseResult::new(outcome, begin.elapsed()))
    }

    fn concluded(
        &self,
        entry: &'static Entry,
        outcomes: Vec<CaseResult>,
        not_run: Vec<(String, Verdict)>,
        took: Duration,
    ) -> Conclusion {
        let mode = self.setup.manifest.spec.mode;
        let mut conclusion = Conclusion::combine(entry, mode.into(), outcomes, not_run, took);
        // Other providers need not follow our policy, which goes beyond the contract of
        // `k8s.io/cloud-provider`.
        if entry.is_policy() && entry.requirement == Requirement::Must {
            conclusion.requirement = Requirement::Should;
        }
        let binary = self.setup.binary.as_ref().map(|it| format!(" --binary {}", it.display()));
        conclusion.again = Some(format!(
            "conformance run {} --provider {}{}{}",
            entry.id,
            self.setup.manifest.origin,
            binary.unwrap_or_default(),
            self.setup.apiserver().option()
        ));
        conclusion
    }

    /// Writes the ledger of a case, if [`Self::keep_ledgers`] has set a destination.
    fn keep(&self, check: usize, job: &Job, outcome: &PlayedCase) -> anyhow::Result<()> {
        let Some(ledgers) = &self.ledgers else { return Ok(()) };
        ledgers.put((check, job.case), (job.check.id, self.setup.manifest.spec.mode), outcome)
    }

    /// Sets the destination for the ledgers of all cases.
    pub fn keep_ledgers(&mut self, ledgers: Arc<Ledgers>) {
        self.ledgers = Some(ledgers);
    }

    /// Plays a case. Repeats a failure that is not final, up to `retries` times. The case is flaky
    /// if a repetition passes; otherwise its first outcome stands.
    async fn conclude(&self, job: &Job) -> PlayedCase {
        let mut outcome = self.play_on_a_machine_that_keeps_up(job).await;
        let Verdict::Fail(why) = outcome.verdict.clone() else { return outcome };
        // A broken safety promise is final.
        if is_final(job.entry.class, &why) {
            return outcome;
        }
        for attempt in 1..=self.settings.retries {
            let again = self.play_on_a_machine_that_keeps_up(job).await;
            if again.verdict == Verdict::Pass {
                outcome.verdict = Verdict::Flaky(why.reworded(|why| {
                    format!("passed on repetition {attempt}; failed before: {why}")
                }));
                break;
            }
        }
        outcome
    }

    /// Plays a case. If the verdict does not count because this computer was late, plays the case
    /// again at the lower paces of [`paces_of_repetitions`], which permit longer delays, or once
    /// more in real time. If no verdict counts, the outcome is a harness error.
    async fn play_on_a_machine_that_keeps_up(&self, job: &Job) -> PlayedCase {
        let mut last = None;
        for pace in paces_of_repetitions(job.pace) {
            let (outcome, late) = self.play(job, pace).await;
            match late.and_then(|late| doubted(job.entry.class, &outcome.verdict, late)) {
                None => return outcome,
                Some(verdict) => last = Some(PlayedCase { verdict, ..outcome }),
            }
        }
        last.expect("the loop plays the case")
    }

    /// Plays a case once; also returns the delay of this computer, if it was too long.
    async fn play(&self, job: &Job, pace: u32) -> (PlayedCase, Option<Delay>) {
        let case: &Case = &job.check.cases[job.case];
        let mut scenario = case.scenario.clone();
        scenario.horizon += self.extra;
        let name = format!("{}-{}", job.check.id, job.case);
        let PlayedScenario { run, refused, late } = self.live(&name, &scenario, pace).await;
        let mut outcome = tokio::task::block_in_place(|| case.outcome(run));
        // A broken safety invariant counts even if the run otherwise proves nothing.
        let is_unsafe = |why: &Reason| why.invariant.is_some_and(|it| it.class() == Class::Safety);
        if let Some(error) = refused
            && !outcome.verdict.reason().is_some_and(is_unsafe)
        {
            outcome.verdict = Verdict::harness_error(format!("{error:#}"));
        }
        (outcome, late)
    }

    /// Plays a scenario at `pace`, in seconds of world time per second of the clock. `name` is the
    /// name of the run's directory. Switches zones off if the manifest lists `TagZones` as
    /// unsupported.
    async fn live(&self, name: &str, scenario: &Scenario, pace: u32) -> PlayedScenario {
        let begin = Instant::now();
        let mut scenario = scenario.clone();
        // A provider that declares `TagZones` unsupported gets no configuration of zones, and
        // judges do not expect zones of it.
        scenario.provider.zones &= !self.setup.manifest.lacks("TagZones");
        let epoch = self.epoch(pace, scenario.horizon);
        let mut lab = Lab::beginning_at(&scenario, &self.stage(), epoch);
        let n = scenario.provider.replicas;
        let host = Host::new(Arc::clone(&self.setup), lab.sim(), name, pace, n).await;
        let host = match host {
            Ok(host) => host,
            Err(error) => {
                return PlayedScenario {
                    run: lab.finish().await,
                    refused: Some(error),
                    late: None,
                };
            }
        };
        let (backed, waits) = (host.backed(), host.waits());
        lab.use_host(host);
        lab.play_to_the_end().await;
        let run = lab.finish().await;
        let refused = match backed {
            None => None,
            Some(backed) => backed.end().await.err(),
        };
        let late = Delay::worst(self.pulse.worst_since(begin), waits.worst(pace), pace);
        PlayedScenario { run, refused, late }
    }

    /// Plays a scenario at the usual pace, or in real time if replicas elect a leader. The scenario
    /// is extended for a slow provider. Also returns the longest delay of this computer, if it was
    /// too long.
    ///
    /// # Errors
    /// Fails if the environment of the provider cannot be made, or if a real API server differed
    /// from the world.
    pub async fn witness(
        &self,
        name: &str,
        scenario: &Scenario,
    ) -> anyhow::Result<(Run, Option<Delay>)> {
        self.witness_at(name, scenario, pace(scenario, self.settings.compress)).await
    }

    /// Plays a scenario as [`Self::witness`] does, but always at this pace, in seconds of world
    /// time per second of the clock.
    pub(super) async fn witness_at(
        &self,
        name: &str,
        scenario: &Scenario,
        pace: u32,
    ) -> anyhow::Result<(Run, Option<Delay>)> {
        let mut scenario = scenario.clone();
        scenario.horizon += self.extra;
        let PlayedScenario { run, refused, late } = self.live(name, &scenario, pace).await;
        match refused {
            None => Ok((run, late)),
            Some(error) => Err(error),
        }
    }

    /// Plays the life that measures the cost of calls, with a fleet of `n` nodes.
    ///
    /// # Errors
    /// Fails if the environment of the provider cannot be made, if a real API server differed from
    /// the world, or if the provider makes no call; in the last case the error contains the end of
    /// the provider's log.
    pub(super) async fn live_with(&self, n: u32) -> anyhow::Result<Life> {
        let scenario = calls::life(n, self.setup.manifest.spec.mode);
        let pace = self.settings.compress;
        let PlayedScenario { run, refused, late } =
            self.live(&format!("cost-{n}"), &scenario, pace).await;
        if let Some(error) = refused {
            return Err(error);
        }
        if run.calls().next().is_none() {
            bail!(silent(&self.setup.manifest.name, &run.ledger, &tail(&run.logs)));
        }
        Ok(Life { nodes: n, run, late })
    }

    /// Returns the settings of the lab: the provider's mode and the seed.
    pub(super) fn stage(&self) -> Stage {
        Stage {
            mode: self.setup.manifest.spec.mode.into(),
            seed: self.settings.seed,
            ..Stage::default()
        }
    }

    /// Returns the wall-clock time at which a world begins that lasts for `lasts` of world time. A
    /// world that runs faster than the clock begins so early that it stays behind the provider's
    /// clock.
    fn epoch(&self, pace: u32, lasts: Duration) -> Timestamp {
        let now = self.settings.now + self.begin.elapsed();
        if pace == 1 { now } else { now - lasts - Duration::from_secs(60) }
    }
}

/// Returns the last 12 lines of a log, without their times.
fn tail(log: &str) -> Vec<String> {
    let lines: Vec<&str> = crate::lab::capture::lines(log).map(|(_, line)| line).collect();
    lines[lines.len().saturating_sub(12)..].iter().map(|it| (*it).to_owned()).collect()
}
