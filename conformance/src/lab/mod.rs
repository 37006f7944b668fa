//! The lab: a sim and the replicas of a provider, on which a scenario is played.
//!
//! Our provider runs in this process, in virtual time. Any provider can also run as a process, a
//! container or a pod, on the real clock. Its periods are then shortened by a factor, and world
//! time runs faster by the same factor. Scenario, ledger and judges are the same in both cases.

mod acts;
pub(crate) mod ahead;
pub mod autoscaler;
mod bounds;
pub mod capacity;
pub(crate) mod capture;
pub(crate) mod facts;
mod provider;
mod replicas;
mod run;
pub(crate) mod secrets;
mod stage;

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use sim::ledger::{Kind, Ledger};
use sim::world::{Retain, State, Time, World};
use sim::{Sim, WorldHandle};

use crate::scenario::{Scenario, ScenarioStep};
pub(crate) use bounds::memory;
pub use bounds::{Bounds, ExceededBound, peak_resident};
use bounds::{Guard, Watchdog};
use provider::Replica;
pub use provider::endpoint::EndpointAnswer;
use provider::endpoint::{self, ServingFiles};
pub use provider::scrape::{Checks, Sample, Scrape, sum};
pub use provider::{Exit, Mutant};
pub(crate) use provider::{LEASE, cloud_config, label};
pub(crate) use replicas::election::{Identities, unknown_leader_reason};
pub(crate) use replicas::logs::Logs;
pub(crate) use replicas::outside::{Provider, StartResult};
pub(crate) use replicas::process::{Process, ProcessControl, ProcessOrder};
use replicas::running::Running;
pub use run::happening::{LabEvent, RecordedLabEvent};
pub(crate) use run::ledger_file;
pub use run::recorded::RecordedRun;
pub use run::{ByHand, NodeEvent, Run};
pub use stage::{Mode, Stage};

/// World time after which the lab restarts a replica in this process that ended by itself.
const RESTART: Duration = Duration::from_secs(1);
/// Like [`RESTART`], but for a process, whose start takes longer. The time doubles with each
/// consecutive process that ends before its first call.
const RESTART_PROCESS: Duration = Duration::from_secs(10);
/// Interval on the real clock at which the lab counts the calls of processes.
const LOOK: Duration = Duration::from_secs(1);
/// World time from the resumption of a replica's tasks to the resumption of its lease renewal.
const WAKING: Duration = Duration::from_millis(200);
/// Number of machines from which the log of a world leaves out the renewals of kubelets' leases.
const LARGE: u32 = 300;
/// Number of consecutive processes that end before their first call, after which the lab no longer
/// restarts a process that ends by itself.
const MOST_IN_VAIN: usize = 6;

/// Plays a future in virtual time, in a new single-threaded runtime.
///
/// # Panics
///
/// If the system cannot create a runtime.
pub fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("the system has resources for a runtime")
        .block_on(future)
}

/// Plays a scenario with our provider in virtual time, in a new single-threaded runtime.
pub fn run(scenario: &Scenario, stage: &Stage) -> Run {
    run_within(scenario, stage, Bounds::for_scenario(scenario))
}

/// Plays a scenario like [`run()`], with these bounds.
pub fn run_within(scenario: &Scenario, stage: &Stage, bounds: Bounds) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    let captured = capture::LogCapture::for_scenario(scenario);
    let play = async {
        captured.begin();
        Lab::play(scenario, stage, bounds).await
    };
    let run = captured.during(|| runtime.block_on(play));
    Run { logs: captured.text(), debug_words: captured.debug_words(), ..run }
}

/// A sim with the replicas of a provider.
#[derive(Debug)]
pub struct Lab {
    sim: Sim,
    replicas: Vec<Running>,
    /// Provider whose replicas are processes, containers or pods; `None` if the replicas run in
    /// this process.
    host: Option<Box<dyn Provider>>,
    exits: Vec<Exit>,
    /// Time of each end in `exits`.
    ended_at: Vec<Time>,
    /// Number of consecutive starts of processes that ended before their first call.
    in_vain: usize,
    scrapes: Vec<Scrape>,
    answers: Vec<EndpointAnswer>,
    /// Files of the serving certificate.
    files: ServingFiles,
    /// SHA-256 of each certificate that `files` has contained.
    certificates: Vec<[u8; 32]>,
    by_hand: Vec<ByHand>,
    happened: Mutex<Vec<RecordedLabEvent>>,
    scenario: Scenario,
    stage: Stage,
    /// Counts the calls of the provider and ends the run if a bound is exceeded.
    guard: Guard,
    /// Content of the provider's token file.
    token: provider::TokenFile,
}

