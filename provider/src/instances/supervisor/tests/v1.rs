//! Compares the calls of v1 mode with those of upstream, one by one (`cpi-supervisor` 2.6).

use super::*;
use crate::instances::supervisor::SupervisorV1;

/// A backend in v1 mode with its fake Supervisor.
struct Old {
    fake: Fake,
    instances: SupervisorV1,
    stop: CancellationToken,
}

impl Drop for Old {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Old {
    fn new() -> Self {
        let fake = Fake::with(3);
        fake.put(object("upper", "ABC", "10.0.0.8"));
        fake.put(object("empty", "", "10.0.0.9"));
        let tuning = Tuning { mode: InstancesMode::V1, seed: 7, ..Tuning::default() };
        let instances = SupervisorV1::new(
            fake.client(),
            "dev",
            tuning,
            Telemetry::default().supervisor_requests(),
        );
        let stop = CancellationToken::new();
        instances.spawn(&Tasks::new(&stop, &CancellationToken::new()));
        Self { fake, instances, stop }
    }

    async fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        assert_eq!(self.instances.metadata(node, zone), Lookup::Unknown(Unknown::Pending));
        assert_eq!(self.instances.changed().await, BTreeSet::from([node.name.clone()]));
        let answer = self.instances.metadata(node, zone);
        // The controller asks again when it writes. The answer is the same and costs no call.
        assert_eq!(self.instances.metadata(node, zone), answer);
        answer
    }

    async fn exists(&self, node: &NodeIdentity) -> Lookup<()> {
        Instances::exists(&self.instances, node, Instant::now()).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_about_metadata_makes_the_same_calls_as_upstream() {
    use ZoneWanted::{No, Yes};
    for (what, node, zone, want, calls) in [
        (
            "a new node",
            node("n0000", None),
            Yes,
            Some("vsphere://e0000"),
            &["GET n0000", "LIST", "LIST"][..],
        ),
        ("its ID is preset", nth(0), Yes, Some("vsphere://e0000"), &["LIST", "LIST"]),
        (
            "its UUID is written in capitals",
            node("upper", None),
            Yes,
            Some("vsphere://ABC"),
            &["GET upper", "LIST", "GET upper", "LIST", "GET upper"],
        ),
        ("it has no UUID yet", node("empty", None), Yes, None, &["GET empty"]),
        ("there is no machine", node("none", None), Yes, None, &["GET none"]),
        ("its addresses", nth(0), No, Some("vsphere://e0000"), &["LIST"]),
        (
            "not found by its UUID",
            node("n0000", Some("vsphere://xyz")),
            No,
            Some("vsphere://xyz"),
            &["LIST", "GET n0000"],
        ),
        ("without an ID", node("n0000", None), No, Some("vsphere://e0000"), &["GET n0000"]),
        ("nowhere", node("none", Some("vsphere://xyz")), No, None, &["LIST", "GET none"]),
        (
            "provider ID of another provider",
            node("n0000", Some("aws:///i")),
            No,
            Some("aws:///i"),
            &["LIST", "GET n0000"],
        ),
    ] {
        let old = Old::new();
        let answer = old.metadata(&node, zone).await;
        let id = match &answer {
            Lookup::Found(metadata) => Some(metadata.provider_id.as_str()),
            _ => None,
        };
        assert_eq!(id, want, "{what}: {answer:?}");
        assert_eq!(old.fake.take_calls(), calls, "{what}");
        if let Lookup::Found(metadata) = answer {
            let has_zone = metadata.zone.unwrap().is_some_and(|zone| zone.zone == "zone-a");
            assert_eq!(has_zone, zone == Yes, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_repeated_while_it_is_being_answered_costs_no_more_calls() {
    let old = Old::new();
    let node = node("n0000", None);
    let pending = Lookup::Unknown(Unknown::Pending);
    // A refused lookup pauses before the next attempt.
    old.fake.refuse(Refusals { get: Some(403), ..Refusals::default() });
    assert_eq!(old.instances.metadata(&node, ZoneWanted::Yes), pending);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(old.fake.take_calls(), ["GET n0000"], "the lookup is running");
    assert_eq!(old.instances.metadata(&node, ZoneWanted::Yes), pending);
    old.fake.refuse(Refusals::default());
    assert_eq!(old.instances.changed().await, BTreeSet::from([node.name.clone()]));
    assert!(matches!(old.instances.metadata(&node, ZoneWanted::Yes), Lookup::Found(_)));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(old.fake.take_calls(), ["GET n0000", "LIST", "LIST"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_about_existence_makes_the_same_calls_as_upstream() {
    for (what, node, want, calls) in [
        ("there", nth(0), Some(false), &["LIST", "LIST"][..]),
        (
            "there, by name",
            node("n0000", None),
            Some(false),
            &["GET n0000", "LIST", "GET n0000", "LIST"],
        ),
        ("gone", node("none", Some("vsphere://xyz")), None, &["LIST"]),
        ("gone, by name", node("none", None), None, &["GET none"]),
        ("written in capitals", node("upper", Some("vsphere://ABC")), None, &["LIST"]),
        ("an empty ID", node("n0000", Some("vsphere://")), None, &[]),
    ] {
        let old = Old::new();
        let answer = old.exists(&node).await;
        assert_eq!(is_gone(&answer), want.is_none(), "{what}: {answer:?}");
        let off = old.instances.shutdown(&node);
        assert_eq!(off == Lookup::Found(false), want == Some(false), "{what}: {off:?}");
        assert_eq!(old.fake.take_calls(), calls, "{what}");
    }
    let old = Old::new();
    old.fake.set("n0000", "/status/powerState", json!("PoweredOff"));
    assert_eq!(old.exists(&nth(0)).await, Lookup::Found(()));
    assert_eq!(old.instances.shutdown(&nth(0)), Lookup::Found(true));
}

#[tokio::test(start_paused = true)]
async fn a_failing_request_is_tried_twenty_times() {
    let old = Old::new();
    old.fake.refuse(Refusals { get: Some(403), list: Some(403), watch: None });
    let answer = old.exists(&nth(0)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    assert_eq!(old.fake.take_calls(), ["LIST"; 20]);
    let answer = old.metadata(&nth(1), ZoneWanted::No).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    let calls = old.fake.take_calls();
    assert_eq!(calls.len(), 40, "20 tries by UUID and 20 by name");
    old.fake.refuse(Refusals::default());
    assert_eq!(old.exists(&nth(0)).await, Lookup::Found(()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_does_not_delay_the_answer_for_another_node() {
    for is_forgotten in [true, false] {
        let old = Old::new();
        let (first, second) = (nth(0), nth(1));
        let pending = Lookup::Unknown(Unknown::Pending);
        assert_eq!(old.instances.metadata(&first, ZoneWanted::No), pending);
        assert_eq!(old.instances.changed().await, BTreeSet::from([first.name.clone()]));
        let asked_at = Instant::now();
        assert_eq!(old.instances.metadata(&second, ZoneWanted::No), pending);
        if is_forgotten {
            old.instances.forget(&first.name);
        }
        assert_eq!(old.instances.changed().await, BTreeSet::from([second.name]));
        let is_at_once = asked_at.elapsed() < Duration::from_secs(1);
        assert_eq!(is_at_once, is_forgotten, "{:?}", asked_at.elapsed());
    }
}
