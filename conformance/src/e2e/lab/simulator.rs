//! The simulator of a lab: a container on kind's network, with functions that change its world.

use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sim::ledger::Record;
use sim_world::vcenter::MachineSpec;
use sim_world::{Command, Named, PROVIDER_USER};

use super::cluster::Machine;
use crate::e2e::engine::{self, LABEL};
use crate::e2e::shell::{Call, call};
use crate::e2e::until;
use crate::scenario::Backend;

/// Port on which the simulator serves vCenter.
pub(in crate::e2e) const VCENTER_PORT: u16 = 8989;
/// Port on which the simulator serves a Supervisor, as in `provider/deploy/supervisor.yaml`.
pub(in crate::e2e) const SUPERVISOR_PORT: u16 = 6443;
/// Number of vSphere clusters in the inventory; each is a zone.
pub(in crate::e2e) const ZONES: usize = 3;
/// Namespace of the workload cluster on the Supervisor.
const NAMESPACE: &str = "workloads";
/// Directory of the simulator's files in the container. A directory of the lab is mounted there.
const STATE: &str = "/state";

/// A running simulator.
#[derive(Debug)]
pub(in crate::e2e) struct Simulator {
    container: String,
    directory: PathBuf,
    pub(in crate::e2e) address: String,
    backend: Backend,
    kubectl: PathBuf,
}

impl Simulator {
    /// Starts a simulator with `vms` machines, named `node-0001` and so on, in three zones. It
    /// keeps its world and other files in `sim` below `directory`.
    pub(in crate::e2e) async fn start(
        name: &str,
        image: &str,
        directory: &Path,
        backend: Backend,
        kubectl: &Path,
        vms: u32,
    ) -> anyhow::Result<Self> {
        let container = format!("{name}-sim");
        let files = directory.join("sim");
        std::fs::create_dir_all(&files)?;
        let user = owner(&files)?;
        let mount = format!("{}:{STATE}", files.display());
        let label = format!("{LABEL}={name}");
        let mut run = call("docker")
            .args(["run", "-d", "--name", &container, "--label", &label, "--network", "kind"])
            .args(["--read-only", "--cap-drop", "ALL", "--user", &user, "-v", &mount, image])
            .args(["serve", "--nodes", "0", "--state", "/state/world", "--env", "/state/env"])
            .args(["--record", "/state/recording", "--ledger", "/state/ledger"])
            .args(["--zones", &ZONES.to_string(), "--vms", &vms.to_string()])
            .args(["--vcenter-listen", &format!("0.0.0.0:{VCENTER_PORT}")])
            .args(["--vcenter-advertise", &container]);
        if backend == Backend::Supervisor {
            run = run
                .args(["--supervisor", "/state/mounts", "--supervisor-profile", "watch"])
                .args(["--supervisor-listen", &format!("0.0.0.0:{SUPERVISOR_PORT}")])
                .args(["--supervisor-advertise", &container]);
        }
        run.output().await?;
        Self::open(name, directory, backend, kubectl).await
    }

    /// Opens the running simulator of the lab `name`. Waits up to 30 s until it serves.
    pub(in crate::e2e) async fn open(
        name: &str,
        directory: &Path,
        backend: Backend,
        kubectl: &Path,
    ) -> anyhow::Result<Self> {
        let container = format!("{name}-sim");
        let address = engine::address(&container).await?;
        let (directory, kubectl) = (directory.join("sim"), kubectl.to_owned());
        let it = Self { container, directory, address, backend, kubectl };
        it.serves().await?;
        Ok(it)
    }

