//! CA-052 to CA-061: `NodeGroupDeleteNodes`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::trial::{
    Sizes, ensure, group_with_room, new_failure, real, sizes, unregistered, wait_for,
};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Act, Instance, NodeGroup, SentNode, Session};

/// An ID in the form of the server's own ones that none of its instances has.
const UNKNOWN: &str = "vsphere://00000000-0000-4000-8000-000000000002";

/// Requires that exactly these instances are being deleted or gone.
async fn are_removed(session: &Session, group: &str, before: &Sizes, ids: &[&str]) -> Outcome {
    let was = before.0.get(group).cloned();
    let was = was.ok_or_else(|| Verdict::fail(format!("group {group} is not listed")))?;
    let (target, live) = (session.target(group).await?, session.live(group).await?);
    let wanted = was.target - i32::try_from(ids.len()).unwrap_or(i32::MAX);
    ensure!(
        target == wanted,
        "the size of {group} was {}, and is {target}, not {wanted}",
        was.target
    );
    let kept: BTreeSet<String> =
        was.live.iter().filter(|it| !ids.contains(&&***it)).cloned().collect();
    ensure!(live == kept, "after the deletion of {ids:?} the instances are {live:?}, not {kept:?}");
    let others = |it: &Sizes| {
        let mut it = it.0.clone();
        it.remove(group);
        it
    };
    let after = sizes(session).await?;
    ensure!(others(before) == others(&after), "a deletion in {group} changed other groups");
    Ok(())
}

/// A group with `n` new running instances.
async fn with_instances(
    trial: &Trial<'_>,
    n: i32,
) -> Result<(Session, NodeGroup, Vec<String>, Sizes), Verdict> {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, n).await?;
    let created = trial.create(&session, &group.id, n).await?;
    let before = sizes(&session).await?;
    Ok((session, group, created, before))
}

async fn deletion_of(trial: &Trial<'_>, node: fn(&str) -> SentNode) -> Outcome {
    let (session, group, created, before) = with_instances(trial, 3).await?;
    session.delete(&group.id, [node(&created[0])]).await?;
    are_removed(&session, &group.id, &before, &[&created[0]]).await?;
    let gone = wait_for(Duration::from_secs(300), async || {
        let all = session.instances(&group.id).await?;
        Ok(all.iter().all(|it| it.id != created[0]).then_some(()))
    });
    gone.await?.ok_or_else(|| Verdict::fail("the instance is still listed after 300 s"))?;
    are_removed(&session, &group.id, &before, &[&created[0]]).await
}

pub(super) async fn removes_the_named_instance(trial: &Trial<'_>) -> Outcome {
    deletion_of(trial, real).await
}

pub(super) async fn accepts_made_up_nodes(trial: &Trial<'_>) -> Outcome {
    deletion_of(trial, unregistered).await
}

pub(super) async fn repeated_one_changes_nothing(trial: &Trial<'_>) -> Outcome {
    let (session, group, created, _) = with_instances(trial, 2).await?;
    let delete = async || session.delete(&group.id, [real(&created[0])]).await;
    delete().await?;
    // CA-052 judges the first deletion.
    let first = session.target(&group.id).await?;
    let live = session.live(&group.id).await?;
    for pause in [0, 1, 60] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let answer = delete().await;
        ensure!(answer.is_ok(), "the repeated deletion failed: {:?}", answer.err());
        let now = session.target(&group.id).await?;
        ensure!(now == first, "the repeated deletion lowered the size from {first} to {now}");
    }
    let now = session.live(&group.id).await?;
    ensure!(now == live, "the repeated deletion changed the instances from {live:?} to {now:?}");
    Ok(())
}

/// Creates an instance that fails, and returns its ID.
async fn failed(trial: &Trial<'_>, session: &Session, group: &str) -> Result<String, Verdict> {
    new_failure(trial, session, group, Act::BreakConfiguration).await.map(|it| it.id)
}

pub(super) async fn removes_failed_creations(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 1).await?;
    let id = failed(trial, &session, &group.id).await?;
    session.delete(&group.id, [SentNode::fake(&id, "create-error")]).await?;
    let now = session.target(&group.id).await?;
    ensure!(
        now == size,
        "the size of {} was {size} before a creation that failed, and is {now}",
        group.id
    );
    trial.act(Act::Release).await?;
    at_the_minimum(trial, &session).await
}

