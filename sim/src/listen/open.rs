//! Start of the listeners: binds all of them, then serves.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustls::crypto::ring;
use tokio::net::TcpListener;

use super::accept::{Listener, ServedBy};
use super::{Advertise, ClientGate, Endpoint, Endpoints, ListenOptions, Transport};
use crate::tls::{Alpn, Authority, Certificates, Leaf, TlsError, acceptor};
use crate::{CLUSTER, SUPERVISOR, SUPERVISOR_HOST, Server, Sim, WorldHandle, admin};

/// Reason why a sim cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refuses to listen on an address.
    #[error("{face} cannot listen on {address}")]
    Bind {
        /// Name of the listener: a vCenter's name, `cluster`, `supervisor` or `admin`.
        face: String,
        /// Address of the listener.
        address: SocketAddr,
        /// Error that the system returned.
        #[source]
        source: io::Error,
    },
    /// The vCenters need more ports than exist from the first one on.
    #[error("too few ports from {0} on for all vCenters; choose a lower first port")]
    TooFewPorts(u16),
    /// The sim cannot make a certificate.
    #[error("cannot prepare TLS for the listeners")]
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
        let ListenOptions {
            vcenter,
            cluster,
            supervisor,
            admin,
            transport,
            advertise,
            tls_sans,
            authority,
            mut certificates,
            ports,
            admin_token,
            stall_timeout: patience,
            door,
            client,
        } = options;
        let Advertise {
            vcenter: public_vcenter,
            cluster: public_cluster,
            supervisor: public_supervisor,
            admin: public_admin,
        } = advertise;
        let authority = match (transport, authority) {
            (Transport::PlainText, _) => None,
            (Transport::Tls, Some(authority)) => Some(authority),
            (Transport::Tls, None) => Some(Arc::new(Authority::generate()?)),
        };

        let remembered = |name: &str, address: SocketAddr| match (address.port(), ports.get(name)) {
            (0, Some(port)) => SocketAddr::new(address.ip(), *port),
            _ => address,
        };
        let mut bound = Vec::new();
        for (n, (name, server)) in self.vcenters().enumerate() {
            let address = remembered(name, counted_up(vcenter, n)?);
            bound.push((n, server.clone(), bind(name, address).await?));
        }
        let cluster = bind(CLUSTER, remembered(CLUSTER, cluster)).await?;
        let supervisor = match self.supervisor() {
            Some(it) => {
                let listener = bind(SUPERVISOR, remembered(SUPERVISOR, supervisor)).await?;
                Some((it.server(), listener))
            }
            None => None,
        };
        let admin = bind("admin", remembered("admin", admin)).await?;

        let mut open = |server: &Server,
                        listener: TcpListener,
                        public: Option<String>,
                        alpn: Alpn,
                        world: Option<WorldHandle>|
         -> Result<Endpoint, ListenError> {
            let name = server.name();
            let address = local(name, &listener)?;
            let host = host_of(public.as_deref(), address);
            let certificates = match &authority {
                None => None,
                Some(authority) => {
                    let mut hosts = hosts(&host, address, &tls_sans);
                    if name == SUPERVISOR {
                        hosts.push(SUPERVISOR_HOST.to_owned());
                    }
                    let kept: BTreeMap<u32, Leaf> = certificates.remove(name).unwrap_or_default();
                    let authority = Arc::clone(authority);
                    Some(Arc::new(Certificates::new(authority, name, hosts, world, kept)?))
                }
            };
            // Clients of a Kubernetes API server may send certificates. Clients of a vCenter never
            // do.
            let clients = authority.as_deref().filter(|_| alpn == Alpn::Http2);
            let tls = certificates.clone().map(|all| acceptor(all, alpn, clients)).transpose()?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            self.serve(Listener {
                listener,
                tls,
                behind: ServedBy::Face(server.clone(), alpn),
                patience,
                door: door.clone(),
                client: client.clone(),
            });
            Ok(Endpoint { url: format!("{scheme}://{host}"), address, certificates })
        };
        let mut vcenters = BTreeMap::new();
        for (n, server, listener) in bound {
            let public = public_vcenter.as_deref().map(|host| count_up(host, n));
            let world = Some(self.world().clone());
            let endpoint = open(&server, listener, public, Alpn::Http1, world)?;
            vcenters.insert(server.name().to_owned(), endpoint);
        }
        let cluster = open(self.cluster(), cluster, public_cluster, Alpn::Http2, None)?;
        let supervisor = supervisor
            .map(|(server, listener)| open(server, listener, public_supervisor, Alpn::Http2, None))
            .transpose()?;
        if let (Some(it), Some(endpoint)) = (self.supervisor(), &supervisor) {
            it.listens_with(endpoint.certificates.clone());
        }

        let address = local("admin", &admin)?;
        let token = match admin_token {
            Some(token) => Some(token),
            None if address.ip().is_loopback() => None,
            None => Some(random_token()?),
        };
        let url = format!("http://{}", host_of(public_admin.as_deref(), address));
        let endpoints = Endpoints {
            vcenters,
            cluster,
            supervisor,
            admin: Endpoint { url, address, certificates: None },
            admin_token: token,
            authority,
            cluster_token: self.admin_token().to_owned(),
            supervisor_token: self
                .supervisor()
                .map(|it| it.admin_token().to_owned())
                .unwrap_or_default(),
        };
        let router =
            admin::router(self.control().clone(), self.supervisor().cloned(), endpoints.clone());
        self.serve(Listener {
            listener: admin,
            tls: None,
            behind: ServedBy::Admin(router),
            patience,
            door: ClientGate::default(),
            client: String::new(),
        });
        Ok(endpoints)
    }

    fn serve(&self, listener: Listener) {
        let tasks = self.tasks().clone();
        let stop = self.stop_token();
        let changes = self.world().changes();
        self.tasks().spawn(listener.run(changes, tasks, stop));
    }
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

