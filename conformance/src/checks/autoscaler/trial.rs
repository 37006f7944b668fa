//! Helpers for all checks: sessions, groups that fit, sizes before and after, and waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::Outcome;
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{
    Act, ActError, Answer, Asked, CallError, Channel, Connection, Credentials, Generation,
    Instance, NodeGroup, SentNode, Session, Subject, Transcript,
};

/// Time within which a machine must run after its creation.
pub(super) const BOOTS_IN: Duration = Duration::from_secs(600);
/// Time within which an instance must be listed after its creation.
pub(super) const LISTED_IN: Duration = Duration::from_secs(5);
/// Time within which a failed creation must be listed with its error.
pub(super) const FAILS_IN: Duration = Duration::from_secs(180);
/// Code of a method that is not implemented.
pub(super) const UNIMPLEMENTED: i32 = 12;
/// Largest number of machines that a check creates.
const MOST: i32 = 100;

/// One play of a check.
pub(crate) struct Trial<'a> {
    pub(super) subject: &'a Subject,
    pub(super) generation: Generation,
    pub(super) transcript: Transcript,
    asked: Asked,
}

/// Sizes and instances of all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) BTreeMap<String, GroupSize>);

/// Size and instances of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupSize {
    pub(super) target: i32,
    /// IDs of the instances that are not being deleted.
    pub(super) live: BTreeSet<String>,
}

impl From<CallError> for Verdict {
    fn from(err: CallError) -> Self {
        Self::fail(format!("a call failed that must succeed: {err}"))
    }
}

/// Ends a check with a failure unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::judge::verdict::Verdict::fail(format!($($text)+)));
        }
    };
}
pub(super) use ensure;

/// Returns the Node that a kubelet would register for an instance.
pub(super) fn real(id: &str) -> SentNode {
    let name = format!("node-{}", id.rsplit('/').next().unwrap_or(id));
    SentNode::new(id, &name)
}

