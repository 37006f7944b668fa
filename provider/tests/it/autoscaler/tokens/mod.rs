//! Tests of bootstrap tokens over the Supervisor and the workload cluster of a sim, in virtual time.
//! The machines boot, and join only with a valid token.

mod failures;
mod vcenter;
mod world;

use externalgrpc::protocol as p;
use serde_json::{Value, json};
use sim::{
    RuleGuard,
    faults::{Action, KubeStatus},
};

use self::world::{GROUP, MACHINES, SUPERVISOR, TOKENS, WORKLOAD, World, names, text};
use super::{FAILED_PRECONDITION, world::Server};
use crate::capacity::{keep_log, n_logged, s};

const HOUR: u64 = 3600;

/// Lets time pass.
async fn wait(seconds: u64) {
    tokio::time::sleep(s(seconds)).await;
}

impl Server {
    /// Returns the provider IDs of the instances.
    async fn ids(&self) -> Vec<String> {
        let request = p::NodeGroupNodesRequest { id: GROUP.to_owned() };
        let answer: p::NodeGroupNodesResponse =
            self.channel.call("NodeGroupNodes", request).await.unwrap();
        answer.instances.into_iter().map(|it| it.id).collect()
    }
}

/// Returns the seconds until a token expires.
fn left(world: &World, token: &Value) -> i64 {
    let expires: jiff::Timestamp = text(token, "expiration").parse().unwrap();
    expires.duration_since(world.now()).as_secs()
}

/// The other tests apply the examples. A package of the crate has no documentation.
#[test]
fn the_examples_of_the_documentation_are_those_of_the_tests() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    if !std::path::Path::new(&format!("{root}/SPECIFICATION.md")).exists() {
        return;
    }
    let page = std::fs::read_to_string(format!("{root}/docs/autoscaler.md")).unwrap();
    for (file, example) in [("groups", world::GROUPS), ("user-data", world::USER_DATA)] {
        assert!(page.contains(&format!("```yaml\n{example}```")), "write tokens/{file}.yaml");
    }
}

