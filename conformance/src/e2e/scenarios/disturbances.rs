//! Disturbs the environment of a provider, and checks that afterwards the provider works again and
//! no node is lost.
//!
//! Machines that join prove that the provider works. Their kubelets are simulated, so that no real
//! kubelet has to restart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sim_world::vcenter::Password;
use sim_world::{Command, PROVIDER_USER};
use tokio::time::sleep;
use uuid::Uuid;

use crate::e2e::lab::cluster::Machine;
use crate::e2e::lab::deploy::{self, Deployment};
use crate::e2e::lab::{Lab, kubelet};
use crate::e2e::scenarios;
use crate::judge::verdict::Verdict;
use crate::judge::{NodeFacts, facts};
use crate::scenario::Backend;

/// A disturbance of the environment.
#[derive(Clone, Copy, Debug)]
pub(in crate::e2e) enum Disturbance {
    /// vCenter stops and starts again after ten seconds.
    Restart,
    /// vCenter gets a new certificate of the same authority, and restarts.
    Certificate,
    /// The provider's password or token changes, and its Secret is updated.
    Credentials,
    /// The leader of two replicas is killed while nodes join.
    Leader,
    /// A rolling update replaces the provider's pods.
    Update,
    /// The API server's process is killed.
    ApiServer,
    /// etcd is suspended for 20 seconds.
    Store,
}

/// Maximum time until a provider works again after any disturbance. A kubelet needs a minute or
/// more to update a Secret in a volume.
pub(in crate::e2e) const AT_WORK: Duration = Duration::from_secs(150);
/// Number of machines that join to prove that the provider works.
const JOINING: u8 = 3;

impl Disturbance {
    /// Plays the disturbance, and checks that machines join and no other Node has changed.
    pub(in crate::e2e) async fn play(self, lab: &Lab) -> anyhow::Result<Verdict> {
        let ready = scenarios::join(lab).await?;
        if ready != Verdict::Pass {
            return Ok(ready);
        }
        let before = nodes_by_name(lab).await?;
        let joining = lab.joining().await?;
        match self {
            Self::Restart => lab.restart().await?,
            // Open connections would keep the old certificate, so vCenter restarts.
            Self::Certificate => {
                lab.simulator.event(&Command::SwapCertificate { vcenter: None }).await?;
                lab.restart().await?;
            }
            Self::Credentials => lab.new_credentials().await?,
            Self::Leader => lab.provider(true).await?,
            Self::Update => lab.rollout("restart").await?,
            Self::ApiServer => {
                lab.cluster.on_control_plane("pkill -9 -f '^kube-apiserver '").await?;
                lab.answers().await?;
            }
            Self::Store => {
                let stop = "pkill -STOP -x etcd && sleep 20; pkill -CONT -x etcd";
                lab.cluster.on_control_plane(stop).await?;
                lab.answers().await?;
            }
        }
        let fired = match self {
            Self::Leader => lab.kill_amidst(&joining).await?,
            _ => {
                lab.register(&joining).await?;
                Verdict::Pass
            }
        };
        let verdict = lab.has_joined(&joining).await;
        lab.dismiss(&joining).await?;
        match self {
            Self::Leader => lab.provider(false).await?,
            Self::Credentials => lab.first_credentials().await?,
            Self::Update => lab.rollout("status").await?,
            _ => {}
        }
        let after = nodes_by_name(lab).await?;
        Ok(verdict?.and(|| unchanged(&before, &after)).and(|| fired))
    }
}

/// Facts of Nodes at one moment, by name of the Node; see [`nodes_by_name`].
pub(in crate::e2e) type NodesByName = BTreeMap<String, NodeFacts>;

/// Returns a number that no earlier call returned: the present time in microseconds since 1970.
fn fresh() -> u64 {
    u64::try_from(kubelet::time().as_microsecond()).unwrap_or_default()
}

/// Returns the facts of each Node without its readiness, which the kubelet reports, and without its
/// list of taints. The facts still show the uninitialized and the shutdown taint, and the UID,
/// because a Node that was deleted and created again has another UID.
pub(in crate::e2e) async fn nodes_by_name(lab: &Lab) -> anyhow::Result<NodesByName> {
    let lasting = |node: &serde_json::Value| {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (name, NodeFacts { ready: String::new(), taints: Vec::new(), ..facts(node) })
    };
    Ok(lab.cluster.nodes().await?.iter().map(lasting).collect())
}

/// Passes if every Node is unchanged, else fails with the first difference.
pub(in crate::e2e) fn unchanged(before: &NodesByName, after: &NodesByName) -> Verdict {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let other = names.into_iter().find(|name| before.get(*name) != after.get(*name));
    other.map_or(Verdict::Pass, |name| {
        let (was, is) = (before.get(name), after.get(name));
        Verdict::fail(format!("Node {name} was {was:?}, but now is {is:?}"))
    })
}

impl Lab {
    /// Creates machines whose guests run and whose kubelets have not registered yet.
    pub(in crate::e2e) async fn joining(&self) -> anyhow::Result<Vec<Machine>> {
        let machine = |n: u8| Machine {
            name: format!("joining-{n}"),
            // A new UUID, so that the provider cannot use what it remembers of an earlier machine.
            uuid: Uuid::from_u64_pair(fresh(), n.into()),
            address: format!("10.66.0.{n}"),
        };
        let machines: Vec<Machine> = (1..=JOINING).map(machine).collect();
        self.simulator.create_machines(&machines).await?;
        Ok(machines)
    }