/// In a group at its minimum the instance that failed is replaced, because nothing else would. To
/// get there, this deletes a machine that was there before.
async fn at_the_minimum(trial: &Trial<'_>, session: &Session) -> Outcome {
    let not_played =
        |why: &str| Err(Verdict::Partial(format!("not played at the minimum: {why}").into()));
    if !trial.subject.may_delete_existing {
        return not_played("checks may not delete machines that were there before");
    }
    for group in session.groups().await?.into_iter().filter(|it| it.min_size > 0) {
        let healthy = session.live(&group.id).await?;
        let target = session.target(&group.id).await?;
        let is_at_minimum = target == group.min_size && target < group.max_size;
        let Some(victim) = healthy.first().filter(|_| is_at_minimum) else { continue };
        let id = failed(trial, session, &group.id).await?;
        session.delete(&group.id, [real(victim)]).await?;
        session.delete(&group.id, [SentNode::fake(&id, "create-error")]).await?;
        let (now, min) = (session.target(&group.id).await?, group.min_size);
        ensure!(
            now == min,
            "an instance that failed in {} at its minimum {min} was removed, and the size is {now}",
            group.id
        );
        let is_listed = |it: &Instance| it.id == id && it.state() != Instance::DELETING;
        let all = session.instances(&group.id).await?;
        ensure!(!all.iter().any(is_listed), "the instance that failed is still listed");
        return Ok(());
    }
    not_played("no group is at a minimum above zero")
}

/// Requires that a deletion fails and changes nothing.
async fn refused(
    session: &Session,
    group: &str,
    nodes: Vec<SentNode>,
    before: &Sizes,
    what: &str,
) -> Outcome {
    let is_refused = session.delete(group, nodes).await.is_err();
    let after = sizes(session).await?;
    ensure!(is_refused, "the deletion of {what} succeeded");
    ensure!(*before == after, "the refused deletion of {what} changed {before:?} to {after:?}");
    Ok(())
}

pub(super) async fn refuses_nodes_of_other_groups(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 2).await?;
    let victim = trial.create(&session, &group.id, 2).await?.swap_remove(0);
    for other in session.groups().await?.into_iter().filter(|it| it.id != group.id) {
        let size = session.target(&other.id).await?;
        if size >= other.max_size || size < other.min_size {
            continue;
        }
        // With one more than its minimum, the other group has no other reason to refuse.
        trial.create(&session, &other.id, 1).await?;
        let before = sizes(&session).await?;
        let nodes = vec![unregistered(&victim)];
        return refused(&session, &other.id, nodes, &before, "a node of another group").await;
    }
    Err(Verdict::skipped("no other group has room for an instance"))
}

pub(super) async fn refuses_the_whole_list(trial: &Trial<'_>) -> Outcome {
    let (session, group, created, before) = with_instances(trial, 2).await?;
    let nodes = vec![unregistered(&created[0]), unregistered(UNKNOWN)];
    refused(&session, &group.id, nodes, &before, "a list with an unknown node").await
}

pub(super) async fn keeps_the_minimum(trial: &Trial<'_>) -> Outcome {
    if !trial.subject.may_delete_existing {
        let why = "a server that fails this would delete machines that were there before";
        return Err(Verdict::skipped(why));
    }
    let session = trial.session().await?;
    for group in session.groups().await?.into_iter().filter(|it| it.min_size > 0) {
        let before = sizes(&session).await?;
        let Some(size) = before.0.get(&group.id) else { continue };
        let victims: Vec<&String> = size.live.iter().collect();
        let n = usize::try_from(size.target - group.min_size + 1).unwrap_or(usize::MAX);
        if size.target < group.min_size || victims.len() < n {
            continue;
        }
        let nodes = victims.into_iter().take(n).map(|it| real(it)).collect();
        return refused(&session, &group.id, nodes, &before, "more nodes than the minimum allows")
            .await;
    }
    Err(Verdict::skipped("no group has a minimum above zero and that many instances"))
}

pub(super) async fn counts_a_node_once(trial: &Trial<'_>) -> Outcome {
    let (session, group, created, before) = with_instances(trial, 3).await?;
    let node = || real(&created[0]);
    session.delete(&group.id, [node(), node()]).await?;
    are_removed(&session, &group.id, &before, &[&created[0]]).await
}

pub(super) async fn of_nothing_is_accepted(trial: &Trial<'_>) -> Outcome {
    let (session, group, _, before) = with_instances(trial, 1).await?;
    session.delete(&group.id, []).await?;
    let after = sizes(&session).await?;
    ensure!(before == after, "the deletion of nothing changed {before:?} to {after:?}");
    Ok(())
}

pub(super) async fn does_not_wait(trial: &Trial<'_>) -> Outcome {
    let (session, group, created, before) = with_instances(trial, 2).await?;
    trial.act(Act::SlowDeletions).await?;
    session.delete(&group.id, [real(&created[0])]).await?;
    let was = before.0.get(&group.id).map(|it| it.target).unwrap_or_default();
    let now = session.target(&group.id).await?;
    ensure!(now == was - 1, "the size of {} was {was}, and after a deletion {now}", group.id);
    tokio::time::sleep(session.deadline()).await;
    let is_there = session.instances(&group.id).await?.iter().any(|it| it.id == created[0]);
    if is_there {
        return Ok(());
    }
    Err(Verdict::inconclusive(
        "the instance was gone within the deadline, so deletions were not slow",
    ))
}
