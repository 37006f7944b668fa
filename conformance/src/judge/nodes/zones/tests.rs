//! Tests of the judge of zones. Label patches by the scenario stand in for a provider that writes
//! wrong labels.

use std::time::Duration;

use serde_json::json;
use sim::Target;
use sim::ledger::Record;
use sim::world::objects::{self, PatchKind};
use sim::world::{Command, TagName, Topology};

use super::*;
use crate::judge::safety;
use crate::lab::{self, Stage};
use crate::scenario::{Act, Scenario};

const NODE: &str = "node-0001";
const OPEN: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(120);

fn a_world() -> Scenario {
    let topology = Topology::zones(3).vcenters(1).machines(3);
    // A running provider would correct its labels.
    Scenario::new("", topology, Duration::from_secs(180)).at(OPEN, Act::Stop(0))
}

fn labels(zone: &str, region: &str) -> Command {
    let labels = json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": region,
    }}});
    Command::Cluster(objects::Command::patch(Key::node(NODE), PatchKind::Merge, labels))
}

fn moved() -> Command {
    Command::VMotion { machine: NODE.into(), host: "DC0_C1_H0".into() }
}

fn tag(category: &str, tag: &str, object: &str) -> TagName {
    TagName {
        vcenter: None,
        category: category.to_owned(),
        tag: tag.to_owned(),
        object: object.to_owned(),
    }
}

/// Returns the broken invariants about zones, for our provider and for another one.
fn broken(scenario: &Scenario) -> [Vec<Invariant>; 2] {
    let mut run = lab::run(scenario, &Stage::default());
    // Makes the judge take the patch of the scenario for a write of the provider.
    let patch = run.calls().find(|call| call.op == "patch nodes").unwrap().clone();
    let target = Target { name: Some(NODE.to_owned()), ..patch.target.clone() };
    run.by_hand.clear();
    run.ledger.push(Record { t: Time::after_start(LATER), ended: None, target, ..patch });
    [false, true].map(|hosted| {
        run.hosted = hosted;
        let of_zones = [LabelsStay, LabelsAgree, NoGuessOfZone, NoTagsWhenOff, LabelsMoveTogether];
        let found = safety(&run).into_iter().map(|it| it.invariant);
        found.filter(|it| of_zones.contains(it)).collect()
    })
}

#[test]
fn labels_that_follow_a_move_together_fail_our_provider_alone() {
    let scenario = a_world().at(OPEN, moved()).at(LATER, labels("zone-b", "region-a"));
    assert_eq!(broken(&scenario), [vec![LabelsStay], vec![]]);
}

#[test]
fn labels_that_change_while_the_machine_stays_break_an_invariant() {
    let scenario = a_world().at(LATER, labels("zone-b", "region-a"));
    assert_eq!(broken(&scenario)[1], [LabelsStay, LabelsMoveTogether]);
    let gone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null,
        "topology.kubernetes.io/region": null}}});
    let gone = objects::Command::patch(Key::node(NODE), PatchKind::Merge, gone);
    let scenario = a_world().at(LATER, Command::Cluster(gone));
    assert_eq!(broken(&scenario), [vec![LabelsStay], vec![LabelsStay]]);
}

#[test]
fn the_zone_of_one_place_with_the_region_of_another_breaks_an_invariant() {
    let scenario = a_world()
        .at(OPEN, Command::DetachTag(tag(REGION_CATEGORY, "region-a", "DC0")))
        .at(OPEN, moved())
        .at(OPEN, Command::AttachTag(tag(REGION_CATEGORY, "north", "DC0")))
        .at(LATER, labels("zone-a", "north"));
    // `LabelsStay` binds only our provider here.
    assert_eq!(broken(&scenario), [vec![LabelsStay, LabelsMoveTogether], vec![LabelsMoveTogether]]);
}

#[test]
fn a_pair_of_zone_and_region_that_never_existed_breaks_an_invariant() {
    let scenario =
        a_world().with_provider(|it| it.zones = false).at(LATER, labels("zone-a", "north"));
    assert_eq!(broken(&scenario), [vec![LabelsAgree], vec![LabelsAgree]]);
}

#[test]
fn a_zone_label_taken_from_one_of_two_tags_counts_as_a_guess() {
    let scenario = a_world()
        .with_provider(|it| it.zones = false)
        .at(Duration::ZERO, Command::AttachTag(tag(ZONE_CATEGORY, "other", "DC0_C0")))
        .at(Duration::ZERO, Command::DetachTag(tag(ZONE_CATEGORY, "zone-a", "DC0_C0")))
        .at(Duration::ZERO, Command::AttachTag(tag(ZONE_CATEGORY, "third", "DC0_C0")))
        .at(LATER, labels("third", "region-a"));
    assert_eq!(broken(&scenario), [vec![NoGuessOfZone], vec![NoGuessOfZone]]);
}

#[test]
fn tags_that_are_read_though_zones_are_off_are_found() {
    let scenario = a_world().with_provider(|it| it.zones = false);
    let mutant = Some(::provider::Mutant::ZonesWhenOff);
    let run = lab::run(&scenario, &Stage { mutant, ..Stage::default() });
    assert!(safety(&run).iter().any(|it| it.invariant == NoTagsWhenOff));
    assert_eq!(broken(&scenario), [vec![], vec![]]);
}
