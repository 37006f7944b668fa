//! Plays an event and reads the groups after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conformance::lab::autoscaler::{
    Act, Answer, Asked, Control as _, Credentials, Endpoint as _, Generation, Node, Ours, SentNode,
    Session, Transcript,
};
use prost::Message as _;

use super::draw::{Change, Event, Of, Stranger, Weather};
use super::judge::{self, Ids, Outcome, Seen, Sent};
use super::platform::Platform;

const DEADLINE: Duration = Duration::from_secs(5);
/// Time after which failed increases are undone and each machine is made or gone.
const CALM: Duration = Duration::from_secs(1500);
const UNKNOWN: &str = "vsphere://00000000-0000-4000-8000-000000000009";
impl Of {
    const ALL: [Self; 2] = [Self::Workers, Self::Others];

    fn other(self) -> Self {
        match self {
            Self::Workers => Self::Others,
            Self::Others => Self::Workers,
        }
    }
}

/// Number of events of each kind, because histories without them would prove nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Exercised(pub(super) BTreeMap<&'static str, usize>);

impl Exercised {
    pub(super) const KINDS: [&'static str; 12] = [
        "increases",
        "deletions",
        "decreases",
        "refusals",
        "unanswered changes",
        "failed changes",
        "kills",
        "failed creations",
        "held machines",
        "foreign deletions",
        "repeated deletions",
        "pairs of changes",
    ];

    fn note(&mut self, kind: &'static str) {
        debug_assert!(Self::KINDS.contains(&kind), "{kind}");
        *self.0.entry(kind).or_default() += 1;
    }

    pub(super) fn add(&mut self, of: &Self) {
        for (kind, n) in &of.0 {
            *self.0.entry(kind).or_default() += n;
        }
    }

    fn outcome(&mut self, sent: &Sent, before: &Seen) {
        self.note(match (&sent.outcome, &sent.change) {
            (Outcome::Unknown, _) => "unanswered changes",
            (Outcome::Failed(_), _) if sent.is_calm => "refusals",
            (Outcome::Failed(_), _) => "failed changes",
            (Outcome::Done, Change::Increase(_)) => "increases",
            (Outcome::Done, Change::Decrease(_)) => "decreases",
            (Outcome::Done, Change::Delete { .. }) => "deletions",
        });
        if before.live.values().any(|has_failed| *has_failed) {
            self.note("failed creations");
        }
        if before.live.keys().any(|it| !before.materialized.contains(it)) {
            self.note("held machines");
        }
    }
}

/// The server in a history.
pub(super) struct Play {
    platform: Platform,
    ours: Ours,
    seed: u64,
    /// The last reading of each group.
    seen: BTreeMap<Of, Seen>,
    /// Instances that left a group.
    gone: BTreeMap<Of, Ids>,
    /// Those among them that left it since the last start of the server, which remembers only them.
    remembered: BTreeMap<Of, Ids>,
    templates: BTreeMap<Of, Node>,
    is_broken: bool,
    pub(super) exercised: Exercised,
}

impl Play {
    /// Starts the server with a machine in the group whose minimum is one.
    pub(super) async fn start(platform: Platform) -> Result<Self, String> {
        let ours = platform.start().await?;
        let mut play = Self {
            platform,
            ours,
            seed: 1,
            seen: BTreeMap::new(),
            gone: BTreeMap::new(),
            remembered: BTreeMap::new(),
            templates: BTreeMap::new(),
            is_broken: false,
            exercised: Exercised::default(),
        };
        let session = play.session().await?;
        session.increase(platform.id(Of::Others), 1).await.map_err(|err| err.to_string())?;
        for of in Of::ALL {
            play.templates.insert(of, template(&session, platform.id(of)).await?);
            play.seen.insert(of, play.read(of).await?);
        }
        Ok(play)
    }

    async fn session(&self) -> Result<Session, String> {
        let connection = self.ours.connect(Credentials::Expected).await;
        let channel = connection.map_err(|err| err.to_string())?.channel;
        let (transcript, asked) = (Transcript::default(), Asked::default());
        Ok(Session::new(channel, Generation::G3, DEADLINE, transcript, asked))
    }

    async fn read(&self, of: Of) -> Result<Seen, String> {
        let read = async {
            let session =
                self.session().await.map_err(conformance::lab::autoscaler::CallError::local)?;
            let group = self.platform.id(of);
            Answer::Ok((session.target(group).await?, session.instances(group).await?))
        };
        let (target, instances) = read.await.map_err(|err| format!("a read failed: {err}"))?;
        Ok(Seen::new(target, &instances, &self.platform.materialized(&self.ours)))
    }

