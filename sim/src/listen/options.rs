//! Options of listeners: addresses to bind, and addresses for clients.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::Door;
use crate::tls::{Authority, Leaf};

/// Default patience. A live client reads its answers and sends the head of a request faster; until then the sim holds what waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Transport of the faces: TLS or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TLS, as production does.
    #[default]
    Tls,
    /// Plain text, for quick looks. Build the sim with
    /// [`plain_text`](crate::Builder::plain_text), or clients do not send cookies back.
    PlainText,
}

/// Names under which clients reach the faces, `host` or `host:port`; the listening address otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertise {
    /// For the vCenters. With a port, several vCenters count up from it.
    pub vcenter: Option<String>,
    /// For the cluster.
    pub cluster: Option<String>,
    /// For the Supervisor.
    pub supervisor: Option<String>,
    /// For the admin port.
    pub admin: Option<String>,
}

/// Options of [`Sim::listen`](crate::Sim::listen). The default is loopback, TLS, and ports that the system picks.
#[derive(Clone)]
pub struct ListenOptions {
    /// Address of the first vCenter. The next ones count ports up, or let the system pick too if
    /// the port is 0.
    pub vcenter: SocketAddr,
    /// Address of the cluster.
    pub cluster: SocketAddr,
    /// Address of the Supervisor, if the world has one.
    pub supervisor: SocketAddr,
    /// Address of the admin port. Beyond loopback it requires a bearer token.
    pub admin: SocketAddr,
    /// Transport of the faces; the admin port never uses TLS.
    pub transport: Transport,
    /// Addresses for clients.
    pub advertise: Advertise,
    /// More names and addresses for the certificates.
    pub tls_sans: Vec<String>,
    /// Authority that signs the certificates; a new one by default.
    pub authority: Option<Arc<Authority>>,
    /// Certificates of an earlier run, by server and number.
    pub certificates: BTreeMap<String, BTreeMap<u32, Leaf>>,
    /// Ports to use in place of 0, by server.
    pub ports: BTreeMap<String, u16>,
    /// Bearer token of the admin port; a new one if one is needed.
    pub admin_token: Option<String>,
    /// Time after which a connection breaks if the client leaves data unread or a request head
    /// incomplete (60 s by default).
    pub patience: Duration,
    /// Door that lets clients in or cuts them off.
    pub door: Door,
    /// Label of the clients of the faces, in the ledger and in rules; the user of each call if empty. Clients need
    /// credentials all the same. A sim with one set of listeners per client tells its clients apart.
    pub client: String,
}

/// Omits keys and tokens.
impl fmt::Debug for ListenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenOptions")
            .field("vcenter", &self.vcenter)
            .field("cluster", &self.cluster)
            .field("supervisor", &self.supervisor)
            .field("admin", &self.admin)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        let picked = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self {
            vcenter: picked,
            cluster: picked,
            supervisor: picked,
            admin: picked,
            transport: Transport::default(),
            advertise: Advertise::default(),
            tls_sans: Vec::new(),
            authority: None,
            certificates: BTreeMap::new(),
            ports: BTreeMap::new(),
            admin_token: None,
            patience: PATIENCE,
            door: Door::default(),
            client: String::new(),
        }
    }
}
