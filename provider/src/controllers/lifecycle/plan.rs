//! Decisions of the lifecycle controller. Pure functions: they take Nodes and the lookups of their
//! machines, and return steps.
//!
//! The decisions include a guard against mass disappearance. If the machines of more than a tenth
//! of the nodes (and of more than one node) are gone or missing at once, wrong answers are more
//! likely than the loss of so many machines. So the plan holds the deletions until a second proof,
//! at least 30 s later, and then releases a tenth of the nodes (at least one) per round. While it
//! holds any node, it also holds the nodes whose machines are proved gone later.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::guard::{Guard, HOLD_DURATION};
use crate::{
    model::{Lookup, Node},
    mutant::{Active, mutant},
};

/// Age at which the provider may delete a node that it never matched to a machine; see
/// [`Ages`](super::ages::Ages).
pub(super) const MIN_AGE: Duration = Duration::from_secs(60);
/// Maximum age of a proof that the controller does not renew right before the deletion, and of the
/// last check before the deletion. A deletion that failed or had to wait needs a new proof, because
/// the machine may have been registered again meanwhile.
pub(super) const MAX_PROOF_AGE: Duration = Duration::from_secs(1);

/// A node, and the result of the controller's questions about its machine.
#[derive(Clone, Debug)]
pub(super) struct JudgedNode {
    pub node: Arc<Node>,
    pub judgement: NodeState,
}

/// Readiness of a node, and the lookups of its machine.
#[derive(Clone, Debug)]
pub(super) enum NodeState {
    /// The node is ready; the controller does not look up its machine.
    Ready,
    /// The node is not ready.
    NotReady {
        /// Lookup of the machine.
        exists: Lookup<()>,
        /// Lookup of the machine's power state, true if it is off; `None` unless the machine
        /// exists.
        shutdown: Option<Lookup<bool>>,
        age: Duration,
    },
}

/// One action on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Removes the shutdown taint, because the node is ready again.
    RemoveShutdownTaint(Arc<Node>),
    /// Sets the shutdown taint, because the machine is off.
    AddShutdownTaint(Arc<Node>),
    /// Deletes the Node, because its machine is gone.
    Delete { node: Arc<Node>, proved_at: Instant },
    /// Reports that the guard begins to hold the deletion of the node, because the machines of
    /// `n_gone` of `n_nodes` nodes are gone or missing at once.
    Hold { node: Arc<Node>, n_gone: usize, n_nodes: usize },
}

impl Step {
    /// The node of the step.
    pub(super) fn node(&self) -> &Arc<Node> {
        match self {
            Self::RemoveShutdownTaint(node)
            | Self::AddShutdownTaint(node)
            | Self::Delete { node, .. }
            | Self::Hold { node, .. } => node,
        }
    }

    /// True if the step deletes a Node.
    pub(super) fn deletes(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }
}

/// Maximum number of nodes that the controller deletes in one round: a tenth of `n_nodes`, rounded
/// down, and at least one.
fn limit(n_nodes: usize) -> usize {
    (n_nodes / 10).max(1)
}

/// Returns the steps about taints, and the nodes whose machines are gone, each with the time of the
/// proof. Leaves out nodes that are being deleted already, and nodes younger than [`MIN_AGE`] that
/// the provider never matched to a machine.
fn sort(
    nodes: &[JudgedNode],
    now: Instant,
    active: Active,
) -> (Vec<Step>, Vec<(&Arc<Node>, Instant)>) {
    let mut steps = Vec::new();
    let mut gone: Vec<(&Arc<Node>, Instant)> = Vec::new();
    for JudgedNode { node, judgement } in nodes {
        match judgement {
            NodeState::Ready if node.has_shutdown_taint() => {
                steps.push(Step::RemoveShutdownTaint(Arc::clone(node)));
            }
            NodeState::Ready => {}
            NodeState::NotReady { exists, shutdown, age } => match exists {
                // The Node is being deleted already; it ends when its finalizers are done.
                Lookup::Gone { .. } if node.deleting => {}
                Lookup::Gone { proved_at, matched } if *matched || *age >= MIN_AGE => {
                    gone.push((node, *proved_at));
                }
                // Unknown never deletes: a vCenter that does not answer does not prove that a
                // machine is missing.
                Lookup::Unknown(_) if mutant!(active, ErrorIsGone) => gone.push((node, now)),
                Lookup::Gone { .. } | Lookup::Unknown(_) => {}
                Lookup::Found(()) => {
                    let is_off = matches!(shutdown, Some(Lookup::Found(true)));
                    if is_off && !node.has_shutdown_taint() {
                        steps.push(Step::AddShutdownTaint(Arc::clone(node)));
                    }
                }
            },
        }
    }
    (steps, gone)
}