impl Lab {
    /// Creates a sim with the world of a scenario. Starts no replica.
    pub fn new(scenario: &Scenario, stage: &Stage) -> Self {
        Self::beginning_at(scenario, stage, sim::VIRTUAL_EPOCH)
    }

    /// Creates the lab like [`Self::new`], with `epoch` as the start time of the world.
    pub(crate) fn beginning_at(scenario: &Scenario, stage: &Stage, epoch: Timestamp) -> Self {
        let machines = scenario.topology.machines * scenario.topology.vcenters;
        let retain = match machines {
            _ if stage.light => Retain::Nothing,
            0..LARGE => Retain::Everything,
            _ => Retain::NoRenewals,
        };
        let mut topology = scenario.topology.clone();
        if matches!(stage.mode, Mode::Supervisor(_)) && topology.supervisor.is_none() {
            topology = topology.supervisor();
        }
        let sim = Sim::builder().topology(topology).seed(stage.seed).retain(retain);
        let sim = sim.epoch(epoch).start();
        let token = provider::TokenFile::default();
        if let Some(supervisor) = sim.supervisor() {
            token.set(supervisor.current_token());
        }
        let files = ServingFiles::default();
        let mut certificates = Vec::new();
        if scenario.reads_endpoint() {
            endpoint::set_up_access(&sim);
            certificates.push(files.renew());
        }
        Self {
            sim,
            replicas: Vec::new(),
            host: None,
            exits: Vec::new(),
            ended_at: Vec::new(),
            in_vain: 0,
            scrapes: Vec::new(),
            answers: Vec::new(),
            files,
            certificates,
            by_hand: Vec::new(),
            happened: Mutex::default(),
            scenario: scenario.clone(),
            stage: stage.clone(),
            guard: Guard::new(Bounds::for_scenario(scenario)),
            token,
        }
    }

    /// Makes the lab start all later replicas through `host`: as processes, containers or pods.
    pub(crate) fn use_host(&mut self, host: impl Provider + 'static) {
        self.host = Some(Box::new(host));
    }

    /// Returns the sim.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Returns the world.
    pub fn world(&self) -> &WorldHandle {
        self.sim.world()
    }

    /// Returns the ledger.
    pub fn ledger(&self) -> &Ledger {
        self.sim.ledger()
    }

    /// Lets world time pass. If a replica ends meanwhile, the lab restarts it after a pause, or at
    /// the end of `by` if that is earlier, unless the scenario forbids restarts. Returns early if
    /// the provider exceeds a bound.
    pub async fn advance(&mut self, by: Duration) {
        let until = self.world().now() + by;
        self.advance_until(until).await;
    }

    /// Lets world time pass without restarts; a later step handles replicas that end meanwhile.
    async fn wait_without_restarts(&self, by: Duration) {
        let world = self.world().clone();
        let until = world.now() + by;
        world.reach(until).await;
    }

