//! Where to listen, and how clients are told to connect.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::Door;
use crate::tls::{Authority, Leaf};

/// Nobody who is alive reads nothing for so long, or takes as long to send the head of a request; what waits is held meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the faces speak TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TLS, as production does.
    #[default]
    Tls,
    /// Plain text, for quick looks. Build the sim with
    /// [`plain_text`](crate::Builder::plain_text), or cookies do not come back.
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

/// Where a sim listens. The default is loopback, TLS, and ports that the system picks.
#[derive(Clone)]
pub struct ListenOptions {
    /// For the first vCenter; the next ones count ports up, or pick too if it is 0.
    pub vcenter: SocketAddr,
    /// For the cluster.
    pub cluster: SocketAddr,
    /// For the Supervisor, if there is one.
    pub supervisor: SocketAddr,
    /// For the admin port. Beyond loopback it wants a bearer token.
    pub admin: SocketAddr,
    /// TLS or not; the admin port never.
    pub transport: Transport,
    /// What clients are told.
    pub advertise: Advertise,
    /// More names and addresses that certificates are good for.
    pub tls_sans: Vec<String>,
    /// Who signs certificates; a new authority otherwise.
    pub authority: Option<Arc<Authority>>,
    /// Certificates of an earlier run, by server and number.
    pub certificates: BTreeMap<String, BTreeMap<u32, Leaf>>,
    /// Ports to take in place of 0, by server.
    pub ports: BTreeMap<String, u16>,
    /// The admin port's bearer token; a new one where one is needed.
    pub admin_token: Option<String>,
    /// How long a client may leave unread what is sent to it before its connection breaks.
    pub patience: Duration,
    /// Whether clients are let in.
    pub door: Door,
}

/// Without keys and tokens.
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
        }
    }
}
