//! CA-074 to CA-076: a small model of the autoscaler. It calls what the autoscaler calls in a loop, in
//! that order, and decides as the autoscaler does about one group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::listing::template;
use super::options::defaults;
use super::trial::{BOOTS_IN, ensure, group_to_lower, group_with_room, real, sizes, unregistered};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Act, Instance, SentNode, Session};

/// Pause between two loops of the autoscaler.
const SCAN: Duration = Duration::from_secs(10);
/// Time within which a machine must become a Node, in this model.
const PROVISION: Duration = Duration::from_secs(30);

/// The autoscaler with one pending Pod, and the Nodes of the cluster.
struct Autoscaler<'a> {
    session: &'a Session,
    /// The group that fits the Pod.
    group: String,
    /// True if kubelets register Nodes for the instances that run.
    registers: bool,
    /// True if the autoscaler lowers the size when a scale-up takes too long.
    reverts: bool,
    is_pod_pending: bool,
    /// Provider IDs of the Nodes.
    nodes: BTreeSet<String>,
    /// Time since when an instance without Node is known.
    unregistered: BTreeMap<String, Instant>,
    /// Time of the scale-up that is under way.
    scale_up: Option<Instant>,
    is_backed_off: bool,
    n_increases: u32,
    n_removed: usize,
    n_reverted: u32,
}

impl<'a> Autoscaler<'a> {
    fn new(session: &'a Session, group: &str, nodes: BTreeSet<String>) -> Self {
        Self {
            session,
            group: group.to_owned(),
            registers: true,
            reverts: false,
            is_pod_pending: true,
            nodes,
            unregistered: BTreeMap::new(),
            scale_up: None,
            is_backed_off: false,
            n_increases: 0,
            n_removed: 0,
            n_reverted: 0,
        }
    }

    /// One loop: the steps of `StaticAutoscaler.RunOnce` in order.
    async fn turn(&mut self) -> Outcome {
        self.session.gpu_label().await?;
        self.session.refresh().await?;
        let groups = self.session.groups().await?;
        for id in self.nodes.clone() {
            self.session.group_of(real(&id)).await?;
        }
        let mut has_template = BTreeSet::new();
        for group in &groups {
            if template(self.session, &group.id).await?.is_some() {
                has_template.insert(group.id.clone());
            }
        }
        let mut sizes = BTreeMap::new();
        for group in &groups {
            sizes.insert(group.id.clone(), self.session.target(&group.id).await?);
        }
        let instances = self.session.instances(&self.group).await?;
        self.see(&instances).await?;
        if self.remove_unregistered().await? {
            return Ok(());
        }
        let size = sizes.get(&self.group).copied();
        let size = size.ok_or_else(|| Verdict::fail(format!("{} is not listed", self.group)))?;
        let registered = self.registered(&instances);
        let upcoming = size - i32::try_from(registered).unwrap_or(i32::MAX);
        if self.is_pod_pending && upcoming <= 0 && !self.is_backed_off {
            let id = &self.group;
            let is_known = has_template.contains(id);
            ensure!(is_known, "group {id} has no template, so that no Pod makes it grow");
            self.session.options(id, defaults(self.session.generation(), 1)).await?;
            self.session.increase(id, 1).await?;
            self.n_increases += 1;
            self.scale_up = Some(Instant::now());
        }
        Ok(())
    }

    /// Returns the number of instances with a Node.
    fn registered(&self, instances: &[Instance]) -> usize {
        instances.iter().filter(|it| self.nodes.contains(&it.id)).count()
    }

    /// Follows the list of instances: kubelets register, and the Pod gets a new Node.
    async fn see(&mut self, instances: &[Instance]) -> Outcome {
        for instance in instances {
            if self.nodes.contains(&instance.id) || instance.state() == Instance::DELETING {
                self.unregistered.remove(&instance.id);
                continue;
            }
            if self.registers && instance.state() == Instance::RUNNING {
                self.nodes.insert(instance.id.clone());
                self.unregistered.remove(&instance.id);
                self.is_pod_pending = false;
                self.scale_up = None;
                continue;
            }
            self.unregistered.entry(instance.id.clone()).or_insert_with(Instant::now);
            let owner = self.session.group_of(unregistered(&instance.id)).await?;
            let owner = owner.map(|it| it.id).unwrap_or_default();
            ensure!(
                owner == self.group,
                "the autoscaler never removes {}, because its group is {owner:?}",
                instance.id
            );
        }
        let listed = |id: &String| instances.iter().any(|it| it.id == *id);
        self.unregistered.retain(|id, _| listed(id));
        Ok(())
    }

