//! Start of the listeners: binds all of them, then serves.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use tokio::net::{TcpListener, TcpStream};

use super::accept::{Listener, ServedBy};
use super::admin;
use super::hosts::{count_up, counted_up, host_of, hosts};
use super::{
    Advertise, AutoscalerListener, ClientGate, Endpoint, Endpoints, ListenOptions, Transport,
};
use crate::tls::{Alpn, Authority, Certificates, Leaf, TlsError, acceptor};
use crate::{AUTOSCALER, CLUSTER, Dial, Io, SUPERVISOR, SUPERVISOR_HOST, Server, Sim, WorldHandle};

/// Reason why a sim cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The system refuses to listen on an address.
    #[error("the listener {face} cannot listen on {address}")]
    Bind {
        /// Name of the listener: a vCenter's name, `cluster`, `supervisor` or `admin`.
        face: String,
        /// Address on which the listener was to listen.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The vCenters need more ports than exist from the first one on.
    #[error("too few ports from {0} on for all vCenters; choose a lower first port")]
    TooFewPorts(u16),
    /// The sim cannot make a certificate.
    #[error("cannot make the certificates of the listeners")]
    Tls(#[from] TlsError),
}

impl Sim {
    /// Opens all listeners, and returns their addresses when each of them accepts connections.
    ///
    /// The listeners end with the sim. Requires the real clock, because sockets do not work with
    /// tokio's paused clock.
    ///
    /// # Errors
    /// [`ListenError`] if an address is not available, if the vCenters need more ports than exist
    /// from the first one on, or if the sim cannot make a certificate or the token of the admin
    /// port.
    pub async fn listen(&self, options: ListenOptions) -> Result<Endpoints, ListenError> {
        let (addresses, mut opening) = Opening::new(self, options)?;
        let bound = Bound::bind(self, addresses).await?;
        let mut vcenters = BTreeMap::new();
        for (n, server, listener) in bound.vcenters {
            let public = opening.advertise.vcenter.as_deref().map(|host| count_up(host, n));
            let world = Some(self.world().clone());
            let endpoint = opening.open(&server, listener, public, Alpn::Http1, world)?;
            vcenters.insert(server.name().to_owned(), endpoint);
        }
        let public = opening.advertise.cluster.clone();
        let cluster = opening.open(self.cluster(), bound.cluster, public, Alpn::Http2, None)?;
        let public = opening.advertise.supervisor.clone();
        let supervisor = bound
            .supervisor
            .map(|(server, listener)| opening.open(&server, listener, public, Alpn::Http2, None))
            .transpose()?;
        let autoscaler = bound
            .autoscaler
            .map(|(server, listener)| opening.open_autoscaler(server, listener))
            .transpose()?;
        if let (Some(it), Some(endpoint)) = (self.supervisor(), &supervisor) {
            it.listens_with(endpoint.certificates.clone());
        }
        opening.open_admin(bound.admin, Faces { vcenters, cluster, supervisor, autoscaler })
    }

    fn serve(&self, listener: Listener) {
        let tasks = self.tasks().clone();
        let stop = self.stop_token();
        let changes = self.world().changes();
        self.tasks().spawn(listener.run(changes, tasks, stop));
    }
}

/// Addresses on which the listeners listen.
struct Addresses {
    vcenter: SocketAddr,
    cluster: SocketAddr,
    supervisor: SocketAddr,
    admin: SocketAddr,
    autoscaler: Option<AutoscalerListener>,
    /// Ports of an earlier run by the name of the listener, for addresses without a port.
    ports: BTreeMap<String, u16>,
}

impl Addresses {
    /// Returns `address`, with the port of the earlier run if it has none.
    fn remembered(&self, name: &str, address: SocketAddr) -> SocketAddr {
        match (address.port(), self.ports.get(name)) {
            (0, Some(port)) => SocketAddr::new(address.ip(), *port),
            _ => address,
        }
    }
}

/// Sockets of all listeners. None of them accepts a connection before all are bound.
struct Bound {
    /// Number, server and socket of each vCenter.
    vcenters: Vec<(usize, Server, TcpListener)>,
    cluster: TcpListener,
    supervisor: Option<(Server, TcpListener)>,
    admin: TcpListener,
    autoscaler: Option<(Server, TcpListener)>,
}

/// Endpoints of all listeners but the admin port.
struct Faces {
    vcenters: BTreeMap<String, Endpoint>,
    cluster: Endpoint,
    supervisor: Option<Endpoint>,
    autoscaler: Option<Endpoint>,
}

impl Bound {
    async fn bind(sim: &Sim, addresses: Addresses) -> Result<Self, ListenError> {
        let mut vcenters = Vec::new();
        for (n, (name, server)) in sim.vcenters().enumerate() {
            let address = addresses.remembered(name, counted_up(addresses.vcenter, n)?);
            vcenters.push((n, server.clone(), bind(name, address).await?));
        }
        let cluster = bind(CLUSTER, addresses.remembered(CLUSTER, addresses.cluster)).await?;
        let supervisor = match sim.supervisor() {
            Some(it) => {
                let address = addresses.remembered(SUPERVISOR, addresses.supervisor);
                Some((it.server().clone(), bind(SUPERVISOR, address).await?))
            }
            None => None,
        };
        let admin = bind("admin", addresses.remembered("admin", addresses.admin)).await?;
        let autoscaler = match &addresses.autoscaler {
            Some(AutoscalerListener { listen, server }) => {
                let address = addresses.remembered(AUTOSCALER, *listen);
                let server = sim.autoscaler(dial(server.clone()));
                Some((server, bind(AUTOSCALER, address).await?))
            }
            None => None,
        };
        Ok(Self { vcenters, cluster, supervisor, admin, autoscaler })
    }
}

/// Settings of the listeners that are about to open.
struct Opening<'a> {
    sim: &'a Sim,
    advertise: Advertise,
    /// Signs the certificates of the listeners; `None` without TLS.
    authority: Option<Arc<Authority>>,
    tls_sans: Vec<String>,
    /// Certificates of an earlier run, by the name of the listener.
    certificates: BTreeMap<String, BTreeMap<u32, Leaf>>,
    admin_token: Option<String>,
    patience: Duration,
    door: ClientGate,
    client: String,
}

