//! Tests of the deliberate defects (mutants) of Supervisor mode: with each, the backend answers
//! differently than without it.

use super::*;
use crate::mutant::Mutant;

/// Returns the settings without and with the mutant.
fn with(mutant: Mutant) -> [Active; 2] {
    [Active { mutant: None }, Active { mutant: Some(mutant) }]
}

/// Starts a backend that tracks the nodes of the first `n_nodes` machines, and waits 500 ms for the
/// first list.
async fn started(fake: Fake, mode: InstancesMode, active: Active, n_nodes: usize) -> Lab {
    let lab = Lab::with(fake, mode, active);
    for i in 0..n_nodes {
        lab.instances.observe(&nth(i));
    }
    moment().await;
    lab
}

#[tokio::test(start_paused = true)]
async fn a_mutant_takes_a_404_of_the_collection_for_an_absence() {
    let mut gone = Vec::new();
    for active in with(Mutant::CollectionNotFoundIsGone) {
        let lab = started(Fake::with(3), InstancesMode::Auto, active, 3).await;
        lab.fake.refuse(Refusals { get: Some(404), list: Some(404), watch: Some(404) });
        lab.fake.cut();
        seconds(90).await;
        gone.push(is_gone(&lab.exists(&nth(0)).await));
    }
    assert_eq!(gone, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn identity_mutants_report_an_existing_machine_as_gone() {
    for (mutant, machine, node) in [
        (Mutant::UuidCaseMatters, object("n1", "AB", "10.0.0.1"), node("n1", Some("vsphere://ab"))),
        (Mutant::EmptyUuidIsGone, object("n1", "ab", "10.0.0.1"), node("n1", Some("vsphere://"))),
        (Mutant::EmptyUuidIsGone, object("n1", "", "10.0.0.1"), node("n1", Some("vsphere://ab"))),
        (Mutant::ForeignIdIsGone, object("n1", "ab", "10.0.0.1"), node("n1", Some("aws:///i-1"))),
    ] {
        let mut gone = Vec::new();
        for active in with(mutant) {
            let fake = Fake::with(3);
            fake.put(machine.clone());
            let lab = started(fake, InstancesMode::Auto, active, 3).await;
            gone.push(is_gone(&lab.exists(&node).await));
        }
        assert_eq!(gone, [false, true], "{mutant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mutant_keeps_the_stale_view_after_an_expired_version() {
    let mut states = Vec::new();
    for active in with(Mutant::StaleViewAfterGone) {
        let lab = started(Fake::with(2), InstancesMode::Auto, active, 2).await;
        lab.fake.mute(true);
        lab.fake.delete("n0000");
        lab.fake.mute(false);
        lab.fake.compact();
        seconds(30).await;
        assert_eq!(lab.state(), ViewState::Fresh);
        states.push(is_gone(&lab.exists(&nth(0)).await));
    }
    assert_eq!(states, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_mutant_reports_a_node_gone_although_none_was_ever_matched() {
    let mut gone = Vec::new();
    for active in with(Mutant::NeverMatchedSkipped) {
        let lab = started(Fake::new(), InstancesMode::Auto, active, 3).await;
        gone.push(is_gone(&lab.exists(&nth(0)).await));
    }
    assert_eq!(gone, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_mutant_takes_the_view_for_a_proof() {
    let mut calls = Vec::new();
    for active in with(Mutant::ProofFromView) {
        let lab = started(Fake::with(2), InstancesMode::Auto, active, 2).await;
        lab.fake.delete("n0000");
        moment().await;
        lab.calls();
        assert!(is_gone(&lab.exists(&nth(0)).await));
        calls.push(lab.calls().len());
    }
    assert_eq!(calls, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_mutant_believes_a_silent_watch() {
    let mut calls = Vec::new();
    for active in with(Mutant::WatchStallUnnoticed) {
        let lab = started(Fake::with(2), InstancesMode::Auto, active, 2).await;
        seconds(10).await;
        lab.calls();
        lab.fake.mute(true);
        let mut states = BTreeSet::new();
        for _ in 0..240 {
            seconds(1).await;
            states.insert(lab.state());
        }
        calls.push((states.contains(&ViewState::Stale), lab.calls().is_empty()));
    }
    assert_eq!(calls, [(true, false), (false, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_mutant_lists_once_per_node() {
    let mut calls = Vec::new();
    for active in with(Mutant::ListPerNode) {
        let lab = started(Fake::with(5), InstancesMode::Poll, active, 5).await;
        seconds(20).await;
        lab.calls();
        let nodes: Vec<NodeIdentity> = (0..5).map(nth).collect();
        futures::future::join_all(nodes.iter().map(|node| lab.exists(node))).await;
        calls.push(lab.count()[1]);
    }
    assert_eq!(calls, [1, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_mutant_believes_an_empty_list() {
    let mut missing = Vec::new();
    for active in with(Mutant::EmptyListBelieved) {
        let lab = started(Fake::with(5), InstancesMode::Poll, active, 5).await;
        for i in 0..5 {
            lab.fake.lose(nth(i).name.as_str());
        }
        seconds(10).await;
        assert!(is_gone(&lab.exists(&nth(0)).await));
        missing.push(lab.instances.n_missing());
    }
    assert_eq!(missing, [5, 0]);
}
