//! Plays the life of a group, 0 → 3 → 1 → 0 machines or with one more, once per call of our server for the Cluster
//! Autoscaler to its platform and per failure of this call. No failure may lose a machine, make one
//! twice, or delete one that the autoscaler did not name.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use conformance::lab::autoscaler::{
    Answer, Asked, Credentials, Endpoint as _, Generation, Instance, MachineDeployment, Ours,
    SentNode, Session, Transcript, cluster_api_machines,
};
use conformance::lab::in_virtual_time;
use sim::Face;
use sim::faults::{Action, HttpStatus, KubeStatus, Rule};

use super::{autoscaler, autoscaler_vcenter};

const DEADLINE: Duration = Duration::from_secs(5);
/// Pause between two loops of the autoscaler.
const SCAN: Duration = Duration::from_secs(10);
/// Interval of the controllers of Cluster API: longer than a loop of the autoscaler, so that the server
/// gets the same deletion twice before they act.
const CONTROLLERS: Duration = Duration::from_secs(25);
/// Number of loops after which the autoscaler must have reached what it wants.
const PATIENCE: u32 = 90;

/// Platform of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Platform {
    Supervisor,
    Vcenter,
    /// A vCenter, with the template in a content library.
    Library,
    ClusterApi,
}

impl Platform {
    /// Returns a sim without machines, for a server with one group.
    async fn sim(self) -> Ours {
        let groups = |machine: &str| format!("groups:\n- {{name: workers, max: 4, {machine}}}\n");
        match self {
            Self::Supervisor => {
                Ours::start_later(groups(autoscaler::MACHINE), 1, false).await.unwrap()
            }
            Self::Vcenter => {
                Ours::over_vcenter(groups(autoscaler_vcenter::CLONE), 1, false).unwrap()
            }
            Self::Library => {
                let clone = autoscaler_vcenter::CLONE;
                let clone = clone.replace("template: ubuntu", "libraryItem: images/noble");
                let ours = Ours::over_vcenter(groups(&clone), 1, false).unwrap();
                autoscaler_vcenter::library::furnish(ours.sim());
                ours
            }
            Self::ClusterApi => {
                let group = MachineDeployment::new("workers", 0, 4);
                Ours::over_cluster_api(&[group], CONTROLLERS, 1, false).await.unwrap()
            }
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Supervisor => autoscaler::GROUP,
            Self::Vcenter | Self::Library => autoscaler_vcenter::GROUP,
            Self::ClusterApi => "MachineDeployment/workloads/workers",
        }
    }

    /// Returns the provider IDs of the machines that run, and the number of all machines.
    fn machines(self, ours: &Ours) -> (BTreeSet<String>, usize) {
        let (running, n) = match self {
            Self::Supervisor => (autoscaler::running(ours.sim()), autoscaler::objects(ours.sim())),
            Self::Vcenter | Self::Library => {
                let all = autoscaler_vcenter::machines(ours.sim());
                (autoscaler_vcenter::running(ours.sim()), all.len())
            }
            Self::ClusterApi => cluster_api_machines(ours.sim()),
        };
        (running.into_iter().collect(), n)
    }

    /// Selects the calls that may fail: all of those to a Supervisor or a management cluster; those to a
    /// vCenter that change something or look for a machine, and with a library those that resolve an
    /// item, clone it and power on.
    fn calls(self, rule: Rule) -> Rule {
        match self {
            Self::Supervisor => rule.on(Face::Supervisor).user_agent(Ours::AGENT),
            Self::ClusterApi => rule.on(Face::Cluster).user_agent(Ours::AGENT),
            Self::Vcenter => rule.op(["@write", "FindAllByUuid", "FindByUuid", "Login"]),
            Self::Library => {
                let resolution = autoscaler_vcenter::library::RESOLUTION;
                rule.op(resolution.into_iter().chain(["CloneVM_Task", "PowerOnVM_Task"]))
            }
        }
    }
}

/// Fate of one call.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// The platform refuses it.
    Refused,
    /// The connection breaks before it takes effect.
    CutBefore,
    /// The connection breaks after it took effect.
    CutAfter,
    /// The process of the server is killed before it takes effect.
    KilledBefore,
    /// The process of the server is killed after it took effect.
    KilledAfter,
}

impl Failure {
    const ALL: [Self; 5] =
        [Self::Refused, Self::CutBefore, Self::CutAfter, Self::KilledBefore, Self::KilledAfter];

