//! The invariants P1 to P15, as comparisons of what was read before and after an event.

use std::collections::{BTreeMap, BTreeSet};

use conformance::lab::autoscaler::{CallError, Instance};

use super::draw::Change;

pub(super) type Ids = BTreeSet<String>;

/// A group at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) target: i32,
    /// Instances that are not being deleted, and whether their creation failed.
    pub(super) live: BTreeMap<String, bool>,
    pub(super) deleting: Ids,
    /// Instances that the server says run.
    pub(super) running: Ids,
    /// Instances whose machine exists in vCenter, read from the simulated world.
    pub(super) materialized: Ids,
}

impl Seen {
    pub(super) fn new(target: i32, instances: &[Instance], materialized: &Ids) -> Self {
        let mut seen = Self { target, ..Self::default() };
        for it in instances {
            if it.state() == Instance::DELETING {
                seen.deleting.insert(it.id.clone());
            } else {
                seen.live.insert(it.id.clone(), it.error().is_some());
            }
            if it.state() == Instance::RUNNING {
                seen.running.insert(it.id.clone());
            }
            if materialized.contains(&it.id) {
                seen.materialized.insert(it.id.clone());
            }
        }
        seen
    }

    pub(super) fn ids(&self) -> Ids {
        self.live.keys().cloned().collect()
    }
}

/// How a change ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The server answered with this code.
    Failed(i32),
    /// The caller has no answer, so that the change may have taken effect, or a part of it.
    Unknown,
}

impl Outcome {
    pub(super) fn of(answer: &Result<(), CallError>) -> Self {
        match answer {
            Ok(()) => Self::Done,
            Err(err) if err.is_answer => Self::Failed(err.code),
            Err(_) => Self::Unknown,
        }
    }
}

/// A change of a group as it was sent, with its outcome.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) change: Change,
    /// IDs of the instances of the group that a deletion names, once each.
    pub(super) named: Ids,
    pub(super) outcome: Outcome,
    /// True if nothing disturbed the server during the change.
    pub(super) is_calm: bool,
}

/// Smallest and largest size of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) min: i32,
    pub(super) max: i32,
    /// True if the platform may be making the machine of an instance without one, so that the server
    /// may refuse a decrease that would give it up.
    pub(super) may_have_started: bool,
}

const INVALID_ARGUMENT: i32 = 3;
const FAILED_PRECONDITION: i32 = 9;

macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

fn n(len: usize) -> i32 {
    i32::try_from(len).unwrap()
}

/// Effects that the changes of an event may have together.
#[derive(Debug, Default)]
struct Effects {
    /// Fewest and most new instances.
    new: (i32, i32),
    /// Instances that must be gone, and those that may be gone.
    gone: Ids,
    maybe_gone: Ids,
    /// Most instances that decreases gave up.
    given_up: i32,
}

/// Number of instances that replace failed ones, which keep the group at its minimum.
fn replaced(before: &Seen, bounds: Bounds, named: &Ids, failed: &Ids) -> i32 {
    let live = named.iter().filter(|it| before.live.contains_key(*it)).count();
    let left = before.target - n(live);
    n(failed.len()).min((bounds.min - left).max(0))
}

impl Sent {
    /// Returns the named instances whose deletion counts as that of a failed creation. With
    /// `for_certain`, leaves out those without machine whose machine the platform may be making.
    fn failed(&self, before: &Seen, for_certain: bool) -> Ids {
        let Change::Delete { says_failed, .. } = &self.change else { return Ids::new() };
        let is_failed = |id: &&String| {
            let says = *says_failed && !for_certain && !before.materialized.contains(*id);
            before.live.get(*id).is_some_and(|has_failed| *has_failed || says)
        };
        self.named.iter().filter(is_failed).cloned().collect()
    }

    /// True if a deletion leaves fewer instances than the minimum, without those that failed.
    fn is_below_min(&self, before: &Seen, bounds: Bounds, failed: &Ids) -> bool {
        let is_usual = |id: &&String| before.live.contains_key(*id) && !failed.contains(*id);
        let usual = n(self.named.iter().filter(is_usual).count());
        usual > 0 && before.target - usual < bounds.min
    }

    /// Says why the server must refuse the change; `None` if it must carry it out.
    fn refusal(&self, before: &Seen, bounds: Bounds) -> Option<(&'static str, Option<i32>)> {
        match &self.change {
            Change::Increase(by) if *by <= 0 => Some(("P3", Some(INVALID_ARGUMENT))),
            Change::Increase(by) if before.target.saturating_add(*by) > bounds.max => {
                Some(("P4", Some(FAILED_PRECONDITION)))
            }
            Change::Increase(_) => None,
            Change::Decrease(by) if *by >= 0 => Some(("P8", Some(INVALID_ARGUMENT))),
            Change::Decrease(by) => {
                let exist = before.live.keys().filter(|it| before.materialized.contains(*it));
                let is_too_low = before.target + by < n(exist.count());
                is_too_low.then_some(("P8", Some(FAILED_PRECONDITION)))
            }
            Change::Delete { stranger: Some(_), .. } => Some(("P6", None)),
            Change::Delete { .. } => {
                let is_too_low = self.is_below_min(before, bounds, &self.failed(before, false));
                is_too_low.then_some(("P5", Some(FAILED_PRECONDITION)))
            }
        }
    }

