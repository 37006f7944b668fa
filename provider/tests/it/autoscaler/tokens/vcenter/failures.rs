//! Crashes, refusals and secrets.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_leaves_neither_an_unknown_token_nor_one_for_ever() {
    // The journal is written before the answer. `None` kills the server right after it.
    let writes = [
        None,
        Some("create secrets"),
        Some("CloneVM_Task"),
        Some("PowerOnVM_Task"),
        Some("delete secrets"),
    ];
    for operation in writes {
        for is_applied in [false, true] {
            let what = format!("{operation:?}, applied: {is_applied}");
            let clones = Clones::new().await;
            let server = clones.start(1).await;
            let rule = operation.map(|operation| {
                let rule = Rule::new("crash", [Action::Blackhole]).op([operation]).after(0);
                let rule = if is_applied { rule.applied() } else { rule };
                clones.world.sim.fault(rule).unwrap()
            });
            server.increase(GROUP, 1).await.unwrap();
            let has_fired =
                || operation.is_none() || clones.world.sim.fired().iter().any(|it| it.1 > 0);
            for _ in 0..200 {
                if has_fired() {
                    break;
                }
                wait(1).await;
            }
            assert!(has_fired(), "{what}: the fault fired");
            server.kill().await;
            drop(rule);
            let server = clones.start(2).await;
            wait(400).await;
            assert_eq!(clones.clones().len(), 1, "{what}");
            assert_eq!(clones.world.nodes().await, names(&clones), "{what}");
            assert_eq!(clones.world.refusals(), [""; 0], "{what}");
            assert_eq!(clones.world.tokens().await, NO_TOKENS, "{what}");
            server.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_is_repeated_after_a_crash_gets_the_token_that_exists() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let full = clones.soap_fault("CloneVM_Task", Action::soap_fault("NoDiskSpace"));
    server.increase(GROUP, 1).await.unwrap();
    wait(20).await;
    let before = clones.world.tokens().await;
    assert_eq!(before.len(), 1);
    server.kill().await;
    let server = clones.start(2).await;
    wait(120).await;
    let off = clones.keep_off();
    drop(full);
    wait(120).await;
    let after = clones.world.tokens().await;
    assert_eq!((after.len(), whole(&after[0])), (1, whole(&before[0])));
    assert!(clones.clones()[0].1.contains(&whole(&after[0])));
    drop(off);
    wait(300).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.tokens().await.len()), (1, 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_deleted_before_the_clone_is_replaced_and_a_left_over_one_is_revoked() {
    let clones = Clones::new().await;
    let _slow =
        clones.world.fault(Action::WatchDelay(crate::capacity::s(600)), WORKLOAD, "watch secrets");
    let lost = Rule::new("lost", [Action::Reset]).op(["create secrets"]).client(WORKLOAD);
    let lost = clones.world.sim.fault(lost.first(1).applied()).unwrap();
    let server = clones.start(1).await;
    let full = clones.soap_fault("CloneVM_Task", Action::soap_fault("NoDiskSpace"));
    server.increase(GROUP, 1).await.unwrap();
    wait(20).await;
    let tokens = clones.world.tokens().await;
    assert_eq!(tokens.len(), 2, "the answer to the first one was lost");
    for token in &tokens {
        let path = format!("{TOKENS}/{}", token["metadata"]["name"].as_str().unwrap());
        clones.world.send(false, "DELETE", &path, None).await;
    }
    drop((lost, full));
    wait(300).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.refusals()), (1, Vec::new()));
    wait(900).await;
    assert_eq!(clones.world.tokens().await, NO_TOKENS);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_no_user_data_has_is_revoked_when_the_clone_has_another_one() {
    let clones = Clones::new().await;
    let lost = Rule::new("lost", [Action::Reset]).op(["create secrets"]).client(WORKLOAD);
    let _lost = clones.world.sim.fault(lost.first(1).applied()).unwrap();
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let tokens = clones.world.tokens().await;
    assert_eq!(tokens.len(), 1);
    assert!(clones.clones()[0].1.contains(&whole(&tokens[0])));
    drop(off);
    wait(300).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.tokens().await.len()), (1, 0));
    server.stop().await;
}