/// Returns the steps of one round, for all nodes together. Notes in `guard` which nodes it holds.
///
/// `n_missing` is the number of nodes, ready or not, whose machines the backend found before and
/// does not see now.
pub(super) fn plan(
    nodes: &[JudgedNode],
    n_missing: usize,
    guard: &mut Guard,
    now: Instant,
    active: Active,
) -> Vec<Step> {
    let (mut steps, gone) = sort(nodes, now, active);
    let n_nodes = nodes.len();
    let limit = limit(n_nodes);
    let is_mass = gone.len().max(n_missing) > limit && !mutant!(active, NoMassGuard);
    guard.retain(&gone);
    if !is_mass && guard.held.is_empty() {
        let delete = |(node, proved_at)| Step::Delete { node: Arc::clone(node), proved_at };
        let gone = gone.into_iter().filter(|(node, _)| guard.may_try(&node.uid, now));
        steps.extend(gone.map(delete));
        return steps;
    }
    let n_gone = gone.len().max(n_missing);
    let mut n_released = 0;
    for (node, proved_at) in gone {
        let Some(since) = guard.held.get(&node.uid) else {
            guard.held.insert(node.uid.clone(), proved_at);
            steps.push(Step::Hold { node: Arc::clone(node), n_gone, n_nodes });
            if mutant!(active, GuardSkipped) && n_released < limit {
                n_released += 1;
                steps.push(Step::Delete { node: Arc::clone(node), proved_at });
            }
            continue;
        };
        let is_due = proved_at >= *since + HOLD_DURATION && guard.may_try(&node.uid, now);
        if is_due && n_released < limit {
            n_released += 1;
            steps.push(Step::Delete { node: Arc::clone(node), proved_at });
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{controllers::SHUTDOWN_TAINT, model::Unknown};

    fn node(name: &str, is_off: bool) -> Arc<Node> {
        let taints = if is_off {
            json!([{"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        let value = json!({"metadata": {"name": name, "uid": name}, "spec": {"taints": taints}});
        Arc::new(Node::from_json(&value).unwrap())
    }

    fn not_ready(exists: Lookup<()>, shutdown: Option<Lookup<bool>>) -> NodeState {
        NodeState::NotReady { exists, shutdown, age: Duration::from_secs(3600) }
    }

    fn names(steps: &[Step]) -> Vec<String> {
        steps
            .iter()
            .map(|step| match step {
                Step::RemoveShutdownTaint(node) => format!("untaint {}", node.name),
                Step::AddShutdownTaint(node) => format!("taint {}", node.name),
                Step::Delete { node, .. } => format!("delete {}", node.name),
                Step::Hold { node, .. } => format!("hold {}", node.name),
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_lookups_of_a_node_decide_its_deletion_and_its_taint() {
        let now = Instant::now();
        let gone = |matched| Lookup::Gone { proved_at: now, matched };
        let unknown = || Lookup::Unknown(Unknown::NotSeen);
        let young = |matched| NodeState::NotReady {
            exists: gone(matched),
            shutdown: None,
            age: Duration::from_secs(59),
        };
        for (name, is_off, judgement, want) in [
            ("ready", false, NodeState::Ready, vec![]),
            ("ready again", true, NodeState::Ready, vec!["untaint n"]),
            ("gone", false, not_ready(gone(true), None), vec!["delete n"]),
            ("gone, off before", true, not_ready(gone(true), None), vec!["delete n"]),
            ("young and never matched", false, young(false), vec![]),
            ("young and matched", false, young(true), vec!["delete n"]),
            ("unknown", false, not_ready(unknown(), None), vec![]),
            ("on", false, not_ready(Lookup::Found(()), Some(Lookup::Found(false))), vec![]),
            (
                "on, node not ready yet",
                true,
                not_ready(Lookup::Found(()), Some(Lookup::Found(false))),
                vec![],
            ),
            (
                "off",
                false,
                not_ready(Lookup::Found(()), Some(Lookup::Found(true))),
                vec!["taint n"],
            ),
            ("still off", true, not_ready(Lookup::Found(()), Some(Lookup::Found(true))), vec![]),
            (
                "power unknown",
                false,
                not_ready(Lookup::Found(()), Some(Lookup::Unknown(Unknown::NotSeen))),
                vec![],
            ),
        ] {
            let judged = [JudgedNode { node: node("n", is_off), judgement }];
            let steps = plan(&judged, 0, &mut Guard::default(), now, Active::default());
            assert_eq!(names(&steps), want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_deletions_are_retried_less_and_less_often() {
        let period = Duration::from_secs(5);
        let mut guard = Guard::default();
        let start = Instant::now();
        let mut tried = Vec::new();
        for round in 0..60 {
            let now = start + round * period;
            let gone = not_ready(Lookup::Gone { proved_at: now, matched: true }, None);
            let judged = [JudgedNode { node: node("n", false), judgement: gone }];
            if !plan(&judged, 0, &mut guard, now, Active::default()).is_empty() {
                tried.push((now - start).as_secs());
                guard.refused(&"n".into(), now, period, Duration::ZERO);
            }
        }
        assert_eq!(tried, [0, 5, 10, 20, 40, 80, 140, 200, 260]);
        // After the machine has come back, the waits start at zero again.
        let there = not_ready(Lookup::Found(()), Some(Lookup::Found(false)));
        let judged = [JudgedNode { node: node("n", false), judgement: there }];
        plan(&judged, 0, &mut guard, start, Active::default());
        assert!(guard.may_try(&"n".into(), start));
    }

    #[cfg(feature = "mutants")]
    #[tokio::test(start_paused = true)]
    async fn a_guard_that_is_skipped_deletes_with_the_first_proof() {
        let now = Instant::now();
        let gone = || not_ready(Lookup::Gone { proved_at: now, matched: true }, None);
        let judged: Vec<JudgedNode> = ["a", "b", "c"]
            .map(|name| JudgedNode { node: node(name, false), judgement: gone() })
            .into();
        let steps = |mutant| {
            let steps = plan(&judged, 0, &mut Guard::default(), now, Active { mutant });
            names(&steps)
        };
        assert_eq!(steps(None), ["hold a", "hold b", "hold c"]);
        let skipped = steps(Some(crate::Mutant::GuardSkipped));
        assert_eq!(skipped, ["hold a", "delete a", "hold b", "hold c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn many_nodes_gone_at_once_are_held_and_released_slowly() {
        let mut guard = Guard::default();
        let judged = |n_gone: usize, n_nodes: usize, proved_at: Instant| -> Vec<JudgedNode> {
            (0..n_nodes)
                .map(|i| JudgedNode {
                    node: node(&format!("n{i:02}"), false),
                    judgement: if i < n_gone {
                        not_ready(Lookup::Gone { proved_at, matched: true }, None)
                    } else {
                        NodeState::Ready
                    },
                })
                .collect()
        };
        let first = Instant::now();
        let steps = plan(&judged(3, 20, first), 0, &mut guard, first, Active::default());
        assert_eq!(names(&steps), ["hold n00", "hold n01", "hold n02"]);
        // The first proof does not release the nodes, no matter how much time has passed.
        tokio::time::advance(HOLD_DURATION).await;
        let now = Instant::now();
        assert!(plan(&judged(3, 20, first), 0, &mut guard, now, Active::default()).is_empty());
        assert_eq!(guard.proof_after(&"n00".into(), now), now);
        // A second proof releases them, a tenth per round.
        let steps = plan(&judged(3, 20, now), 0, &mut guard, now, Active::default());
        assert_eq!(names(&steps), ["delete n00", "delete n01"]);
        // The guard no longer holds nodes whose machines have come back.
        plan(&judged(0, 20, now), 0, &mut guard, now, Active::default());
        assert_eq!(guard.n_held(), 0);
        // The plan deletes a single node, unless the backend misses many other machines.
        let steps = plan(&judged(1, 20, now), 0, &mut guard, now, Active::default());
        assert_eq!(names(&steps), ["delete n00"]);
        let steps = plan(&judged(1, 20, now), 9, &mut guard, now, Active::default());
        assert_eq!(names(&steps), ["hold n00"]);
    }
}