    async fn advance_until(&mut self, until: Time) {
        let world = self.world().clone();
        loop {
            let ends: Vec<_> = self.replicas.iter().map(|it| Box::pin(it.end())).collect();
            let one_ends = async {
                if ends.is_empty() {
                    std::future::pending::<()>().await;
                }
                futures::future::select_all(ends).await;
            };
            let counted = async {
                // The guard does not see the calls of processes, so the lab counts the records of
                // the ledger.
                while self.host.is_some() {
                    tokio::time::sleep(LOOK).await;
                    self.guard.counted(self.sim.ledger().next_seq());
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = self.guard.over() => return,
                () = one_ends => {}
                () = world.reach(until) => break,
                () = counted => {}
            }
            let pause = match &self.host {
                None => RESTART,
                // Doubles the pause with each consecutive start that ended before the first call,
                // as a kubelet does.
                Some(_) => RESTART_PROCESS * (1 << self.in_vain),
            };
            world.reach(until.min(world.now() + pause)).await;
            self.restart_ended().await;
        }
        self.restart_ended().await;
    }

    /// Returns the current state of the world.
    pub fn state(&self) -> State {
        self.world().read(|world| World::state(world).clone())
    }

    fn note(&self, what: LabEvent) {
        let at = self.world().now();
        let seq = self.sim.ledger().note(at, Kind::Note, what.to_string());
        self.happened.lock().expect("no holder panics").push(RecordedLabEvent { at, seq, what });
    }

    /// Notes that the lab could not carry out an act, with the reason.
    fn refuse(&self, why: impl ToString) {
        self.note(LabEvent::Refused(why.to_string()));
    }

    async fn play(scenario: &Scenario, stage: &Stage, bounds: Bounds) -> Run {
        let mut lab = Self { guard: Guard::new(bounds), ..Self::new(scenario, stage) };
        let _watchdog = Watchdog::begin(&lab.guard, lab.ledger().clone());
        lab.play_to_the_end().await;
        lab.finish().await
    }

    /// Plays the scenario until its horizon, or until the provider exceeds a bound.
    pub(crate) async fn play_to_the_end(&mut self) {
        if let Some(name) = self.scenario.provider.secret.clone() {
            let secret = self.secret(&name, None);
            self.world().apply(secret).expect("a new cluster accepts a Secret");
        }
        let mut done = 0;
        if self.scenario.provider.start {
            // Steps at time zero come before the provider starts.
            self.play_until(Duration::ZERO, 0).await;
            for index in 0..self.scenario.provider.replicas {
                self.start(index).await;
            }
            let at_zero = |step: &&ScenarioStep| step.at == Duration::ZERO;
            done = self.scenario.timeline.iter().take_while(at_zero).count();
        }
        if let Some(host) = &self.host {
            self.world().set_pace(host.pace());
        }
        self.play_until(self.scenario.horizon, done).await;
    }

    async fn play_until(&mut self, until: Duration, skip: usize) {
        let steps: Vec<_> = self.scenario.timeline.iter().skip(skip).cloned().collect();
        for step in steps.iter().take_while(|step| step.at <= until) {
            self.pass_until(step.at).await;
            if self.guard.exceeded().is_some() {
                return;
            }
            self.act(&step.act).await;
        }
        self.pass_until(until).await;
    }

    async fn pass_until(&mut self, at: Duration) {
        let at = Time::after_start(at);
        if self.world().now() < at {
            self.advance_until(at).await;
        }
    }

    /// Stops the replicas and the sim and returns the result of the run. Kills the replicas if the
    /// provider has exceeded a bound.
    pub async fn finish(mut self) -> Run {
        let end = self.state();
        self.sim.ledger().set_phase(Some("stop"));
        let exceeded_bound = self.guard.exceeded();
        while let Some(replica) = self.replicas.first() {
            let index = replica.index();
            // A provider that ran away does not react to a stop.
            match exceeded_bound {
                None => self.stop(index).await,
                Some(_) => self.crash(index).await,
            }
        }
        if self.host.is_some()
            && self.scenario.provider.elects()
            && let Some(why) = unknown_leader_reason(&self.sim.ledger().records())
        {
            self.refuse(why);
        }
        let after = self.state();
        let fired = self.sim.fired().into_iter().collect();
        let log = self.world().read(|world| world.log().clone());
        let ledger = self.sim.ledger().records();
        let Self { sim, host, exits, ended_at, scrapes, answers, certificates, .. } = self;
        let (by_hand, scenario, stage, token) =
            (self.by_hand, self.scenario, self.stage, self.token);
        let happened = self.happened.into_inner().expect("no holder panics");
        sim.shutdown().await;
        let hosted = host.is_some();
        let mirrored = host.as_ref().is_some_and(|host| host.is_mirrored());
        let logs = host.as_ref().map(|host| host.logs().text()).unwrap_or_default();
        let n_lines_dropped = host.as_ref().map_or(0, |host| host.logs().n_dropped());
        let mut tokens = token.all();
        tokens.extend(host.iter().flat_map(|host| host.tokens()));
        Run {
            scenario,
            stage,
            hosted,
            mirrored,
            by_hand,
            happened,
            ledger,
            log,
            end,
            after,
            fired,
            exits,
            ended_at,
            exceeded_bound,
            logs,
            n_lines_dropped,
            debug_words: String::new(),
            tokens,
            scrapes,
            answers,
            certificates,
            nodes: OnceLock::new(),
        }
    }
}
