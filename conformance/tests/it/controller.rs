//! A controller of kube-rs under virtual time: the example of `docs/how-to/test-a-controller.md`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use sim::Sim;
use sim::world::{Command, Topology};
use tokio::time::{Instant, sleep};

// ANCHOR: controller
/// Time for which a node may be not ready before the controller cordons it.
const GRACE: Duration = Duration::from_secs(300);

struct Context {
    nodes: Api<Node>,
    /// Time since which a node is not ready, by name.
    since: Mutex<BTreeMap<String, Instant>>,
}

/// Cordons a node that has not been ready for [`GRACE`].
async fn reconcile(node: Arc<Node>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = node.name_any();
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    if is_cordoned {
        return Ok(Action::await_change());
    }
    if is_ready(&node) {
        context.since.lock().expect("nothing panics under this lock").remove(&name);
        return Ok(Action::await_change());
    }
    let since = {
        let mut all = context.since.lock().expect("nothing panics under this lock");
        *all.entry(name.clone()).or_insert_with(Instant::now)
    };
    let left = GRACE.saturating_sub(since.elapsed());
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    context.nodes.patch(&name, &PatchParams::default(), &cordon).await?;
    Ok(Action::await_change())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Runs the controller; never ends.
async fn run(client: Client) {
    let nodes = Api::<Node>::all(client);
    let context = Arc::new(Context { nodes: nodes.clone(), since: Mutex::default() });
    Controller::new(nodes, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), context)
        .for_each(|_| std::future::ready(()))
        .await;
}
// ANCHOR_END: controller

// ANCHOR: test
sim::test! {
    async fn a_node_that_stays_not_ready_is_cordoned_once(
        sim: &Sim = Sim::builder().topology(Topology::zones(1).machines(3))
    ) -> anyhow::Result<()> {
        let nodes = Api::<Node>::all(Client::new(sim.cluster().service("test"), "default"));
        let is_cordoned = async || {
            let node = nodes.get("node-0002").await?;
            anyhow::Ok(node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default())
        };
        let test = async {
            sleep(Duration::from_secs(60)).await;
            // The cluster sets the node to not ready 50 s after the last heartbeat.
            sim.apply(Command::StopKubelet("node-0002".into()))?;
            sleep(Duration::from_secs(300)).await;
            anyhow::ensure!(!is_cordoned().await?, "cordoned before the time is over");
            sleep(Duration::from_secs(3600)).await;
            anyhow::ensure!(is_cordoned().await?, "not cordoned after an hour");
            anyhow::Ok(())
        };
        tokio::select! {
            () = run(Client::new(sim.cluster().service("controller"), "default")) => {
                anyhow::bail!("the controller has ended")
            }
            result = test => result?,
        }
        // A controller that does not test `is_cordoned` patches again after its own change.
        assert_eq!(sim.ledger().counts().of("patch nodes"), 1);
        Ok(())
    }
}
// ANCHOR_END: test
