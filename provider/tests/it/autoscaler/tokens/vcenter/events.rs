//! Events about clones: each says which call of the autoscaler asked for the change.

use serde_json::Value;
use sim::faults::{Action, Rule};

use super::{
    super::wait,
    names,
    world::{Clones, GROUP},
};
use crate::capacity::s;

/// Event about a machine: reason, name of the Node, and message.
type About = (String, String, String);

async fn events(clones: &Clones) -> Vec<About> {
    let all = clones.world.send(false, "GET", "/api/v1/namespaces/default/events", None).await;
    let ours =
        |it: &&Value| it.pointer("/source/component").unwrap() == "cluster-autoscaler-provider";
    let text = |it: &Value, path: &str| it.pointer(path).unwrap().as_str().unwrap().to_owned();
    let about =
        |it: &Value| (text(it, "/reason"), text(it, "/involvedObject/name"), text(it, "/message"));
    let mut events: Vec<About> =
        all["items"].as_array().unwrap().iter().filter(ours).map(about).collect();
    events.sort();
    events
}

/// Returns the events that were written since `known`, and adds them to it.
async fn new_events(clones: &Clones, known: &mut Vec<About>) -> Vec<About> {
    let all = events(clones).await;
    let new = all.iter().filter(|it| !known.contains(it)).cloned().collect();
    *known = all;
    new
}

#[tokio::test(start_paused = true)]
async fn an_event_names_the_call_for_each_clone_that_is_made_or_destroyed() {
    let (clones, mut known) = (Clones::new().await, Vec::new());
    let server = clones.start(1).await;
    server.increase(GROUP, 2).await.unwrap();
    wait(120).await;
    let increase = "Created the machine for NodeGroupIncreaseSize by 2 of group vcenter/workers";
    let wanted: Vec<About> = names(&clones)
        .into_iter()
        .map(|name| ("ScaledUp".to_owned(), name, increase.to_owned()))
        .collect();
    assert_eq!(new_events(&clones, &mut known).await, wanted);
    let ids = server.clones().await;
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(60).await;
    let deleted = new_events(&clones, &mut known).await;
    let [(reason, _, message)] = &deleted[..] else { panic!("{deleted:?}") };
    assert_eq!(reason, "ScaledDown");
    assert!(message.starts_with("Deleted the machine for NodeGroupDeleteNodes of "), "{message}");
    assert!(message.ends_with(" in group vcenter/workers"), "{message}");
    // The process ends before it has destroyed the machine.
    let busy = clones.soap_fault("PowerOffVM_Task", Action::soap_fault("TaskInProgress"));
    server.delete(GROUP, &[&ids[1]]).await.unwrap();
    wait(5).await;
    server.stop().await;
    drop(busy);
    let server = clones.start(2).await;
    wait(120).await;
    let deleted = new_events(&clones, &mut known).await;
    let [(reason, _, message)] = &deleted[..] else { panic!("{deleted:?}") };
    let earlier =
        "Deleted the machine for a call to an earlier process, about group vcenter/workers";
    assert_eq!((reason.as_str(), message.as_str()), ("ScaledDown", earlier));
    assert_eq!(clones.world.refusals(), [""; 0]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_fails_has_one_event_whatever_the_number_of_attempts() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    // A fault that the autoscaler sees at once, and then one that it sees after a grace period.
    let full = Action::soap_fault("InsufficientResourcesFault");
    let broken = clones.soap_fault("CloneVM_Task", full);
    server.increase(GROUP, 1).await.unwrap();
    wait(600).await;
    assert!(clones.n_calls("CloneVM_Task") > 3);
    let failed = events(&clones).await;
    let [(reason, name, message)] = &failed[..] else { panic!("{failed:?}") };
    let begin = "Creating the machine for NodeGroupIncreaseSize by 1 of group vcenter/workers \
                 failed: ";
    assert!(reason == "ScaleUpFailed" && message.starts_with(begin), "{failed:?}");
    let off = clones.soap_fault("PowerOnVM_Task", Action::soap_fault("NoPermission"));
    drop(broken);
    wait(600).await;
    assert_eq!(events(&clones).await.iter().filter(|it| it.0 == "ScaleUpFailed").count(), 2);
    drop(off);
    wait(120).await;
    let all = events(&clones).await;
    let made: Vec<&About> = all.iter().filter(|it| it.0 == "ScaledUp").collect();
    assert!(matches!(&made[..], [it] if it.1 == *name), "{all:?}");
    server.stop().await;
}

/// A machine that vCenter destroyed before the process ended, without an answer to the server.
#[tokio::test(start_paused = true)]
async fn a_clone_that_an_earlier_process_destroyed_has_an_event() {
    let (clones, mut known) = (Clones::new().await, Vec::new());
    let server = clones.start(1).await;
    server.increase(GROUP, 1).await.unwrap();
    wait(120).await;
    assert_eq!(new_events(&clones, &mut known).await.len(), 1);
    let ids = server.clones().await;
    let lost = Rule::new("lost", [Action::Blackhole]).on(sim::Face::Soap).op(["Destroy_Task"]);
    let lost = clones.world.sim.fault(lost.applied()).unwrap();
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(20).await;
    assert_eq!((clones.n_calls("Destroy_Task"), clones.clones().len()), (1, 0));
    assert_eq!(new_events(&clones, &mut known).await, []);
    server.stop().await;
    drop(lost);
    let server = clones.start(2).await;
    wait(120).await;
    let deleted = new_events(&clones, &mut known).await;
    assert!(matches!(&deleted[..], [(reason, ..)] if reason == "ScaledDown"), "{deleted:?}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_fails_after_its_deletion_delays_nothing_and_has_no_event() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let full = [Action::Delay(s(20)), Action::soap_fault("InsufficientResourcesFault")];
    let slow = Rule::new("slow", full).on(sim::Face::Soap).op(["PowerOnVM_Task"]);
    let slow = clones.world.sim.fault(slow).unwrap();
    server.increase(GROUP, 1).await.unwrap();
    wait(10).await;
    assert_eq!((clones.n_calls("PowerOnVM_Task"), clones.clones().len()), (1, 1));
    let ids = server.clones().await;
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(14).await;
    assert_eq!(clones.clones(), [], "the power-on failed some seconds ago");
    drop(slow);
    wait(60).await;
    let all = events(&clones).await;
    let reasons: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(reasons, ["ScaledDown"], "{all:?}");
    server.stop().await;
}