    /// Reads both groups, and judges what holds at any time.
    async fn look(&mut self) -> Result<(), String> {
        for of in Of::ALL {
            let now = self.read(of).await?;
            let gone = self.gone.entry(of).or_default();
            let before = self.seen.get(&of).cloned().unwrap_or_default();
            let left: Ids = before.ids().difference(&now.ids()).cloned().collect();
            gone.extend(left.iter().cloned());
            self.remembered.entry(of).or_default().extend(left);
            judge::reading(&now, gone, self.platform.bounds(of))?;
            self.seen.insert(of, now);
        }
        let [one, two] = Of::ALL.map(|of| self.seen[&of].ids());
        if let Some(shared) = one.intersection(&two).next() {
            return Err(format!("P9: two groups list {shared}"));
        }
        Ok(())
    }

    fn node(&self, of: Of, pick: u8) -> Option<String> {
        let live = self.seen[&of].live.keys();
        let all: Vec<&String> =
            live.chain(self.remembered.get(&of).into_iter().flatten()).collect();
        let at = usize::from(pick).checked_rem(all.len())?;
        Some(all[at].clone())
    }

    /// Returns the nodes of a deletion, and those among them that are instances of the group.
    fn nodes(&self, of: Of, change: &Change) -> (Vec<SentNode>, Ids) {
        let Change::Delete { picks, stranger, says_failed } = change else {
            return Default::default();
        };
        let reason = if *says_failed { "create-error" } else { "unregistered" };
        let ids: Vec<String> = picks.iter().filter_map(|pick| self.node(of, *pick)).collect();
        let mut nodes: Vec<SentNode> = ids.iter().map(|id| SentNode::fake(id, reason)).collect();
        match stranger {
            None => {}
            Some(Stranger::Unknown) => nodes.push(SentNode::new(UNKNOWN, "stranger")),
            Some(Stranger::OtherGroup) => {
                let live = self.seen[&of.other()].live.keys().next().cloned();
                let id = live.unwrap_or_else(|| UNKNOWN.to_owned());
                nodes.push(SentNode::new(&id, "stranger"));
            }
        }
        (nodes, ids.into_iter().collect())
    }

    /// Sends a change, and waits for its answer.
    async fn send(&self, of: Of, change: &Change, is_calm: bool) -> Result<Sent, String> {
        let (nodes, named) = self.nodes(of, change);
        let (session, group) = (self.session().await?, self.platform.id(of));
        let answer = match change {
            Change::Increase(by) => session.increase(group, *by).await,
            Change::Decrease(by) => session.decrease(group, *by).await,
            Change::Delete { .. } => session.delete(group, nodes).await,
        };
        Ok(Sent { change: change.clone(), named, outcome: Outcome::of(&answer), is_calm })
    }

    /// Plays changes of a group, and judges what they did. The other group must stay as it is.
    async fn judged(&mut self, of: Of, sent: &[Sent]) -> Result<(), String> {
        let before = self.seen.clone();
        sent.iter().for_each(|it| self.exercised.outcome(it, &before[&of]));
        self.look().await?;
        let bounds = self.platform.bounds(of);
        judge::changes(sent, &before[&of], &self.seen[&of], bounds)?;
        let (was, is) = (before[&of.other()].ids(), self.seen[&of.other()].ids());
        if was != is {
            return Err(format!("the other group had {was:?} and has {is:?}"));
        }
        tokio::time::sleep(self.platform.settles()).await;
        self.look().await?;
        judge::changes(sent, &before[&of], &self.seen[&of], bounds)
            .map_err(|why| format!("later: {why}"))
    }

    async fn change(&mut self, of: Of, change: &Change, weather: Weather) -> Result<(), String> {
        let sent = match weather {
            Weather::Calm => self.send(of, change, true).await?,
            Weather::Failure(failure, nth) => {
                let failure = self.platform.disturb(&self.ours, failure, nth)?;
                let sent = self.send(of, change, false).await?;
                drop(failure);
                sent
            }
            Weather::Killed(after) => {
                let sent = self.cut_short(of, change, after).await?;
                self.restart().await?;
                sent
            }
            Weather::Cancelled(after) => {
                let sent = self.cut_short(of, change, after).await?;
                // The server completes or undoes the change within its deadline.
                tokio::time::sleep(DEADLINE).await;
                sent
            }
        };
        self.judged(of, &[sent]).await?;
        if matches!(weather, Weather::Killed(_)) {
            self.remembered.clear();
        }
        Ok(())
    }

