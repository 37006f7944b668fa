//! Tests of the Supervisor backend with its tasks against a small fake Supervisor, in virtual time.

#[path = "../../../../tests/it/supervisor.rs"]
#[allow(dead_code, reason = "the tests of the whole provider use the rest")]
mod fake;
#[cfg(feature = "mutants")]
mod mutants;
mod slow;
mod upstream;
mod v1;

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::fake::{Refusals, Supervisor as Fake, object};
use super::{SupervisorInstances, Tuning};
use crate::{
    instances::{Instances, ZoneWanted},
    model::{Lookup, Metadata, NodeIdentity, NodeName, Unknown, ViewState},
    mutant::Active,
    supervisor::InstancesMode,
    tasks::Tasks,
    telemetry::Telemetry,
};

/// A backend with its fake Supervisor. The backend runs until the lab is dropped.
struct Lab {
    fake: Fake,
    instances: SupervisorInstances,
    telemetry: Telemetry,
    stop: CancellationToken,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn node(name: &str, provider_id: Option<&str>) -> NodeIdentity {
    NodeIdentity {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        provider_id: provider_id.map(str::to_owned),
        system_uuid: None,
        reference: None,
        confirmed_gone: false,
    }
}

/// Returns the initialized node of the machine with this number in the fake.
fn nth(i: usize) -> NodeIdentity {
    node(&format!("n{i:04}"), Some(&format!("vsphere://e{i:04}")))
}

async fn seconds(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

/// Waits 500 ms, long enough for all running requests to end that the fake does not delay.
async fn moment() {
    sleep(Duration::from_millis(500)).await;
}

/// Returns the metadata once they are known. While they are pending, waits until the backend
/// announces the node.
async fn metadata(
    instances: &dyn Instances,
    node: &NodeIdentity,
    zone: ZoneWanted,
) -> Lookup<Metadata> {
    loop {
        let answer = instances.metadata(node, zone);
        if answer != Lookup::Unknown(Unknown::Pending) {
            return answer;
        }
        let word = async { while !instances.changed().await.contains(&node.name) {} };
        timeout(Duration::from_secs(120), word).await.expect("`Pending` promises an announcement");
    }
}

impl Lab {
    /// Starts a backend without waiting for its first list.
    fn new(fake: Fake, mode: InstancesMode) -> Self {
        Self::with(fake, mode, Active::default())
    }

    fn with(fake: Fake, mode: InstancesMode, active: Active) -> Self {
        let telemetry = Telemetry::default();
        let tuning = Tuning { mode, seed: 7, ..Tuning::default() };
        let instances = SupervisorInstances::new(fake.client(), "dev", tuning, &telemetry, active);
        let stop = CancellationToken::new();
        instances.spawn(&Tasks::new(&stop, &CancellationToken::new()));
        Self { fake, instances, telemetry, stop }
    }

    /// Starts a backend that tracks the nodes of the first `n_nodes` machines, and waits 500 ms for
    /// the first list.
    async fn started(fake: Fake, mode: InstancesMode, n_nodes: usize) -> Self {
        let lab = Self::new(fake, mode);
        for i in 0..n_nodes {
            lab.instances.observe(&nth(i));
        }
        moment().await;
        lab
    }

    fn state(&self) -> ViewState {
        self.instances.view_state()
    }

    async fn exists(&self, node: &NodeIdentity) -> Lookup<()> {
        Instances::exists(&self.instances, node, Instant::now()).await
    }

    async fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        metadata(&self.instances, node, zone).await
    }

    /// Takes the calls that the fake has received since the last take.
    fn calls(&self) -> Vec<String> {
        self.fake.take_calls()
    }

    /// Takes the calls that the fake has received since the last take, and returns the numbers of
    /// reads by name, lists and watches.
    fn count(&self) -> [usize; 3] {
        let calls = self.calls();
        ["GET ", "LIST", "WATCH"].map(|kind| calls.iter().filter(|it| it.starts_with(kind)).count())
    }
}

fn is_gone(answer: &Lookup<()>) -> bool {
    matches!(answer, Lookup::Gone { .. })
}

/// Returns the refusal of watches, lists or both with 403.
fn forbidden(watch: bool, list: bool) -> Refusals {
    let code = |is| if is { Some(403) } else { None };
    Refusals { watch: code(watch), list: code(list), get: None }
}

/// Returns the refusal of every request with 503.
fn down() -> Refusals {
    Refusals { get: Some(503), list: Some(503), watch: Some(503) }
}

#[tokio::test(start_paused = true)]
async fn two_thousand_machines_cost_one_list_and_one_watch() {
    let lab = Lab::started(Fake::with(2000), InstancesMode::Auto, 1000).await;
    assert_eq!(lab.calls(), ["LIST", "WATCH"]);
    for _period in 0..10 {
        for i in 0..1000 {
            let answer = lab.instances.metadata(&nth(i), ZoneWanted::No);
            assert!(matches!(answer, Lookup::Found(_)), "{answer:?}");
        }
        for _tick in 0..10 {
            for i in 0..50 {
                assert_eq!(lab.exists(&nth(i)).await, Lookup::Found(()));
                assert_eq!(lab.instances.shutdown(&nth(i)), Lookup::Found(false));
            }
            seconds(30).await;
        }
    }
    let [n_gets, n_lists, n_watches] = lab.count();
    assert_eq!(n_gets, 0);
    assert!((1..=2).contains(&n_lists), "{n_lists} periodic lists in fifty minutes");
    assert!((5..=12).contains(&n_watches), "{n_watches} watches in fifty minutes");
    assert_eq!(lab.instances.n_missing(), 0);
}

#[tokio::test(start_paused = true)]
async fn changed_machines_are_announced_within_two_seconds() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Auto, 3).await;
    let all: BTreeSet<NodeName> = (0..3).map(|i| nth(i).name).collect();
    assert_eq!(lab.instances.changed().await, all, "the first list");
    let told = async || {
        let began = Instant::now();
        let names = lab.instances.changed().await;
        assert!(began.elapsed() < Duration::from_secs(2));
        names.into_iter().collect::<Vec<_>>()
    };
    lab.fake.set("n0001", "/status/network/primaryIP4", json!("10.9.9.9"));
    assert_eq!(told().await, ["n0001".into()]);
    let Lookup::Found(metadata) = lab.instances.metadata(&nth(1), ZoneWanted::No) else { panic!() };
    assert_eq!(metadata.addresses.unwrap()[0].address, "10.9.9.9");
    // A power state is not announced, because the lifecycle controller asks for it itself.
    lab.fake.set("n0002", "/status/powerState", json!("PoweredOff"));
    moment().await;
    assert_eq!(lab.instances.shutdown(&nth(2)), Lookup::Found(true));
    assert!(timeout(Duration::from_secs(5), lab.instances.changed()).await.is_err());
    assert_eq!(lab.calls(), ["LIST", "WATCH"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_before_its_machine_waits_for_it() {
    let lab = Lab::started(Fake::with(1), InstancesMode::Auto, 1).await;
    lab.instances.changed().await;
    lab.calls();
    let early = node("early", None);
    assert_eq!(lab.metadata(&early, ZoneWanted::Yes).await, Lookup::Unknown(Unknown::NotSeen));
    assert_eq!(lab.calls(), ["GET early"]);
    // A repeated question does not read the machine again at once.
    assert_eq!(lab.metadata(&early, ZoneWanted::Yes).await, Lookup::Unknown(Unknown::NotSeen));
    assert!(lab.calls().is_empty());
    lab.fake.put(object("early", "", "10.0.0.9"));
    assert_eq!(lab.instances.changed().await, BTreeSet::from(["early".into()]));
    let answer = lab.metadata(&early, ZoneWanted::Yes).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Incomplete(_))), "{answer:?}");
    lab.fake.set("early", "/status/biosUUID", json!("ABC"));
    lab.instances.changed().await;
    let Lookup::Found(metadata) = lab.metadata(&early, ZoneWanted::Yes).await else { panic!() };
    assert_eq!(metadata.provider_id, "vsphere://ABC");
    assert!(lab.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_list_proves_the_absence_of_all_machines_that_are_gone() {
    let lab = Lab::started(Fake::with(40), InstancesMode::Auto, 40).await;
    for i in 0..20 {
        lab.fake.delete(nth(i).name.as_str());
    }
    moment().await;
    assert_eq!(lab.instances.n_missing(), 20);
    lab.calls();
    let nodes: Vec<NodeIdentity> = (0..40).map(nth).collect();
    let asked_at = Instant::now();
    let answers = futures::future::join_all(nodes.iter().map(|node| lab.exists(node))).await;
    for (i, answer) in answers.iter().enumerate() {
        match answer {
            Lookup::Gone { proved_at, matched } => {
                assert!(i < 20 && *matched && *proved_at >= asked_at, "{i}");
            }
            other => assert!(i >= 20 && *other == Lookup::Found(()), "{i}: {other:?}"),
        }
    }
    assert_eq!(lab.calls(), ["LIST"]);
    // The backend uses the list again for a question that accepts its age, and makes a new one for
    // a question that does not.
    let minute_ago = asked_at.checked_sub(Duration::from_secs(5)).unwrap();
    assert!(is_gone(&Instances::exists(&lab.instances, &nodes[0], minute_ago).await));
    assert!(lab.calls().is_empty());
    seconds(1).await;
    assert!(is_gone(&lab.exists(&nodes[0]).await));
    assert_eq!(lab.calls(), ["LIST"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_the_list_shows_under_any_name_is_not_gone() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Auto, 3).await;
    seconds(2).await;
    lab.calls();
    // The machine is deleted, and exists again under another name.
    lab.fake.mute(true);
    lab.fake.delete("n0000");
    lab.fake.put(object("renamed", "E0000", "10.0.0.1"));
    lab.fake.mute(false);
    lab.fake.cut();
    moment().await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
    // A new machine has the name, so the old one is gone, whatever the state of the new one is.
    lab.fake.delete("n0001");
    lab.fake.put(object("n0001", "other", "10.0.0.1"));
    moment().await;
    assert!(is_gone(&lab.exists(&nth(1)).await));
    // A new machine has the name, and no UUID yet.
    lab.fake.delete("n0002");
    lab.fake.put(object("n0002", "", "10.0.0.1"));
    moment().await;
    let answer = lab.exists(&nth(2)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Incomplete(_))), "{answer:?}");
    // The node has the provider ID of another provider.
    let answer = lab.exists(&node("n0000", Some("aws:///i-1"))).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::NotOurs(_))), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn no_machine_counts_as_gone_while_none_was_ever_found() {
    let lab = Lab::started(Fake::new(), InstancesMode::Auto, 3).await;
    lab.calls();
    let answer = lab.exists(&nth(0)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    assert!(lab.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn machines_that_a_list_does_not_show_count_as_missing() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Auto, 3).await;
    lab.fake.delete("n0000");
    moment().await;
    assert_eq!(lab.instances.n_missing(), 1);
    // The store lost machines without events; only a list shows that.
    lab.fake.lose("n0001");
    lab.fake.lose("n0002");
    assert!(is_gone(&lab.exists(&nth(0)).await));
    assert_eq!(lab.instances.n_missing(), 3, "the guard of the controller counts all of them");
}

#[tokio::test(start_paused = true)]
async fn an_old_version_leads_to_a_new_list() {
    let lab = Lab::started(Fake::with(2), InstancesMode::Auto, 2).await;
    lab.calls();
    lab.fake.mute(true);
    lab.fake.delete("n0000");
    lab.fake.mute(false);
    lab.fake.compact();
    moment().await;
    assert_eq!(lab.calls(), ["LIST", "WATCH"]);
    assert_eq!(lab.state(), ViewState::Fresh);
    assert!(is_gone(&lab.exists(&nth(0)).await));
    assert_eq!(lab.exists(&nth(1)).await, Lookup::Found(()));
    // The same happens if the server answers the request for a watch with 410.
    seconds(2).await;
    lab.calls();
    lab.fake.refuse(Refusals { watch: Some(410), ..Refusals::default() });
    lab.fake.cut();
    seconds(20).await;
    let [_, n_lists, n_watches] = lab.count();
    assert!((2..=8).contains(&n_lists), "{n_lists} lists and {n_watches} watches in 20 s");
    lab.fake.refuse(Refusals::default());
    seconds(30).await;
    lab.fake.delete("n0001");
    moment().await;
    assert_eq!(lab.instances.n_missing(), 2, "the watch works again");
}

#[tokio::test(start_paused = true)]
async fn a_paged_list_starts_again_when_a_page_expires() {
    let fake = Fake::with(7);
    fake.pages_of(3, 1);
    let lab = Lab::started(fake, InstancesMode::Auto, 7).await;
    let want = ["LIST", "LIST …", "LIST", "LIST …", "LIST …", "WATCH"];
    assert_eq!(lab.calls(), want, "the list starts again when a page is too old");
    for i in 0..7 {
        assert_eq!(lab.exists(&nth(i)).await, Lookup::Found(()));
    }
    // A list that never becomes complete proves nothing.
    lab.fake.delete("n0000");
    moment().await;
    lab.fake.pages_of(3, 99);
    let answer = lab.exists(&nth(0)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_causes_few_retries_and_no_reads_per_node() {
    let lab = Lab::started(Fake::with(100), InstancesMode::Auto, 100).await;
    seconds(20).await;
    assert!(lab.instances.is_well());
    lab.calls();
    lab.fake.refuse(down());
    lab.fake.cut();
    moment().await;
    assert_eq!(lab.state(), ViewState::Stale);
    assert!(!lab.instances.is_well());
    let nodes: Vec<NodeIdentity> = (0..100).map(nth).collect();
    for _ in 0..60 {
        for node in &nodes {
            let answer = lab.exists(node).await;
            assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
            let answer = lab.instances.shutdown(node);
            assert!(matches!(answer, Lookup::Unknown(_)), "{answer:?}");
            let answer = lab.instances.metadata(node, ZoneWanted::No);
            assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
        }
        seconds(5).await;
    }
    let [n_gets, n_lists, n_watches] = lab.count();
    assert_eq!(n_gets, 0);
    assert!(
        (5..=60).contains(&(n_lists + n_watches)),
        "{n_lists} lists and {n_watches} watches in five minutes"
    );
    lab.fake.delete("n0000");
    lab.fake.refuse(Refusals::default());
    seconds(60).await;
    assert_eq!(lab.state(), ViewState::Fresh);
    assert!(is_gone(&lab.exists(&nth(0)).await));
    assert_eq!(lab.exists(&nth(1)).await, Lookup::Found(()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_makes_the_view_stale_and_machines_are_read_singly() {
    let lab = Lab::started(Fake::with(2), InstancesMode::Auto, 2).await;
    seconds(600).await;
    assert_eq!(lab.state(), ViewState::Fresh, "bookmarks are enough");
    lab.calls();
    lab.fake.mute(true);
    let stale = async {
        while lab.state() != ViewState::Stale {
            seconds(1).await;
        }
    };
    timeout(Duration::from_secs(245), stale).await.expect("three minutes after the last bookmark");
    lab.calls();
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
    assert_eq!(lab.calls(), ["GET n0000"]);
    // The last read is recent enough for this question.
    assert_eq!(lab.instances.shutdown(&nth(0)), Lookup::Found(false));
    lab.fake.delete("n0001");
    assert!(is_gone(&lab.exists(&nth(1)).await));
    assert_eq!(lab.calls(), ["GET n0001", "LIST"]);
    lab.fake.mute(false);
    seconds(120).await;
    assert_eq!(lab.state(), ViewState::Fresh);
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_watch_machines_are_listed_on_demand() {
    let fake = Fake::with(10);
    fake.refuse(forbidden(true, false));
    let lab = Lab::started(fake, InstancesMode::Auto, 10).await;
    assert_eq!(lab.calls(), ["LIST", "WATCH"]);
    assert_eq!(lab.state(), ViewState::Poll);
    let nodes: Vec<NodeIdentity> = (0..10).map(nth).collect();
    // Six periods of the lifecycle controller with ten nodes that are not ready.
    for _tick in 0..6 {
        seconds(5).await;
        let answers = futures::future::join_all(nodes.iter().map(|node| lab.exists(node))).await;
        assert!(answers.iter().all(|answer| *answer == Lookup::Found(())));
        for node in &nodes {
            assert_eq!(lab.instances.shutdown(node), Lookup::Found(false));
        }
    }
    let [n_gets, n_lists, n_watches] = lab.count();
    assert!((3..=6).contains(&n_lists), "{n_lists} lists in six ticks");
    assert_eq!((n_gets, n_watches), (0, 0));
    // The periodic update of addresses accepts the last list.
    for node in &nodes {
        assert!(matches!(lab.instances.metadata(node, ZoneWanted::No), Lookup::Found(_)));
    }
    assert!(lab.calls().is_empty());
    // A machine that is gone.
    seconds(10).await;
    lab.fake.delete("n0000");
    assert!(is_gone(&lab.exists(&nth(0)).await));
    // A new node gets current metadata.
    lab.fake.put(object("late", "abc", "10.0.0.77"));
    seconds(10).await;
    let answer = lab.metadata(&node("late", None), ZoneWanted::Yes).await;
    assert!(matches!(answer, Lookup::Found(_)), "{answer:?}");
    // An hour without questions: twelve lists, one more for a try to watch that falls between two
    // of them, and six such tries.
    seconds(300).await;
    lab.calls();
    seconds(3600).await;
    let [n_gets, n_lists, n_watches] = lab.count();
    assert_eq!(n_gets, 0);
    assert!((12..=13).contains(&n_lists), "{n_lists}");
    assert!((5..=6).contains(&n_watches), "{n_watches}");
    // The Supervisor permits the watch now.
    lab.fake.refuse(Refusals::default());
    seconds(900).await;
    assert_eq!(lab.state(), ViewState::Fresh);
}

#[tokio::test(start_paused = true)]
async fn poll_mode_never_watches() {
    let lab = Lab::started(Fake::with(2), InstancesMode::Poll, 2).await;
    assert_eq!(lab.state(), ViewState::Poll);
    seconds(3600).await;
    let [n_gets, n_lists, n_watches] = lab.count();
    assert_eq!((n_gets, n_lists, n_watches), (0, 13, 0));
    lab.fake.refuse(down());
    seconds(10).await;
    let answer = lab.exists(&nth(0)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    lab.calls();
    assert!(matches!(lab.exists(&nth(1)).await, Lookup::Unknown(_)));
    assert!(lab.calls().is_empty(), "the backend knows that the Supervisor is down");
    lab.fake.refuse(Refusals::default());
    seconds(40).await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_list_machines_are_read_by_name() {
    let fake = Fake::with(3);
    fake.refuse(forbidden(true, true));
    let lab = Lab::started(fake, InstancesMode::Auto, 0).await;
    assert_eq!(lab.state(), ViewState::Get);
    assert_eq!(lab.calls(), ["LIST"]);
    let answer = lab.metadata(&nth(0), ZoneWanted::Yes).await;
    assert!(matches!(answer, Lookup::Found(_)), "{answer:?}");
    assert_eq!(lab.exists(&nth(1)).await, Lookup::Found(()));
    assert_eq!(lab.calls(), ["GET n0000", "GET n0001"]);
    seconds(10).await;
    lab.fake.delete("n0000");
    lab.fake.delete("n0002");
    assert!(is_gone(&lab.exists(&nth(0)).await), "the node was matched to the machine of its name");
    assert_eq!(lab.instances.n_missing(), 1);
    let answer = lab.exists(&nth(2)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Incomplete(_))), "never seen: {answer:?}");
    assert!(is_gone(&lab.exists(&node("n0002", None)).await), "the node is identified by its name");
    // A 404 about something else, such as a resource that is not served any more, does not count as
    // absence.
    lab.fake.refuse(Refusals { get: Some(404), ..forbidden(true, true) });
    for known in [nth(1), node("n0001", None)] {
        let answer = lab.exists(&known).await;
        assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    }
    lab.calls();
    seconds(600).await;
    assert_eq!(lab.count(), [0, 10, 0], "a try to list every minute");
    lab.fake.refuse(Refusals::default());
    seconds(61).await;
    assert_eq!(lab.state(), ViewState::Fresh);
}

#[tokio::test(start_paused = true)]
async fn an_api_version_that_is_not_served_is_an_error_and_proves_no_absence() {
    let fake = Fake::with(1);
    fake.refuse(Refusals { get: Some(404), list: Some(404), watch: Some(404) });
    let lab = Lab::started(fake, InstancesMode::Auto, 1).await;
    assert!(!lab.instances.is_well());
    let answer = lab.exists(&nth(0)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    moment().await;
    lab.calls();
    seconds(300).await;
    assert_eq!(lab.count(), [0, 10, 0], "a try to list every half minute");
    lab.fake.refuse(Refusals::default());
    seconds(31).await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
}

#[tokio::test(start_paused = true)]
async fn questions_wait_for_the_first_list_and_not_for_ever() {
    let fake = Fake::with(1);
    fake.refuse(down());
    let lab = Lab::new(fake, InstancesMode::Auto);
    let began = Instant::now();
    let answer = lab.metadata(&nth(0), ZoneWanted::Yes).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    assert_eq!(began.elapsed().as_secs(), 60);
    let fake = Fake::with(1);
    fake.refuse(down());
    let lab = Lab::new(fake, InstancesMode::Auto);
    let node = nth(0);
    let (answer, ()) = tokio::join!(lab.exists(&node), async {
        seconds(3).await;
        lab.fake.refuse(Refusals::default());
    });
    assert_eq!(answer, Lookup::Found(()));
    assert_eq!(lab.state(), ViewState::Fresh);
}

#[tokio::test(start_paused = true)]
async fn an_event_with_an_unreadable_field_does_not_lose_the_machine() {
    let lab = Lab::started(Fake::with(2), InstancesMode::Auto, 2).await;
    lab.fake.set("n0000", "/status/biosUUID", json!(7));
    lab.fake.set("n0001", "/status/network", json!("none"));
    moment().await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
    let Lookup::Found(metadata) = lab.instances.metadata(&nth(1), ZoneWanted::No) else { panic!() };
    assert!(metadata.addresses.is_err(), "the published addresses stay");
    assert_eq!(lab.calls(), ["LIST", "WATCH"]);
}

#[tokio::test(start_paused = true)]
async fn a_uuid_mismatch_under_the_same_name_is_counted_once() {
    let lab = Lab::started(Fake::with(1), InstancesMode::Auto, 1).await;
    let other = node("n0000", Some("vsphere://ffff"));
    for _ in 0..3 {
        let Lookup::Found(metadata) = lab.instances.metadata(&other, ZoneWanted::No) else {
            panic!();
        };
        assert_eq!(metadata.provider_id, "vsphere://ffff");
    }
    let text = lab.telemetry.metrics();
    assert!(text.contains("vsphere_supervisor_provider_id_mismatch_total 1"), "{text}");
    assert!(text.contains("vsphere_supervisor_lists_total{reason=\"start\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn older_lists_of_a_restored_supervisor_are_accepted_after_a_minute() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Poll, 3).await;
    lab.fake.set("n0000", "/status/network/primaryIP4", json!("10.7.7.7"));
    seconds(10).await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
    lab.fake.restore(50);
    lab.fake.lose("n0001");
    seconds(10).await;
    let answer = lab.exists(&nth(1)).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    assert_eq!(lab.instances.n_missing(), 0);
    seconds(60).await;
    assert!(is_gone(&lab.exists(&nth(1)).await));
    assert_eq!(lab.exists(&nth(2)).await, Lookup::Found(()));
}

#[tokio::test(start_paused = true)]
async fn a_list_in_flight_does_not_bring_back_a_machine_deleted_meanwhile() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Auto, 3).await;
    lab.fake.delete("n0000");
    moment().await;
    lab.fake.delay_lists(Duration::from_secs(2));
    let gone = nth(0);
    let (answer, ()) = tokio::join!(lab.exists(&gone), async {
        seconds(1).await;
        lab.fake.delete("n0001");
    });
    assert!(is_gone(&answer), "{answer:?}");
    assert_eq!(lab.instances.n_missing(), 2);
    lab.calls();
    assert!(is_gone(&lab.exists(&nth(1)).await));
    assert_eq!(lab.calls(), ["LIST"], "the earlier list still shows the machine");
}

#[tokio::test(start_paused = true)]
async fn questions_before_the_first_list_are_answered_when_it_arrives() {
    let lab = Lab::new(Fake::with(3), InstancesMode::Auto);
    let asked_at = Instant::now();
    let (there, absent) = (nth(0), nth(9));
    let (exists, metadata) =
        tokio::join!(lab.exists(&there), lab.metadata(&absent, ZoneWanted::Yes));
    assert_eq!(exists, Lookup::Found(()));
    assert!(matches!(metadata, Lookup::Unknown(_)), "{metadata:?}");
    assert!(asked_at.elapsed() < Duration::from_secs(2), "{:?}", asked_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_machine_read_a_moment_ago_is_not_read_again_before_its_node_is_deleted() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Auto, 3).await;
    lab.fake.delete("n0001");
    moment().await;
    assert!(is_gone(&lab.exists(&nth(1)).await));
    lab.calls();
    assert_eq!(lab.instances.recheck_absence(&nth(1)).await, None);
    assert_eq!(lab.calls(), ["GET n0001"]);
    assert_eq!(lab.instances.recheck_absence(&nth(1)).await, None);
    assert!(lab.calls().is_empty());
    seconds(2).await;
    assert_eq!(lab.instances.recheck_absence(&nth(1)).await, None);
    assert_eq!(lab.calls(), ["GET n0001"]);
}
