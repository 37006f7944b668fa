//! The accept loop of one listener.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use super::Door;
use super::connection::{Connection, Ends};
use crate::Changes;
use crate::tls::Alpn;
use crate::{Body, Server};

/// Pause after the system fails to accept a connection, for example without free file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Server behind a listener.
pub(super) enum Behind {
    /// A vCenter or the cluster.
    Face(Server, Alpn),
    /// The admin port.
    Admin(axum::Router),
}

impl Behind {
    /// True if clients must see no listener.
    fn is_down(&self) -> bool {
        match self {
            Self::Face(server, _) => server.is_down(),
            Self::Admin(_) => false,
        }
    }
}

/// A bound listener.
pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) behind: Behind,
    /// Time after which a connection breaks if the client leaves data unread or a request head incomplete.
    pub(super) patience: Duration,
    pub(super) door: Door,
    /// Label of the clients in the ledger and in rules; empty for none.
    pub(super) client: String,
}

impl Listener {
    /// Accepts connections until `stop`. Each connection becomes a task of `tasks`.
    pub(super) async fn run(
        self,
        mut changes: Changes,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        // Breaks the current connections. Connections after a restart of the service get another token.
        let mut cut = self.door.shuts();
        loop {
            // Stopping comes first. A service that went down breaks its connections before the listener accepts a new one.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = changes.changed() => {
                    if self.behind.is_down() {
                        cut.cancel();
                        cut = self.door.shuts();
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((socket, peer)) => {
                        // The door was shut, and may be open again.
                        if cut.is_cancelled() {
                            cut = self.door.shuts();
                        }
                        let ends = Ends { cut: cut.child_token(), stop: stop.clone() };
                        self.accepted(socket, peer, ends, &tasks);
                    }
                    Err(error) => self.refused(&error).await,
                },
            }
        }
    }

    fn accepted(&self, socket: TcpStream, peer: SocketAddr, ends: Ends, tasks: &TaskTracker) {
        if self.behind.is_down() || ends.cut.is_cancelled() {
            // The listener must keep the port, so it refuses a connection by breaking it at once.
            let _ = socket.set_zero_linger();
            return;
        }
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone before it was served");
            return;
        }
        let connection = Connection::new(socket, self.tls.clone(), ends, self.patience);
        match &self.behind {
            Behind::Face(server, alpn) => {
                let service =
                    server.accepted(&self.client, peer.to_string(), connection.identity());
                let fault = connection.fault();
                let service =
                    hyper::service::service_fn(move |request: http::Request<Incoming>| {
                        let served = service.clone().call(request);
                        let fault = fault.clone();
                        async move {
                            let answer: io::Result<http::Response<Body>> = served.await;
                            answer.inspect_err(|_| fault.cancel())
                        }
                    });
                tasks.spawn(connection.serve(service, *alpn));
            }
            Behind::Admin(router) => {
                let service = TowerToHyperService::new(router.clone());
                tasks.spawn(connection.serve(service, Alpn::Http1));
            }
        }
    }

    async fn refused(&self, error: &io::Error) {
        let address = self.listener.local_addr().ok();
        tracing::warn!(%error, ?address, "a connection could not be accepted");
        tokio::time::sleep(PAUSE).await;
    }
}