    /// Returns the rule for the n-th call of the server.
    fn rule(self, platform: Platform, n: u64) -> Rule {
        let action = match self {
            Self::Refused if matches!(platform, Platform::Vcenter | Platform::Library) => {
                Action::Status(HttpStatus::new(503))
            }
            Self::Refused => Action::KubeStatus(KubeStatus::new(500)),
            Self::CutBefore | Self::CutAfter => Action::Reset,
            Self::KilledBefore | Self::KilledAfter => Action::Blackhole,
        };
        let rule = platform.calls(Rule::new("failure", [action])).nth(n);
        if matches!(self, Self::CutAfter | Self::KilledAfter) { rule.applied() } else { rule }
    }

    fn kills(self) -> bool {
        matches!(self, Self::KilledBefore | Self::KilledAfter)
    }
}

/// The autoscaler of the life.
struct Life {
    platform: Platform,
    /// Numbers of machines of the deletions that leave one machine. One of several that counts twice
    /// takes a machine that was not named; of two in one call, either can fail.
    deletions: &'static [usize],
    ours: Ours,
    /// A group that a failed increase changed, before and after.
    half_done: Mutex<Option<String>>,
}

impl Life {
    async fn session(&self) -> Answer<Session> {
        let channel = self.ours.connect(Credentials::Expected).await?.channel;
        Ok(Session::new(channel, Generation::G3, DEADLINE, Transcript::default(), Asked::default()))
    }

    /// Repeats a loop of the autoscaler until it returns a value. A failed call ends the loop.
    async fn until<T>(&self, turn: impl AsyncFn(Session) -> Answer<Option<T>>) -> Option<T> {
        for _ in 0..PATIENCE {
            let turned = async {
                let session = self.session().await?;
                session.refresh().await?;
                turn(session).await
            };
            if let Ok(Some(value)) = turned.await {
                return Some(value);
            }
            tokio::time::sleep(SCAN).await;
        }
        None
    }

    /// Increases the group. A failure that the server answers must leave the group as it was.
    async fn increase(&self, session: &Session, delta: i32) -> Answer<()> {
        let before = (
            session.target(self.platform.group()).await?,
            session.live(self.platform.group()).await?,
        );
        let answer = session.increase(self.platform.group(), delta).await;
        if answer.as_ref().is_err_and(|it| it.is_answer) {
            let after = (
                session.target(self.platform.group()).await?,
                session.live(self.platform.group()).await?,
            );
            if before != after {
                *self.half_done.lock().unwrap() = Some(format!("{before:?} became {after:?}"));
            }
        }
        answer
    }

    /// Raises the size to `n`, and returns the IDs when all instances run.
    async fn grow(&self, n: i32) -> Result<BTreeSet<String>, String> {
        let run = self.until(async |session| {
            let size = session.target(self.platform.group()).await?;
            if size < n {
                self.increase(&session, n - size).await?;
            }
            let all = session.instances(self.platform.group()).await?;
            let run = all.iter().filter(|it| it.state() == Instance::RUNNING);
            let run: BTreeSet<String> = run.map(|it| it.id.clone()).collect();
            let has_all = i32::try_from(all.len()).is_ok_and(|it| it >= n);
            Ok((has_all && run.len() == all.len()).then_some(run))
        });
        let run = run.await.ok_or("the instances do not run")?;
        if i32::try_from(run.len()) != Ok(n) {
            return Err(format!("{} machines were made, not {n}", run.len()));
        }
        Ok(run)
    }

    /// Deletes these instances, and returns when they are gone.
    async fn shrink(&self, ids: &BTreeSet<String>) -> Result<(), String> {
        let deleted = self.until(async |session| {
            let nodes = ids.iter().map(|id| SentNode::new(id, "node"));
            session.delete(self.platform.group(), nodes).await?;
            Ok(Some(()))
        });
        deleted.await.ok_or("the deletion is never accepted")?;
        let gone = self.until(async |session| {
            let all = session.instances(self.platform.group()).await?;
            Ok(all.iter().all(|it| !ids.contains(&it.id)).then_some(()))
        });
        gone.await.ok_or("the instances are not gone")?;
        Ok(())
    }

