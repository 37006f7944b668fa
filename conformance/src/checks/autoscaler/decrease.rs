//! CA-062 to CA-065: `NodeGroupDecreaseTargetSize`.

use std::time::Duration;

use super::trial::{ensure, group_to_lower, sizes, unregistered};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::Act;

pub(super) async fn by_nothing_is_refused(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_to_lower(trial, &session, 1).await?;
    trial.create(&session, &group.id, 1).await?;
    let before = sizes(&session).await?;
    for delta in [0, 1] {
        let is_refused = session.decrease(&group.id, delta).await.is_err();
        ensure!(is_refused, "a decrease by {delta} succeeded");
    }
    let after = sizes(&session).await?;
    ensure!(before == after, "refused decreases changed {before:?} to {after:?}");
    Ok(())
}

pub(super) async fn keeps_existing_machines(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_to_lower(trial, &session, 2).await?;
    trial.create(&session, &group.id, 2).await?;
    let before = sizes(&session).await?;
    let is_refused = session.decrease(&group.id, -1).await.is_err();
    ensure!(is_refused, "a decrease succeeded although every machine of {} exists", group.id);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = sizes(&session).await?;
    ensure!(before == after, "a refused decrease changed {before:?} to {after:?}");
    Ok(())
}

pub(super) async fn gives_up_what_has_not_begun(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = group_to_lower(trial, &session, 3).await?;
    trial.create(&session, &group.id, 1).await?;
    let before = sizes(&session).await?;
    trial.act(Act::HoldCreations).await?;
    session.increase(&group.id, 2).await?;
    session.decrease(&group.id, -2).await?;
    let after = sizes(&session).await?;
    ensure!(before == after, "an increase and a decrease by 2 changed {before:?} to {after:?}");
    trial.act(Act::Release).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let later = sizes(&session).await?;
    ensure!(before == later, "a minute after a decrease the groups are {later:?}");
    Ok(())
}

pub(super) async fn and_deletion_count_once(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_to_lower(trial, &session, 2).await?;
    trial.create(&session, &group.id, 1).await?;
    let before = session.live(&group.id).await?;
    trial.act(Act::HoldCreations).await?;
    session.increase(&group.id, 1).await?;
    let new = session.live(&group.id).await?.difference(&before).next().cloned();
    let new = new.ok_or_else(|| Verdict::inconclusive("the new instance is not listed"))?;
    session.decrease(&group.id, -1).await?;
    session.delete(&group.id, [unregistered(&new)]).await?;
    let now = session.target(&group.id).await?;
    ensure!(
        now == size + 1,
        "a decrease and the deletion of the same instance left the size {now}, not {}",
        size + 1
    );
    let live = session.live(&group.id).await?;
    ensure!(live == before, "the instances are {live:?}, not {before:?}");
    Ok(())
}
