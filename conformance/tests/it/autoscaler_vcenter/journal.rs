//! The journal: its writes, and journals that are lost, wrong or of another vCenter.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_change_is_one_write_and_a_failed_write_changes_nothing() {
    let server = start(file(0, "")).await;
    let journal = server.ours.journal().clone();
    let before = journal.n_writes();
    server.increase(10).await;
    assert_eq!(journal.n_writes(), before + 1);
    tokio::time::sleep(s(240)).await;
    let ids = server.ids().await;
    let before = journal.n_writes();
    server.delete(&ids[..5]).await;
    assert_eq!(journal.n_writes(), before + 1);
    tokio::time::sleep(s(120)).await;
    journal.refuse(true);
    assert_eq!(server.code("NodeGroupIncreaseSize", Resize::new(GROUP, 1)).await, UNAVAILABLE);
    let nodes = [SentNode::fake(&ids[5], "unregistered")];
    let deletion = DeleteNodes::new(GROUP, nodes);
    assert_eq!(server.code("NodeGroupDeleteNodes", deletion).await, UNAVAILABLE);
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim())), (5, ids[5..].to_vec()));
    journal.refuse(false);
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim())), (5, ids[5..].to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_journal_stops_the_server_until_it_may_adopt_its_machines() {
    let (server, ids) = running_group(2).await;
    server.ours.kill();
    server.ours.journal().set(None);
    let server = next(&server.ours, 2).await;
    let refusal = server.try_call::<Empty>("Refresh", Empty {}).await.unwrap_err();
    let (name, _) = machines(server.sim()).remove(0);
    assert!(refusal.to_string().contains(&name), "{refusal}");
    assert_eq!(server.code("NodeGroupIncreaseSize", Resize::new(GROUP, 1)).await, UNAVAILABLE);
    let server = server.crash(3).await;
    assert_eq!(server.code("Refresh", Empty {}).await, UNAVAILABLE, "a restart changes nothing");

    server.ours.kill();
    let adopting = file(0, "").replace("max: 20,", "max: 20, adopt: true,");
    let server = next(&server.ours.clone().with_groups(adopting), 3).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    assert_eq!(server.states().await, [1, 1]);
    server.delete(&ids).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(machines(server.sim()).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_is_no_journal_or_that_of_another_vcenter_is_refused() {
    let (server, _) = running_group(1).await;
    let text = server.ours.journal().text().unwrap();
    server.ours.kill();
    server.ours.journal().set(Some("{}".to_owned()));
    let refusal = server.ours.run(2).await.unwrap_err();
    assert!(refusal.contains("--journal memory: is not a valid journal"), "{refusal}");
    assert!(refusal.contains("restore the journal"), "{refusal}");

    let at = text.find("\"vcenter\":\"").unwrap() + 11;
    let other = format!("{}{}{}", &text[..at], "0000", &text[at + 4..]);
    server.ours.journal().set(Some(other));
    let server = next(&server.ours, 3).await;
    let refusal = server.try_call::<Empty>("Refresh", Empty {}).await.unwrap_err();
    assert!(refusal.to_string().contains("the journal is about the vCenter"), "{refusal}");
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim()).len()), (1, 1));
}

/// Returns a journal in a ConfigMap of the sim's cluster.
fn config_map(sim: &Sim) -> ConfigMapJournal {
    let token = sim.admin_token().to_owned();
    let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
    let client = kube::Client::new(sim.cluster().service("journal"), "kube-system");
    let client = authenticated(client, Arc::new(tokens), http::HeaderValue::from_static("journal"));
    ConfigMapJournal::new(client, "kube-system", "autoscaler-journal")
}