    /// Compares size, list, objects and machines with the instances that must live.
    async fn agrees(&self, live: &BTreeSet<String>) -> Result<(), String> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let shown = self.until(async |session| {
            Ok(Some((
                session.target(self.platform.group()).await?,
                session.live(self.platform.group()).await?,
            )))
        });
        let (size, listed) = shown.await.ok_or("the server does not answer")?;
        let (machines, n_machines) = self.platform.machines(&self.ours);
        let n = live.len();
        if usize::try_from(size) != Ok(n) || listed != *live {
            return Err(format!("the size is {size}, {listed:?} are listed, not {live:?}"));
        }
        if machines != *live || n_machines != n {
            return Err(format!("the machines {machines:?} run, not {live:?}; {n_machines} exist"));
        }
        Ok(())
    }

    async fn play(&self) -> Result<(), String> {
        let n = 1 + self.deletions.iter().sum::<usize>();
        let grown = self.grow(i32::try_from(n).unwrap()).await;
        let mut live = grown.map_err(|why| format!("0 → {n}: {why}"))?;
        self.agrees(&live).await.map_err(|why| format!("after 0 → {n}: {why}"))?;
        for n_deleted in self.deletions {
            let some: BTreeSet<String> = live.iter().take(*n_deleted).cloned().collect();
            self.shrink(&some).await.map_err(|why| format!("{n} → 1: {why}"))?;
            live.retain(|id| !some.contains(id));
        }
        self.agrees(&live).await.map_err(|why| format!("after {n} → 1: {why}"))?;
        self.shrink(&live).await.map_err(|why| format!("1 → 0: {why}"))?;
        self.agrees(&BTreeSet::new()).await.map_err(|why| format!("after 1 → 0: {why}"))
    }
}

/// Kills the server when the rule has fired, and starts it again without the rule.
async fn killer(ours: Ours) {
    while ours.sim().fired().iter().all(|(_, n)| *n == 0) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ours.kill();
    ours.sim().heal();
    tokio::time::sleep(Duration::from_secs(1)).await;
    ours.run(2).await.unwrap();
}

/// Plays the life with a failure of the n-th call. Returns whether the call took place, and what
/// went wrong.
fn play(
    platform: Platform,
    deletions: &'static [usize],
    failure: Failure,
    n: u64,
) -> (bool, Result<(), String>) {
    in_virtual_time(async {
        let ours = platform.sim().await;
        let _rule = ours.sim().fault(failure.rule(platform, n)).unwrap();
        ours.run(1).await.unwrap();
        let killer = failure.kills().then(|| tokio::spawn(killer(ours.clone())));
        let life = Life { platform, deletions, ours: ours.clone(), half_done: Mutex::default() };
        let mut outcome = life.play().await;
        if let Some(change) = life.half_done.into_inner().unwrap() {
            outcome = Err(format!("a failed increase changed the group: {change}"));
        }
        if let Some(killer) = killer {
            killer.abort();
        }
        let has_fired = ours.sim().fired().iter().any(|(_, n)| *n > 0);
        (has_fired, outcome)
    })
}

/// Plays the life once per failure and call, with deletions of these numbers of machines. Returns the
/// number of trials.
fn sweep(platform: Platform, deletions: &'static [usize]) -> usize {
    let mut wrong = Vec::new();
    let mut n_played = 0;
    for failure in Failure::ALL {
        for n in 1.. {
            let (has_fired, outcome) = play(platform, deletions, failure, n);
            if let Err(why) = outcome {
                wrong.push(format!("{failure:?} {n}: {why}"));
            }
            if !has_fired {
                break;
            }
            n_played += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {n_played} trials:\n{}", wrong.len(), wrong.join("\n"));
    n_played
}

#[test]
fn no_failure_of_a_call_loses_repeats_or_deletes_a_machine_that_was_not_named() {
    let n_played = sweep(Platform::Supervisor, &[2]);
    assert!(n_played > 50, "only {n_played} trials");
}

#[test]
fn no_failure_of_a_call_to_a_vcenter_loses_repeats_or_destroys_a_machine_that_was_not_named() {
    let n_played = sweep(Platform::Vcenter, &[2]);
    assert!(n_played > 50, "only {n_played} trials");
}

#[test]
fn no_failure_of_a_call_for_a_library_item_loses_repeats_or_destroys_a_machine() {
    let n_played = sweep(Platform::Library, &[2]);
    assert!(n_played > 50, "only {n_played} trials");
}

#[test]
fn no_failure_of_a_call_to_cluster_api_loses_repeats_or_deletes_a_machine_that_was_not_named() {
    let n_played = sweep(Platform::ClusterApi, &[1, 2]);
    assert!(n_played > 100, "only {n_played} trials");
}
