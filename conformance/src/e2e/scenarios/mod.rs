//! The scenarios of a lab and the results that they require. Each scenario restores the cluster at
//! its end.

mod disturbances;
mod swap;

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::lab::Lab;
use super::lab::cluster::Machine;
use super::lab::peer::Peer;
use super::shell::call;
use super::tally::LedgerPosition;
use super::until;
use crate::catalogue::CheckId;
use crate::checks::lifecycle::required_deletions;
use crate::judge::verdict::Verdict;
use crate::judge::{NodeFacts, facts};
use crate::scenario::Backend;
use disturbances::Disturbance;

/// A scenario: the check of the catalogue that it plays, and its actions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    /// ID in the catalogue.
    pub(super) id: CheckId,
    /// Part of the check that the scenario covers.
    pub(super) title: &'static str,
    /// The only mode that plays the scenario; `None` for every mode.
    only: Option<Backend>,
    what: Actions,
}

#[derive(Clone, Copy, Debug)]
enum Actions {
    Join,
    Pods,
    Shutdown,
    Outage,
    Deleted,
    Disturbed(Disturbance),
    Swapped,
}

/// Every scenario, in the order in which they are played.
pub(super) const ALL: &[Scenario] = &[
    scenario("NODE-001", "every node is initialized", Actions::Join),
    scenario(
        "NODE-007",
        "pods run on the nodes that labels select, and logs and exec reach them",
        Actions::Pods,
    ),
    scenario(
        "LIFE-005",
        "the node of a powered-off machine gets the shutdown taint",
        Actions::Shutdown,
    ),
    scenario(
        "LIVE-002",
        "two minutes without vCenter or Supervisor delete no node",
        Actions::Outage,
    ),
    scenario(
        "NODE-DEL-010",
        "the node and the pods of a deleted machine are deleted",
        Actions::Deleted,
    ),
    with_vcenter("LIVE-002", "vCenter stops and starts again", Disturbance::Restart),
    with_vcenter("LIVE-001", "vCenter gets another certificate", Disturbance::Certificate),
    disturbed("SESS-008", "credentials are replaced in their Secret", Disturbance::Credentials),
    disturbed("NODE-INIT-008", "the leader is killed while nodes join", Disturbance::Leader),
    disturbed("NODE-034", "a rolling update changes no node", Disturbance::Update),
    scenario(
        "NODE-034",
        "another provider takes over, and then ours takes over again",
        Actions::Swapped,
    ),
    disturbed("LIVE-004", "the API server is killed", Disturbance::ApiServer),
    disturbed("LIVE-005", "etcd stops for 20 seconds", Disturbance::Store),
];

const fn scenario(id: &'static str, title: &'static str, what: Actions) -> Scenario {
    Scenario { id: CheckId::new(id), title, only: None, what }
}

const fn disturbed(id: &'static str, title: &'static str, by: Disturbance) -> Scenario {
    scenario(id, title, Actions::Disturbed(by))
}

const fn with_vcenter(id: &'static str, title: &'static str, by: Disturbance) -> Scenario {
    Scenario { only: Some(Backend::VCenter), ..disturbed(id, title, by) }
}

/// Maximum time until a node is NotReady and the provider has reacted: 50 s without a renewed
/// lease, checked every 5 s, with a margin.
const NOT_READY: Duration = Duration::from_secs(90);
/// Maximum time until the provider or a controller of the cluster has done its next action.
const SOON: Duration = Duration::from_secs(60);

impl Scenario {
    /// True if the scenario is played in this mode.
    pub(super) fn is_of(&self, backend: Backend) -> bool {
        self.only.is_none_or(|it| it == backend)
    }

    /// Plays the scenario. `peer` is the provider that replaces ours in the scenario of [`swap`];
    /// `None` stands for the default of that scenario.
    ///
    /// # Errors
    /// Fails if the harness fails.
    pub(super) async fn play(&self, lab: &Lab, peer: Option<&Peer>) -> anyhow::Result<Verdict> {
        match self.what {
            Actions::Join => join(lab).await,
            Actions::Pods => pods(lab).await,
            Actions::Shutdown => shutdown(lab).await,
            Actions::Outage => outage(lab).await,
            Actions::Deleted => deleted(lab).await,
            Actions::Disturbed(by) => by.play(lab).await,
            Actions::Swapped => swap::play(lab, peer).await,
        }
    }
}

impl Lab {
    pub(super) async fn node(&self, name: &str) -> anyhow::Result<Option<NodeFacts>> {
        let nodes = self.cluster.nodes().await?;
        let node = nodes.iter().find(|node| node["metadata"]["name"] == name);
        Ok(node.map(facts))
    }

