//! Crashes, outages and other servers.

use super::*;

const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;

/// Asserts that no Secret lacks a machine, and no machine its user data.
async fn assert_complete(world: &World, n_machines: usize, what: &str) {
    let machines = world.machines().await;
    assert_eq!(machines.len(), n_machines, "{what}: machines");
    let of = |secrets: &[Value]| {
        let label = |it: &Value| {
            it["metadata"]["labels"]["vsphere.cloud-provider/machine"].as_str().unwrap().to_owned()
        };
        secrets.iter().map(label).collect::<std::collections::BTreeSet<_>>()
    };
    let data = world.data().await;
    assert_eq!(of(&data), names(&machines), "{what}: user data");
    for secret in &data {
        let owner = &secret["metadata"]["ownerReferences"][0]["uid"];
        assert!(machines.iter().any(|it| it["metadata"]["uid"] == *owner), "{what}: owner");
    }
    assert!(of(&world.tokens().await).is_subset(&names(&machines)), "{what}: tokens");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_leaves_neither_a_secret_without_machine_nor_a_machine_without_data() {
    // Client, operation, number of the request of this operation, and machines at the end.
    let writes = [
        (WORKLOAD, "create secrets", 1, 0),
        (SUPERVISOR, "create secrets", 1, 0),
        (SUPERVISOR, "create virtualmachines", 1, 0),
        // The owner, the note that the machine is a Node, and the deletion of the token.
        (SUPERVISOR, "patch secrets", 1, 1),
        (SUPERVISOR, "patch secrets", 2, 1),
        (WORKLOAD, "delete secrets", 1, 1),
    ];
    for (client, operation, nth, n_machines) in writes {
        for is_applied in [false, true] {
            let what = format!("{operation} {nth} of {client}, applied: {is_applied}");
            let world = World::new().await;
            let server = world.start().await;
            let rule = sim::faults::Rule::new("crash", [Action::Blackhole]).op([operation]);
            let rule = rule.client(client).after(nth - 1);
            let rule = if is_applied { rule.applied() } else { rule };
            let rule = world.sim.fault(rule).unwrap();
            let increased = server.increase(GROUP, 1);
            drop(tokio::time::timeout(s(2), increased).await);
            let has_fired = || world.sim.fired().iter().any(|(_, n)| *n > 0);
            for _ in 0..200 {
                wait(2).await;
                if has_fired() {
                    break;
                }
            }
            assert!(has_fired(), "{what}: the fault fired");
            server.kill().await;
            drop(rule);
            let server = world.start_with(2, true).await;
            wait(300).await;
            // A machine whose creation took effect before the crash counts, as without tokens.
            let is_made = is_applied && operation == "create virtualmachines";
            let n_machines = n_machines.max(usize::from(is_made));
            assert_complete(&world, n_machines, &what).await;
            assert_eq!(world.nodes().await.len(), n_machines, "{what}");
            assert_eq!(world.tokens().await.len(), 0, "{what}");
            server.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_increase_that_the_workload_cluster_refuses_or_does_not_answer_leaves_nothing() {
    let refused = Action::KubeStatus(KubeStatus::new(403));
    let down = Action::KubeStatus(KubeStatus::new(500));
    let what = "creating the bootstrap token of a new machine in the workload cluster failed: ";
    let permission = "POST /api/v1/namespaces/kube-system/secrets was answered with 403 Forbidden: \
        the account of --workload-kubeconfig (or of this pod) needs `create` of `secrets` there; \
        docs/autoscaler.md, Bootstrap tokens, has the role";
    for (action, want, why) in [
        (refused, PERMISSION_DENIED, permission),
        (down, UNAVAILABLE, "was answered with 500"),
        (Action::Reset, UNAVAILABLE, "was not answered"),
        (Action::Blackhole, UNAVAILABLE, "no answer within"),
    ] {
        let world = World::new().await;
        let server = world.start().await;
        let rule = world.fault(action, WORKLOAD, "create secrets");
        let (code, message) = server.increase(GROUP, 3).await.unwrap_err();
        assert_eq!(code, want, "{message}");
        assert!(message.starts_with(what) && message.contains(why), "{message}");
        assert_eq!(server.target(GROUP).await, 0);
        drop(rule);
        wait(200).await;
        assert_complete(&world, 0, why).await;
        server.increase(GROUP, 1).await.unwrap();
        wait(300).await;
        assert_eq!(world.nodes().await.len(), 1);
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_increase_survives_a_lost_answer_and_a_token_that_is_left_over_is_revoked() {
    for (client, n_tokens) in [(WORKLOAD, 2), (SUPERVISOR, 1)] {
        let world = World::new().await;
        world.make_machines(false);
        let server = world.start().await;
        let rule = sim::faults::Rule::new("lost", [Action::Reset]).op(["create secrets"]);
        let rule = world.sim.fault(rule.client(client).first(1).applied()).unwrap();
        server.increase(GROUP, 1).await.unwrap();
        assert_eq!((world.tokens().await.len(), world.data().await.len()), (n_tokens, 1));
        wait(60).await;
        drop(rule);
        let (tokens, data) = (world.tokens().await, world.data().await);
        assert_eq!(tokens.len(), 1);
        let of = text(&data[0], "bootstrap-token");
        assert!(of.starts_with(&text(&tokens[0], "token-id")), "the other one was left over");
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_repeats_no_write() {
    let world = World::new().await;
    world.make_machines(false);
    let _slow = [WORKLOAD, SUPERVISOR]
        .map(|client| world.fault(Action::WatchDelay(s(120)), client, "watch secrets"));
    let server = world.start().await;
    server.increase(GROUP, 2).await.unwrap();
    wait(100).await;
    let records = world.sim.ledger().records();
    let writes =
        records.iter().filter(|it| it.client.client != "test" && it.op.ends_with("secrets"));
    let writes: Vec<&str> = writes
        .map(|it| &*it.op)
        .filter(|it| it.starts_with("create") || it.starts_with("patch"))
        .collect();
    assert_eq!(writes.iter().filter(|it| it.starts_with("create")).count(), 4, "{writes:?}");
    assert_eq!(writes.len(), 6, "{writes:?}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_increase_has_made_before_its_failure_is_deleted() {
    let world = World::new().await;
    let server = world.start().await;
    let refused = Action::KubeStatus(KubeStatus::new(403));
    let rule = world.fault(refused, SUPERVISOR, "create virtualmachines");
    server.increase(GROUP, 2).await.unwrap_err();
    assert_eq!((world.tokens().await.len(), world.data().await.len()), (2, 2));
    drop(rule);
    wait(200).await;
    assert_complete(&world, 0, "refused machines").await;
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_workload_cluster_longer_than_the_life_of_a_token_stops_no_machine() {
    let world = World::new().await;
    let server = world.start().await;
    world.make_machines(false);
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let down = sim::faults::Rule::new("down", [Action::Reset]).client(WORKLOAD);
    let down = world.sim.fault(down).unwrap();
    let plane = sim::world::ControlPlane::Workload;
    world.sim.apply(sim::world::Command::EndWatches { plane }).unwrap();
    wait(3 * HOUR).await;
    assert!(left(&world, &world.tokens().await[0]) < 0, "the token has expired");
    drop(down);
    wait(120).await;
    assert!(left(&world, &world.tokens().await[0]) > 1800);
    world.make_machines(true);
    wait(300).await;
    assert_eq!((world.nodes().await.len(), world.tokens().await.len()), (1, 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_removes_tokens_of_machines_that_are_gone_and_no_others() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 2).await.unwrap();
    wait(60).await;
    server.kill().await;
    let name = names(&world.machines().await).pop_first().unwrap();
    world.make_machines(true);
    // Before the machine boots.
    world.send(true, "DELETE", &format!("{MACHINES}/{name}"), None).await;
    world.make_machines(false);
    let mut foreign = world.tokens().await.remove(0);
    foreign["metadata"] = json!({"name": "bootstrap-token-ffffff"});
    world.send(false, "POST", TOKENS, Some(&foreign)).await;
    let mut other = world.tokens().await.remove(0);
    let labels = other["metadata"]["labels"].take();
    other["metadata"] = json!({"name": "bootstrap-token-eeeeee", "labels": labels});
    other["metadata"]["labels"]["vsphere.cloud-provider/supervisor-namespace"] = "other".into();
    world.send(false, "POST", TOKENS, Some(&other)).await;
    assert_eq!(world.tokens().await.len(), 4);
    let server = world.start_with(2, true).await;
    let other_machine = names(&world.machines().await).pop_last().unwrap();
    for n in 0..10 {
        wait(5).await;
        // Each event proves that the view is current.
        let patch = json!({"metadata": {"annotations": {"n": n.to_string()}}});
        world.send(true, "PATCH", &format!("{MACHINES}/{other_machine}"), Some(&patch)).await;
    }
    assert_eq!(world.tokens().await.len(), 4, "another server may still create the machine");
    wait(250).await;
    let tokens = world.tokens().await;
    assert_eq!(tokens.len(), 3);
    let is_kept = |name: &str| names(&tokens).contains(&format!("bootstrap-token-{name}"));
    assert!(is_kept("ffffff") && is_kept("eeeeee"));
    let of_machines = tokens
        .iter()
        .filter_map(|it| it["metadata"]["labels"]["vsphere.cloud-provider/machine"].as_str());
    assert!(of_machines.clone().any(|it| it != name));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_servers_do_not_revoke_the_tokens_of_each_other() {
    let world = World::new().await;
    let (first, second) = (world.start_with(1, true).await, world.start_with(2, true).await);
    world.make_machines(false);
    first.increase(GROUP, 1).await.unwrap();
    second.increase(GROUP, 2).await.unwrap();
    for _ in 0..30 {
        wait(600).await;
        let tokens = world.tokens().await;
        assert_eq!(tokens.len(), 3);
        assert!(tokens.iter().all(|it| left(&world, it) > 1700));
    }
    world.make_machines(true);
    wait(300).await;
    assert_eq!((world.nodes().await.len(), world.tokens().await.len()), (3, 0));
    assert_eq!(world.refusals(), [""; 0]);
    assert_complete(&world, 3, "two servers").await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_permission_for_nodes_a_token_lives_until_its_machine_is_deleted() {
    let world = World::new().await;
    let forbidden = Action::KubeStatus(KubeStatus::new(403));
    let _rule = world.fault(forbidden, WORKLOAD, "list nodes");
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    wait(3 * HOUR).await;
    assert_eq!((world.nodes().await.len(), world.tokens().await.len()), (1, 1));
    assert!(left(&world, &world.tokens().await[0]) > 1700);
    let ids = server.ids().await;
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(120).await;
    assert_eq!(world.tokens().await.len(), 0);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_view_of_the_machines_is_old_revokes_nothing() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let watch = world.fault(Action::Reset, SUPERVISOR, "watch virtualmachines");
    let list = world.fault(Action::Reset, SUPERVISOR, "list virtualmachines");
    let plane = sim::world::ControlPlane::Supervisor;
    world.sim.apply(sim::world::Command::EndWatches { plane }).unwrap();
    wait(10).await;
    // The token of a machine that another server makes now.
    let mut other = world.tokens().await.remove(0);
    let mut labels = other["metadata"]["labels"].take();
    labels["vsphere.cloud-provider/machine"] = "workers-other".into();
    labels["vsphere.cloud-provider/bios-uuid"] = "42290000-0000-4000-8000-000000000001".into();
    other["metadata"] = json!({"name": "bootstrap-token-eeeeee", "labels": labels});
    world.send(false, "POST", TOKENS, Some(&other)).await;
    wait(1800).await;
    assert_eq!(world.tokens().await.len(), 2);
    drop((watch, list));
    wait(200).await;
    assert_eq!(world.tokens().await.len(), 1, "the view is current and lacks the machine");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_loses_the_label_of_its_group_while_it_boots_joins_all_the_same() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let name = world.machines().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let removed = json!({"metadata": {"labels": {"vsphere.cloud-provider/node-group": null}}});
    world.send(true, "PATCH", &format!("{MACHINES}/{name}"), Some(&removed)).await;
    wait(300).await;
    assert_eq!(server.ids().await, [""; 0], "the machine left the group");
    assert_eq!((world.tokens().await.len(), world.data().await.len()), (1, 1));
    world.make_machines(true);
    wait(300).await;
    assert_eq!((world.nodes().await.len(), world.refusals()), (1, Vec::new()));
    world.send(true, "DELETE", &format!("{MACHINES}/{name}"), None).await;
    wait(300).await;
    assert_eq!(world.tokens().await.len(), 0, "the machine is gone");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_increase_whose_requests_are_slow_ends_within_the_deadline_of_its_caller() {
    let world = World::new().await;
    let server = world.start().await;
    let _secret = world.fault(Action::Delay(s(3)), SUPERVISOR, "get secrets");
    let _machine = world.fault(Action::Delay(s(3)), SUPERVISOR, "create virtualmachines");
    // The client gives the server five seconds, and fails the test after that.
    let (_, message) = server.increase(GROUP, 1).await.unwrap_err();
    assert!(message.contains("cannot be created within"), "{message}");
    wait(120).await;
    assert_eq!((world.machines().await.len(), world.tokens().await.len()), (0, 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slow_user_data_does_not_delay_a_group_without_token() {
    let world = World::with_user_data("#cloud-config").await;
    world.set_groups(&super::world::GROUPS.replace(", token: {ttl: 1h}", ""));
    let server = world.start().await;
    let _secret = world.fault(Action::Delay(s(10)), SUPERVISOR, "get secrets");
    server.increase(GROUP, 1).await.unwrap();
    assert_eq!(world.machines().await.len(), 1);
    server.stop().await;
}
