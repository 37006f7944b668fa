//! Checks the labels of zone and region. With vCenter, a provider takes both from tags that are on
//! a machine or above it at the same time. Our provider takes the nearest tags, and writes neither
//! label if these give no answer. With a Supervisor, the zone comes from the label of the machine's
//! object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sim::world::objects::{GroupResource, Key, Op};
use sim::world::vcenter::{Change, MoRef, VCenter, VcEvent};
use sim::world::{Event, REGION_CATEGORY, State, Time, ZONE_CATEGORY};

use super::authors::WriteTimes;
use crate::judge::Invariant::{self, *};
use crate::judge::Violation;
use crate::lab::Run;
use crate::lab::facts::{facts, machine_of};
use crate::scenario::virtual_machines;

/// Zone and region, each if the Node or place has one.
type Pair = (Option<String>, Option<String>);

/// True zone and region of a node's machine, from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Zone and region that the nearest tags give.
    told: NearestTags,
    /// Every zone, and every region, that a tag on the machine or above it names. Providers differ
    /// in which of them they take.
    above: [BTreeSet<String>; 2],
}

/// Zone and region that the nearest tags give, or the reason why they give none.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NearestTags {
    Pair(Pair),
    /// The nearest object with tags of one of the two categories has several of them.
    Ambiguous,
    Nothing,
}

/// Checks the provider's zone and region labels against tags and places of machines.
pub(in crate::judge) struct Judge {
    found: Vec<Violation>,
    is_vcenter: bool,
    /// True for our provider in virtual time, except in `v1`: it must take the nearest tags, and
    /// must not change the labels once the node is initialized.
    is_nearest: bool,
    /// Times of the provider's writes. Changes of labels by kubelets, people and others do not
    /// count.
    written_by: WriteTimes,
    /// Zone and region of each node's machine over time, in order, by node.
    truths: BTreeMap<String, Vec<Place>>,
    /// The pair that the provider wrote last for each node, and the number of entries that `truths`
    /// had for the node at that time.
    left: BTreeMap<String, (Pair, usize)>,
}

impl Judge {
    /// Creates the judge at the beginning of a run.
    pub(in crate::judge) fn new(run: &Run) -> Self {
        let mut judge = Self {
            found: Vec::new(),
            is_vcenter: run.backend().is_vcenter(),
            is_nearest: !run.hosted && !run.stage.mode.is_v1(),
            written_by: WriteTimes::in_run(run),
            truths: BTreeMap::new(),
            left: BTreeMap::new(),
        };
        if !run.scenario.provider.zones {
            for call in run.calls().filter(|call| call.op.starts_with("tagging.")) {
                let text = format!("the provider reads tags although zones are off: {call}");
                judge.found.push(Violation { invariant: NoTagsWhenOff, at: call.t, text });
            }
        }
        if let Some(base) = run.log.base() {
            judge.note_all(base);
        }
        judge
    }

    /// Returns all violations.
    pub(in crate::judge) fn violations(self) -> Vec<Violation> {
        self.found
    }

    /// Examines the next event of the log.
    pub(in crate::judge) fn see(&mut self, at: Time, event: &Event, before: &State, after: &State) {
        match event {
            Event::KubeletSet { node, .. } => self.note(after, node),
            Event::VCenter { event: VcEvent::Tag(_), .. } | Event::VCenterAdded { .. } => {
                self.note_all(after);
            }
            Event::VCenter { vcenter, event: VcEvent::Object { id, change } } => match change {
                Change::Placed { .. } | Change::Created(_) => {
                    let on = |it: &&String| {
                        let kubelet = &after.kubelets[*it];
                        kubelet.vcenter == *vcenter && kubelet.machine == *id
                    };
                    let nodes: Vec<String> = after.kubelets.keys().filter(on).cloned().collect();
                    nodes.iter().for_each(|node| self.note(after, node));
                }
                Change::Moved(_) => self.note_all(after),
                _ => {}
            },
            Event::Supervisor(event) if event.key.resource == virtual_machines() => {
                self.note(after, &event.key.name);
            }
            Event::Cluster(event)
                if event.key.resource == GroupResource::core("nodes")
                    && event.op == Op::Modified
                    && self.written_by.covers(&event.key.name, at) =>
            {
                let old = before.cluster.get(&event.key).map(|it| &**it);
                self.modified(at, &event.key.name, old, &event.object);
            }
            _ => {}
        }
    }

