//! Reports nodes whose machines cannot be looked after: by event, by metric and by `/readyz`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::plan::{Judged, Judgement};
use crate::{
    cluster::{Events, NodeStore, Severity},
    instances::{Instances, Trouble, TroubleKind},
    model::Lookup,
    telemetry::Telemetry,
};

/// Maximum number of nodes with an event per kind of trouble; more events would only repeat it.
const MAX_EVENTS: usize = 10;

/// Remembers the recorded events.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    told: BTreeSet<(TroubleKind, String)>,
}

impl Troubles {
    /// Combines the troubles of the backend with the latest judgements, and records events about new ones.
    pub(super) fn show(
        &mut self,
        known: Vec<Trouble>,
        judged: &[Judged],
        store: &NodeStore,
        events: &Events,
        telemetry: &Telemetry,
    ) {
        let mut troubles = by_node(judged);
        troubles.extend(known.into_iter().map(|it| ((it.kind, it.node), it.text)));
        let count = |kind| troubles.keys().filter(|(it, _)| *it == kind).count();
        let counts = TroubleKind::ALL.iter().map(|kind| (kind.label(), count(*kind)));
        telemetry.set_troubles(counts, readiness(&troubles));
        self.told.retain(|it| troubles.contains_key(it));
        for ((kind, name), text) in troubles {
            let n_told = self.told.iter().filter(|(it, _)| *it == kind).count();
            if n_told >= MAX_EVENTS || self.told.contains(&(kind, name.clone())) {
                continue;
            }
            let Some(node) = store.get(&name) else { continue };
            tracing::warn!(node = %name, reason = %text, "cannot manage the machine of a node");
            events.record(&node, Severity::Warning, kind.reason(), text);
            self.told.insert((kind, name));
        }
    }
}

/// Reports the troubles of the backend once per period, for a provider without the lifecycle controller. Never ends.
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
        troubles.show(instances.troubles(), &[], &store, &events, &telemetry);
        tokio::time::sleep(period).await;
    }
}

/// Troubles of nodes that are not ready, from the reasons why their machines are unknown.
fn by_node(judged: &[Judged]) -> BTreeMap<(TroubleKind, String), String> {
    let troubles = judged.iter().filter_map(|Judged { node, judgement }| {
        let Judgement::NotReady { exists: Lookup::Unknown(why), .. } = judgement else {
            return None;
        };
        Some(((TroubleKind::of(why)?, node.name.clone()), why.to_string()))
    });
    troubles.collect()
}

/// Result for `/readyz`: the first trouble that makes it fail, and the number of further ones.
fn readiness(troubles: &BTreeMap<(TroubleKind, String), String>) -> Result<(), String> {
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
        troubles.insert((TroubleKind::Unproven, "a".to_owned()), "hidden".to_owned());
        assert_eq!(readiness(&troubles), Ok(()), "a person is asked, and nothing is broken");
        troubles.insert((TroubleKind::NotDelivered, "b".to_owned()), "late".to_owned());
        assert_eq!(readiness(&troubles), Err("node b: late".to_owned()));
        troubles.insert((TroubleKind::NotDelivered, "c".to_owned()), "late".to_owned());
        assert_eq!(readiness(&troubles), Err("node b and 1 more: late".to_owned()));
    }
}
