//! TLS settings of servers.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::{Authority, Certificates, TlsError};

/// Versions of HTTP that a server offers in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alpn {
    /// HTTP/1.1 only, which suffices for all vSphere clients.
    Http1,
    /// HTTP/2 preferred, else HTTP/1.1.
    Http2,
}

/// Returns an acceptor with the certificates of one server.
///
/// With `clients`, a client may show a certificate of that authority, but need not. A certificate
/// of another authority ends the handshake, whereas a real API server would answer 401.
pub(crate) fn acceptor(
    certificates: Arc<Certificates>,
    alpn: Alpn,
    clients: Option<&Authority>,
) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.certificate().clone())?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(certificates);
    // Disables resumption: the server shows no certificate in a resumed session, but after a change
    // every client must get the new certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = match alpn {
        Alpn::Http1 => vec![b"http/1.1".to_vec()],
        Alpn::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(TlsAcceptor::from(Arc::new(config)))
}
