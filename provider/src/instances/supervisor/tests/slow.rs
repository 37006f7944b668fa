//! Tests with a Supervisor that answers slowly, answers only some requests, or stops answering and
//! later answers again.

use futures::StreamExt as _;

use super::*;

/// Runs one period of the lifecycle controller: asks whether the machine of each node exists, with
/// 20 s per question.
async fn tick(lab: &Lab, nodes: &[NodeIdentity]) -> Vec<Lookup<()>> {
    let ask = |node: NodeIdentity| async move {
        let asked = lab.exists(&node);
        let unanswered = Lookup::Unknown(Unknown::Pending);
        timeout(Duration::from_secs(20), asked).await.unwrap_or(unanswered)
    };
    let questions = nodes.iter().cloned().map(ask);
    futures::stream::iter(questions).buffered(lab.instances.max_concurrent_exists()).collect().await
}

#[tokio::test(start_paused = true)]
async fn many_nodes_that_are_read_one_by_one_are_all_answered_in_every_tick() {
    let fake = Fake::with(150);
    fake.refuse(forbidden(true, true));
    let lab = Lab::started(fake, InstancesMode::Auto, 150).await;
    let nodes: Vec<NodeIdentity> = (0..150).map(nth).collect();
    for round in 0..4 {
        let answers = tick(&lab, &nodes).await;
        let n_answered = answers.iter().filter(|it| **it == Lookup::Found(())).count();
        assert_eq!(n_answered, 150, "tick {round}");
        seconds(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_is_an_answer_and_is_not_repeated_at_once() {
    let lab = Lab::started(Fake::with(1), InstancesMode::Auto, 1).await;
    lab.calls();
    lab.fake.delay_gets(Duration::from_secs(7));
    let early = node("early", None);
    assert_eq!(lab.metadata(&early, ZoneWanted::Yes).await, Lookup::Unknown(Unknown::NotSeen));
    assert_eq!(lab.calls(), ["GET early"]);
    let fake = Fake::with(2);
    fake.refuse(forbidden(true, true));
    fake.delay_gets(Duration::from_secs(7));
    let lab = Lab::started(fake, InstancesMode::Auto, 2).await;
    lab.calls();
    let answer = lab.metadata(&nth(0), ZoneWanted::Yes).await;
    assert!(matches!(answer, Lookup::Found(_)), "{answer:?}");
    assert_eq!(lab.exists(&nth(1)).await, Lookup::Found(()));
    assert_eq!(lab.instances.shutdown(&nth(1)), Lookup::Found(false));
    assert_eq!(lab.calls(), ["GET n0000", "GET n0001"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_is_a_failure_and_is_not_repeated_at_once() {
    let lab = Lab::started(Fake::with(1), InstancesMode::Auto, 1).await;
    lab.calls();
    lab.fake.delay_gets(Duration::from_secs(60));
    let answer = lab.metadata(&node("early", None), ZoneWanted::Yes).await;
    assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    assert_eq!(lab.calls(), ["GET early"]);
}

#[tokio::test(start_paused = true)]
async fn a_restored_supervisor_is_believed_where_machines_are_read_by_name() {
    let fake = Fake::with(2);
    fake.refuse(forbidden(true, true));
    let lab = Lab::started(fake, InstancesMode::Auto, 2).await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
    lab.fake.restore(50);
    seconds(10).await;
    assert_eq!(lab.exists(&nth(0)).await, Lookup::Found(()));
    assert_eq!(lab.instances.shutdown(&nth(0)), Lookup::Found(false));
    seconds(10).await;
    let answer = lab.metadata(&nth(0), ZoneWanted::No).await;
    assert!(matches!(answer, Lookup::Found(_)), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_uuid_in_another_spelling_is_the_same_machine() {
    const UUID: &str = "4215f0de-aabb-ccdd-eeff-001122334455";
    let swapped = "def01542-bbaa-ddcc-eeff-001122334455";
    let without_dashes = UUID.replace('-', "");
    for spelling in [UUID, swapped, &without_dashes, &swapped.replace('-', "")] {
        let fake = Fake::with(1);
        fake.put(object("m", &UUID.to_uppercase(), "10.0.0.9"));
        let lab = Lab::started(fake, InstancesMode::Auto, 1).await;
        let spelled = node("m", Some(&format!("vsphere://{spelling}")));
        assert_eq!(lab.exists(&spelled).await, Lookup::Found(()), "{spelling}");
        assert_eq!(lab.instances.shutdown(&spelled), Lookup::Found(false), "{spelling}");
        let list = lab.fake.take_calls();
        assert_eq!(list, ["LIST", "WATCH"], "{spelling}: the view has the machine");
        lab.fake.delete("m");
        moment().await;
        assert!(is_gone(&lab.exists(&spelled).await), "{spelling}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_periodic_list_leaves_the_watch_running() {
    let lab = Lab::started(Fake::with(2), InstancesMode::Auto, 2).await;
    lab.instances.changed().await;
    lab.fake.refuse(Refusals { list: Some(504), ..Refusals::default() });
    lab.calls();
    seconds(2400).await;
    let [_, n_lists, _] = lab.count();
    assert!((1..=10).contains(&n_lists), "{n_lists} lists");
    assert_eq!(lab.state(), ViewState::Fresh);
    lab.fake.set("n0001", "/status/powerState", json!("PoweredOff"));
    moment().await;
    assert_eq!(lab.instances.shutdown(&nth(1)), Lookup::Found(true));
}

#[tokio::test(start_paused = true)]
async fn a_429_with_a_retry_after_of_0_or_1_s_still_backs_off() {
    for pause in [0, 1] {
        let lab = Lab::started(Fake::with(2), InstancesMode::Auto, 2).await;
        lab.fake.ask_to_wait(pause);
        lab.fake.refuse(Refusals { get: Some(429), list: Some(429), watch: Some(429) });
        lab.fake.cut();
        // Without a pause, the backend would send requests to a fast server for ever at one instant
        // of the virtual clock.
        lab.calls();
        seconds(300).await;
        let [_, n_lists, n_watches] = lab.count();
        assert!((5..=60).contains(&(n_lists + n_watches)), "{pause}: {n_lists}, {n_watches}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_forbidden_for_a_moment_is_tried_again_after_a_minute() {
    let fake = Fake::with(2);
    fake.refuse(forbidden(true, false));
    let lab = Lab::started(fake, InstancesMode::Auto, 2).await;
    assert_eq!(lab.state(), ViewState::Poll);
    seconds(10).await;
    lab.fake.refuse(forbidden(true, true));
    let answer = lab.exists(&nth(0)).await;
    assert!(matches!(answer, Lookup::Unknown(_)), "{answer:?}");
    assert_eq!(lab.state(), ViewState::Get);
    lab.fake.refuse(forbidden(true, false));
    seconds(62).await;
    assert_eq!(lab.state(), ViewState::Poll);
}

#[tokio::test(start_paused = true)]
async fn one_failed_list_delays_a_proof_by_seconds_and_repeated_failures_by_more() {
    let lab = Lab::started(Fake::with(3), InstancesMode::Auto, 3).await;
    lab.fake.delete("n0000");
    moment().await;
    lab.fake.refuse(Refusals { list: Some(500), ..Refusals::default() });
    let gone = nth(0);
    let minute_ago = || Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
    seconds(100).await;
    lab.calls();
    // The lifecycle controller asks about all nodes at once, and all answers share the failure.
    let asked = (0..20).map(|_| Instances::exists(&lab.instances, &gone, minute_ago()));
    for answer in futures::future::join_all(asked).await {
        assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(lab.calls(), ["LIST"]);
    lab.fake.refuse(Refusals::default());
    seconds(6).await;
    assert!(is_gone(&Instances::exists(&lab.instances, &gone, minute_ago()).await));
    // While lists fail repeatedly, the backend requests them at growing intervals.
    lab.fake.refuse(Refusals { list: Some(500), ..Refusals::default() });
    seconds(61).await;
    lab.calls();
    for _tick in 0..60 {
        let answer = Instances::exists(&lab.instances, &gone, minute_ago()).await;
        assert!(matches!(answer, Lookup::Unknown(Unknown::Unavailable(_))), "{answer:?}");
        seconds(5).await;
    }
    let [_, n_lists, _] = lab.count();
    assert!((5..=16).contains(&n_lists), "{n_lists} lists in five minutes");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_outlives_its_questions_is_finished_and_answers_later_ones() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let fake = Fake::with(30);
        fake.pages_of(6, 0);
        let lab = Lab::started(fake, mode, 30).await;
        lab.fake.delete("n0000");
        seconds(10).await;
        lab.fake.delay_lists(Duration::from_secs(5));
        let gone = nth(0);
        let proof = async {
            loop {
                let after = Instant::now()
                    .checked_sub(Duration::from_secs(60))
                    .unwrap_or_else(Instant::now);
                let asked = Instances::exists(&lab.instances, &gone, after);
                let answer = timeout(Duration::from_secs(20), asked).await;
                if answer.is_ok_and(|answer| is_gone(&answer)) {
                    break;
                }
                seconds(5).await;
            }
        };
        timeout(Duration::from_secs(120), proof).await.expect("a list that becomes complete");
    }
}