#[tokio::test(start_paused = true)]
async fn each_machine_joins_with_a_token_of_its_own_that_is_deleted_afterwards() {
    let world = World::new().await;
    let server = world.start().await;
    server.increase(GROUP, 2).await.unwrap();
    let (tokens, data, machines) =
        (world.tokens().await, world.data().await, world.machines().await);
    assert_eq!((tokens.len(), data.len(), machines.len()), (2, 2, 2));
    assert_ne!(text(&tokens[0], "token-secret"), text(&tokens[1], "token-secret"));
    for token in &tokens {
        let labels = &token["metadata"]["labels"];
        let name = labels["vsphere.cloud-provider/machine"].as_str().unwrap();
        let id = text(token, "token-id");
        assert_eq!(token["metadata"]["name"], format!("bootstrap-token-{id}"));
        let usages = ["authentication", "signing"];
        assert!(usages.iter().all(|it| text(token, &format!("usage-bootstrap-{it}")) == "true"));
        let groups = "system:bootstrappers:kubeadm:default-node-token";
        assert_eq!(text(token, "auth-extra-groups"), groups);
        let description = text(token, "description");
        assert!(description.contains(name) && description.contains(GROUP), "{description}");
        assert!((3590..=3600).contains(&left(&world, token)));
        let secret = text(token, "token-secret");
        let of = data.iter().find(|it| it["metadata"]["name"] == format!("{name}-bootstrap"));
        let user_data = text(of.unwrap(), "user-data");
        assert!(user_data.contains(&format!("token: \"{id}.{secret}\"\n")), "{user_data}");
        let machine = machines.iter().find(|it| it["metadata"]["name"] == name).unwrap();
        let bootstrap = &machine["spec"]["bootstrap"]["cloudInit"]["rawCloudConfig"];
        assert_eq!(*bootstrap, json!({"name": format!("{name}-bootstrap"), "key": "user-data"}));
    }
    wait(300).await;
    assert_eq!(world.nodes().await, names(&machines));
    assert_eq!(world.refusals(), [""; 0]);
    assert_eq!(world.tokens().await, [Value::Null; 0], "the machines are Nodes");
    for secret in world.data().await {
        assert!(secret["data"].get("bootstrap-token").is_none());
        let owner = &secret["metadata"]["ownerReferences"][0];
        let machine = machines.iter().find(|it| it["metadata"]["uid"] == owner["uid"]).unwrap();
        assert_eq!(owner["kind"], "VirtualMachine");
        assert_eq!(owner["name"], machine["metadata"]["name"]);
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_until_its_machine_is_a_node() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    let secret = text(&world.tokens().await[0], "token-secret");
    for _ in 0..20 {
        wait(600).await;
        let tokens = world.tokens().await;
        let left = left(&world, &tokens[0]);
        assert!((1795..=3600).contains(&left), "{left}");
        assert_eq!(text(&tokens[0], "token-secret"), secret);
    }
    world.make_machines(true);
    wait(300).await;
    assert_eq!((world.nodes().await.len(), world.tokens().await.len()), (1, 0));
    assert_eq!(world.refusals(), [""; 0]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_machine_that_boots_late_is_refused() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    let refused = Action::KubeStatus(KubeStatus::new(403));
    let _broken = world.fault(refused, WORKLOAD, "patch secrets");
    wait(3 * HOUR).await;
    world.make_machines(true);
    wait(300).await;
    assert_eq!(world.nodes().await.len(), 0);
    let [why] = &world.refusals()[..] else { panic!("{:?}", world.refusals()) };
    assert!(why.contains("has expired"), "{why}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_another_program_deletes_too_early_is_created_again() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    wait(60).await;
    let before = world.tokens().await.remove(0);
    let path = format!("{TOKENS}/{}", before["metadata"]["name"].as_str().unwrap());
    world.send(false, "DELETE", &path, None).await;
    wait(60).await;
    let after = world.tokens().await.remove(0);
    for key in ["token-id", "token-secret", "description"] {
        assert_eq!(text(&before, key), text(&after, key));
    }
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    world.make_machines(true);
    wait(300).await;
    assert_eq!((world.nodes().await.len(), world.refusals().len()), (1, 0));
    // The token of a machine that was a Node does not come back with the end of the Node.
    let node = world.nodes().await.pop_first().unwrap();
    world.send(false, "DELETE", &format!("/api/v1/nodes/{node}"), None).await;
    wait(20).await;
    assert_eq!(world.tokens().await.len(), 0);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_revokes_the_token_and_the_machine_owns_its_user_data() {
    let world = World::new().await;
    world.make_machines(false);
    let server = world.start().await;
    server.increase(GROUP, 2).await.unwrap();
    wait(60).await;
    let (ids, before) = (server.ids().await, world.machines().await);
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(10).await;
    let (tokens, data, machines) =
        (world.tokens().await, world.data().await, world.machines().await);
    let alive: Vec<Value> =
        machines.into_iter().filter(|it| it["metadata"]["deletionTimestamp"].is_null()).collect();
    assert_eq!((alive.len(), tokens.len()), (1, 1), "revoked while the machine is being deleted");
    let of = &tokens[0]["metadata"]["labels"]["vsphere.cloud-provider/machine"];
    assert_eq!(*of, alive[0]["metadata"]["name"]);
    // The simulated Supervisor has no garbage collector. Each Secret has the owner that it looks at.
    let owners: Vec<&Value> =
        data.iter().map(|it| &it["metadata"]["ownerReferences"][0]["uid"]).collect();
    assert_eq!(owners.len(), 2);
    assert!(owners.iter().all(|owner| before.iter().any(|it| it["metadata"]["uid"] == **owner)));
    let of_alive = owners.iter().filter(|owner| ***owner == alive[0]["metadata"]["uid"]);
    assert_eq!(of_alive.count(), 1);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_and_refreshes_cost_no_request_for_tokens() {
    let world = World::new().await;
    let server = world.start().await;
    server.increase(GROUP, 3).await.unwrap();
    wait(300).await;
    let reads = |world: &World| {
        let of = ["secrets", "nodes"];
        let records = world.sim.ledger().records();
        let calls = records.iter().filter(|it| {
            (it.client.client == WORKLOAD || it.client.client == SUPERVISOR)
                && of.iter().any(|what| it.op.ends_with(what))
                && !it.op.starts_with("watch ")
        });
        calls.count()
    };
    let (before, writes) = (reads(&world), world.n_calls().1);
    for _ in 0..360 {
        server.refresh().await.unwrap();
        wait(10).await;
    }
    assert_eq!((reads(&world), world.n_calls().1), (before, writes));
    // In all: three lists, and for each machine token, data, machine, owner, note of the Node and
    // deletion of the token; the group's user data is read once per increase. Three events.
    assert_eq!((before, writes), (3 + 3 * 5 + 1, 3 * 6 + 3));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_without_token_sends_no_request_about_tokens_except_the_look_at_its_data() {
    let world = World::with_user_data("#cloud-config\n").await;
    world.set_groups(&world::GROUPS.replace(", token: {ttl: 1h}", ""));
    let server = world.start().await;
    server.increase(GROUP, 1).await.unwrap();
    wait(HOUR).await;
    let records = world.sim.ledger().records();
    let of_tokens = records.iter().filter(|it| it.client.client == WORKLOAD).count();
    assert_eq!(of_tokens, 0);
    let secrets = records.iter().filter(|it| it.client.client == SUPERVISOR);
    let secrets: Vec<&str> =
        secrets.filter(|it| it.op.ends_with("secrets")).map(|it| &*it.op).collect();
    assert_eq!(secrets, ["get secrets"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_user_data_does_not_fit_is_refused_by_name_with_remedy() {
    let with = "#cloud-config\n# {{ bootstrap-token }}\n";
    let place = "group workers: key \"user-data\" of Secret workers-bootstrap: ";
    for (name, user_data, token, want) in [
        (
            "without placeholder",
            "#cloud-config\n",
            ", token: {ttl: 1h}",
            "the user data has no {{ bootstrap-token }}; write it",
        ),
        ("without token", with, "", "the user data has {{ bootstrap-token }}; add `token: {}`"),
        (
            "of another key",
            with,
            ", key: other, token: {}",
            "the Secret does not have the key; add it",
        ),
    ] {
        let world = World::with_user_data(user_data).await;
        world.set_groups(&world::GROUPS.replace(", token: {ttl: 1h}", token));
        let server = world.start().await;
        let (code, message) = server.increase(GROUP, 1).await.unwrap_err();
        assert_eq!(code, FAILED_PRECONDITION, "{name}: {message}");
        let place = place
            .replace("user-data", if name == "of another key" { "other" } else { "user-data" });
        assert!(message.starts_with(&format!("{place}{want}")), "{name}: {message}");
        assert_eq!((world.machines().await.len(), world.tokens().await.len()), (0, 0), "{name}");
        server.stop().await;
    }
    let world = World::new().await;
    keep_log();
    world.set_groups(&format!("{}- {}", world::GROUPS, "{name: other, max: 1, machine: {className: c, imageName: i, storageClass: s, bootstrap: {secretName: b}}}\n"));
    let server = world.start_with(1, false).await;
    assert_eq!(server.groups().await.len(), 1, "a server without workload cluster");
    let why = "group workers: machine: bootstrap: token: the server knows no workload cluster for the tokens; give --workload-kubeconfig FILE";
    assert_eq!(n_logged(&["ERROR", why]), 1);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn secrets_are_in_no_log_event_or_error() {
    keep_log();
    let world = World::new().await;
    let server = world.start().await;
    world.make_machines(false);
    server.increase(GROUP, 2).await.unwrap();
    let tokens = world.tokens().await;
    let refused = refuse_with_secret(&world, &tokens[0]);
    wait(HOUR).await;
    let (_, message) = server.increase(GROUP, 1).await.unwrap_err();
    drop(refused);
    wait(5).await;
    let events = world.send(true, "GET", "/api/v1/namespaces/workloads/events", None).await;
    world.make_machines(true);
    wait(300).await;
    let ids = server.ids().await;
    server.delete(GROUP, &[&ids[0]]).await.unwrap();
    wait(300).await;
    let later = world.send(true, "GET", "/api/v1/namespaces/workloads/events", None).await;
    let events = format!("{events}{later}");
    let shown = format!("{events} {message} {:?}", server.telemetry.metrics());
    assert_hidden(&tokens, &shown);
    assert!(events.contains("ScaleUpFailed"), "{events}");
    server.stop().await;
}

/// Has the API server refuse writes of tokens with messages that repeat the secret of this one.
fn refuse_with_secret(world: &World, token: &Value) -> [RuleGuard; 2] {
    let mut status = KubeStatus::new(422);
    status.message = Some(format!("Secret is invalid: {}", text(token, "token-secret")));
    ["patch secrets", "create secrets"]
        .map(|operation| world.fault(Action::KubeStatus(status.clone()), WORKLOAD, operation))
}

/// Asserts that neither the log nor `shown` has the secret of a token, and that the log has the public
/// part and a refused renewal.
fn assert_hidden(tokens: &[Value], shown: &str) {
    for token in tokens {
        let secret = text(token, "token-secret");
        assert_eq!(n_logged(&[secret.as_str()]), 0, "log");
        assert!(!shown.contains(secret.as_str()), "{shown}");
    }
    let id = text(&tokens[0], "token-id");
    assert!(n_logged(&["created a bootstrap token", &id]) > 0, "the log has the public part");
    assert!(n_logged(&["WARN", "cannot renew a token", "422"]) > 0);
}
