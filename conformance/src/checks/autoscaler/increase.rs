//! CA-042 to CA-051: `NodeGroupIncreaseSize`, and what becomes of new instances.

use std::collections::BTreeSet;
use std::time::Duration;

use super::listing::NOWHERE;
use super::trial::{
    BOOTS_IN, ensure, group_with_room, listed, new_failure, sizes, smallest_group, wait_for,
};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Act, Instance, InstanceError, Session};

const OUT_OF_RESOURCES: i32 = 1;
const OTHER: i32 = 99;
/// Number of bytes to which the autoscaler cuts messages.
const LONGEST_MESSAGE: usize = 500;

pub(super) async fn raises_the_size(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 1).await?;
    session.increase(&group.id, 1).await?;
    let now = session.target(&group.id).await?;
    ensure!(
        now == size + 1,
        "the size of {} was {size}, and after an increase by 1 {now}",
        group.id
    );
    Ok(())
}

/// Requires that increases of a group by these numbers fail and change nothing.
async fn refused(session: &Session, group: &str, deltas: &[i32]) -> Outcome {
    let before = sizes(session).await?;
    for delta in deltas {
        let is_refused = session.increase(group, *delta).await.is_err();
        let after = sizes(session).await?;
        ensure!(is_refused, "an increase of {group} by {delta} succeeded");
        ensure!(
            before == after,
            "a refused increase changed the groups from {before:?} to {after:?}"
        );
    }
    Ok(())
}

pub(super) async fn by_nothing_is_refused(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    refused(&session, &group.id, &[0, -1]).await
}

pub(super) async fn above_the_maximum_is_refused(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 1).await?;
    refused(&session, &group.id, &[group.max_size - size + 1, i32::MAX]).await
}

pub(super) async fn of_unknown_group_is_refused(trial: &Trial<'_>) -> Outcome {
    refused(&trial.session().await?, NOWHERE, &[1]).await
}

pub(super) async fn is_all_or_nothing(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 3).await?;
    let before = sizes(&session).await?;
    trial.act(Act::RefuseCreations).await?;
    if session.increase(&group.id, 3).await.is_ok() {
        // The server must create the machines later, and count them now.
        let (size, now) = (before.0[&group.id].target, session.target(&group.id).await?);
        ensure!(now == size + 3, "an increase by 3 from {size} succeeded, and the size is {now}");
        let why = "the increase succeeded, and the server creates the machines later";
        return Err(Verdict::not_supported(why));
    }
    let after = sizes(&session).await?;
    ensure!(before == after, "a failed increase changed the groups from {before:?} to {after:?}");
    trial.act(Act::Release).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let later = sizes(&session).await?;
    ensure!(before == later, "a minute after a failed increase the groups are {later:?}");
    Ok(())
}

pub(super) async fn concurrent_ones_keep_the_maximum(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = smallest_group(&session).await?;
    let fill = group.max_size - size - 1;
    if fill > 0 {
        session.increase(&group.id, fill).await?;
    }
    let (one, two) = futures::join!(session.increase(&group.id, 1), session.increase(&group.id, 1));
    let n = [one.is_ok(), two.is_ok()].into_iter().filter(|it| *it).count();
    ensure!(n == 1, "{n} of two concurrent increases succeeded, with room for one");
    let now = session.target(&group.id).await?;
    ensure!(now == group.max_size, "the size of {} is {now} after them", group.id);
    Ok(())
}

pub(super) async fn lists_each_instance_soon(trial: &Trial<'_>) -> Outcome {
    const SOON: Duration = Duration::from_secs(5);
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 3).await?;
    let before = session.live(&group.id).await?;
    session.increase(&group.id, 3).await?;
    let is_begun = |it: &&Instance| [Instance::RUNNING, Instance::CREATING].contains(&it.state());
    let listed = wait_for(SOON, async || {
        let all = session.instances(&group.id).await?;
        let n = all.iter().filter(|it| !before.contains(&it.id)).filter(is_begun).count();
        Ok((n == 3).then_some(()))
    });
    let (limit, id) = (SOON.as_secs(), &group.id);
    listed.await?.ok_or_else(|| {
        Verdict::fail(format!("group {id} does not list 3 new instances within {limit} s"))
    })
}

pub(super) async fn keeps_the_id(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    let before: BTreeSet<String> =
        session.instances(&group.id).await?.into_iter().map(|it| it.id).collect();
    trial.act(Act::HoldCreations).await?;
    session.increase(&group.id, 1).await?;
    listed(&session, &group.id).await?;
    for _ in 0..30 {
        let all = session.instances(&group.id).await?;
        let new: Vec<&Instance> = all.iter().filter(|it| !before.contains(&it.id)).collect();
        ensure!(new.len() == 1, "group {} lists {} new instances, not 1", group.id, new.len());
        let (state, error) = (new[0].state(), new[0].error());
        if state == Instance::RUNNING {
            return Err(Verdict::inconclusive("the instance runs, so its creation was not held"));
        }
        ensure!(
            state == Instance::CREATING && error.is_none(),
            "an instance whose creation has not begun has the state {state} and the error {error:?}"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let id = session.live(&group.id).await?.difference(&before).next().cloned();
    let id = id.ok_or_else(|| Verdict::fail("the new instance has left the list"))?;
    trial.act(Act::Release).await?;
    let runs = wait_for(BOOTS_IN, async || {
        let all = session.instances(&group.id).await?;
        let new: Vec<&Instance> = all.iter().filter(|it| !before.contains(&it.id)).collect();
        let others: Vec<&str> = new.iter().map(|it| &*it.id).filter(|it| *it != id).collect();
        ensure!(others.is_empty(), "{id} is listed as {others:?} now");
        let is_gone = new.is_empty();
        ensure!(!is_gone, "{id} has left the list");
        Ok((new[0].state() == Instance::RUNNING).then_some(()))
    });
    let limit = BOOTS_IN.as_secs();
    runs.await?.ok_or_else(|| Verdict::fail(format!("{id} does not run after {limit} s")))
}

/// Creates an instance under an act that makes it fail, and returns its error.
async fn failure(trial: &Trial<'_>, act: Act) -> Result<InstanceError, Verdict> {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    let failed = new_failure(trial, &session, &group.id, act).await?;
    let state = failed.state();
    ensure!(state == Instance::CREATING, "an instance that failed has the state {state}, not 2");
    Ok(failed.error().cloned().unwrap_or_default())
}

pub(super) async fn lack_of_capacity_is_shown(trial: &Trial<'_>) -> Outcome {
    let error = failure(trial, Act::ExhaustCapacity).await?;
    let (class, bytes) = (error.class, error.message.len());
    ensure!(class == OUT_OF_RESOURCES, "a lack of capacity has the class {class}, not 1");
    ensure!(bytes <= LONGEST_MESSAGE, "the message of the error has {bytes} bytes");
    Ok(())
}

pub(super) async fn wrong_configuration_is_shown(trial: &Trial<'_>) -> Outcome {
    let class = failure(trial, Act::BreakConfiguration).await?.class;
    ensure!(class == OTHER, "a wrong configuration has the class {class}, not 99");
    Ok(())
}