    /// Registers the Nodes of these machines, as their kubelets would.
    pub(in crate::e2e) async fn register(&self, machines: &[Machine]) -> anyhow::Result<()> {
        for machine in machines {
            kubelet::register(&self.cluster, &machine.name, machine.uuid).await?;
        }
        Ok(())
    }

    /// Kills the leader after the first machine has registered. The other machines register while
    /// no replica leads. The verdict is inconclusive if the other replica does not take over within
    /// [`AT_WORK`].
    async fn kill_amidst(&self, machines: &[Machine]) -> anyhow::Result<Verdict> {
        let leader = deploy::leader(&self.cluster).await?;
        let first = deploy::holder(&self.cluster).await?;
        let (early, late) = machines.split_at(1);
        self.register(early).await?;
        self.cluster.on_control_plane(&format!("kill -9 {leader}")).await?;
        self.register(late).await?;
        let is_other = deploy::is_handed_on(&self.cluster, &first, AT_WORK).await?;
        Ok(if is_other {
            Verdict::Pass
        } else {
            Verdict::inconclusive(format!(
                "{first} still holds the Lease {AT_WORK:?} after it was killed"
            ))
        })
    }

    /// Stops vCenter and starts it again after ten seconds, which ends every session and
    /// connection.
    async fn restart(&self) -> anyhow::Result<()> {
        self.simulator.event(&Command::StopVCenter { vcenter: None }).await?;
        sleep(Duration::from_secs(10)).await;
        self.simulator.event(&Command::StartVCenter { vcenter: None }).await
    }

    /// Runs `kubectl rollout` with this verb on the provider's DaemonSet.
    async fn rollout(&self, verb: &str) -> anyhow::Result<()> {
        let rollout = ["-n", deploy::NAMESPACE, "rollout", verb, "daemonset", deploy::WORKLOAD];
        self.cluster.kubectl().args(rollout).output().await.map(drop)
    }

    /// Passes if the provider initializes the Nodes of these machines, with the right provider IDs
    /// and addresses. Waits up to [`AT_WORK`] for each.
    pub(in crate::e2e) async fn has_joined(&self, machines: &[Machine]) -> anyhow::Result<Verdict> {
        for machine in machines {
            let id = format!("vsphere://{}", machine.uuid);
            let shows = |it: &NodeFacts| it.of_type("InternalIP").any(|it| it == machine.address);
            let is_right = |node: Option<&NodeFacts>| {
                let is_it = |it: &NodeFacts| it.provider_id.as_ref() == Some(&id) && shows(it);
                node.is_some_and(|it| !it.uninitialized && is_it(it))
            };
            if !self.becomes(&machine.name, AT_WORK, is_right).await? {
                let node = self.node(&machine.name).await?;
                return Ok(Verdict::fail(format!(
                    "node {} was not initialized with the ID and address of its machine: {node:?}",
                    machine.name
                )));
            }
        }
        Ok(Verdict::Pass)
    }

    /// Removes the Nodes and then the machines, in this order, so that the provider has nothing to
    /// delete.
    pub(in crate::e2e) async fn dismiss(&self, machines: &[Machine]) -> anyhow::Result<()> {
        kubelet::remove_all(&self.cluster).await?;
        for machine in machines {
            self.simulator.delete(machine).await?;
        }
        Ok(())
    }

    /// Removes the deployed provider, and deploys ours anew, alone or with a standby replica.
    pub(in crate::e2e) async fn provider(&self, second: bool) -> anyhow::Result<()> {
        deploy::remove(&self.cluster).await?;
        let image = self.made.provider_image.clone();
        let provider = Deployment { image, second, ..Deployment::default() };
        provider.deploy(&self.cluster, &self.project, &self.simulator, self.made.backend).await
    }

    /// Revokes the provider's credentials and stores new ones in its Secret.
    async fn new_credentials(&self) -> anyhow::Result<()> {
        match self.made.backend {
            Backend::VCenter => self.password(&format!("another-{}", fresh())).await,
            Backend::Supervisor => {
                self.simulator.new_token().await?;
                deploy::new_token(&self.cluster, &self.simulator).await
            }
        }
    }

    /// Restores the password with which the simulator has started. With a Supervisor the new token
    /// stays.
    async fn first_credentials(&self) -> anyhow::Result<()> {
        match self.made.backend {
            Backend::VCenter => self.password(&self.simulator.access()?.password).await,
            Backend::Supervisor => Ok(()),
        }
    }

    async fn password(&self, password: &str) -> anyhow::Result<()> {
        let rotate = Command::RotatePassword {
            vcenter: None,
            user: PROVIDER_USER.to_owned(),
            password: Password::new(password),
        };
        let expire = Command::ExpireSessions { vcenter: None, family: None };
        self.simulator.events(&[rotate, expire]).await?;
        deploy::new_password(&self.cluster, &self.simulator, password).await
    }

    /// Waits up to two minutes until the API server answers again.
    async fn answers(&self) -> anyhow::Result<()> {
        let nodes = async || Ok(self.cluster.nodes().await.ok());
        anyhow::ensure!(
            crate::e2e::until(Duration::from_secs(120), nodes).await?.is_some(),
            "the API server of the kind cluster has not answered for 120 s; read the logs of the \
             node container"
        );
        Ok(())
    }
}
