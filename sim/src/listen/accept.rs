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

/// Breath taken when the system refuses a connection, out of file descriptors for one.
const PAUSE: Duration = Duration::from_millis(50);

/// What a connection is connected to.
pub(super) enum Behind {
    /// A vCenter or the cluster.
    Face(Server, Alpn),
    /// The admin port.
    Admin(axum::Router),
}

impl Behind {
    /// Whether nothing listens, as far as clients can tell.
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
    /// How long a client may leave unread what is sent to it.
    pub(super) patience: Duration,
    pub(super) door: Door,
}

impl Listener {
    /// Accepts until `stop`. Connections become tasks of `tasks`.
    pub(super) async fn run(
        self,
        mut changes: Changes,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        // Breaks the connections of now; those of a service that came back have another one.
        let mut cut = self.door.shuts();
        loop {
            // Stopping comes first; a service that went away breaks its connections before a new one
            // is looked at.
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
                        // It was shut, and may be open again.
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
            // The port has to stay ours, so a refused connection is one that breaks at once.
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
                let service = server.accepted(peer.to_string(), connection.identity());
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