/// Adds `n` to the port of an address; port 0 stays 0, so that the system picks each port.
fn counted_up(first: SocketAddr, n: usize) -> Result<SocketAddr, ListenError> {
    if first.port() == 0 {
        return Ok(first);
    }
    let port = u16::try_from(n).ok().and_then(|n| first.port().checked_add(n));
    port.map(|port| SocketAddr::new(first.ip(), port)).ok_or(ListenError::TooFewPorts(first.port()))
}

/// Adds `n` to the port of `host:port`; returns a name without a port unchanged.
fn count_up(public: &str, n: usize) -> String {
    match split_port(public) {
        (host, Some(port)) => format!("{host}:{}", usize::from(port) + n),
        (host, None) => host.to_owned(),
    }
}

/// Returns the `host:port` for a URL: the advertised name, else the address of the listener. A name
/// without a port gets that of the listener, and an unspecified address becomes loopback.
fn host_of(public: Option<&str>, address: SocketAddr) -> String {
    match public.map(split_port) {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => format!("{host}:{}", address.port()),
        None => {
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
                ip => ip,
            };
            SocketAddr::new(ip, address.port()).to_string()
        }
    }
}

/// Splits `host:port`; returns a host without a port whole, with `None`. An IPv6 host has a port
/// only if it is in brackets, and keeps the brackets.
fn split_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => match port.parse() {
            Ok(port) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
        _ => (text, None),
    }
}

/// Returns the names and addresses that a certificate covers, each once: loopback, the advertised
/// host, the listening address unless it is unspecified, and `more`.
fn hosts(host: &str, address: SocketAddr, more: &[String]) -> Vec<String> {
    let (name, _) = split_port(host);
    let mut all: Vec<String> = ["127.0.0.1", "localhost", "::1"].map(str::to_owned).into();
    all.push(name.trim_matches(['[', ']']).to_owned());
    if !address.ip().is_unspecified() {
        all.push(address.ip().to_string());
    }
    all.extend(more.iter().cloned());
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|host| seen.insert(host.clone()));
    all
}

/// Returns a random secret of 32 hexadecimal digits. Unlike the sim's passwords and other tokens,
/// it does not follow from the seed.
fn random_token() -> Result<String, TlsError> {
    let mut bytes = [0; 16];
    let random = ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_name_keeps_its_port_or_gets_the_port_of_the_listener() {
        let address: SocketAddr = "0.0.0.0:8989".parse().unwrap();
        for (name, public, want) in [
            ("nothing advertised", None, "127.0.0.1:8989"),
            ("a name", Some("vc.example"), "vc.example:8989"),
            ("a name and a port", Some("vc.example:443"), "vc.example:443"),
            ("IPv6 in brackets", Some("[fd00::1]"), "[fd00::1]:8989"),
            ("IPv6 and a port", Some("[fd00::1]:443"), "[fd00::1]:443"),
        ] {
            assert_eq!(host_of(public, address), want, "{name}");
        }
        assert_eq!(count_up("vc.example:443", 2), "vc.example:445");
        assert_eq!(count_up("vc.example", 2), "vc.example");
    }

    #[test]
    fn a_certificate_covers_loopback_the_advertised_host_and_the_listening_address() {
        let address: SocketAddr = "10.0.0.5:8989".parse().unwrap();
        assert_eq!(
            hosts("[fd00::1]:443", address, &["vc".to_owned(), "localhost".to_owned()]),
            ["127.0.0.1", "localhost", "::1", "fd00::1", "10.0.0.5", "vc"]
        );
    }
}
