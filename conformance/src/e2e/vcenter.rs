//! The simulator as a container on kind's network, and what happens in its world.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use sim_world::vcenter::MachineSpec;
use sim_world::{Command, PROVIDER_USER};

use super::cluster::Machine;
use super::engine::{self, LABEL};
use super::shell::call;

const PORT: u16 = 8989;
/// Clusters of the inventory, each a zone.
const ZONES: usize = 3;

/// A simulator that serves.
#[derive(Debug)]
pub(super) struct Vcenter {
    container: String,
    directory: PathBuf,
    address: String,
}

impl Vcenter {
    /// Starts one with an empty inventory in three zones. It keeps its world below `directory`.
    pub(super) async fn start(name: &str, image: &str, directory: &Path) -> anyhow::Result<Self> {
        let container = format!("{name}-vcenter");
        let directory = directory.join("vcenter");
        std::fs::create_dir_all(&directory)?;
        let user = owner(&directory)?;
        let mount = format!("{}:/state", directory.display());
        let label = format!("{LABEL}={name}");
        let zones = ZONES.to_string();
        let listen = format!("0.0.0.0:{PORT}");
        call("docker")
            .args(["run", "-d", "--name", &container, "--label", &label, "--network", "kind"])
            .args(["--read-only", "--cap-drop", "ALL", "--user", &user, "-v", &mount, image])
            .args(["serve", "--zones", &zones, "--vms", "0", "--nodes", "0"])
            .args([
                "--state",
                "/state/world",
                "--env",
                "/state/env",
                "--ledger",
                "/state/ledger.jsonl",
            ])
            .args(["--vcenter-listen", &listen, "--vcenter-advertise", &container])
            .output()
            .await?;
        Self::open(name, directory.parent().unwrap_or(&directory)).await
    }

    /// One that serves.
    pub(super) async fn open(name: &str, directory: &Path) -> anyhow::Result<Self> {
        let container = format!("{name}-vcenter");
        let address = engine::address(&container).await?;
        let it = Self { container, directory: directory.join("vcenter"), address };
        it.serves().await?;
        Ok(it)
    }

    /// Waits until it answers.
    async fn serves(&self) -> anyhow::Result<()> {
        let answers = async {
            while !self.sim().args(["ledger", "--counts"]).succeeds().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), answers).await.is_err() {
            let said = call("docker").args(["logs", "--tail", "5", &self.container]).output().await;
            bail!("{} does not serve: {}", self.container, said.unwrap_or_default());
        }
        Ok(())
    }

    fn sim(&self) -> super::shell::Call {
        call("docker").args(["exec", &self.container, "/sim"])
    }

    /// Something happens.
    pub(super) async fn event(&self, command: &Command) -> anyhow::Result<()> {
        let event = serde_json::to_string(command)?;
        self.sim().args(["world", "event", &event]).output().await.map(drop)
    }

    /// A machine for each node, spread over the zones.
    pub(super) async fn found(&self, machines: &[Machine]) -> anyhow::Result<()> {
        for (n, machine) in machines.iter().enumerate() {
            self.event(&Command::CreateMachine {
                vcenter: None,
                spec: MachineSpec {
                    name: Some(machine.name.clone()),
                    host_name: Some(machine.name.clone()),
                    uuid: Some(machine.uuid),
                    addresses: Some(vec![machine.address.parse()?]),
                    ..MachineSpec::default()
                },
                cluster: Some(format!("DC0_C{}", n % ZONES)),
                power_on: true,
                kubelet: false,
            })
            .await?;
        }
        Ok(())
    }

    /// Cuts its network, or mends it: clients wait, nothing is refused.
    pub(super) async fn connected(&self, is_connected: bool) -> anyhow::Result<()> {
        let docker = call("docker").arg("network");
        let docker = match is_connected {
            true => docker.args(["connect", "--ip", &self.address, "kind", &self.container]),
            false => docker.args(["disconnect", "kind", &self.container]),
        };
        docker.output().await.map(drop)
    }

    /// Where a provider finds it, and as whom: host, port, user, password.
    pub(super) fn access(&self) -> anyhow::Result<Access> {
        let path = self.directory.join("env");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let value = |key: &str| {
            let prefix = format!("export {key}=");
            let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
            line.map(|it| it.trim_matches('\'').to_owned())
                .with_context(|| format!("{}: no {key}", path.display()))
        };
        let authority = self.directory.join("world/ca.pem");
        Ok(Access {
            host: self.container.clone(),
            port: PORT,
            user: PROVIDER_USER.to_owned(),
            password: value("SIM_VC0_PROVIDER_PASSWORD")?,
            authority: std::fs::read_to_string(&authority)
                .with_context(|| authority.display().to_string())?,
        })
    }
}

/// Who writes there: whoever runs this, but never root.
fn owner(directory: &Path) -> anyhow::Result<String> {
    const NOBODY: u32 = 65532;
    let found = std::fs::metadata(directory)?;
    if found.uid() != 0 {
        return Ok(format!("{}:{}", found.uid(), found.gid()));
    }
    chown(directory, Some(NOBODY), Some(NOBODY))?;
    Ok(format!("{NOBODY}:{NOBODY}"))
}

/// What a provider is told of a vCenter.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) authority: String,
}
