//! Options of listeners: addresses to bind, and addresses for clients.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::ClientGate;
use crate::tls::{Authority, Leaf};

/// Default of [`ListenOptions::stall_timeout`]. A working client reads its answers and sends the
/// head of a request faster. Until the time is over, the sim keeps the unread data in memory.
const PATIENCE: Duration = Duration::from_secs(60);

/// Transport of the faces: TLS or plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TLS, as real servers use.
    #[default]
    Tls,
    /// Plain text, for manual experiments. Build the sim with
    /// [`plain_text`](crate::Builder::plain_text); otherwise clients do not send cookies back.
    PlainText,
}

/// Listener for Cluster Autoscalers (`--cloud-provider=externalgrpc`), whose calls the sim forwards to a
/// server. It speaks plain text in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerListener {
    /// Address on which autoscalers connect.
    pub listen: SocketAddr,
    /// Host and port of the server behind.
    pub server: String,
}

/// Names under which clients reach the listeners: `host` or `host:port`. The default is the
/// listening address, or loopback if that address is unspecified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertise {
    /// Name of the vCenters; `None` for the default. If the name has a port, the n-th vCenter (from
    /// 0) gets that port plus n.
    pub vcenter: Option<String>,
    /// Name of the workload cluster's API server; `None` for the default.
    pub cluster: Option<String>,
    /// Name of the Supervisor's API server; `None` for the default.
    pub supervisor: Option<String>,
    /// Name of the admin port; `None` for the default.
    pub admin: Option<String>,
}

/// Options of [`Sim::listen`](crate::Sim::listen). The default is loopback, TLS, and ports that the
/// system picks.
#[derive(Clone)]
pub struct ListenOptions {
    /// Address of the first vCenter. Each further vCenter listens on the next higher port. If the
    /// port is 0, the system picks the ports of all vCenters.
    pub vcenter: SocketAddr,
    /// Address of the workload cluster's API server.
    pub cluster: SocketAddr,
    /// Address of the Supervisor's API server, if the world has a Supervisor.
    pub supervisor: SocketAddr,
    /// Address of the admin port. If it is not loopback, or if `admin_token` is set, the port
    /// requires a bearer token.
    pub admin: SocketAddr,
    /// Listener for Cluster Autoscalers; `None` by default.
    pub autoscaler: Option<AutoscalerListener>,
    /// Transport of the faces; the admin port and the listener for Cluster Autoscalers never use TLS.
    pub transport: Transport,
    /// Host names and ports that the sim reports to clients.
    pub advertise: Advertise,
    /// Further names and addresses that the certificates cover.
    pub tls_sans: Vec<String>,
    /// Authority that signs the certificates; a new one by default.
    pub authority: Option<Arc<Authority>>,
    /// Certificates of an earlier run, by server and number.
    pub certificates: BTreeMap<String, BTreeMap<u32, Leaf>>,
    /// Ports to use in place of port 0, by server (`admin` for the admin port).
    pub ports: BTreeMap<String, u16>,
    /// Bearer token of the admin port; by default none on loopback, and a random one elsewhere.
    pub admin_token: Option<String>,
    /// Time after which the sim ends a connection whose client leaves data unread or an HTTP/1
    /// request head incomplete (60 s by default).
    pub stall_timeout: Duration,
    /// Switch that cuts off the clients of these listeners.
    pub door: ClientGate,
    /// Label of the clients of these listeners in the ledger and in rules; if empty, the user of
    /// each call is the label, or `anonymous` for a call to a vCenter without a login. Clients with
    /// a label still need credentials here. A sim with one set of listeners per client can
    /// distinguish its clients by label.
    pub client: String,
}

/// Shows addresses and transport only, to omit keys and tokens.
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
            autoscaler: None,
            transport: Transport::default(),
            advertise: Advertise::default(),
            tls_sans: Vec::new(),
            authority: None,
            certificates: BTreeMap::new(),
            ports: BTreeMap::new(),
            admin_token: None,
            stall_timeout: PATIENCE,
            door: ClientGate::default(),
            client: String::new(),
        }
    }
}