    /// Removes the container of the lab `name`'s simulator, if it exists, and deletes its files.
    pub(in crate::e2e) async fn end(name: &str, directory: &Path) -> anyhow::Result<()> {
        call("docker").args(["rm", "-f", "-v", &format!("{name}-sim")]).output().await?;
        let files = directory.join("sim");
        match std::fs::remove_dir_all(&files) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| {
                    format!("cannot delete {}; delete this folder by hand", files.display())
                })
            }
            _ => Ok(()),
        }
    }

    /// Waits up to 30 s until the simulator answers and has written the file `env`.
    async fn serves(&self) -> anyhow::Result<()> {
        let ask = async || {
            let answers = self.sim().args(["world", "list"]).succeeds().await;
            Ok((answers && self.directory.join("env").exists()).then_some(()))
        };
        if until(Duration::from_secs(30), ask).await?.is_none() {
            let said = call("docker").args(["logs", "--tail", "5", &self.container]).output().await;
            bail!(
                "the simulator in container {} does not answer after 30 s; the end of its output \
                 may have the reason: {}",
                self.container,
                said.unwrap_or_default()
            );
        }
        Ok(())
    }

    fn sim(&self) -> Call {
        call("docker").args(["exec", "-i", &self.container, "/sim"])
    }

    /// Applies an event to the world.
    pub(in crate::e2e) async fn event(&self, command: &Command) -> anyhow::Result<()> {
        self.events(std::slice::from_ref(command)).await
    }

    /// Applies events to the world at one moment and in order, or none of them.
    pub(in crate::e2e) async fn events(&self, commands: &[Command]) -> anyhow::Result<()> {
        let events = serde_json::to_string(commands)?;
        self.sim().args(["world", "event", "-"]).with_input(&events).await.map(drop)
    }

    /// Replaces the provider's token for the Supervisor; the old token becomes invalid.
    pub(in crate::e2e) async fn new_token(&self) -> anyhow::Result<()> {
        let rotate = r#"{"supervisor.token.rotate": {}}"#;
        self.sim().args(["world", "event", rotate]).output().await.map(drop)
    }

    /// Creates these machines, spread over the zones, and sets their addresses. Waits up to 60 s
    /// per machine until its address can be set.
    pub(in crate::e2e) async fn create_machines(&self, machines: &[Machine]) -> anyhow::Result<()> {
        for (n, machine) in machines.iter().enumerate() {
            self.create(machine, n % ZONES).await?;
            // Tries for up to 60 s, because VM Operator creates a machine only a while after its
            // object.
            let addresses = [machine.address.as_str()];
            let told = async || Ok(self.set_addresses(machine, &addresses).await.ok());
            if until(Duration::from_secs(60), told).await?.is_none() {
                self.set_addresses(machine, &addresses).await?;
            }
        }
        Ok(())
    }

    async fn create(&self, machine: &Machine, zone: usize) -> anyhow::Result<()> {
        let Machine { name, uuid, address } = machine;
        if self.backend == Backend::Supervisor {
            let object = virtual_machine(name, *uuid, zone).to_string();
            return self
                .supervisor()
                .args(["apply", "-f", "-"])
                .with_input(&object)
                .await
                .map(drop);
        }
        self.event(&Command::CreateMachine {
            vcenter: None,
            spec: MachineSpec {
                name: Some(name.clone()),
                host_name: Some(name.clone()),
                uuid: Some(*uuid),
                addresses: Some(vec![address.parse()?]),
                ..MachineSpec::default()
            },
            cluster: Some(format!("DC0_C{zone}")),
            power_on: true,
            kubelet: false,
        })
        .await
    }

    /// Returns a call of kubectl that acts on the Supervisor as its administrator.
    fn supervisor(&self) -> Call {
        call(&self.kubectl)
            .arg("--kubeconfig")
            .arg(self.directory.join("world/supervisor.kubeconfig"))
            .args(["--server", &format!("https://{}:{SUPERVISOR_PORT}", self.address)])
            .args(["--tls-server-name", "supervisor.default.svc", "-n", NAMESPACE])
    }

    /// Sets the addresses that the guest of a machine reports.
    pub(in crate::e2e) async fn set_addresses(
        &self,
        machine: &Machine,
        to: &[&str],
    ) -> anyhow::Result<()> {
        let addresses = to.iter().map(|it| Ok(it.parse()?)).collect::<anyhow::Result<_>>()?;
        self.event(&addresses_of(&machine.name, addresses)).await
    }

    /// Switches a machine on or off: through its VirtualMachine object in a Supervisor, or directly
    /// in vCenter.
    pub(in crate::e2e) async fn power(&self, machine: &Machine, on: bool) -> anyhow::Result<()> {
        if self.backend == Backend::Supervisor {
            let state = if on { "PoweredOn" } else { "PoweredOff" };
            let patch = json!({"spec": {"powerState": state}}).to_string();
            let kubectl = self.supervisor().args(["patch", "virtualmachine", &machine.name]);
            return kubectl.args(["--type=merge", "-p", &patch]).output().await.map(drop);
        }
        let name = Named::from(machine.name.as_str());
        self.event(&if on { Command::PowerOn(name) } else { Command::PowerOff(name) }).await
    }

    /// Deletes a machine: through its VirtualMachine object in a Supervisor, or directly in
    /// vCenter.
    pub(in crate::e2e) async fn delete(&self, machine: &Machine) -> anyhow::Result<()> {
        if self.backend == Backend::Supervisor {
            let delete = ["delete", "virtualmachine", &machine.name, "--timeout=60s"];
            return self.supervisor().args(delete).output().await.map(drop);
        }
        self.event(&Command::DeleteMachine(Named::from(machine.name.as_str()))).await
    }

    /// Reads a file of the simulator's state.
    fn file(&self, name: &str) -> anyhow::Result<String> {
        let path = self.directory.join(name);
        std::fs::read_to_string(&path).with_context(|| {
            format!(
                "cannot read the file {} of the simulator; delete the lab and make it again",
                path.display()
            )
        })
    }

    /// Returns the records of the ledger after the sequence number `record`, and sets `record` to
    /// that of the last one.
    ///
    /// # Errors
    /// Fails if the simulator does not answer or its answer is not a ledger. Fails also if the
    /// simulator has dropped some of these records, because a count of them would be too low. With
    /// `record` 0 dropped records are allowed, because the lab does not count the calls before its
    /// first read.
    pub(in crate::e2e) async fn ledger_since(
        &self,
        record: &mut u64,
    ) -> anyhow::Result<Vec<Record>> {
        let since = (*record + 1).to_string();
        let text = self.sim().args(["ledger", "--since", &since]).output().await?;
        let read = |line: &str| Record::from_line(line).with_context(|| line.to_owned());
        let records = text.lines().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        is_unbroken(*record, &records)?;
        *record = records.iter().map(|it| it.seq).max().unwrap_or(*record).max(*record);
        Ok(records)
    }

    /// Returns the port of the provider's backend: of vCenter or of the Supervisor.
    pub(in crate::e2e) fn port(&self) -> u16 {
        if self.backend.is_vcenter() { VCENTER_PORT } else { SUPERVISOR_PORT }
    }

    /// Returns the backend of the provider.
    pub(in crate::e2e) fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the address of vCenter, and the credentials of a provider there.
    pub(in crate::e2e) fn access(&self) -> anyhow::Result<Access> {
        let text = self.file("env")?;
        let value = |key: &str| {
            let prefix = format!("export {key}=");
            let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
            line.map(|it| it.trim_matches('\'').to_owned()).with_context(|| {
                format!(
                    "the file `env` of the simulator has no value of {key}; make the lab anew \
                     with the images of this checkout"
                )
            })
        };
        Ok(Access {
            host: self.container.clone(),
            port: VCENTER_PORT,
            user: PROVIDER_USER.to_owned(),
            password: value("SIM_VC0_PROVIDER_PASSWORD")?,
            authority: self.file("world/ca.pem")?,
        })
    }

    /// Returns the contents of the files with which a provider accesses the Supervisor.
    pub(in crate::e2e) fn credentials(&self) -> anyhow::Result<Credentials> {
        let given = |name: &str| self.file(&format!("mounts/etc/cloud/ccm-provider/{name}"));
        Ok(Credentials {
            token: given("token")?,
            authority: given("ca.crt")?,
            namespace: given("namespace")?,
            owner: self.file("mounts/etc/kubernetes/guestclusters/cluster/ownerref.json")?,
        })
    }
}