/// Returns the Node that an autoscaler makes up for an instance without Node.
pub(super) fn unregistered(id: &str) -> SentNode {
    SentNode::fake(id, "unregistered")
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        generation: Generation,
        transcript: Transcript,
    ) -> Self {
        Self { subject, generation, transcript, asked: Asked::default() }
    }

    /// Connects with these credentials.
    pub(super) async fn connect(&self, as_whom: Credentials) -> Answer<Connection> {
        let limit =
            tokio::time::timeout(self.subject.deadline, self.subject.endpoint.connect(as_whom));
        limit.await.unwrap_or_else(|_| Err(CallError::late("the connection")))
    }

    /// Returns a session over an open connection.
    pub(super) fn over(&self, channel: Channel) -> Session {
        let (deadline, transcript) = (self.subject.deadline, self.transcript.clone());
        Session::new(channel, self.generation, deadline, transcript, self.asked.clone())
    }

    /// Opens a session, as an autoscaler does that has just started.
    pub(super) async fn cold(&self) -> Result<Session, Verdict> {
        Ok(self.over(self.connect(Credentials::Expected).await?.channel))
    }

    /// Opens a session and calls `Refresh`, as at the head of a loop of the autoscaler.
    pub(super) async fn session(&self) -> Result<Session, Verdict> {
        let session = self.cold().await?;
        session.refresh().await?;
        Ok(session)
    }

    /// Carries out an act on what is behind the server.
    pub(super) async fn act(&self, act: Act) -> Outcome {
        let none = || Verdict::skipped("the lab can only send calls to this server");
        let control = self.subject.control.as_ref().ok_or_else(none)?;
        self.transcript.note(&format!("the lab: {}", act.as_str()));
        control.carry_out(&act).await.map_err(|err| match err {
            ActError::NotSupported(_) => Verdict::skipped(err.to_string()),
            ActError::Failed(_) => Verdict::harness_error(format!("{}: {err}", act.as_str())),
        })
    }

    /// Reads sizes and instances of all groups.
    pub(super) async fn sizes(&self) -> Result<Sizes, Verdict> {
        sizes(&self.session().await?).await
    }

    /// Ends the acts that last, and restores the sizes of the groups. Deletes no more machines than
    /// the play asked for.
    pub(super) async fn restore(&self, before: &Sizes) -> Outcome {
        let mut ended = Ok(());
        for act in [Act::Release, Act::StartBackend] {
            let Some(control) = self.subject.control.as_ref() else { break };
            // A lab that cannot carry out this act has not begun what it ends.
            if let Err(ActError::Failed(why)) = control.carry_out(&act).await {
                ended = Err(Verdict::harness_error(format!("{}: {why}", act.as_str())));
            }
        }
        ended?;
        self.restore_sizes(before).await.map_err(|why| match why {
            Verdict::Fail(why) => Verdict::Inconclusive(
                why.reworded(|it| format!("the groups could not be restored: {it}")),
            ),
            other => other,
        })
    }

    async fn restore_sizes(&self, before: &Sizes) -> Outcome {
        let session = self.session().await?;
        for (id, was) in &before.0 {
            let (target, new) = self.surplus(&session, id, was).await?;
            let asked = self.asked.of(id, &was.live);
            if new.len() > asked {
                let n = new.len();
                return Err(Verdict::inconclusive(format!(
                    "{id} has {n} new instances, and the check asked for {asked}; others change the group, so nothing was deleted"
                )));
            }
            let n = usize::try_from(target - was.target).unwrap_or_default();
            let victims: Vec<SentNode> = new.iter().take(n).map(|it| unregistered(it)).collect();
            if !victims.is_empty() {
                session.delete(id, victims).await?;
            }
            let missing = was.target - session.target(id).await?;
            if missing > 0 {
                session.increase(id, missing).await?;
            }
            let now = session.target(id).await?;
            let wanted = was.target;
            ensure!(now == wanted, "the size of {id} is {now} in the end, not {wanted}");
        }
        Ok(())
    }

    /// Returns the size of a group, and the instances that it did not have before. Waits until each
    /// is listed.
    async fn surplus(
        &self,
        session: &Session,
        id: &str,
        was: &GroupSize,
    ) -> Result<(i32, Vec<String>), Verdict> {
        let read = async || {
            let (target, live) = (session.target(id).await?, session.live(id).await?);
            let new: Vec<String> = live.difference(&was.live).cloned().collect();
            Ok::<_, Verdict>((target, live.len(), new))
        };
        let listed = wait_for(LISTED_IN, async || {
            let (target, n, new) = read().await?;
            Ok((usize::try_from(target) == Ok(n)).then_some((target, new)))
        });
        match listed.await? {
            Some(listed) => Ok(listed),
            None => read().await.map(|(target, _, new)| (target, new)),
        }
    }

    /// Creates instances in a group and waits until all run. Returns their IDs.
    pub(super) async fn create(
        &self,
        session: &Session,
        group: &str,
        n: i32,
    ) -> Result<Vec<String>, Verdict> {
        let before = session.live(group).await?;
        session.increase(group, n).await?;
        let wanted = usize::try_from(n).unwrap_or_default();
        let run = wait_for(BOOTS_IN, async || {
            let all = session.instances(group).await?;
            let is_new =
                |it: &&Instance| it.state() == Instance::RUNNING && !before.contains(&it.id);
            let new: Vec<String> = all.iter().filter(is_new).map(|it| it.id.clone()).collect();
            Ok((new.len() == wanted).then_some(new))
        });
        run.await?.ok_or_else(|| {
            let limit = BOOTS_IN.as_secs();
            Verdict::inconclusive(format!("{n} new instances of {group} did not run in {limit} s"))
        })
    }
}