    /// Waits up to `within` until the node satisfies `is`; true if it does. `is` gets `None` if the
    /// node does not exist.
    pub(super) async fn becomes(
        &self,
        name: &str,
        within: Duration,
        is: impl Fn(Option<&NodeFacts>) -> bool,
    ) -> anyhow::Result<bool> {
        let ask = async || Ok(is(self.node(name).await?.as_ref()).then_some(()));
        Ok(until(within, ask).await?.is_some())
    }

    /// Returns the machine of the `n`-th worker, counted from 0; never that of the control plane.
    fn worker(&self, n: usize) -> anyhow::Result<&Machine> {
        let mut workers = self.machines.iter().filter(|it| !it.name.ends_with("control-plane"));
        workers.nth(n).with_context(|| format!(
            "the kind cluster has no worker with index {n}; delete the lab with `conformance e2e \
             down` and make it again"
        ))
    }
}

/// Runs `systemctl` with this verb for the kubelet, in the container of a real node.
async fn kubelet(machine: &Machine, verb: &str) -> anyhow::Result<()> {
    let docker = call("docker").args(["exec", &machine.name, "systemctl", verb, "kubelet"]);
    docker.output().await.map(drop)
}

/// Compares a node, which must be initialized, with its machine. Returns a sentence about the first
/// difference, or `None`.
fn wrong(node: &NodeFacts, machine: &Machine, backend: Backend) -> Option<String> {
    let name = &machine.name;
    if node.uninitialized {
        return Some(format!("node {name} still has the uninitialized taint"));
    }
    let id = format!("vsphere://{}", machine.uuid);
    if node.provider_id.as_deref() != Some(&id) {
        return Some(format!("node {name} has the provider ID {:?}, not {id}", node.provider_id));
    }
    if !node.of_type("InternalIP").any(|it| it == machine.address) {
        return Some(format!(
            "node {name} shows the addresses {:?}, not {}",
            node.addresses, machine.address
        ));
    }
    let [zone, region, instance_type] = &node.labels;
    // VM Operator reports a zone, but no region and no instance type.
    if zone.is_none() || (backend.is_vcenter() && (region.is_none() || instance_type.is_none())) {
        return Some(format!(
            "node {name} lacks a label; its zone, region and instance type are {:?}",
            node.labels
        ));
    }
    None
}

/// Passes if every real node gets the provider ID, address and labels of its machine. Waits up to a
/// minute for each.
pub(super) async fn join(lab: &Lab) -> anyhow::Result<Verdict> {
    for machine in &lab.machines {
        let is_right = |node: Option<&NodeFacts>| {
            node.is_some_and(|it| wrong(it, machine, lab.made.backend).is_none())
        };
        if !lab.becomes(&machine.name, SOON, is_right).await? {
            let why = match lab.node(&machine.name).await? {
                None => format!("node {} does not exist", machine.name),
                Some(node) => wrong(&node, machine, lab.made.backend).unwrap_or_default(),
            };
            return Ok(Verdict::fail(why));
        }
    }
    Ok(Verdict::Pass)
}

/// Returns a pod with the simulator's image, because this image writes a log and has a program for
/// exec.
fn pod(name: &str, image: &str, mut spec: Value) -> Value {
    spec["containers"] = json!([{"name": "main", "image": image, "args": ["serve"],
        "securityContext": {"runAsNonRoot": true, "allowPrivilegeEscalation": false}}]);
    spec["terminationGracePeriodSeconds"] = 1.into();
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "labels": {"app": "e2e"}}, "spec": spec})
}