/// Returns the command that sets the addresses on the only network card of a machine.
pub(in crate::e2e) fn addresses_of(machine: &str, addresses: Vec<IpAddr>) -> Command {
    Command::SetAddresses { machine: Named::from(machine), addresses: vec![addresses] }
}

/// Returns the VirtualMachine object that Cluster API would create for VM Operator, with `uuid`,
/// which is the UUID of the node's machine.
fn virtual_machine(name: &str, uuid: uuid::Uuid, zone: usize) -> Value {
    let letter = ["a", "b", "c"].get(zone).copied().unwrap_or("a");
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha6",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "labels": {
            "topology.kubernetes.io/zone": format!("zone-{letter}"),
            "cluster.x-k8s.io/cluster-name": "kubernetes",
        }},
        "spec": {
            "biosUUID": uuid.to_string(),
            "className": "best-effort-small",
            "image": {"kind": "ClusterVirtualMachineImage", "name": "vmi-0123456789abcdef0"},
            "imageName": "vmi-0123456789abcdef0",
            "powerOffMode": "Hard",
            "powerState": "PoweredOn",
            "storageClass": "default",
        },
    })
}

/// Returns user and group for the container: the owner of the directory. If root owns the
/// directory, first gives it to an unprivileged user.
fn owner(directory: &Path) -> anyhow::Result<String> {
    const NOBODY: u32 = 65532;
    let found = std::fs::metadata(directory)?;
    if found.uid() != 0 {
        return Ok(format!("{}:{}", found.uid(), found.gid()));
    }
    chown(directory, Some(NOBODY), Some(NOBODY))?;
    Ok(format!("{NOBODY}:{NOBODY}"))
}