/// Deletes the tokens, as another program does.
async fn delete_tokens(clones: &Clones) {
    for token in clones.world.tokens().await {
        let path = format!("{TOKENS}/{}", token["metadata"]["name"].as_str().unwrap());
        clones.world.send(false, "DELETE", &path, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_whose_token_is_gone_stays_off_and_fails() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    delete_tokens(&clones).await;
    drop(off);
    wait(400).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.refusals()), (0, Vec::new()));
    let instances = format!("{:?}", server.instances(GROUP).await);
    assert!(instances.contains("BOOTSTRAP_TOKEN"), "{instances}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_is_made_again_keeps_its_new_token() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let before = whole(&clones.world.tokens().await[0]);
    delete_tokens(&clones).await;
    let name = names(&clones).pop_first().unwrap();
    clones.world.sim.apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    drop(off);
    wait(400).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.refusals()), (1, Vec::new()));
    assert!(!clones.clones()[0].1.contains(&before));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_cluster_that_refuses_or_does_not_answer_fails_the_machine_after_the_grace_period()
 {
    let permission =
        "the account of --workload-kubeconfig (or of this pod) needs `create` of `secrets` there";
    for (action, operation, why) in [
        (Action::KubeStatus(KubeStatus::new(403)), "create secrets", permission),
        (Action::KubeStatus(KubeStatus::new(500)), "create secrets", "was answered with 500"),
        (Action::Reset, "create secrets", "was not answered"),
        (Action::Blackhole, "create secrets", "no answer within 10s"),
        (Action::Reset, "list secrets", "have not been listed yet"),
    ] {
        keep_log();
        let clones = Clones::new().await;
        let rule = clones.world.fault(action, WORKLOAD, operation);
        let server = clones.start(1).await;
        server.increase(GROUP, 1).await.unwrap();
        wait(90).await;
        assert!(server.instances(GROUP).await[0].ends_with(" creating"), "{why}");
        wait(120).await;
        let shown = server.instances(GROUP).await.remove(0);
        assert!(shown.ends_with(" creating BOOTSTRAP_TOKEN 99"), "{why}: {shown}");
        assert!(n_logged(&["WARN", "workload cluster", why]) > 0, "{why}");
        assert_eq!(clones.n_calls("CloneVM_Task"), 0);
        drop(rule);
        wait(400).await;
        assert_eq!(clones.world.nodes().await, names(&clones), "{why}");
        assert_eq!((clones.clones().len(), clones.world.tokens().await.len()), (1, 0), "{why}");
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_of_clones_that_does_not_fit_is_refused_by_name_with_remedy() {
    keep_log();
    let with = b"# {{ bootstrap-token }}";
    for (data, token, want) in [
        (
            &b"#cloud-config"[..],
            ", token: {}",
            "the user data has no {{ bootstrap-token }}; write it",
        ),
        (with, "", "the user data has {{ bootstrap-token }}; add `token: {}`"),
        (b" \n", "", "is empty; write the data that makes a machine join the cluster"),
        (b"\xff {{ bootstrap-token }}", ", token: {}", "is not UTF-8 text; write it without"),
    ] {
        let clones = Clones::new().await;
        clones.set_user_data(data);
        clones.world.set_groups(&GROUPS.replace(", token: {ttl: 1h}", token));
        let server = clones.start(1).await;
        server.increase(GROUP, 1).await.unwrap();
        wait(30).await;
        let shown = server.instances(GROUP).await.remove(0);
        assert!(shown.ends_with(" creating BAD_CONFIGURATION 99"), "{want}: {shown}");
        assert!(n_logged(&["WARN", "bootstrap: file user-data: ", want]) > 0, "{want}");
        assert_eq!((clones.clones().len(), clones.world.tokens().await.len()), (0, 0));
        server.stop().await;
    }
    let clones = Clones::new().await;
    let other = GROUPS.replace("name: workers", "name: other").replace(", token: {ttl: 1h}", "");
    clones.world.set_groups(&format!("{GROUPS}{}", other.trim_start_matches("groups:\n")));
    let server = clones.start_with(1, false).await;
    assert_eq!(server.groups().await, [("vcenter/other".to_owned(), 0, 10)]);
    let why = "group workers: clone: bootstrap: token: the server knows no workload cluster for the tokens; give --workload-kubeconfig FILE";
    assert_eq!(n_logged(&["ERROR", why]), 1);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_clone_is_in_no_log_journal_error_or_metric() {
    keep_log();
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 2).await.unwrap();
    wait(30).await;
    let tokens = clones.world.tokens().await;
    let refused = refuse_with_secret(&clones.world, &tokens[0]);
    server.increase(GROUP, 1).await.unwrap();
    wait(HOUR).await;
    let (instances, journal) = (server.instances(GROUP).await, clones.journal.text());
    let shown = format!("{instances:?} {journal} {:?}", server.telemetry.metrics());
    drop((refused, off));
    wait(400).await;
    let ids = server.clones().await;
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(120).await;
    let events = clones.world.send(false, "GET", "/api/v1/namespaces/default/events", None).await;
    let shown = format!("{shown} {} {events}", clones.journal.text());
    assert_hidden(&tokens, &shown);
    server.stop().await;
}