#[tokio::test(start_paused = true)]
async fn a_config_map_keeps_the_journal_and_has_one_writer() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let first = config_map(&sim);
    assert_eq!(first.read().await, Ok(None));
    first.write("one").await.unwrap();
    first.write("two").await.unwrap();
    let second = config_map(&sim);
    assert_eq!(second.read().await, Ok(Some("two".to_owned())));
    second.write("three").await.unwrap();
    assert!(matches!(first.write("four").await, Err(JournalError::Lost(_))));
    assert_eq!(config_map(&sim).read().await, Ok(Some("three".to_owned())));
    let third = config_map(&sim);
    let fourth = config_map(&sim);
    third.read().await.unwrap();
    fourth.read().await.unwrap();
    fourth.write("five").await.unwrap();
    assert!(matches!(third.write("six").await, Err(JournalError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_label_of_another_client_does_not_end_the_use_of_the_config_map() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let store = config_map(&sim);
    store.read().await.unwrap();
    store.write("one").await.unwrap();
    let maps = objects::GroupResource::core("configmaps");
    let key = objects::Key::new(maps, "kube-system", "autoscaler-journal");
    let patch = serde_json::json!({"metadata": {"labels": {"team": "a"}}});
    let patch = objects::Command::patch(key, objects::PatchKind::Merge, patch);
    sim.apply(Command::Cluster(patch)).unwrap();
    store.write("two").await.unwrap();
    assert_eq!(config_map(&sim).read().await, Ok(Some("two".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_config_map_leaves_the_next_write_possible() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let store = config_map(&sim);
    store.read().await.unwrap();
    store.write("one").await.unwrap();
    for (id, is_applied) in [("applied", true), ("dropped", false)] {
        let rule = Rule::new(id, [Action::Reset]).on(sim::Face::Cluster).op(["update configmaps"]);
        let rule = if is_applied { rule.applied() } else { rule };
        let rule = sim.fault(rule).unwrap();
        assert!(matches!(store.write("two").await, Err(JournalError::Failed(_))), "{id}");
        drop(rule);
        store.write("three").await.unwrap();
        assert_eq!(config_map(&sim).read().await, Ok(Some("three".to_owned())), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_another_vcenter_is_not_changed() {
    let (server, _) = running_group(2).await;
    let journal = server.ours.journal().clone();
    server.ours.kill();
    for (name, _) in machines(server.sim()) {
        server.sim().apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    }
    let text = journal.text().unwrap();
    let at = text.find("\"vcenter\":\"").unwrap() + 11;
    journal.set(Some(format!("{}{}{}", &text[..at], "0000", &text[at + 4..])));
    let server = next(&server.ours, 3).await;
    let before = journal.text();
    tokio::time::sleep(s(120)).await;
    assert_eq!(journal.text(), before);
    let refusal = server.try_call::<Empty>("Refresh", Empty {}).await.unwrap_err();
    assert!(refusal.to_string().contains("the journal is about the vCenter"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_that_the_journal_contains_does_not_take_effect_after_a_restart() {
    let (server, ids) = running_group(1).await;
    let journal = server.ours.journal().clone();
    journal.refuse(true);
    let deletion = DeleteNodes::new(GROUP, [SentNode::fake(&ids[0], "unregistered")]);
    assert_eq!(server.code("NodeGroupDeleteNodes", deletion).await, UNAVAILABLE);
    // The write took effect, although its answer was a failure.
    let text = journal.text().unwrap();
    assert!(text.contains("\"made\""), "{text}");
    journal.set(Some(text.replace("\"made\"", "\"deleting\"")));
    journal.refuse(false);
    tokio::time::sleep(s(60)).await;
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, running(server.sim())), (1, ids));
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_refuses_the_end_of_a_creation_causes_few_calls() {
    let server = start(file(0, "")).await;
    tasks_take(server.sim(), s(2));
    server.increase(1).await;
    tokio::time::sleep(s(1)).await;
    let before = server.sim().ledger().records().len();
    server.ours.journal().refuse(true);
    tokio::time::sleep(s(60)).await;
    let n_calls = server.sim().ledger().records().len() - before;
    assert!(n_calls < 100, "{n_calls} calls in a minute");
    server.ours.journal().refuse(false);
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.states().await, calls(server.sim(), "CloneVM_Task")), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_of_the_config_map_that_is_given_up_leaves_the_next_one_possible() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0)).start();
    let store = config_map(&sim);
    store.read().await.unwrap();
    store.write("one").await.unwrap();
    for (id, is_applied) in [("applied", true), ("dropped", false)] {
        let rule = Rule::new(id, [Action::Blackhole]).on(sim::Face::Cluster);
        let rule = rule.op(["update configmaps"]);
        let rule = if is_applied { rule.applied() } else { rule };
        let rule = sim.fault(rule).unwrap();
        tokio::time::timeout(s(1), store.write("two")).await.unwrap_err();
        drop(rule);
        store.write("three").await.unwrap();
        assert_eq!(config_map(&sim).read().await, Ok(Some("three".to_owned())), "{id}");
    }
}
