//! Tests the mirror with two sims: one is the world, the other stands for the real server.

use serde_json::json;
use sim::Sim;
use sim::world::objects::{Command, GroupResource, PatchKind};
use sim::world::{self, Named, Topology};

use super::*;

/// A sim whose world has two nodes, a sim that stands for the real server and starts without nodes,
/// and a mirror between them.
struct Two {
    here: Sim,
    there: Sim,
    mirror: Mirror,
}

impl Two {
    async fn start() -> Self {
        let here = Sim::builder().topology(Topology::zones(1).machines(2)).start();
        let there = Sim::builder().topology(Topology::zones(1).machines(0)).seed(1).start();
        // Stops world time on both sides, because the mirror does not need it.
        here.world().set_pace(0);
        there.world().set_pace(0);
        let endpoints = there.listen(sim::ListenOptions::default()).await.unwrap();
        let client = Client::new(&endpoints.cluster.url, there.admin_token()).unwrap();
        let mirror = Mirror::new(here.world().clone(), client);
        mirror.catch_up().await.unwrap();
        Self { here, there, mirror }
    }

    /// Writes on the real server and lets the mirror carry the change.
    async fn write(&self, command: Command) {
        let Key { resource, namespace, name } = command.key.clone();
        self.there.world().apply(world::Command::Cluster(command)).unwrap();
        self.mirror.carry_write(Resource::find(&resource).unwrap(), &namespace, &name).await;
        self.mirror.verdict().unwrap();
    }

    /// Applies a command to the world and lets the mirror carry the change.
    async fn happen(&self, command: impl Into<world::Command>) {
        self.here.apply(command.into()).unwrap();
        self.mirror.catch_up().await.unwrap();
    }

    fn here(&self, key: &Key) -> Option<Arc<Value>> {
        self.here.world().read(|world| world.cluster.get(key).cloned())
    }

    fn there(&self, key: &Key) -> Option<Arc<Value>> {
        self.there.world().read(|world| world.cluster.get(key).cloned())
    }

    fn versions(&self) -> (u64, u64) {
        let of = |sim: &Sim| sim.world().read(|world| world.cluster.revision());
        (of(&self.here), of(&self.there))
    }
}

fn node() -> Key {
    Key::node("node-0001")
}

fn merge(key: Key, patch: Value) -> Command {
    Command::patch(key, PatchKind::Merge, patch)
}

#[tokio::test]
async fn nodes_of_the_world_are_on_the_real_server_with_their_leases() {
    let two = Two::start().await;
    let (here, there) = (two.here(&node()).unwrap(), two.there(&node()).unwrap());
    assert_ne!(uids::uid(&here), uids::uid(&there));
    assert_eq!(here["spec"], there["spec"], "the taint of admission is removed");
    assert_eq!(here["status"], there["status"]);
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    let lease = two.there(&Key::new(leases, "kube-node-lease", "node-0001")).unwrap();
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], there["metadata"]["uid"]);
}

#[tokio::test]
async fn a_write_to_the_real_server_merges_with_changes_in_the_world() {
    let two = Two::start().await;
    let command = merge(node(), json!({"spec": {"providerID": "vsphere://x"}}));
    two.here
        .apply(world::Command::Cluster(merge(node(), json!({"metadata": {"labels": {"a": "b"}}}))))
        .unwrap();
    two.write(command).await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    two.write(merge(node(), status).on_status()).await;
    for side in [two.here(&node()).unwrap(), two.there(&node()).unwrap()] {
        assert_eq!(side["spec"]["providerID"], "vsphere://x");
        assert_eq!(side["metadata"]["labels"]["a"], "b");
        assert_eq!(side["status"]["addresses"][0]["address"], "10.0.0.1");
    }
}

#[tokio::test]
async fn the_mirror_writes_nothing_while_both_sides_are_equal() {
    let two = Two::start().await;
    two.write(merge(node(), json!({"metadata": {"labels": {"a": "b"}}}))).await;
    let versions = two.versions();
    for _ in 0..3 {
        two.mirror.catch_up().await.unwrap();
        two.mirror.carry_write(Resource::find(&node().resource).unwrap(), "", "").await;
    }
    assert_eq!(two.versions(), versions);
}

#[tokio::test]
async fn deletions_are_carried_either_way() {
    let two = Two::start().await;
    two.write(Command::delete(node())).await;
    assert_eq!(two.here(&node()), None);
    two.happen(world::Command::Cluster(Command::delete(Key::node("node-0002")))).await;
    assert_eq!(two.there(&Key::node("node-0002")), None);
}

#[tokio::test]
async fn a_recreated_node_is_a_new_object_on_the_real_server() {
    let two = Two::start().await;
    let before = two.there(&node()).unwrap();
    two.here.apply(world::Command::Cluster(Command::delete(node()))).unwrap();
    two.happen(world::Command::StartKubelet(Named::from("node-0001".to_owned()))).await;
    let (here, there) = (two.here(&node()).unwrap(), two.there(&node()).unwrap());
    assert_ne!(uids::uid(&before), uids::uid(&there));
    assert_eq!(here["spec"], there["spec"]);
}

#[tokio::test]
async fn an_event_about_a_deleted_node_refers_to_the_uid_of_the_world() {
    let two = Two::start().await;
    let (here, there) = (two.here(&node()).unwrap(), two.there(&node()).unwrap());
    two.write(Command::delete(node())).await;
    let events = GroupResource::core("events");
    let event = json!({
        "metadata": {"name": "gone", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "node-0001", "uid": there["metadata"]["uid"]},
        "reason": "DeletingNode", "type": "Normal",
    });
    two.there
        .apply(world::Command::Cluster(Command::create(events.clone(), "default", event)))
        .unwrap();
    two.mirror.carry_write(Resource::find(&events).unwrap(), "default", "").await;
    two.mirror.verdict().unwrap();
    let event = two.here(&Key::new(events, "default", "gone")).unwrap();
    assert_eq!(event["involvedObject"]["uid"], here["metadata"]["uid"]);
}
