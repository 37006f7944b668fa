//! Tests of bootstrap tokens of clones, over a vCenter and the workload cluster of a sim, in virtual
//! time. The machines boot, and join only with a valid token.

mod events;
mod failures;
mod world;

use std::collections::BTreeSet;

use externalgrpc::protocol as p;
use serde_json::{Value, json};
use sim::{
    faults::{Action, KubeStatus, MissingPaths, Rule},
    world::Command,
};

use self::world::{Clones, GROUP, GROUPS};
use super::{HOUR, TOKENS, WORKLOAD, assert_hidden, left, refuse_with_secret, text, wait};
use crate::{
    autoscaler::world::Server,
    capacity::{keep_log, n_logged},
};

const NO_TOKENS: [Value; 0] = [];

impl Server {
    /// Returns the provider IDs of the clones.
    async fn clones(&self) -> Vec<String> {
        let request = p::NodeGroupNodesRequest { id: GROUP.to_owned() };
        let answer: p::NodeGroupNodesResponse =
            self.channel.call("NodeGroupNodes", request).await.unwrap();
        answer.instances.into_iter().map(|it| it.id).collect()
    }
}

fn names(clones: &Clones) -> BTreeSet<String> {
    clones.clones().into_iter().map(|(name, _)| name).collect()
}

/// Returns the machine of a token.
fn machine(token: &Value) -> &str {
    token["metadata"]["labels"]["vsphere.cloud-provider/machine"].as_str().unwrap()
}

/// Returns the text of a token.
fn whole(token: &Value) -> String {
    format!("{}.{}", text(token, "token-id"), text(token, "token-secret"))
}

