//! Tests of the expiry of Kubernetes Events, and of the watch events that it causes.

use std::time::Duration;

use serde_json::json;

use crate::objects::{
    Command as Write, GroupResource, Key, PatchKind, Selection, WatchEvent, WatchType,
};
use crate::{Command, ControlPlane, Retain, Time, Topology, World};

struct Lab(World);

impl Lab {
    fn new() -> Self {
        let mut world = World::new("2026-03-01T08:00:00Z".parse().unwrap(), 7);
        world.retain(Retain::Everything);
        Self(world)
    }

    fn write(&mut self, seconds: u64, write: Write) {
        self.0.apply(at(seconds), Command::Cluster(write)).expect("the write is valid");
    }

    fn create(&mut self, seconds: u64, name: &str) {
        let event = json!({
            "metadata": {"name": name, "finalizers": ["example.com/held"]},
            "involvedObject": {"kind": "Node", "name": "n"}, "reason": "Tested",
        });
        self.write(seconds, Write::create(events(), "default", event));
    }

    /// Advances to this second and returns the names of the Events that exist.
    fn names(&mut self, seconds: u64) -> Vec<&str> {
        self.0.advance(at(seconds));
        self.0.cluster.all(&events()).map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
    }
}

fn at(seconds: u64) -> Time {
    Time::after_start(Duration::from_secs(seconds))
}

fn events() -> GroupResource {
    GroupResource::core("events")
}

/// The extra duration of a lease is 5 % of the TTL: 15 s of 300 s.
#[test]
fn events_expire_after_the_ttl_of_the_topology() {
    let epoch = "2026-03-01T08:00:00Z".parse().unwrap();
    let topology = Topology { event_ttl: Duration::from_secs(300), ..Topology::default() };
    let mut lab = Lab(topology.build(epoch, 7));
    lab.create(10, "first");
    lab.create(24, "same-lease");
    lab.create(25, "next-lease");
    assert_eq!(lab.names(324), ["first", "next-lease", "same-lease"]);
    assert_eq!(lab.names(325), ["next-lease"]);
    assert_eq!(lab.names(340), [""; 0]);
}

#[test]
fn events_of_one_minute_expire_together_an_hour_later() {
    let mut lab = Lab::new();
    lab.create(10, "first");
    lab.create(69, "same-lease");
    lab.create(70, "next-lease");
    let map = json!({"metadata": {"name": "stays"}});
    lab.write(70, Write::create(GroupResource::core("configmaps"), "default", map));
    assert_eq!(lab.names(3669), ["first", "next-lease", "same-lease"]);
    let before = lab.0.cluster.revision();
    assert_eq!(lab.names(3670), ["next-lease"]);
    let told = lab.0.cluster.watch_since(&events(), &Selection::default(), before).unwrap();
    let shown: Vec<_> = told
        .iter()
        .map(|WatchEvent { kind, object, revision }| {
            let metadata = &object["metadata"];
            assert_eq!(metadata["resourceVersion"], revision.to_string());
            assert_eq!(metadata["deletionTimestamp"], json!(null), "no client deleted it");
            (*kind, metadata["name"].as_str().unwrap(), *revision - before)
        })
        .collect();
    assert_eq!(shown, [(WatchType::Deleted, "first", 1), (WatchType::Deleted, "same-lease", 2)]);
    assert_eq!(lab.names(3729), ["next-lease"]);
    assert!(lab.names(3730).is_empty());
    assert!(lab.0.cluster.get(&Key::new("configmaps", "default", "stays")).is_some());
    assert_eq!(lab.0.log().replay(at(3730)).as_ref(), Some(lab.0.state()));
}

#[test]
fn a_rewritten_event_lives_longer_and_a_recreated_event_gets_its_own_lease() {
    let mut lab = Lab::new();
    let key = |name: &str| Key::new("events", "default", name);
    let patch = |name: &str, patch| Write::patch(key(name), PatchKind::Merge, patch);
    lab.create(0, "again");
    lab.create(0, "successor");
    lab.write(600, patch("again", json!({"count": 2})));
    lab.write(700, patch("successor", json!({"metadata": {"finalizers": null}})));
    lab.write(800, Write::delete(key("successor")));
    lab.create(900, "successor");
    assert_eq!(lab.names(3660), ["again", "successor"]);
    assert_eq!(lab.names(600 + 3660), ["successor"]);
    assert!(lab.names(900 + 3660).is_empty());
}

#[test]
fn an_event_keeps_one_timer_over_many_writes_until_its_deletion() {
    let mut lab = Lab::new();
    lab.create(1, "busy");
    for n in 0..100 {
        let patch = json!({"count": n});
        let key = Key::new("events", "default", "busy");
        lab.write(2 + n, Write::patch(key, PatchKind::Merge, patch));
        assert_eq!(lab.0.state().event_timers[&ControlPlane::Workload].len(), 1);
        assert_eq!(lab.0.state().timers.len(), 1);
    }
    let release = json!({"metadata": {"finalizers": null}});
    let key = || Key::new("events", "default", "busy");
    lab.write(200, Write::patch(key(), PatchKind::Merge, release));
    lab.write(201, Write::delete(key()));
    assert!(
        lab.0.state().timers.is_empty()
            && lab.0.state().event_timers[&ControlPlane::Workload].is_empty()
    );
}
