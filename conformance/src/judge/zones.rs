//! Zone and region: both labels come from one read of the tags above a machine, and neither if the tags give no
//! answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sim::world::objects::{GroupResource, Key, Op};
use sim::world::vcenter::{Change, MoRef, VCenter, VcEvent};
use sim::world::{Event, REGION_CATEGORY, State, Time, ZONE_CATEGORY};

use super::Invariant::{self, *};
use super::Violation;
use super::authors::Written;
use super::facts::{facts, machine_of};
use crate::backend::virtual_machines;
use crate::lab::Run;

/// Zone and region.
type Pair = (Option<String>, Option<String>);

/// Place of a node's machine from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Truth {
    /// Result of the nearest tags.
    told: Told,
    /// Every zone, and every region, above the machine. Providers differ in which of them counts.
    above: [BTreeSet<String>; 2],
}

/// Result of the nearest tags.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Pair(Pair),
    /// The deciding object has two tags of one category.
    Ambiguous,
    Nothing,
}

/// Checks tags, places and labels.
pub(super) struct Judge {
    found: Vec<Violation>,
    is_vcenter: bool,
    /// True if the provider uses the nearest tag, as ours does.
    is_nearest: bool,
    /// The provider's own writes: kubelets, people and others write labels, too.
    written_by: Written,
    /// Every truth in order, by node.
    truths: BTreeMap<String, Vec<Truth>>,
    /// The pair that the provider wrote last for each node, and the number of truths at that time.
    left: BTreeMap<String, (Pair, usize)>,
}

impl Judge {
    /// Creates the judge at the beginning of a run.
    pub(super) fn of(run: &Run) -> Self {
        let mut judge = Self {
            found: Vec::new(),
            is_vcenter: run.backend().is_vcenter(),
            is_nearest: !run.hosted && !run.stage.mode.is_v1(),
            written_by: Written::by(run),
            truths: BTreeMap::new(),
            left: BTreeMap::new(),
        };
        if !run.scenario.provider.zones {
            for call in run.calls().filter(|call| call.op.starts_with("tagging.")) {
                let text = format!("tags are read though zones are switched off: {call}");
                judge.found.push(Violation { invariant: NoTagsWhenOff, at: call.t, text });
            }
        }
        if let Some(base) = run.log.base() {
            judge.note_all(base);
        }
        judge
    }

    /// Returns all violations.
    pub(super) fn violations(self) -> Vec<Violation> {
        self.found
    }

    /// Takes in the next event.
    pub(super) fn see(&mut self, at: Time, event: &Event, before: &State, after: &State) {
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
        // The provider may restore its own pair after a change by others, and may copy a label of the old name.
        if left.as_ref().is_some_and(|(pair, _)| *pair == is) || is_taken_over(old, &was, &is) {
            return;
        }
        // The truth of the last write may still be in force, so the search begins with it.
        let since = left.map_or(0, |(_, n)| n.saturating_sub(1));
        let is_elsewhere = truths.len() > since + 1;
        let mut broken = |invariant: Invariant, why: &str| {
            let text = format!("node {name}: zone and region went from {was:?} to {is:?}: {why}");
            self.found.push(Violation { invariant, at, text });
        };
        let is_first = facts(old).uninitialized || was == (None, None);
        let is_gone = is == (None, None);
        let has_place = truths.last().is_some_and(|truth| truth.told != Told::Nothing);
        if !is_first && self.is_nearest {
            broken(LabelsStay, "they stay once the node is initialized");
        } else if !is_first && is_gone && has_place {
            broken(LabelsStay, "its machine has a place");
        } else if !is_first && !is_gone && !is_elsewhere {
            broken(LabelsStay, "its machine is where it was");
        }
        if is_gone || truths.is_empty() {
            return;
        }
        if truths.iter().any(|truth| truth.is_shown_by(&is, self.is_nearest)) {
            return;
        }
        let is_guess = |truth: &Truth| truth.told == Told::Ambiguous && truth.allows(&is);
        if truths.iter().any(is_guess) {
            broken(NoGuessOfZone, "one of two tags was taken");
        } else if is_first {
            broken(LabelsAgree, "at no time was its machine there");
        } else {
            broken(LabelsMoveTogether, "at no time was its machine there");
        }
    }
}

impl Truth {
    /// True if both labels occur above the machine, nearest or not.
    fn allows(&self, (zone, region): &Pair) -> bool {
        let is_above = |label: &Option<String>, above: &BTreeSet<String>| {
            label.as_ref().is_none_or(|label| above.contains(label))
        };
        is_above(zone, &self.above[0]) && is_above(region, &self.above[1])
    }

    fn is_shown_by(&self, shown: &Pair, is_nearest: bool) -> bool {
        match &self.told {
            Told::Pair(pair) if pair == shown => true,
            Told::Ambiguous => false,
            Told::Pair(_) | Told::Nothing => !is_nearest && self.allows(shown),
        }
    }
}

/// Returns the zone and region labels of a Node.
fn pair(node: &Value) -> Pair {
    let [zone, region, _] = facts(node).labels;
    (zone, region)
}

/// True if each changed label takes the value of its twin with the old name.
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

/// Reads the zone from the machine's object in a Supervisor.
fn of_object(state: &State, node: &str) -> Option<Truth> {
    let key = Key::new(virtual_machines(), state.supervisor.namespace.clone(), node);
    let object = state.supervisor.objects.get(&key)?;
    let zone = object["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str();
    let zone = zone.filter(|it| !it.is_empty()).map(str::to_owned);
    let above = [zone.iter().cloned().collect(), BTreeSet::new()];
    let told = if zone.is_some() { Told::Pair((zone, None)) } else { Told::Nothing };
    Some(Truth { told, above })
}

/// Reads the tags on the three ways up from a machine: from its host, from its pool, and from the machine itself.
fn of_tags(state: &State, node: &str) -> Option<Truth> {
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
    let told = ways.iter().map(|way| on_way(vcenter, way)).find(|told| *told != Told::Nothing);
    Some(Truth { told: told.unwrap_or(Told::Nothing), above })
}

/// Finds the nearest zone and the nearest region on one way up.
fn on_way(vcenter: &VCenter, way: &[MoRef]) -> Told {
    let nearest = |category: &str| {
        way.iter().map(|object| tags(vcenter, *object, category)).find(|it| !it.is_empty())
    };
    match (nearest(ZONE_CATEGORY), nearest(REGION_CATEGORY)) {
        (Some(zones), _) if zones.len() > 1 => Told::Ambiguous,
        (_, Some(regions)) if regions.len() > 1 => Told::Ambiguous,
        (Some(mut zones), Some(mut regions)) => Told::Pair((zones.pop(), regions.pop())),
        _ => Told::Nothing,
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
