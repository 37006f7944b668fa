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

use super::ClientGate;
use super::connection::{CloseTokens, Connection};
use crate::Changes;
use crate::server::{Draining, is_of_stream};
use crate::tls::Alpn;
use crate::{Body, Server};

/// Pause after a failure to accept a connection, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Server behind a listener: a face or the admin port.
pub(super) enum ServedBy {
    /// A vCenter or a Kubernetes API server.
    Face(Server, Alpn),
    /// The admin port, as a router of requests.
    Admin(axum::Router),
}

impl ServedBy {
    /// True if the server is down, so that clients must not be able to connect.
    fn is_down(&self) -> bool {
        match self {
            Self::Face(server, _) => server.is_down(),
            Self::Admin(_) => false,
        }
    }
}

/// A bound listener: a socket, the server behind it, and the settings of its connections.
pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) behind: ServedBy,
    /// Time after which the sim ends a connection whose client leaves data unread or an HTTP/1
    /// request head incomplete.
    pub(super) patience: Duration,
    pub(super) door: ClientGate,
    /// Label of the clients in the ledger and in rules; empty for none.
    pub(super) client: String,
}

impl Listener {
    /// Accepts connections until `stop` is canceled. Each connection becomes a task of `tasks`,
    /// unless the server is down or [`ClientGate::shut`] has cut its clients off. In that case the
    /// listener resets the connection at once. When `changes` reports that the server has gone
    /// down, the listener breaks its open connections.
    pub(super) async fn run(
        self,
        mut changes: Changes,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        // When canceled, breaks the connections that hold a child of it. Later connections get
        // children of a new token.
        let mut cut = self.door.shut_token();
        loop {
            // The order matters: a stop comes first, and the connections of a server that went down
            // break before the listener accepts a new one.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = changes.changed() => {
                    if self.behind.is_down() {
                        cut.cancel();
                        cut = self.door.shut_token();
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((socket, peer)) => {
                        // The door has been shut meanwhile. It may be open again by now.
                        if cut.is_cancelled() {
                            cut = self.door.shut_token();
                        }
                        let ends = CloseTokens {
                            cut: cut.child_token(),
                            drain: CancellationToken::new(),
                            stop: stop.clone(),
                        };
                        self.accepted(socket, peer, ends, &tasks);
                    }
                    Err(error) => self.refused(&error).await,
                },
            }
        }
    }

    fn accepted(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        ends: CloseTokens,
        tasks: &TaskTracker,
    ) {
        if self.behind.is_down() || ends.cut.is_cancelled() {
            // The listener must keep its port, so it cannot refuse the connection. It resets the
            // connection at once.
            let _ = socket.set_zero_linger();
            return;
        }
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a new connection failed; closing the connection");
            return;
        }
        let connection = Connection::new(socket, self.tls.clone(), ends, self.patience);
        match &self.behind {
            ServedBy::Face(server, alpn) => {
                let service =
                    server.accepted(&self.client, peer.to_string(), connection.identity());
                let (fault, drain) = (connection.fault(), connection.drain());
                let service = Draining { service, drain };
                let service =
                    hyper::service::service_fn(move |request: http::Request<Incoming>| {
                        let served = service.clone().call(request);
                        let fault = fault.clone();
                        async move {
                            let answer: io::Result<http::Response<Body>> = served.await;
                            answer.inspect_err(|err| {
                                if !is_of_stream(err) {
                                    fault.cancel();
                                }
                            })
                        }
                    });
                tasks.spawn(connection.serve(service, *alpn));
            }
            ServedBy::Admin(router) => {
                let service = TowerToHyperService::new(router.clone());
                tasks.spawn(connection.serve(service, Alpn::Http1));
            }
        }
    }

    async fn refused(&self, error: &io::Error) {
        let address = self.listener.local_addr().ok();
        tracing::warn!(%error, ?address, "a listener cannot accept a connection; retrying in 50 ms");
        tokio::time::sleep(PAUSE).await;
    }
}
