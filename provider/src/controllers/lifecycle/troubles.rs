//! Reports the nodes that the provider cannot manage ("troubles"): by event, by metric and by
//! `/readyz`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::plan::{JudgedNode, NodeState};
use crate::{
    cluster::{Events, NodeStore, Severity},
    instances::{Instances, Trouble, TroubleKind},
    model::{Lookup, NodeName},
    telemetry::Telemetry,
};

/// Maximum number of nodes per kind of trouble that have an event while they are in trouble. The
/// end of a node's trouble makes room for another node. More events would only repeat the trouble.
const MAX_EVENTS: usize = 10;

/// The present troubles for which the provider has recorded an event.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    recorded: BTreeSet<(TroubleKind, NodeName)>,
}

impl Troubles {
    /// Combines the troubles that the backend reports (`known`) with those of the latest
    /// judgements. Updates metrics and readiness. Records an event for each new trouble of a node
    /// in `store`, as long as fewer than [`MAX_EVENTS`] present troubles of its kind have an event.
    pub(super) fn report(
        &mut self,
        known: Vec<Trouble>,
        judged: &[JudgedNode],
        store: &NodeStore,
        events: &Events,
        telemetry: &Telemetry,
    ) {
        let mut troubles = by_node(judged);
        troubles.extend(known.into_iter().map(|it| ((it.kind, it.node), it.text)));
        let count = |kind| troubles.keys().filter(|(it, _)| *it == kind).count();
        let counts = TroubleKind::ALL.iter().map(|kind| (kind.label(), count(*kind)));
        telemetry.set_troubles(counts, readiness(&troubles));
        self.recorded.retain(|it| troubles.contains_key(it));
        for ((kind, name), text) in troubles {
            let n_told = self.recorded.iter().filter(|(it, _)| *it == kind).count();
            if n_told >= MAX_EVENTS || self.recorded.contains(&(kind, name.clone())) {
                continue;
            }
            let Some(node) = store.get(&name) else { continue };
            tracing::warn!(node = %name, reason = %text, "cannot manage the machine of a node; writing a Kubernetes event about the Node");
            events.record(&node, Severity::Warning, kind.reason(), text);
            self.recorded.insert((kind, name));
        }
    }
}

/// Waits for the first list of Nodes, then reports the troubles of the backend once per period,
/// forever; for a provider without the lifecycle controller.
pub(crate) async fn report_troubles(
    store: Arc<NodeStore>,
    instances: Arc<dyn Instances>,
    events: Events,
    telemetry: Arc<Telemetry>,
    period: Duration,
) {
    let mut troubles = Troubles::default();
    store.synced().await;
    loop {
        troubles.report(instances.troubles(), &[], &store, &events, &telemetry);
        tokio::time::sleep(period).await;
    }
}

/// Returns the troubles of nodes that are not ready, by kind and name of the node, from the reasons
/// for which the existence of their machines is unknown. Leaves out reasons without a
/// [`TroubleKind`].
fn by_node(judged: &[JudgedNode]) -> BTreeMap<(TroubleKind, NodeName), String> {
    let troubles = judged.iter().filter_map(|JudgedNode { node, judgement }| {
        let NodeState::NotReady { exists: Lookup::Unknown(why), .. } = judgement else {
            return None;
        };
        Some(((TroubleKind::of(why)?, node.name.clone()), why.to_string()))
    });
    troubles.collect()
}

/// Returns the result for `/readyz`: an error with the first trouble that fails readiness, in order
/// of kind and name of the node, and the number of further ones that fail it.
fn readiness(troubles: &BTreeMap<(TroubleKind, NodeName), String>) -> Result<(), String> {
    let mut failing = troubles.iter().filter(|((kind, _), _)| kind.fails_readiness());
    match failing.next() {
        None => Ok(()),
        Some(((_, node), text)) => match failing.count() {
            0 => Err(format!("node {node}: {text}")),
            n_more => Err(format!("node {node} and {n_more} more: {text}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_the_first_node_and_counts_the_others() {
        let mut troubles = BTreeMap::new();
        assert_eq!(readiness(&troubles), Ok(()));
        troubles.insert((TroubleKind::Unproven, "a".into()), "hidden".to_owned());
        assert_eq!(readiness(&troubles), Ok(()), "unproven does not fail readiness");
        troubles.insert((TroubleKind::NotDelivered, "b".into()), "late".to_owned());
        assert_eq!(readiness(&troubles), Err("node b: late".to_owned()));
        troubles.insert((TroubleKind::NotDelivered, "c".into()), "late".to_owned());
        assert_eq!(readiness(&troubles), Err("node b and 1 more: late".to_owned()));
    }
}