async fn pods(lab: &Lab) -> anyhow::Result<Verdict> {
    let target = lab.worker(1)?;
    let node = lab.node(&target.name).await?.with_context(|| {
        format!("node {} does not exist any more, although no step deletes it", target.name)
    })?;
    if let Some(why) = unequal(&lab.cluster.get(&format!("/api/v1/nodes/{}", target.name)).await?) {
        return Ok(Verdict::fail(format!("node {}: {why}", target.name)));
    }
    let [zone, _, instance_type] = &node.labels;
    let Some(zone) = zone else {
        return Ok(Verdict::fail(format!(
            "node {} lacks the zone label; its zone, region and instance type are {:?}",
            target.name, node.labels
        )));
    };
    let selector = match instance_type {
        Some(instance_type) => json!({"node.kubernetes.io/instance-type": instance_type}),
        // Like upstream's, our provider does not use VM Operator's classes as instance types.
        None => json!({"topology.kubernetes.io/zone": zone}),
    };
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}});
    let image = &lab.made.sim_image;
    let selected = pod("by-label", image, json!({"nodeSelector": selector}));
    let stored = pod(
        "by-zone",
        image,
        json!({"volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "e2e"}}]}),
    );
    let meta = json!({"name": "e2e"});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": {
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
        "local": {"path": "/var/tmp"}, "nodeAffinity": affinity}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "volumeName": "e2e",
        "resources": {"requests": {"storage": "1Mi"}}}});
    let account = until(SOON, async || {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        Ok(lab.cluster.get(path).await.ok())
    });
    account.await?.context(
        "the cluster has no ServiceAccount `default`, so it creates no pod; delete the lab and \
         make it again",
    )?;
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [volume, claim, selected, stored]});
    lab.cluster.apply(&list.to_string()).await?;
    let verdict = land(lab, &target.name, zone, &node).await;
    let all = [
        "delete",
        "--now",
        "--ignore-not-found",
        "pod/by-label",
        "pod/by-zone",
        "pvc/e2e",
        "pv/e2e",
    ];
    lab.cluster.kubectl().args(all).output().await?;
    verdict
}

/// Returns a sentence about the first label whose value differs from that of its beta label, or
/// `None`.
fn unequal(node: &Value) -> Option<String> {
    const PAIRS: [(&str, &str); 3] = [
        ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
        ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
        ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    ];
    let labels = &node["metadata"]["labels"];
    let (ga, beta) = PAIRS.into_iter().find(|(ga, beta)| labels[ga] != labels[beta])?;
    Some(format!("{ga} is {}, but {beta} is {}", labels[ga], labels[beta]))
}

/// Passes if both pods run, the second one on the node of its volume, and logs and exec reach them.
async fn land(lab: &Lab, stored_on: &str, zone: &str, node: &NodeFacts) -> anyhow::Result<Verdict> {
    for (name, is_there) in [("by-label", None), ("by-zone", Some(stored_on))] {
        let ready = ["wait", "--for=condition=Ready", "--timeout=60s"];
        if let Err(why) =
            lab.cluster.kubectl().args(ready).arg(format!("pod/{name}")).output().await
        {
            return Ok(Verdict::fail(format!("pod {name} does not run: {why:#}")));
        }
        let pod = lab.cluster.get(&format!("/api/v1/namespaces/default/pods/{name}")).await?;
        let place = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if is_there.is_some_and(|it| it != place) {
            return Ok(Verdict::fail(format!(
                "pod {name} is on {place}, but its volume in {zone}"
            )));
        }
        let logs = lab.cluster.kubectl().args(["logs", name]).output().await;
        if !logs.as_ref().is_ok_and(|it| it.contains("SIM_VCENTERS")) {
            return Ok(Verdict::fail(format!(
                "kubectl logs {name} does not show the output of the pod: {logs:?}; addresses of node {stored_on}: {:?}",
                node.addresses
            )));
        }
        let exec =
            lab.cluster.kubectl().args(["exec", name, "--", "/sim", "--version"]).output().await;
        if !exec.as_ref().is_ok_and(|it| it.starts_with("sim ")) {
            return Ok(Verdict::fail(format!(
                "kubectl exec {name} does not reach the pod: {exec:?}"
            )));
        }
    }
    Ok(Verdict::Pass)
}

async fn shutdown(lab: &Lab) -> anyhow::Result<Verdict> {
    let machine = lab.worker(0)?;
    kubelet(machine, "stop").await?;
    off_and_on(lab, machine).await
}

/// Checks that the node of a machine is tainted while the machine is off, and Ready again after it
/// is on. Switches the machine off and on, and then starts its kubelet, which must not run before.
async fn off_and_on(lab: &Lab, machine: &Machine) -> anyhow::Result<Verdict> {
    lab.simulator.power(machine, false).await?;
    let tainted = |node: Option<&NodeFacts>| node.is_some_and(|it| it.shutdown);
    let is_tainted = lab.becomes(&machine.name, NOT_READY, tainted).await?;
    lab.simulator.power(machine, true).await?;
    kubelet(machine, "start").await?;
    let back = |node: Option<&NodeFacts>| node.is_some_and(|it| it.ready == "True" && !it.shutdown);
    let is_back = lab.becomes(&machine.name, SOON, back).await?;
    Ok(Verdict::pass_if(is_tainted, || format!("node {} did not get the shutdown taint within {NOT_READY:?}", machine.name))
        .and(|| Verdict::pass_if(is_back, || format!("node {} was not Ready without the shutdown taint within {SOON:?} after its machine was switched on", machine.name))))
}