    /// Reverts a scale-up that took too long, and removes what did not register in time. Returns
    /// true if it removed something, which ends the loop.
    async fn remove_unregistered(&mut self) -> Result<bool, Verdict> {
        let is_late = self.scale_up.is_some_and(|it| it.elapsed() > PROVISION);
        if is_late {
            self.scale_up = None;
            self.is_backed_off = true;
            if self.reverts {
                // The autoscaler only logs a refusal.
                let answer = self.session.decrease(&self.group, -1).await;
                self.n_reverted += u32::from(answer.is_ok());
            }
        }
        // The autoscaler reverts the scale-up and removes its instance in the same loop.
        let is_old = |it: &Instant| it.elapsed() > PROVISION || (is_late && self.reverts);
        let old: Vec<SentNode> = self
            .unregistered
            .iter()
            .filter(|(_, since)| is_old(since))
            .map(|(id, _)| unregistered(id))
            .collect();
        if old.is_empty() {
            return Ok(false);
        }
        self.session.target(&self.group).await?;
        self.n_removed += old.len();
        self.session.delete(&self.group, old).await?;
        Ok(true)
    }

    async fn turns(&mut self, n: u32) -> Outcome {
        for _ in 0..n {
            self.turn().await?;
            tokio::time::sleep(SCAN).await;
        }
        Ok(())
    }
}

pub(super) async fn one_pod_adds_one_node(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let (group, size) = group_with_room(&session, 2).await?;
    let nodes = session.live(&group.id).await?;
    let mut autoscaler = Autoscaler::new(&session, &group.id, nodes);
    let end = Instant::now() + BOOTS_IN;
    autoscaler.turns(20).await?;
    while autoscaler.is_pod_pending && Instant::now() < end {
        autoscaler.turns(1).await?;
    }
    let n = autoscaler.n_increases;
    ensure!(n == 1, "one pending Pod led to {n} increases");
    let now = session.target(&group.id).await?;
    ensure!(now == size + 1, "the size of {} was {size}, and is {now}", group.id);
    if autoscaler.is_pod_pending {
        let limit = BOOTS_IN.as_secs();
        return Err(Verdict::inconclusive(format!("no new instance ran within {limit} s")));
    }
    Ok(())
}

/// Lets an instance never register, and requires that the group is as before in the end.
async fn never_registers(trial: &Trial<'_>, reverts: bool) -> Outcome {
    let session = trial.session().await?;
    let (group, _) = match reverts {
        true => group_to_lower(trial, &session, 2).await?,
        false => group_with_room(&session, 2).await?,
    };
    let nodes = session.live(&group.id).await?;
    let before = sizes(&session).await?;
    if reverts {
        trial.act(Act::HoldCreations).await?;
    }
    let mut autoscaler = Autoscaler::new(&session, &group.id, nodes);
    (autoscaler.registers, autoscaler.reverts) = (false, reverts);
    autoscaler.turns(20).await?;
    let (n_increases, n_removed) = (autoscaler.n_increases, autoscaler.n_removed);
    ensure!(n_increases == 1, "one pending Pod led to {n_increases} increases");
    ensure!(n_removed == 1 || reverts, "the model removed {n_removed} instances");
    let after = sizes(&session).await?;
    ensure!(before == after, "the groups were {before:?} and are {after:?}");
    if reverts && autoscaler.n_reverted == 0 {
        return Err(Verdict::inconclusive("the server refused to revert the scale-up"));
    }
    Ok(())
}

pub(super) async fn a_node_that_never_registers_is_removed(trial: &Trial<'_>) -> Outcome {
    never_registers(trial, false).await
}

pub(super) async fn reverted_scale_up_counts_once(trial: &Trial<'_>) -> Outcome {
    never_registers(trial, true).await
}