impl<'a> Opening<'a> {
    fn new(sim: &'a Sim, options: ListenOptions) -> Result<(Addresses, Self), ListenError> {
        let ListenOptions {
            vcenter,
            cluster,
            supervisor,
            admin,
            autoscaler,
            transport,
            advertise,
            tls_sans,
            authority,
            certificates,
            ports,
            admin_token,
            stall_timeout: patience,
            door,
            client,
        } = options;
        let authority = match (transport, authority) {
            (Transport::PlainText, _) => None,
            (Transport::Tls, Some(authority)) => Some(authority),
            (Transport::Tls, None) => Some(Arc::new(Authority::generate()?)),
        };
        let addresses = Addresses { vcenter, cluster, supervisor, admin, autoscaler, ports };
        let opening = Self {
            sim,
            advertise,
            authority,
            tls_sans,
            certificates,
            admin_token,
            patience,
            door,
            client,
        };
        Ok((addresses, opening))
    }

    /// Serves `server` on `listener`. `public` is the advertised name; `None` for the address of
    /// the listener. With `world`, the certificates change with the world. Takes the certificates
    /// of an earlier run for this server, if any. Fails if a certificate cannot be made.
    fn open(
        &mut self,
        server: &Server,
        listener: TcpListener,
        public: Option<String>,
        alpn: Alpn,
        world: Option<WorldHandle>,
    ) -> Result<Endpoint, ListenError> {
        let name = server.name();
        let address = local(name, &listener)?;
        let host = host_of(public.as_deref(), address);
        let certificates = match &self.authority {
            None => None,
            Some(authority) => {
                let mut hosts = hosts(&host, address, &self.tls_sans);
                if name == SUPERVISOR {
                    hosts.push(SUPERVISOR_HOST.to_owned());
                }
                let kept = self.certificates.remove(name).unwrap_or_default();
                let authority = Arc::clone(authority);
                Some(Arc::new(Certificates::new(authority, name, hosts, world, kept)?))
            }
        };
        // Clients of a Kubernetes API server may send certificates. Clients of a vCenter never do.
        let clients = self.authority.as_deref().filter(|_| alpn == Alpn::Http2);
        let tls = certificates.clone().map(|all| acceptor(all, alpn, clients)).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        self.sim.serve(Listener {
            listener,
            tls,
            behind: ServedBy::Face(server.clone(), alpn),
            patience: self.patience,
            door: self.door.clone(),
            client: self.client.clone(),
        });
        Ok(Endpoint { url: format!("{scheme}://{host}"), address, certificates })
    }

