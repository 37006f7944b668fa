//! Options of a sim, and the image, flags and ports of its container.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use testcontainers::core::{ContainerPort, IntoContainerPort as _, Mount, WaitFor};
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerRequest, Image, ImageExt as _};

use crate::{Error, SimContainer};

/// Key of the label of every container that this crate starts. The value of the label is the id of
/// the process that starts the container.
pub const LABEL: &str = "io.vsphere-lab.testcontainers";

/// Default image; `SIM_IMAGE` or [`Sim::image`] overrides it.
const IMAGE: &str = "vsphere-lab/sim:0.1.0";

/// Port of the first vCenter inside the container; each further vCenter uses the next port. The
/// engine picks the ports outside.
pub(crate) const VCENTER: u16 = 8989;
pub(crate) const CLUSTER: u16 = 26443;
pub(crate) const SUPERVISOR: u16 = 26444;
pub(crate) const ADMIN: u16 = 8900;

/// Addresses under which a test that runs in a container reaches the published ports of a sim. The
/// sim's certificates are valid for these addresses and for loopback.
const HOSTS: [&str; 2] = ["172.17.0.1", "host.docker.internal"];

/// Start of the line that sim prints when every listener accepts connections.
const READY: &str = "export SIM_ADMIN=";

/// Options of a sim. Without any option the world is the default inventory of govmomi's vcsim: one
/// datacenter, a cluster of three hosts, a standalone host, four machines, no Nodes.
#[derive(Clone, Debug)]
#[must_use = "only start() runs the sim"]
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
    /// Selects the default inventory, and the image in the environment variable `SIM_IMAGE`
    /// (default: the image of this crate's version).
    pub fn new() -> Self {
        let image = std::env::var("SIM_IMAGE").unwrap_or_else(|_| IMAGE.to_owned());
        Self { image, n_vcenters: 1, has_supervisor: false, flags: Vec::new() }
    }

    /// Selects another image, `NAME:TAG`.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }

    /// Sets the number of machines per vCenter: `node-0001` and so on in `vc0`, `node-1-0001` and
    /// so on in `vc1`. They replace the default inventory.
    pub fn machines(self, n_machines: u32) -> Self {
        self.flag(format!("--vms={n_machines}"))
    }

    /// Sets the number of machines per vCenter that run a kubelet and have a Node in the cluster;
    /// without this option, all machines of [`machines`](Self::machines).
    pub fn nodes(self, n_nodes: u32) -> Self {
        self.flag(format!("--nodes={n_nodes}"))
    }

    /// Sets the number of clusters per vCenter, each tagged as a zone; by default one cluster
    /// without a tag.
    pub fn zones(self, n_zones: u32) -> Self {
        self.flag(format!("--zones={n_zones}"))
    }

    /// Sets the number of vCenters: `vc0`, `vc1` and so on, at most 100; 1 by default.
    pub fn vcenters(mut self, n_vcenters: u16) -> Self {
        self.n_vcenters = n_vcenters.max(1);
        self.flag(format!("--vcenters={n_vcenters}"))
    }

    /// Sets the seed of ids, UUIDs, passwords and random draws; 0 by default. The same seed gives
    /// the same world.
    pub fn seed(self, seed: u64) -> Self {
        self.flag(format!("--seed={seed}"))
    }

    /// Adds a Supervisor that manages the machines of `vc0` as VirtualMachines.
    pub fn supervisor(mut self) -> Self {
        self.has_supervisor = true;
        self.flag("--supervisor=/tmp/mounts")
    }

    /// Adds a name or address for which certificates are valid. A test needs this option if it
    /// reaches the engine by another address than loopback, `host.docker.internal` and 172.17.0.1,
    /// the address of the engine's default network.
    pub fn tls_san(self, name: &str) -> Self {
        self.flag(format!("--tls-san={name}"))
    }

    /// Adds any other flag of `sim serve`, such as `--rbac`.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Returns the request for the container, for tests that also set a network, a name or labels.
    /// Such a test starts the request, and passes the container to [`SimContainer::of`].
    pub fn request(self) -> ContainerRequest<SimImage> {
        let image = SimImage::new(self);
        // sim needs neither privileges nor a writable disk.
        image
            .with_label(LABEL, std::process::id().to_string())
            .with_cap_drop("ALL")
            .with_readonly_rootfs(true)
    }

    /// Starts the container, and returns when sim accepts connections.
    ///
    /// # Errors
    /// [`Error::Container`] if the engine or the image is missing, or if sim refuses a flag. The
    /// source of the error contains sim's message. Also the errors of [`SimContainer::of`].
    pub async fn start(self) -> Result<SimContainer, Error> {
        let image = self.image.clone();
        let started = self.request().start().await;
        SimContainer::of(started.map_err(|source| Error::Container { image, source })?).await
    }
}

/// The image, arguments and ports of a sim, as an [`Image`] of testcontainers.
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
        // Waits on stdout and stderr, so that an error of the start contains sim's messages.
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

/// Returns a random token for the admin port. It must not be guessable, because the engine
/// publishes ports on every interface. The standard library seeds its hashers with random numbers
/// of the system.
fn token() -> String {
    let part = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", part(), part())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_sim_set_the_flags_and_ports_of_its_container() {
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
    fn every_container_has_another_token() {
        let (one, other) = (token(), token());
        assert_eq!((one.len(), other.len()), (32, 32));
        assert_ne!(one, other);
    }
}