/// Returns the answer of an optional method; `None` if it is not implemented.
pub(super) fn optional<T>(answer: Answer<T>) -> Result<Option<T>, Verdict> {
    match answer {
        Err(err) if err.code == UNIMPLEMENTED => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// Waits until a group lists as many instances as its size says, at most for [`LISTED_IN`]. Judges
/// nothing.
pub(super) async fn listed(session: &Session, group: &str) -> Outcome {
    let all = wait_for(LISTED_IN, async || {
        let (target, n) = (session.target(group).await?, session.live(group).await?.len());
        Ok((usize::try_from(target) == Ok(n)).then_some(()))
    });
    all.await.map(drop)
}

/// Creates an instance under an act that makes it fail, and returns it when it has an error.
pub(super) async fn new_failure(
    trial: &Trial<'_>,
    session: &Session,
    group: &str,
    act: Act,
) -> Result<Instance, Verdict> {
    let before: BTreeSet<String> =
        session.instances(group).await?.into_iter().map(|it| it.id).collect();
    trial.act(act).await?;
    session.increase(group, 1).await?;
    let failed = wait_for(FAILS_IN, async || {
        let all = session.instances(group).await?;
        Ok(all.into_iter().find(|it| it.error().is_some() && !before.contains(&it.id)))
    });
    let limit = FAILS_IN.as_secs();
    failed.await?.ok_or_else(|| Verdict::fail(format!("no instance has an error after {limit} s")))
}

/// Asks `read` once per second until it returns a value, at most for `limit`.
pub(super) async fn wait_for<T>(
    limit: Duration,
    read: impl AsyncFn() -> Result<Option<T>, Verdict>,
) -> Result<Option<T>, Verdict> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = read().await? {
            return Ok(Some(value));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Reads sizes and instances of all groups.
pub(super) async fn sizes(session: &Session) -> Result<Sizes, Verdict> {
    let mut sizes = BTreeMap::new();
    for group in session.groups().await? {
        let (target, live) = (session.target(&group.id).await?, session.live(&group.id).await?);
        sizes.insert(group.id, GroupSize { target, live });
    }
    Ok(Sizes(sizes))
}

/// Returns the first group that has room for `n` more instances, with its size.
pub(super) async fn group_with_room(
    session: &Session,
    n: i32,
) -> Result<(NodeGroup, i32), Verdict> {
    for group in session.groups().await? {
        let target = session.target(&group.id).await?;
        if group.max_size - target >= n && target >= group.min_size {
            return Ok((group, target));
        }
    }
    Err(Verdict::skipped(format!("no group has room for {n} more instances")))
}

/// Returns the first group that has room for `n` more instances, with its size, for a check that
/// lowers the size. A server that deletes machines then may choose one that was there before, so
/// the group is empty unless checks may delete such machines.
pub(super) async fn group_to_lower(
    trial: &Trial<'_>,
    session: &Session,
    n: i32,
) -> Result<(NodeGroup, i32), Verdict> {
    if trial.subject.may_delete_existing {
        return group_with_room(session, n).await;
    }
    for group in session.groups().await? {
        let target = session.target(&group.id).await?;
        if target == 0 && group.max_size >= n && session.live(&group.id).await?.is_empty() {
            return Ok((group, target));
        }
    }
    Err(Verdict::skipped(format!(
        "no group is empty and has room for {n} instances; in another one a server that fails this would delete machines that were there before"
    )))
}

/// Returns the group with the least room above zero, with its size.
pub(super) async fn smallest_group(session: &Session) -> Result<(NodeGroup, i32), Verdict> {
    let mut smallest: Option<(NodeGroup, i32)> = None;
    for group in session.groups().await? {
        let target = session.target(&group.id).await?;
        let room = group.max_size - target;
        let is_smaller = smallest.as_ref().is_none_or(|(it, size)| room < it.max_size - size);
        if room > 0 && target >= group.min_size && is_smaller {
            smallest = Some((group, target));
        }
    }
    let (group, size) =
        smallest.ok_or_else(|| Verdict::skipped("every group is at its maximum"))?;
    if group.max_size - size > MOST {
        return Err(Verdict::skipped(format!(
            "every group has room for more than {MOST} machines"
        )));
    }
    Ok((group, size))
}

/// Returns the first group.
pub(super) async fn any_group(session: &Session) -> Result<NodeGroup, Verdict> {
    let groups = session.groups().await?;
    groups.into_iter().next().ok_or_else(|| Verdict::inconclusive("the server has no group"))
}