/// Access of a provider to a vCenter.
#[derive(Debug)]
pub(in crate::e2e) struct Access {
    pub(in crate::e2e) host: String,
    pub(in crate::e2e) port: u16,
    pub(in crate::e2e) user: String,
    pub(in crate::e2e) password: String,
    pub(in crate::e2e) authority: String,
}

/// Access of a provider to a Supervisor.
#[derive(Debug)]
pub(in crate::e2e) struct Credentials {
    pub(in crate::e2e) token: String,
    pub(in crate::e2e) authority: String,
    pub(in crate::e2e) namespace: String,
    /// Owner reference, as JSON.
    pub(in crate::e2e) owner: String,
}

/// Fails if records are missing between the sequence number `last` and the first of `records`.
/// Never fails if `last` is 0.
fn is_unbroken(last: u64, records: &[Record]) -> anyhow::Result<()> {
    let first = records.iter().map(|it| it.seq).min();
    match first {
        Some(first) if last > 0 && first > last + 1 => anyhow::bail!(
            "the simulator has dropped {} records of its ledger, {} to {}, because it keeps only \
             128 MiB of records; use a smaller fleet, or read the records more often",
            first - last - 1,
            last + 1,
            first - 1
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_records_of_the_ledger_is_an_error() {
        let record = |seq: u64| {
            let line = format!("{{\"seq\":{seq},\"t\":0,\"kind\":\"note\",\"op\":\"\"}}");
            Record::from_line(&line).unwrap()
        };
        let said = is_unbroken(5, &[record(9), record(10)]).unwrap_err().to_string();
        assert!(said.contains("3 records of its ledger, 6 to 8"), "{said}");
        is_unbroken(5, &[record(6), record(7)]).unwrap();
        is_unbroken(5, &[]).unwrap();
        is_unbroken(0, &[record(9)]).unwrap();
    }
}