    fn note_all(&mut self, state: &State) {
        let nodes: Vec<String> = state.kubelets.keys().cloned().collect();
        nodes.iter().for_each(|node| self.note(state, node));
    }

    fn note(&mut self, state: &State, node: &str) {
        let truth = if self.is_vcenter { of_tags(state, node) } else { of_object(state, node) };
        let Some(truth) = truth else { return };
        let so_far = self.truths.entry(node.to_owned()).or_default();
        if so_far.last() != Some(&truth) {
            so_far.push(truth);
        }
    }

    fn modified(&mut self, at: Time, name: &str, old: Option<&Value>, new: &Value) {
        let Some(old) = old else { return };
        let (was, is) = (pair(old), pair(new));
        if was == is {
            return;
        }
        let truths = self.truths.get(name).map_or(&[][..], Vec::as_slice);
        let left = self.left.insert(name.to_owned(), (is.clone(), truths.len()));
        // The provider may restore its own pair after a change by others, and may copy the value of
        // the label with the old name.
        if left.as_ref().is_some_and(|(pair, _)| *pair == is) || is_taken_over(old, &was, &is) {
            return;
        }
        // The entry at the index `since` was true at the last write, so the true pair has changed
        // only if a later entry exists.
        let since = left.map_or(0, |(_, n)| n.saturating_sub(1));
        let is_elsewhere = truths.len() > since + 1;
        let mut broken = |invariant: Invariant, why: &str| {
            let text =
                format!("node {name}: zone and region changed from {was:?} to {is:?}: {why}");
            self.found.push(Violation { invariant, at, text });
        };
        let is_first = facts(old).uninitialized || was == (None, None);
        let is_gone = is == (None, None);
        let has_place = truths.last().is_some_and(|truth| truth.told != NearestTags::Nothing);
        if !is_first && self.is_nearest {
            broken(LabelsStay, "they must not change once the node is initialized");
        } else if !is_first && is_gone && has_place {
            broken(LabelsStay, "its machine still has a zone or region");
        } else if !is_first && !is_gone && !is_elsewhere {
            broken(LabelsStay, "those of its machine have not changed");
        }
        if is_gone || truths.is_empty() {
            return;
        }
        if truths.iter().any(|truth| truth.is_shown_by(&is, self.is_nearest)) {
            return;
        }
        let is_guess = |truth: &Place| truth.told == NearestTags::Ambiguous && truth.allows(&is);
        if truths.iter().any(is_guess) {
            broken(NoGuessOfZone, "the provider took one of two tags of a category");
        } else if is_first {
            broken(LabelsAgree, "its machine never had this zone and region");
        } else {
            broken(LabelsMoveTogether, "its machine never had this zone and region");
        }
    }
}

impl Place {
    /// True if each label is unset or has one of the values in `above`, whether a nearest tag names
    /// it or not.
    fn allows(&self, (zone, region): &Pair) -> bool {
        let is_above = |label: &Option<String>, above: &BTreeSet<String>| {
            label.as_ref().is_none_or(|label| above.contains(label))
        };
        is_above(zone, &self.above[0]) && is_above(region, &self.above[1])
    }

    fn is_shown_by(&self, shown: &Pair, is_nearest: bool) -> bool {
        match &self.told {
            NearestTags::Pair(pair) if pair == shown => true,
            NearestTags::Ambiguous => false,
            NearestTags::Pair(_) | NearestTags::Nothing => !is_nearest && self.allows(shown),
        }
    }
}

