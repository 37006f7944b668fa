//! CA-070: random operations, compared with a model of sizes and instances after each.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::seq::IteratorRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::trial::{GroupSize, Sizes, ensure, group_with_room, listed, sizes, unregistered};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Answer, NodeGroup, Session};

const OPERATIONS: u32 = 200;
/// Number of instances by which the history raises a group at most.
const MOST: i32 = 6;
const SEED: u64 = 70;

/// One operation of a history.
#[derive(Clone, Debug)]
enum Operation {
    Increase(i32),
    Decrease(i32),
    /// IDs of the instances.
    Delete(Vec<String>),
    Refresh,
    Cleanup,
    /// Waits for so many seconds.
    Wait(u64),
}

/// The group as the server must show it.
struct Model {
    group: NodeGroup,
    target: i32,
    /// Largest size to which the history raises the group.
    most: i32,
    /// True if decreases may be drawn.
    lowers: bool,
    live: BTreeSet<String>,
    /// Instances that were there before, which the history does not delete.
    spared: BTreeSet<String>,
    /// IDs of instances whose deletion was accepted.
    deleted: BTreeSet<String>,
}

pub(super) async fn random_operations_keep_the_invariants(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, target) = group_with_room(&session, MOST).await?;
    let live = session.live(&group.id).await?;
    let spared = live.clone();
    // A server that deletes machines in a decrease may choose one that was there before.
    let lowers = spared.is_empty() || trial.subject.may_delete_existing;
    let most = target + MOST;
    let deleted = BTreeSet::new();
    let mut model = Model { group, target, most, lowers, live, spared, deleted };
    let (mut n_increases, mut n_deletions) = (0, 0);
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let others = others(&sizes(&session).await?, &model.group.id);
    let mut before = own(&session, &model.group.id).await?;
    for n in 0..OPERATIONS {
        let operation = model.draw(&mut random);
        let answer = model.carry_out(&session, &operation).await;
        listed(&session, &model.group.id).await?;
        let after = own(&session, &model.group.id).await?;
        model
            .judge(&operation, &answer, &before, &after)
            .map_err(|text| Verdict::fail(format!("operation {n}, {operation:?}: {text}")))?;
        if answer.is_ok() {
            n_increases += u32::from(after.target > before.target);
            n_deletions += u32::from(after.target < before.target);
        }
        before = after;
        if n % 10 == 0 {
            let all = sizes(&session).await?;
            let now = all.0.get(&model.group.id);
            ensure!(now == Some(&before), "operation {n}: two reads show {before:?} and {now:?}");
            let now = self::others(&all, &model.group.id);
            ensure!(now == others, "operation {n}: other groups were {others:?} and are {now:?}");
        }
    }
    if n_increases == 0 || n_deletions == 0 {
        return Err(Verdict::inconclusive(format!(
            "{n_increases} operations raised the size and {n_deletions} lowered it; both are needed"
        )));
    }
    Ok(())
}

/// Reads size and instances of the group of the history.
async fn own(session: &Session, group: &str) -> Result<GroupSize, Verdict> {
    Ok(GroupSize { target: session.target(group).await?, live: session.live(group).await? })
}

/// Returns sizes and instances of all groups but this one.
fn others(all: &Sizes, group: &str) -> Sizes {
    let mut all = all.clone();
    all.0.remove(group);
    all
}

impl Model {
    fn draw(&self, random: &mut ChaCha8Rng) -> Operation {
        let some = |random: &mut ChaCha8Rng, n: usize| {
            let all = self.live.difference(&self.spared).chain(&self.deleted).cloned();
            all.sample(random, n)
        };
        match random.random_range(0..10) {
            0..3 => Operation::Increase(random.random_range(-1..=3)),
            3 => Operation::Increase(i32::MAX),
            4 if self.lowers => Operation::Decrease(random.random_range(-3..=1)),
            4 => Operation::Refresh,
            5..8 => {
                let n = random.random_range(1..=2);
                let mut ids = some(random, n);
                if random.random_bool(0.2) {
                    ids.push("vsphere://00000000-0000-4000-8000-000000000003".to_owned());
                }
                Operation::Delete(ids)
            }
            8 => Operation::Wait(random.random_range(1..=30)),
            _ if random.random_bool(0.5) => Operation::Refresh,
            _ => Operation::Cleanup,
        }
    }

