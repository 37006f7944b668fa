//! A container that runs sim, and its endpoints with the URLs that are valid outside the container.

use testcontainers::core::IntoContainerPort as _;
use testcontainers::{ContainerAsync, TestcontainersError};

use crate::endpoints::{Told, kubeconfig, moved, port};
use crate::image::{ADMIN, CLUSTER, SUPERVISOR, VCENTER};
use crate::{Admin, Cluster, Error, SimImage, Supervisor, VCenter};

/// Time between SIGTERM and SIGKILL, in seconds. sim needs a fraction of a second to end.
const GRACE: i32 = 5;

/// A running sim. Dropping this value removes the container.
#[must_use = "dropping this value removes the container"]
pub struct SimContainer {
    container: ContainerAsync<SimImage>,
    admin: Admin,
    told: Told,
}

impl SimContainer {
    /// Reads the endpoints of a started container, and replaces their URLs by those of the ports
    /// that the engine published.
    ///
    /// # Errors
    /// [`Error::Container`] if a port is not published, and the errors of [`Admin`].
    pub async fn of(container: ContainerAsync<SimImage>) -> Result<Self, Error> {
        let at = Published::of(&container).await?;
        let base = moved("http://", &at.host, at.port(&container, ADMIN).await?);
        let admin = Admin::new(base, container.image().token.clone());
        let told = at.translated(&container, admin.told().await?).await?;
        Ok(Self { container, admin, told })
    }

    /// Returns the vCenter with this name; `vc0` is the first.
    ///
    /// # Errors
    /// [`Error::NoSuch`] for an unknown name; the error lists the known names.
    pub fn vcenter(&self, name: &str) -> Result<&VCenter, Error> {
        let found = self.told.vcenters.iter().find(|it| it.name == name);
        found.ok_or_else(|| Error::NoSuch {
            name: format!("vCenter `{name}`"),
            known: self
                .told
                .vcenters
                .iter()
                .map(|it| it.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Every vCenter, sorted by name.
    pub fn vcenters(&self) -> &[VCenter] {
        &self.told.vcenters
    }

    /// Endpoint and administrator of the workload cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.told.cluster
    }

    /// Endpoint, administrator and provider files of the Supervisor; `None` if the world has none.
    pub fn supervisor(&self) -> Option<&Supervisor> {
        self.told.supervisor.as_ref()
    }

    /// Certificate authority of the vCenters, the cluster and the Supervisor at the start of sim,
    /// as PEM; empty with `--plain-text`. If an event replaces the authority of the Supervisor,
    /// `provider.certificate_authority` of [`supervisor`](Self::supervisor) has the new one after a
    /// [`refresh`](Self::refresh).
    pub fn ca_pem(&self) -> &str {
        &self.told.certificate_authority
    }

    /// Returns a kubeconfig for the administrator of the workload cluster.
    pub fn kubeconfig(&self) -> String {
        let Cluster { url, token } = &self.told.cluster;
        kubeconfig(url, token, self.ca_pem())
    }

    /// Returns a kubeconfig for the administrator of the Supervisor; `None` if the world has none.
    pub fn supervisor_kubeconfig(&self) -> Option<String> {
        let it = self.told.supervisor.as_ref()?;
        Some(kubeconfig(&it.url, &it.token, &it.provider.certificate_authority))
    }

    /// Client of the admin port: reads the ledger, changes fault rules, and applies events.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The container of testcontainers, for requests to the container engine.
    pub fn container(&self) -> &ContainerAsync<SimImage> {
        &self.container
    }

    /// Reads the endpoints again, for accounts, tokens and certificates that have changed.
    ///
    /// # Errors
    /// The errors of [`SimContainer::of`].
    pub async fn refresh(&mut self) -> Result<(), Error> {
        let at = Published::of(&self.container).await?;
        self.told = at.translated(&self.container, self.admin.told().await?).await?;
        Ok(())
    }

    /// Ends sim with SIGTERM, or after 5 s with SIGKILL, and removes the container. Returns sim's
    /// exit code: 0 after an orderly end, -1 if the engine does not report it.
    ///
    /// # Errors
    /// [`Error::Container`] if the engine fails.
    pub async fn stop(self) -> Result<i64, Error> {
        let image = self.container.image().descriptor();
        let stopped = async {
            self.container.stop_with_timeout(Some(GRACE)).await?;
            let code = self.container.exit_code().await?;
            self.container.rm().await?;
            Ok(code.unwrap_or(-1))
        };
        stopped.await.map_err(|source: TestcontainersError| Error::Container { image, source })
    }
}

/// Omits the tokens and the certificate authority.
impl std::fmt::Debug for SimContainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimContainer")
            .field("container", &self.container.id())
            .field("vcenters", &self.told.vcenters)
            .field("cluster", &self.told.cluster)
            .field("supervisor", &self.told.supervisor)
            .finish_non_exhaustive()
    }
}

/// Host on which the engine publishes ports.
struct Published {
    host: String,
}

impl Published {
    async fn of(container: &ContainerAsync<SimImage>) -> Result<Self, Error> {
        let host = container.get_host().await.map_err(|source| failed(container, source))?;
        // `port` returns IPv4 ports, but `localhost` may resolve to an IPv6 address.
        let host = match host.to_string() {
            name if name == "localhost" => "127.0.0.1".to_owned(),
            name => name.trim_matches(['[', ']']).to_owned(),
        };
        Ok(Self { host })
    }

    async fn port(&self, container: &ContainerAsync<SimImage>, inside: u16) -> Result<u16, Error> {
        let outside = container.get_host_port_ipv4(inside.tcp()).await;
        outside.map_err(|source| failed(container, source))
    }

    /// Replaces the URLs in sim's answer by those that are valid outside the container.
    async fn translated(
        &self,
        container: &ContainerAsync<SimImage>,
        mut told: Told,
    ) -> Result<Told, Error> {
        for vcenter in &mut told.vcenters {
            let inside = port(&vcenter.url).unwrap_or(VCENTER);
            vcenter.url = moved(&vcenter.url, &self.host, self.port(container, inside).await?);
        }
        told.cluster.url =
            moved(&told.cluster.url, &self.host, self.port(container, CLUSTER).await?);
        if let Some(supervisor) = &mut told.supervisor {
            supervisor.url =
                moved(&supervisor.url, &self.host, self.port(container, SUPERVISOR).await?);
        }
        Ok(told)
    }
}

fn failed(container: &ContainerAsync<SimImage>, source: TestcontainersError) -> Error {
    Error::Container { image: container.image().descriptor(), source }
}
