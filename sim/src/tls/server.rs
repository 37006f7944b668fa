//! How servers shake hands.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::NoServerSessionStorage;
use tokio_rustls::TlsAcceptor;

use super::{Certificates, TlsError};

/// Which versions of HTTP a server offers in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alpn {
    /// HTTP/1.1 only: no client of vSphere needs more.
    Http1,
    /// HTTP/2 first.
    Http2,
}

/// Shakes hands with the certificates of one server.
pub(crate) fn acceptor(
    certificates: Arc<Certificates>,
    alpn: Alpn,
) -> Result<TlsAcceptor, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    // A resumed session shows no certificate; after a swap every client has to see the new one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = match alpn {
        Alpn::Http1 => vec![b"http/1.1".to_vec()],
        Alpn::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(TlsAcceptor::from(Arc::new(config)))
}