    async fn carry_out(&self, session: &Session, operation: &Operation) -> Answer<()> {
        let id = &self.group.id;
        match operation {
            // Keeps the group small.
            Operation::Increase(delta) if *delta != i32::MAX && self.target + delta > self.most => {
                session.refresh().await
            }
            Operation::Increase(delta) => session.increase(id, *delta).await,
            Operation::Decrease(delta) => session.decrease(id, *delta).await,
            Operation::Delete(ids) => {
                session.delete(id, ids.iter().map(|it| unregistered(it))).await
            }
            Operation::Refresh => session.refresh().await,
            Operation::Cleanup => session.cleanup().await,
            Operation::Wait(seconds) => {
                tokio::time::sleep(Duration::from_secs(*seconds)).await;
                Ok(())
            }
        }
    }

    /// Compares sizes and instances after an operation with what its answer promises, and follows
    /// it.
    fn judge(
        &mut self,
        operation: &Operation,
        answer: &Answer<()>,
        before: &GroupSize,
        now: &GroupSize,
    ) -> Result<(), String> {
        let is_ok = answer.is_ok();
        let must_fail = self.must_fail(operation);
        if is_ok && must_fail {
            return Err("it must fail, and succeeded".to_owned());
        }
        if !is_ok && !must_fail && !matches!(operation, Operation::Decrease(_)) {
            return Err(format!("it must succeed, and failed: {answer:?}"));
        }
        if !is_ok && before != now {
            return Err(format!("it failed, and changed {before:?} to {now:?}"));
        }
        if is_ok {
            self.follow(operation, &now.live)?;
        }
        if now.target != self.target {
            return Err(format!("the size is {}, not {}", now.target, self.target));
        }
        if now.live != self.live {
            return Err(format!("the instances are {:?}, not {:?}", now.live, self.live));
        }
        let n = i32::try_from(now.live.len()).unwrap_or(i32::MAX);
        if n != now.target {
            return Err(format!("the size is {}, and {n} instances are listed", now.target));
        }
        Ok(())
    }

    /// True if the operation must be refused. A decrease may be refused in any case, because the
    /// history does not know which machines exist.
    fn must_fail(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Increase(i32::MAX) => true,
            Operation::Increase(delta) if self.target + delta > self.most => false,
            Operation::Increase(delta) => *delta <= 0,
            Operation::Decrease(delta) => *delta >= 0 || self.target + delta < 0,
            Operation::Delete(ids) => {
                let is_known = |id: &String| self.live.contains(id) || self.deleted.contains(id);
                let n = ids.iter().filter(|id| self.live.contains(*id)).count();
                let left = self.target - i32::try_from(n).unwrap_or(i32::MAX);
                !ids.iter().all(is_known) || (n > 0 && left < self.group.min_size)
            }
            Operation::Refresh | Operation::Cleanup | Operation::Wait(_) => false,
        }
    }

    /// Takes over what a successful operation did.
    fn follow(&mut self, operation: &Operation, live: &BTreeSet<String>) -> Result<(), String> {
        match operation {
            Operation::Increase(delta) if self.target + delta <= self.most => {
                self.target += delta;
                if !live.is_superset(&self.live) {
                    return Err("an instance is gone after an increase".to_owned());
                }
                self.live.clone_from(live);
            }
            Operation::Decrease(delta) => {
                self.target += delta;
                if !live.is_subset(&self.live) {
                    return Err("an instance is new after a decrease".to_owned());
                }
                self.deleted.extend(self.live.difference(live).cloned());
                self.live.clone_from(live);
            }
            Operation::Delete(ids) => {
                let gone: BTreeSet<String> =
                    ids.iter().filter(|id| self.live.contains(*id)).cloned().collect();
                self.target -= i32::try_from(gone.len()).unwrap_or(i32::MAX);
                self.live.retain(|it| !gone.contains(it));
                self.deleted.extend(gone);
            }
            _ => {}
        }
        Ok(())
    }
}