/// Returns the zone and region labels of a Node.
fn pair(node: &Value) -> Pair {
    let [zone, region, _] = facts(node).labels;
    (zone, region)
}

/// True if each label either is unchanged or has the value of its old form on the Node `old`:
/// `failure-domain.beta.kubernetes.io/zone` or `failure-domain.beta.kubernetes.io/region`. The last
/// two parameters are the labels before and after the change.
fn is_taken_over(old: &Value, (zone, region): &Pair, is: &Pair) -> bool {
    let twin = |name: &str| {
        let key = format!("failure-domain.beta.kubernetes.io/{name}");
        old["metadata"]["labels"][key].as_str().map(str::to_owned)
    };
    let is_own = |was: &Option<String>, is: &Option<String>, name| {
        was == is || (is.is_some() && *is == twin(name))
    };
    is_own(zone, &is.0, "zone") && is_own(region, &is.1, "region")
}

/// Returns the zone that the label on the node's VirtualMachine object gives, or `None` without
/// such an object.
fn of_object(state: &State, node: &str) -> Option<Place> {
    let key = Key::new(virtual_machines(), state.supervisor.namespace.clone(), node);
    let object = state.supervisor.objects.get(&key)?;
    let zone = object["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str();
    let zone = zone.filter(|it| !it.is_empty()).map(str::to_owned);
    let above = [zone.iter().cloned().collect(), BTreeSet::new()];
    let told = if zone.is_some() { NearestTags::Pair((zone, None)) } else { NearestTags::Nothing };
    Some(Place { told, above })
}

/// Returns the zone and region that the tags give for the machine of a node. Looks for tags on
/// three ways up the inventory, in this order: from the machine's host, from its resource pool, and
/// from the machine itself. Returns `None` if the machine does not exist.
fn of_tags(state: &State, node: &str) -> Option<Place> {
    let (name, id, machine) = machine_of(state, node)?;
    let vcenter = state.vcenter(name)?;
    let up = |from: MoRef| -> Vec<MoRef> {
        std::iter::once(from).chain(vcenter.inventory.ancestors(from)).collect()
    };
    let starts = [Some(machine.host), machine.pool, Some(id)];
    let ways: Vec<Vec<MoRef>> = starts.into_iter().flatten().map(up).collect();
    let above = [ZONE_CATEGORY, REGION_CATEGORY].map(|category| {
        ways.iter().flatten().flat_map(|object| tags(vcenter, *object, category)).collect()
    });
    let told =
        ways.iter().map(|way| on_way(vcenter, way)).find(|told| *told != NearestTags::Nothing);
    Some(Place { told: told.unwrap_or(NearestTags::Nothing), above })
}

/// Returns the nearest zone and the nearest region on one way up. Returns
/// [`NearestTags::Ambiguous`] if the object with either of them has several tags of the category,
/// else [`NearestTags::Nothing`] if one of them is missing.
fn on_way(vcenter: &VCenter, way: &[MoRef]) -> NearestTags {
    let nearest = |category: &str| {
        way.iter().map(|object| tags(vcenter, *object, category)).find(|it| !it.is_empty())
    };
    match (nearest(ZONE_CATEGORY), nearest(REGION_CATEGORY)) {
        (Some(zones), _) if zones.len() > 1 => NearestTags::Ambiguous,
        (_, Some(regions)) if regions.len() > 1 => NearestTags::Ambiguous,
        (Some(mut zones), Some(mut regions)) => NearestTags::Pair((zones.pop(), regions.pop())),
        _ => NearestTags::Nothing,
    }
}

/// Returns the names of the tags of a category on an object.
fn tags(vcenter: &VCenter, object: MoRef, category: &str) -> Vec<String> {
    let attached = vcenter.tags.attached(object).filter_map(|id| vcenter.tags.tags.get(id));
    let of_category = attached.filter(|tag| {
        vcenter.tags.categories.get(&tag.category).is_some_and(|it| it.name == category)
    });
    of_category.map(|tag| tag.name.clone()).collect()
}

#[cfg(test)]
mod tests;