    /// Serves Cluster Autoscalers on `listener`, in plain text.
    fn open_autoscaler(
        &self,
        server: Server,
        listener: TcpListener,
    ) -> Result<Endpoint, ListenError> {
        let address = local(AUTOSCALER, &listener)?;
        self.sim.serve(Listener {
            listener,
            tls: None,
            behind: ServedBy::Face(server, Alpn::Http2),
            patience: self.patience,
            door: self.door.clone(),
            client: self.client.clone(),
        });
        let url = format!("http://{}", host_of(None, address));
        Ok(Endpoint { url, address, certificates: None })
    }

    /// Serves the admin port, and returns the endpoints of all listeners. Beyond loopback, makes a
    /// random token for the admin port if none is set. Fails if the system has no randomness.
    fn open_admin(self, listener: TcpListener, faces: Faces) -> Result<Endpoints, ListenError> {
        let sim = self.sim;
        let Faces { vcenters, cluster, supervisor, autoscaler } = faces;
        let address = local("admin", &listener)?;
        let admin_token = match self.admin_token {
            Some(token) => Some(token),
            None if address.ip().is_loopback() => None,
            None => Some(random_token()?),
        };
        let url = format!("http://{}", host_of(self.advertise.admin.as_deref(), address));
        let supervisor_token = sim.supervisor().map(|it| it.admin_token().to_owned());
        let endpoints = Endpoints {
            vcenters,
            cluster,
            supervisor,
            autoscaler,
            admin: Endpoint { url, address, certificates: None },
            admin_token,
            authority: self.authority,
            cluster_token: sim.admin_token().to_owned(),
            supervisor_token: supervisor_token.unwrap_or_default(),
        };
        let router =
            admin::router(sim.control().clone(), sim.supervisor().cloned(), endpoints.clone());
        sim.serve(Listener {
            listener,
            tls: None,
            behind: ServedBy::Admin(router),
            patience: self.patience,
            door: ClientGate::default(),
            client: String::new(),
        });
        Ok(endpoints)
    }
}

/// Connects to the server of Cluster Autoscalers at this host and port.
fn dial(server: String) -> Dial {
    Arc::new(move || {
        let server = server.clone();
        Box::pin(async move {
            let failed = |err: io::Error| io::Error::new(err.kind(), format!("{server}: {err}"));
            let stream = TcpStream::connect(&server).await.map_err(failed)?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    })
}

async fn bind(face: &str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError::Bind {
        face: face.to_owned(),
        address,
        source,
    })
}

fn local(face: &str, listener: &TcpListener) -> Result<SocketAddr, ListenError> {
    let unknown = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    listener.local_addr().map_err(|source| ListenError::Bind {
        face: face.to_owned(),
        address: unknown,
        source,
    })
}

/// Returns a random secret of 32 hexadecimal digits. Unlike the sim's passwords and other tokens,
/// it does not follow from the seed. Fails if the system has no randomness.
fn random_token() -> Result<String, TlsError> {
    let mut bytes = [0; 16];
    let random = ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
