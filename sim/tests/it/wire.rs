//! Functions for clients on sockets, for tests that need raw connections.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sim::Endpoints;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Creates a TLS connector that trusts only the sim's certificate authority and offers these ALPN
/// protocols.
pub(crate) fn connector(endpoints: &Endpoints, alpn: &[&str]) -> TlsConnector {
    let pem = endpoints.ca_pem().expect("TLS");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Connects to `address` and makes the TLS handshake of a client that expects a certificate for
/// `name`.
pub(crate) async fn tls(
    connector: &TlsConnector,
    address: SocketAddr,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    connector.connect(name, TcpStream::connect(address).await?).await
}

/// The certificate that the server sent in the handshake, in DER.
pub(crate) fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().expect("a certificate")[0].to_vec()
}

/// Starts HTTP/1.1 on a stream. A task drives the connection until the connection or the test ends.
pub(crate) async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> http1::SendRequest<Full<Bytes>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    sender
}

/// Sends a request and reads the whole answer.
pub(crate) async fn exchange(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(u16, String), hyper::Error> {
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Builds a request. The first byte of the body decides its content type: XML, JSON or YAML.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
    let kind = match body.as_bytes().first() {
        Some(b'<') => "text/xml",
        Some(b'{' | b'[') => "application/json",
        _ => "application/yaml",
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", kind)
        .body(Full::from(body.to_owned()))
        .expect("the request is valid")
}
