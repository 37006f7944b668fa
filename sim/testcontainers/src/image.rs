//! Image, flags and ports of a container.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use testcontainers::core::{ContainerPort, IntoContainerPort as _, Mount, WaitFor};
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerRequest, Image, ImageExt as _};

use crate::{Error, SimContainer};

/// Label of every container of this crate; its value is the id of the process that starts the container.
pub const LABEL: &str = "io.vsphere-lab.testcontainers";

/// Default image; `SIM_IMAGE` or [`Sim::image`] overrides it.
const IMAGE: &str = "vsphere-lab/sim:0.1.0";

/// Ports inside the container; the engine picks the ports outside. Further vCenters use the ports after this one.
pub(crate) const VCENTER: u16 = 8989;
pub(crate) const CLUSTER: u16 = 26443;
pub(crate) const SUPERVISOR: u16 = 26444;
pub(crate) const ADMIN: u16 = 8900;

/// Addresses under which a test in a container reaches published ports. Certificates are always valid for loopback.
const HOSTS: [&str; 2] = ["172.17.0.1", "host.docker.internal"];

/// Start of a line that sim prints when every listener accepts connections.
const READY: &str = "export SIM_ADMIN=";

/// Options of a sim. Without any option the world is the default inventory of simulators: one datacenter, a cluster of
/// three hosts, a standalone host, four machines, no Nodes.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before start()"]
pub struct Sim {
    image: String,
    n_vcenters: u16,
    has_supervisor: bool,
    flags: Vec<String>,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// Selects the default inventory, and the image that `SIM_IMAGE` names (default: the image of this crate's version).
    pub fn new() -> Self {
        let image = std::env::var("SIM_IMAGE").unwrap_or_else(|_| IMAGE.to_owned());
        Self { image, n_vcenters: 1, has_supervisor: false, flags: Vec::new() }
    }

    /// Selects another image, `NAME:TAG`.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }

    /// Number of machines per vCenter: `node-0001` and so on. Replaces the default inventory.
    pub fn machines(self, n_machines: u32) -> Self {
        self.flag(format!("--vms={n_machines}"))
    }

    /// Number of machines per vCenter that run a kubelet and have a Node in the cluster; all of them if left out.
    pub fn nodes(self, n_nodes: u32) -> Self {
        self.flag(format!("--nodes={n_nodes}"))
    }

    /// Number of clusters per vCenter, each tagged as a zone.
    pub fn zones(self, n_zones: u32) -> Self {
        self.flag(format!("--zones={n_zones}"))
    }

    /// Number of vCenters: `vc0`, `vc1` and so on, at most 100.
    pub fn vcenters(mut self, n_vcenters: u16) -> Self {
        self.n_vcenters = n_vcenters.max(1);
        self.flag(format!("--vcenters={n_vcenters}"))
    }

    /// Seed of ids, UUIDs, passwords and random draws; the same seed gives the same world.
    pub fn seed(self, seed: u64) -> Self {
        self.flag(format!("--seed={seed}"))
    }

    /// Adds a Supervisor that manages the machines of `vc0` as VirtualMachines.
    pub fn supervisor(mut self) -> Self {
        self.has_supervisor = true;
        self.flag("--supervisor=/tmp/mounts")
    }

    /// Adds a name or address for which certificates are valid. A test needs this if it reaches the engine by another
    /// address than loopback, `host.docker.internal` and 172.17.0.1, the address of the engine's first network.
    pub fn tls_san(self, name: &str) -> Self {
        self.flag(format!("--tls-san={name}"))
    }

    /// Adds any other flag of `sim serve`, such as `--rbac`.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Returns the request, for tests that also set a network, a name or labels. Pass the started container to
    /// [`SimContainer::of`].
    pub fn request(self) -> ContainerRequest<SimImage> {
        let image = SimImage::new(self);
        // sim needs neither privileges nor a disk.
        image
            .with_label(LABEL, std::process::id().to_string())
            .with_cap_drop("ALL")
            .with_readonly_rootfs(true)
    }