#[tokio::test(start_paused = true)]
async fn each_clone_joins_with_a_token_of_its_own_that_is_deleted_afterwards() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 2).await.unwrap();
    wait(30).await;
    let (tokens, machines) = (clones.world.tokens().await, clones.clones());
    assert_eq!((tokens.len(), machines.len()), (2, 2));
    assert_ne!(whole(&tokens[0]), whole(&tokens[1]));
    let ids = server.clones().await;
    for token in &tokens {
        let name = machine(token);
        let (_, data) = machines.iter().find(|it| it.0 == name).unwrap();
        assert!(data.contains(&format!("token: \"{}\"\n", whole(token))), "{data}");
        let bios = token["metadata"]["labels"]["vsphere.cloud-provider/bios-uuid"].as_str();
        assert!(ids.contains(&format!("vsphere://{}", bios.unwrap())));
        let description = text(token, "description");
        assert!(description.contains(name) && description.contains(GROUP), "{description}");
        assert!((3560..=3600).contains(&left(&clones.world, token)));
    }
    drop(off);
    wait(300).await;
    assert_eq!(clones.world.nodes().await, names(&clones));
    assert_eq!(clones.world.refusals(), [""; 0]);
    assert_eq!(clones.world.tokens().await, NO_TOKENS, "the machines are Nodes");
    let before = clones.n_requests();
    for _ in 0..360 {
        server.refresh().await.unwrap();
        wait(10).await;
    }
    let watches = clones.n_requests() - before;
    assert!(watches < 60, "a quiet hour costs nothing but watches: {watches}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_clone_is_renewed_until_the_machine_is_a_node() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 1).await.unwrap();
    wait(30).await;
    let token = whole(&clones.world.tokens().await[0]);
    for _ in 0..20 {
        wait(600).await;
        let tokens = clones.world.tokens().await;
        assert_eq!((tokens.len(), whole(&tokens[0])), (1, token.clone()));
        let left = left(&clones.world, &tokens[0]);
        assert!((1795..=3600).contains(&left), "{left}");
    }
    drop(off);
    wait(300).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.tokens().await.len()), (1, 0));
    assert_eq!(clones.world.refusals(), [""; 0]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_clone_revokes_its_token_while_the_machine_still_exists() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let _off = clones.keep_off();
    let kept = clones.soap_fault("Destroy_Task", Action::soap_fault("TaskInProgress"));
    server.increase(GROUP, 2).await.unwrap();
    wait(60).await;
    let ids = server.clones().await;
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(10).await;
    let tokens = clones.world.tokens().await;
    assert_eq!((clones.clones().len(), tokens.len()), (2, 1));
    let of = tokens[0]["metadata"]["labels"]["vsphere.cloud-provider/bios-uuid"].as_str().unwrap();
    assert_eq!(format!("vsphere://{of}"), ids[1]);
    drop(kept);
    wait(120).await;
    assert_eq!((clones.clones().len(), clones.world.tokens().await.len()), (1, 1));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_journal_ends_the_token_of_a_machine_that_a_view_lacks() {
    let clones = Clones::new().await;
    // The machine runs, and never joins.
    clones.set_user_data(b"#cloud-config\n# {{ bootstrap-token }}\n");
    let server = clones.start(1).await;
    server.increase(GROUP, 1).await.unwrap();
    wait(120).await;
    let missing = MissingPaths::new(["config.instanceUuid"], "SystemError");
    let hidden = Rule::new("unreadable", [Action::MissingSet(missing)]).on(sim::Face::Soap);
    let hidden = clones.world.sim.fault(hidden).unwrap();
    for _ in 0..6 {
        wait(1800).await;
        let tokens = clones.world.tokens().await;
        assert!(left(&clones.world, &tokens[0]) > 1700, "renewed");
    }
    drop(hidden);
    wait(60).await;
    // An administrator destroys the machine: the server sees it, and the machine leaves its group.
    let name = names(&clones).pop_first().unwrap();
    clones.world.sim.apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    wait(120).await;
    assert_eq!(server.clones().await, [""; 0]);
    let tokens = clones.world.tokens().await;
    let expires = left(&clones.world, &tokens[0]);
    assert!(expires > 0, "the machine may come back");
    wait(HOUR).await;
    assert_eq!(left(&clones.world, &clones.world.tokens().await[0]), expires - 3600, "not renewed");
    wait(2 * HOUR).await;
    assert_eq!(clones.world.tokens().await, NO_TOKENS);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn tokens_of_other_journals_and_programs_stay() {
    let clones = Clones::new().await;
    let server = clones.start(1).await;
    let off = clones.keep_off();
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let token = clones.world.tokens().await.remove(0);
    let journal: Value = serde_json::from_str(&clones.journal.text()).unwrap();
    let label = "vsphere.cloud-provider/journal";
    assert_eq!(token["metadata"]["labels"][label], journal["id"]);
    for (id, origin) in [("eeeeee", Some("other")), ("ffffff", None)] {
        let mut other = token.clone();
        let mut labels = other["metadata"]["labels"].take();
        labels[label] = origin.into();
        labels["vsphere.cloud-provider/bios-uuid"] = "42290000-0000-4000-8000-000000000001".into();
        other["metadata"] = json!({"name": format!("bootstrap-token-{id}")});
        if origin.is_some() {
            other["metadata"]["labels"] = labels;
        }
        clones.world.send(false, "POST", TOKENS, Some(&other)).await;
    }
    // One of the same journal whose machine the journal has forgotten.
    let mut forgotten = token.clone();
    let mut labels = forgotten["metadata"]["labels"].take();
    labels["vsphere.cloud-provider/bios-uuid"] = "42290000-0000-4000-8000-000000000002".into();
    let annotations = &token["metadata"]["annotations"];
    forgotten["metadata"] =
        json!({"name": "bootstrap-token-dddddd", "labels": labels, "annotations": annotations});
    clones.world.send(false, "POST", TOKENS, Some(&forgotten)).await;
    wait(60).await;
    let tokens = super::names(&clones.world.tokens().await);
    assert_eq!(tokens.len(), 4, "{tokens:?}");
    drop(off);
    // One life after its expiration.
    wait(2 * HOUR + 60).await;
    let tokens = super::names(&clones.world.tokens().await);
    assert_eq!(
        tokens.into_iter().collect::<Vec<_>>(),
        ["bootstrap-token-eeeeee", "bootstrap-token-ffffff"]
    );
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_of_clones_without_token_sends_no_request_to_the_workload_cluster() {
    let clones = Clones::new().await;
    clones.world.set_groups(&GROUPS.replace(", token: {ttl: 1h}", ""));
    clones.set_user_data(b"#cloud-config");
    let server = clones.start(1).await;
    server.increase(GROUP, 2).await.unwrap();
    wait(HOUR).await;
    assert_eq!((clones.clones().len(), clones.n_requests()), (2, 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_journal_another_one_writes_ends_none_of_its_tokens() {
    let clones = Clones::new().await;
    let old = clones.start(1).await;
    let server = clones.start(2).await;
    let off = clones.keep_off();
    server.increase(GROUP, 1).await.unwrap();
    wait(120).await;
    assert_eq!(clones.world.tokens().await.len(), 1);
    drop(off);
    wait(300).await;
    assert_eq!((clones.world.nodes().await.len(), clones.world.refusals()), (1, Vec::new()));
    old.kill().await;
    server.stop().await;
}