/// Cuts the cluster off from vCenter or the Supervisor while the kubelet of a node does not run. A
/// provider that takes the missing answer for a missing machine would delete the node.
async fn outage(lab: &Lab) -> anyhow::Result<Verdict> {
    let machine = lab.worker(0)?;
    lab.cluster.cut(&lab.simulator.address).await?;
    let seen = during_outage(lab, machine).await;
    // Restores the network before the function looks at the results.
    lab.cluster.mend().await?;
    let DuringOutage { is_reached, calls, is_gone } = seen?;
    if is_reached || calls > 0 {
        kubelet(machine, "start").await?;
        return Ok(Verdict::inconclusive(format!(
            "the network was not cut: {calls} calls of the provider arrived at the simulator; the control plane could connect to it: {is_reached}"
        )));
    }
    if is_gone {
        kubelet(machine, "start").await?;
        return Ok(Verdict::fail(format!(
            "node {} was deleted, but its machine exists",
            machine.name
        )));
    }
    // Checks that the provider works again.
    off_and_on(lab, machine).await
}

/// Observations while the simulator is cut off.
struct DuringOutage {
    /// True if the control plane could connect to the simulator.
    is_reached: bool,
    /// Calls that arrived at the simulator.
    calls: u64,
    /// True if the Node of the machine was deleted.
    is_gone: bool,
}

/// Stops the kubelet of the machine, and watches its Node for two minutes.
async fn during_outage(lab: &Lab, machine: &Machine) -> anyhow::Result<DuringOutage> {
    let simulator = &lab.simulator;
    let mut since = LedgerPosition::now(simulator).await?;
    kubelet(machine, "stop").await?;
    let is_reached = lab.cluster.reaches(&simulator.address, simulator.port()).await;
    let gone = |node: Option<&NodeFacts>| node.is_none();
    let is_gone = lab.becomes(&machine.name, Duration::from_secs(120), gone).await?;
    let calls = since.calls(simulator).await?.total();
    Ok(DuringOutage { is_reached, calls, is_gone })
}

async fn deleted(lab: &Lab) -> anyhow::Result<Verdict> {
    // Waits for the initialization: a provider does not delete a node that was never initialized,
    // and the calls of the initialization must not count for the deletion.
    let ready = join(lab).await?;
    if ready != Verdict::Pass {
        return Ok(ready);
    }
    let machine = lab.worker(0)?;
    let on_it = pod("doomed", &lab.made.sim_image, json!({"nodeName": machine.name}));
    lab.cluster.apply(&on_it.to_string()).await?;
    let ready = ["wait", "--for=condition=Ready", "--timeout=60s", "pod/doomed"];
    lab.cluster.kubectl().args(ready).output().await?;
    kubelet(machine, "stop").await?;
    // Counts from before the deletion, to include the calls that it causes at once.
    let mut since = LedgerPosition::now(&lab.simulator).await?;
    lab.simulator.delete(machine).await?;
    let is_gone = lab.becomes(&machine.name, NOT_READY, |node| node.is_none()).await?;
    let (calls, budget) =
        (since.calls(&lab.simulator).await?, required_deletions::allowed(lab.made.backend));
    let evicted = until(SOON * 2, async || {
        let pods =
            lab.cluster.get("/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Ddoomed");
        Ok(pods.await?["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
    });
    let is_evicted = is_gone && evicted.await?.is_some();
    if !is_evicted {
        let force = ["delete", "--force", "--ignore-not-found", "pod/doomed"];
        lab.cluster.kubectl().args(force).output().await?;
    }
    lab.simulator.create_machines(std::slice::from_ref(machine)).await?;
    kubelet(machine, "start").await?;
    let is_right = |node: Option<&NodeFacts>| {
        node.is_some_and(|it| wrong(it, machine, lab.made.backend).is_none())
    };
    let is_back = lab.becomes(&machine.name, SOON * 2, is_right).await?;
    let n_calls = calls.total();
    Ok(Verdict::pass_if(is_gone, || format!("node {} still exists", machine.name))
        .and(|| {
            Verdict::pass_if(n_calls <= budget, || {
                format!(
                    "the provider made {n_calls} calls for one deleted machine; at most {budget} \
                     are allowed: {:?}",
                    calls.calls
                )
            })
        })
        .and(|| {
            Verdict::pass_if(is_evicted, || {
                "the pod `doomed` of the deleted node still exists".to_owned()
            })
        })
        .and(|| {
            Verdict::pass_if(is_back, || format!("node {} was not initialized again", machine.name))
        }))
}