    /// Sends a change to a server with a slow platform, and waits at most so many milliseconds.
    async fn cut_short(&self, of: Of, change: &Change, after: u16) -> Result<Sent, String> {
        let _slow = self.platform.slow_down(&self.ours)?;
        tokio::select! {
            biased;
            sent = self.send(of, change, true) => sent,
            () = tokio::time::sleep(Duration::from_millis(after.into())) => Ok(self.unanswered(of, change)),
        }
    }

    fn unanswered(&self, of: Of, change: &Change) -> Sent {
        let (_, named) = self.nodes(of, change);
        Sent { change: change.clone(), named, outcome: Outcome::Unknown, is_calm: false }
    }

    /// Kills the server and starts it again. Each start has another seed, as each process has.
    async fn restart(&mut self) -> Result<(), String> {
        self.exercised.note("kills");
        self.seed += 1;
        self.ours.kill();
        self.ours.run(self.seed).await?;
        tokio::time::sleep(self.platform.starts()).await;
        Ok(())
    }

    pub(super) async fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Change(of, change, weather) => self.change(*of, change, *weather).await,
            Event::Twice(of, change) => self.twice(*of, change).await,
            Event::Both(of, one, two) => {
                self.exercised.note("pairs of changes");
                let (one, two) = tokio::join!(self.send(*of, one, true), self.send(*of, two, true));
                self.judged(*of, &[one?, two?]).await
            }
            Event::GiveUpAndDelete(of, pick) => self.give_up_and_delete(*of, *pick).await,
            Event::Restart => {
                self.restart().await?;
                self.unchanged("P12: after a restart").await?;
                self.remembered.clear();
                Ok(())
            }
            Event::Hold(holds) => {
                self.ours.hold(*holds)?;
                self.unchanged("the hold").await
            }
            Event::Break(breaks) => self.break_configuration(*breaks).await,
            Event::Destroy(of, pick) => self.destroy(*of, *pick).await,
            Event::Outage(seconds) => self.outage(*seconds).await,
            Event::Reads => self.reads().await,
            Event::Wait(seconds) => {
                tokio::time::sleep(Duration::from_secs((*seconds).into())).await;
                self.unchanged("P14: after a while").await
            }
        }
    }

    async fn act(&self, act: Act) -> Result<(), String> {
        self.ours.carry_out(&act).await.map_err(|err| format!("{err:?}"))
    }

    /// Reads the groups, whose sizes and instances must be as before.
    async fn unchanged(&mut self, when: &str) -> Result<(), String> {
        let before = self.seen.clone();
        self.look().await?;
        for of in Of::ALL {
            let (was, is) = (before[&of].ids(), self.seen[&of].ids());
            if was != is || before[&of].target != self.seen[&of].target {
                return Err(format!("{when}, {of:?} had {was:?} and has {is:?}"));
            }
        }
        Ok(())
    }

    async fn twice(&mut self, of: Of, change: &Change) -> Result<(), String> {
        let (nodes, _) = self.nodes(of, change);
        let first = self.send(of, change, true).await?;
        let is_repeated = first.outcome == Outcome::Done && !nodes.is_empty();
        self.judged(of, &[first]).await?;
        if !is_repeated {
            return Ok(());
        }
        self.exercised.note("repeated deletions");
        let answer = self.session().await?.delete(self.platform.id(of), nodes).await;
        answer.map_err(|err| format!("P7: a repeated deletion fails: {err}"))?;
        self.unchanged("P7: after a repeated deletion").await
    }

    /// P13: gives up an instance without machine, and then deletes it by name. Over a vCenter first makes
    /// an instance whose machine cannot be made, because a server gives up no other.
    async fn give_up_and_delete(&mut self, of: Of, pick: u8) -> Result<(), String> {
        if self.platform == Platform::Vcenter {
            self.break_configuration(true).await?;
            let increased = self.send(of, &Change::Increase(1), true).await?;
            self.judged(of, &[increased]).await?;
        }
        let before = self.seen[&of].clone();
        let decreased = self.send(of, &Change::Decrease(-1), true).await?;
        let is_done = decreased.outcome == Outcome::Done;
        self.judged(of, &[decreased]).await?;
        if !is_done {
            return self.change(of, &deletion(pick), Weather::Calm).await;
        }
        let left: Vec<String> = before.ids().difference(&self.seen[&of].ids()).cloned().collect();
        let [victim] = &left[..] else { return Err(format!("P8: {left:?} were given up")) };
        let node = SentNode::fake(victim, "unregistered");
        let answer = self.session().await?.delete(self.platform.id(of), [node]).await;
        answer.map_err(|err| format!("P13: deleting what was given up fails: {err}"))?;
        self.unchanged("P13: after the deletion of what was given up").await
    }

    async fn break_configuration(&mut self, breaks: bool) -> Result<(), String> {
        match (breaks, self.is_broken) {
            (true, false) => self.act(self.platform.breaks()).await?,
            (false, true) => self.act(Act::Release).await?,
            _ => return Ok(()),
        }
        self.is_broken = breaks;
        // A failure shows after a minute.
        tokio::time::sleep(Duration::from_secs(90)).await;
        self.unchanged("the failure of creations").await
    }

    /// Other hands delete the machine of an instance that runs: the instance goes, and no other. On a
    /// Supervisor they delete the VirtualMachine, of any instance.
    async fn destroy(&mut self, of: Of, pick: u8) -> Result<(), String> {
        let live = self.seen[&of].ids();
        let candidates = match self.platform {
            Platform::Supervisor => live.clone(),
            Platform::Vcenter => self.seen[&of].running.clone(),
        };
        let Some(at) = usize::from(pick).checked_rem(candidates.len()) else { return Ok(()) };
        let victim = candidates.iter().nth(at).unwrap().clone();
        self.exercised.note("foreign deletions");
        self.act(Act::DestroyMachine(victim.clone())).await?;
        tokio::time::sleep(self.platform.settles()).await;
        let (mut wanted, other) = (live, self.seen[&of.other()].ids());
        wanted.remove(&victim);
        self.look().await?;
        if self.seen[&of].ids() != wanted || self.seen[&of.other()].ids() != other {
            return Err(format!("{victim} was destroyed, and {:?} are listed", self.seen));
        }
        Ok(())
    }

    /// The platform does not answer. Reads answer as before, and no change takes effect.
    async fn outage(&mut self, seconds: u16) -> Result<(), String> {
        self.act(Act::StopBackend).await?;
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        self.unchanged("during an outage").await?;
        let sent = self.send(Of::Workers, &Change::Increase(1), false).await?;
        self.judged(Of::Workers, &[sent]).await?;
        self.act(Act::StartBackend).await?;
        // Over a vCenter this act ends each failure.
        self.is_broken &= self.platform == Platform::Supervisor;
        tokio::time::sleep(Duration::from_secs(90)).await;
        self.unchanged("after an outage").await
    }

    /// P9, P10, P15: reads agree with each other and change nothing.
    async fn reads(&mut self) -> Result<(), String> {
        let session = self.session().await?;
        let read = async {
            session.groups().await?;
            session.gpu_label().await?;
            session.gpu_types().await?;
            session.refresh().await?;
            session.cleanup().await
        };
        read.await.map_err(|err| format!("P10: a read fails: {err}"))?;
        for of in Of::ALL {
            for id in self.seen[&of].ids() {
                let found = session.group_of(SentNode::new(&id, "n")).await;
                let found = found.map_err(|err| format!("P9: {err}"))?.map(|it| it.id);
                if found.as_deref() != Some(self.platform.id(of)) {
                    return Err(format!("P9: {id} of {of:?} belongs to {found:?}"));
                }
            }
            if template(&session, self.platform.id(of)).await? != self.templates[&of] {
                return Err(format!("P15: the template of {of:?} changed"));
            }
        }
        self.unchanged("P10: after reads").await
    }

    /// Ends all failures. After a while all machines run, and those of deleted instances are gone.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        self.act(Act::Release).await?;
        self.ours.hold(false)?;
        tokio::time::sleep(CALM).await;
        self.unchanged("P14: at the end").await?;
        let (live, deleting): (BTreeSet<String>, Vec<usize>) = (
            Of::ALL.iter().flat_map(|of| self.seen[of].ids()).collect(),
            Of::ALL.iter().map(|of| self.seen[of].deleting.len()).collect(),
        );
        let (machines, n) = self.platform.machines(&self.ours);
        if machines != live || n != live.len() || deleting != [0, 0] {
            return Err(format!(
                "P14: {live:?} are listed and {deleting:?} are being deleted; the machines {machines:?} run, and {n} exist"
            ));
        }
        self.reads().await
    }
}

fn deletion(pick: u8) -> Change {
    Change::Delete { picks: vec![pick], stranger: None, says_failed: false }
}

async fn template(session: &Session, group: &str) -> Result<Node, String> {
    let template = session.template(group).await.map_err(|err| format!("P15: {err}"))?;
    Node::decode(&*template.new).map_err(|err| err.to_string())
}