    /// Starts the container, and returns when sim serves.
    ///
    /// # Errors
    /// [`Error::Container`] if the engine or the image is missing, or if sim refuses a flag; the cause contains sim's
    /// message. Also the errors of [`SimContainer::of`].
    pub async fn start(self) -> Result<SimContainer, Error> {
        let image = self.image.clone();
        let started = self.request().start().await;
        SimContainer::of(started.map_err(|source| Error::Container { image, source })?).await
    }
}

/// The image in the form that testcontainers expects.
#[derive(Clone, Debug)]
pub struct SimImage {
    name: String,
    tag: String,
    pub(crate) token: String,
    arguments: Vec<String>,
    ports: Vec<ContainerPort>,
    scratch: Mount,
}

impl SimImage {
    fn new(sim: Sim) -> Self {
        let Sim { image, n_vcenters, has_supervisor, flags } = sim;
        let (name, tag) = match image.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name.to_owned(), tag.to_owned()),
            _ => (image, "latest".to_owned()),
        };
        let listen = |face: &str, port: u16| format!("--{face}-listen=0.0.0.0:{port}");
        let mut arguments = vec!["serve".to_owned()];
        arguments.extend([
            listen("vcenter", VCENTER),
            listen("cluster", CLUSTER),
            listen("admin", ADMIN),
        ]);
        arguments.extend(HOSTS.map(|host| format!("--tls-san={host}")));
        let mut ports = vec![CLUSTER.tcp(), ADMIN.tcp()];
        ports.extend((0..n_vcenters).map(|n| VCENTER.saturating_add(n).tcp()));
        if has_supervisor {
            arguments.push(listen("supervisor", SUPERVISOR));
            ports.push(SUPERVISOR.tcp());
        }
        arguments.extend(flags);
        let scratch = Mount::tmpfs_mount("/tmp");
        Self { name, tag, token: token(), arguments, ports, scratch }
    }

    pub(crate) fn descriptor(&self) -> String {
        format!("{}:{}", self.name, self.tag)
    }
}

impl Image for SimImage {
    fn name(&self) -> &str {
        &self.name
    }

    fn tag(&self) -> &str {
        &self.tag
    }

    fn ready_conditions(&self) -> Vec<WaitFor> {
        // Reads both streams, so that the error contains sim's complaints.
        vec![WaitFor::message_on_either_std(READY)]
    }

    fn env_vars(
        &self,
    ) -> impl IntoIterator<Item = (impl Into<Cow<'_, str>>, impl Into<Cow<'_, str>>)> {
        [("SIM_ADMIN_TOKEN", self.token.as_str())]
    }

    fn mounts(&self) -> impl IntoIterator<Item = &Mount> {
        [&self.scratch]
    }

    fn cmd(&self) -> impl IntoIterator<Item = impl Into<Cow<'_, str>>> {
        &self.arguments
    }

    fn expose_ports(&self) -> &[ContainerPort] {
        &self.ports
    }
}

/// Returns a token for the admin port that cannot be guessed, because the engine publishes ports on every interface. The
/// token is random: std seeds its hashers from the system.
fn token() -> String {
    let part = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", part(), part())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_ports_follow_from_what_was_asked_for() {
        let image = SimImage::new(
            Sim::new().image("r.example:5000/sim").machines(3).vcenters(2).supervisor(),
        );
        assert_eq!(image.descriptor(), "r.example:5000/sim:latest");
        let arguments = image.arguments.join(" ");
        assert_eq!(
            arguments,
            "serve --vcenter-listen=0.0.0.0:8989 --cluster-listen=0.0.0.0:26443 --admin-listen=0.0.0.0:8900 \
             --tls-san=172.17.0.1 --tls-san=host.docker.internal --supervisor-listen=0.0.0.0:26444 --vms=3 --vcenters=2 --supervisor=/tmp/mounts"
        );
        let ports: Vec<u16> = image.ports.iter().map(|port| port.as_u16()).collect();
        assert_eq!(ports, [26443, 8900, 8989, 8990, 26444]);
        assert_eq!(SimImage::new(Sim::new().image("sim:1")).descriptor(), "sim:1");
    }

    #[test]
    fn every_container_has_a_token_of_its_own() {
        let (one, other) = (token(), token());
        assert_eq!((one.len(), other.len()), (32, 32));
        assert_ne!(one, other);
    }
}
