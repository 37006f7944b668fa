//! CA-066 to CA-069 and CA-071: machines destroyed by others, outages, restarts and canceled calls.

use std::time::Duration;

use super::trial::{ensure, group_with_room, listed, real, sizes, unregistered, wait_for};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Act, Instance, Session};

/// Time within which the server must notice that a machine is gone.
const NOTICED_IN: Duration = Duration::from_secs(120);
/// Number of calls that the client cancels, and the time after which it does.
const CANCELED: i32 = 50;
const PATIENCE: Duration = Duration::from_millis(1);

pub(super) async fn a_machine_destroyed_by_others_leaves(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 2).await?;
    let created = trial.create(&session, &group.id, 2).await?;
    let target = session.target(&group.id).await?;
    trial.act(Act::DestroyMachine(created[0].clone())).await?;
    let left = wait_for(NOTICED_IN, async || {
        session.refresh().await?;
        Ok((!session.live(&group.id).await?.contains(&created[0])).then_some(()))
    });
    let limit = NOTICED_IN.as_secs();
    left.await?.ok_or_else(|| {
        Verdict::fail(format!("{} is listed {limit} s after its machine is gone", created[0]))
    })?;
    let (now, live) = (session.target(&group.id).await?, session.live(&group.id).await?);
    ensure!(live.contains(&created[1]), "the other instance {} is gone, too", created[1]);
    let n = i32::try_from(live.len()).unwrap_or(i32::MAX);
    ensure!(
        now == n && (now == target || now == target - 1),
        "the size was {target}; now it is {now}, and {n} instances are listed"
    );
    for node in [real(&created[0]), unregistered(&created[0])] {
        let answer = session.group_of(node).await;
        ensure!(answer.is_ok(), "NodeGroupForNode fails for a vanished node: {:?}", answer.err());
    }
    Ok(())
}

pub(super) async fn an_outage_of_the_backend_is_shown(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_with_room(&session, 1).await?;
    trial.create(&session, &group.id, 1).await?;
    let before = sizes(&session).await?;
    trial.act(Act::StopBackend).await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let during = sizes(&session).await;
    let during = during.map_err(|it| Verdict::fail(format!("half a minute of outage: {it}")))?;
    ensure!(before == during, "half a minute of outage changed {before:?} to {during:?}");
    tokio::time::sleep(trial.subject.staleness + Duration::from_secs(60)).await;
    let is_shown = session.refresh().await.is_err();
    let limit = trial.subject.staleness.as_secs();
    ensure!(is_shown, "Refresh succeeds with a view that is older than {limit} s");
    if let Ok(groups) = session.groups().await {
        let (n, was) = (groups.len(), before.0.len());
        ensure!(n == was, "NodeGroups shows {n} of {was} groups during an outage");
    }
    trial.act(Act::StartBackend).await?;
    let recovers = wait_for(Duration::from_secs(180), async || {
        Ok(session.refresh().await.is_ok().then_some(()))
    });
    recovers.await?.ok_or_else(|| Verdict::fail("Refresh still fails 180 s after the outage"))?;
    let after = sizes(&session).await?;
    ensure!(before == after, "the outage changed {before:?} to {after:?}");
    Ok(())
}

/// Restarts the server. The connection of the session must break, else nothing was restarted.
async fn restart(trial: &Trial<'_>, session: &Session) -> Outcome {
    trial.act(Act::Restart).await?;
    match session.refresh().await {
        Err(err) if !err.is_answer => Ok(()),
        _ => Err(Verdict::inconclusive("an open connection survived the restart of the server")),
    }
}

pub(super) async fn a_restart_keeps_an_increase(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 4).await?;
    session.increase(&group.id, 2).await?;
    listed(&session, &group.id).await?;
    let before = session.live(&group.id).await?;
    restart(trial, &session).await?;
    for wait in [0, 120] {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        let session = trial.session().await?;
        let (now, live) = (session.target(&group.id).await?, session.live(&group.id).await?);
        let wanted = size + 2;
        ensure!(now == wanted, "the size is {now} after a restart, not {wanted}");
        ensure!(live == before, "the instances were {before:?}, and after a restart {live:?}");
    }
    Ok(())
}

pub(super) async fn a_restart_keeps_a_deletion(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 2).await?;
    let created = trial.create(&session, &group.id, 2).await?;
    session.delete(&group.id, [real(&created[0])]).await?;
    restart(trial, &session).await?;
    for wait in [0, 120] {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        let session = trial.session().await?;
        let now = session.target(&group.id).await?;
        let wanted = size + 1;
        ensure!(now == wanted, "the size is {now} after a restart, not {wanted}");
        let all = session.instances(&group.id).await?;
        let lives = |it: &Instance| it.id == created[0] && it.state() != Instance::DELETING;
        ensure!(!all.iter().any(lives), "{} lives again after a restart", created[0]);
        let is_kept = all.iter().any(|it| it.id == created[1]);
        ensure!(is_kept, "{} is gone after a restart", created[1]);
    }
    Ok(())
}

pub(super) async fn canceled_calls_are_whole(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, CANCELED).await?;
    let (mut n_canceled, mut patience) = (0, PATIENCE);
    for _ in 0..CANCELED {
        // Dropping the call resets its stream, as a client does that cancels.
        match tokio::time::timeout(patience, session.increase(&group.id, 1)).await {
            Ok(_) => patience /= 2,
            Err(_) => n_canceled += 1,
        }
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (now, live) = (session.target(&group.id).await?, session.live(&group.id).await?);
    let n = i32::try_from(live.len()).unwrap_or(i32::MAX);
    ensure!(now == n, "after canceled increases the size is {now}, and {n} instances are listed");
    let is_possible = (size..=size + CANCELED).contains(&now);
    ensure!(
        is_possible,
        "{CANCELED} canceled increases by 1 changed the size from {size} to {now}"
    );
    if n_canceled == 0 {
        return Err(Verdict::inconclusive("every call was answered before it could be canceled"));
    }
    Ok(())
}