    /// True if the server may refuse the change or carry it out.
    fn is_optional(&self, before: &Seen, bounds: Bounds) -> bool {
        bounds.may_have_started
            && match self.change {
                Change::Increase(_) => false,
                Change::Decrease(_) => true,
                Change::Delete { .. } => {
                    self.is_below_min(before, bounds, &self.failed(before, true))
                }
            }
    }

    fn add_to(&self, effects: &mut Effects, before: &Seen, bounds: Bounds) {
        let is_done = self.outcome == Outcome::Done;
        match &self.change {
            // A failed increase has no effect, whatever failed behind the server.
            Change::Increase(_) if matches!(self.outcome, Outcome::Failed(_)) => {}
            // A failed decrease may have given up some instances, unless it was refused.
            Change::Decrease(_) if matches!(self.outcome, Outcome::Failed(_)) && self.is_calm => {}
            Change::Increase(by) => {
                effects.new.0 += if is_done { *by } else { 0 };
                effects.new.1 += by.max(&0);
            }
            Change::Decrease(by) => effects.given_up += -by.min(&0),
            Change::Delete { .. } => {
                let live = self.named.iter().filter(|id| before.live.contains_key(*id)).cloned();
                if is_done {
                    effects.gone.extend(live);
                } else if !self.is_calm {
                    // Some of the deletions may have taken effect.
                    effects.maybe_gone.extend(live);
                }
                let replaced = |for_certain| {
                    let failed = self.failed(before, for_certain);
                    replaced(before, bounds, &self.named, &failed)
                };
                effects.new.0 += if is_done { replaced(bounds.may_have_started) } else { 0 };
                effects.new.1 += if is_done || !self.is_calm { replaced(false) } else { 0 };
            }
        }
    }
}

/// Judges changes of a group that took place between two readings, one change or two at once.
pub(super) fn changes(
    all: &[Sent],
    before: &Seen,
    after: &Seen,
    bounds: Bounds,
) -> Result<(), String> {
    if let [only] = all {
        let refusal = only.refusal(before, bounds);
        match (&refusal, &only.outcome) {
            (Some((which, _)), Outcome::Done) => {
                return Err(format!("{which}: it must be refused, and succeeded"));
            }
            (Some((which, Some(code))), Outcome::Failed(got)) if only.is_calm => {
                ensure!(got == code, "{which}: code {got}, not {code}");
            }
            (None, other) if only.is_calm && !only.is_optional(before, bounds) => {
                ensure!(*other == Outcome::Done, "it must succeed: {other:?}");
            }
            _ => {}
        }
    }
    let mut effects = Effects::default();
    all.iter().for_each(|it| it.add_to(&mut effects, before, bounds));
    let Effects { new, gone, maybe_gone, given_up } = effects;
    let (old, live) = (before.ids(), after.ids());
    let removed: Ids = old.difference(&live).cloned().collect();
    ensure!(gone.is_subset(&removed), "P5: {gone:?} were deleted, and {live:?} are listed");
    let unnamed: Ids = removed
        .iter()
        .filter(|it| !gone.contains(*it) && !maybe_gone.contains(*it))
        .cloned()
        .collect();
    ensure!(
        n(unnamed.len()) <= given_up,
        "P3, P6, P8: {unnamed:?} are gone, and no call named them"
    );
    let existing: Ids = unnamed.intersection(&before.materialized).cloned().collect();
    ensure!(existing.is_empty(), "P8: a decrease gave up {existing:?}, whose machines exist");
    let n_new = n(live.difference(&old).count());
    let increased: i32 = all.iter().map(Sent::increase).sum();
    // Of two changes, the second may need no replacement any more, or give up a new instance.
    let least = if all.len() == 1 { new.0 } else { increased - given_up };
    ensure!(
        (least..=new.1).contains(&n_new),
        "P3: {n_new} instances are new, and {new:?} are allowed"
    );
    if let [Sent { change: Change::Decrease(by), outcome: Outcome::Done, .. }] = all {
        ensure!(after.target == before.target + by, "P8: the size is {}", after.target);
    }
    if let [Sent { change: Change::Increase(by), outcome: Outcome::Done, .. }] = all {
        ensure!(after.target == before.target + by, "P3: the size is {}", after.target);
    }
    if all.iter().all(|it| it.is_calm && it.outcome != Outcome::Unknown) && all.len() == 2 {
        let usual = before.target + increased - n(gone.len());
        let most = before.target + new.1 - n(gone.len());
        ensure!(
            (usual - given_up..=most).contains(&after.target),
            "P11: no order of the successful changes leads from {} to {}",
            before.target,
            after.target
        );
    }
    Ok(())
}

impl Sent {
    fn increase(&self) -> i32 {
        match self.change {
            Change::Increase(by) if self.outcome == Outcome::Done => by,
            _ => 0,
        }
    }
}

/// Judges a reading by itself, and against instances that are gone forever.
pub(super) fn reading(seen: &Seen, gone: &Ids, bounds: Bounds) -> Result<(), String> {
    let live = n(seen.live.len());
    ensure!(seen.target == live, "P2: the size is {}, and {live} instances count", seen.target);
    ensure!(seen.target <= bounds.max, "P1: the size {} exceeds the maximum", seen.target);
    let back: Vec<&String> = seen.live.keys().filter(|it| gone.contains(*it)).collect();
    ensure!(back.is_empty(), "P5: {back:?} were deleted and are listed again");
    Ok(())
}
