//! The HTTPS endpoint of a provider, with its clients. They connect through a pipe to a provider in
//! this process, and over loopback to a process.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::provider::{
    AccessSettings, CertificateSource, HealthEndpoint, Listener, Serving, cli::ServingArguments,
};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest as _, Sha256};
use sim::world::objects::{self, GroupResource};
use sim::world::{Command, Time};
use sim::{Identity, Sim};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use crate::scenario::Caller;

/// Size of a pipe's buffer, in bytes.
const PIPE: usize = 64 << 10;
/// Maximum time that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

impl Caller {
    /// Returns the bearer token that this client sends; `None` if it sends none.
    fn token(self) -> Option<&'static str> {
        match self {
            Self::Anonymous => None,
            Self::InvalidToken => Some("token-that-nobody-issued"),
            Self::NoRoles => Some("token-of-a-stranger"),
            Self::Allowed => Some("token-of-the-monitoring"),
            Self::SystemMasters => Some("token-of-an-administrator"),
        }
    }

    fn identity(self) -> Option<Identity> {
        match self {
            Self::Anonymous | Self::InvalidToken => None,
            Self::NoRoles => Some(Identity { user: "stranger".to_owned(), groups: Vec::new() }),
            Self::Allowed => Some(Identity { user: MONITORING.to_owned(), groups: Vec::new() }),
            Self::SystemMasters => Some(Identity::admin()),
        }
    }
}

/// Account that the cluster allows to read `/metrics`.
const MONITORING: &str = "system:serviceaccount:monitoring:prometheus";

/// Answer of a replica's endpoint to one request.
#[derive(Clone, Debug)]
pub struct EndpointAnswer {
    /// Time of the request.
    pub at: Time,
    /// Index of the replica.
    pub replica: usize,
    /// Path of the request, with its query.
    pub path: String,
    /// The client.
    pub by: Caller,
    /// Status and body, or the reason why the endpoint did not answer.
    pub outcome: Result<(u16, String), String>,
    /// SHA-256 of the served certificate; `None` if no TLS handshake succeeded.
    pub certificate: Option<[u8; 32]>,
}

/// Turns RBAC on in the workload cluster, issues the valid tokens of callers, and allows
/// [`MONITORING`] to read `/metrics`.
pub(in crate::lab) fn set_up_access(sim: &Sim) {
    for caller in [Caller::NoRoles, Caller::Allowed, Caller::SystemMasters] {
        if let (Some(token), Some(identity)) = (caller.token(), caller.identity()) {
            sim.tokens().issue(token, identity, None);
        }
    }
    let rbac = |resource| GroupResource::of("rbac.authorization.k8s.io", resource);
    let role = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "metrics-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MONITORING}],
    });
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let create = objects::Command::create(rbac(resource), "", object);
        sim.world().apply(Command::Cluster(create)).expect("a new cluster accepts roles");
    }
    sim.access().require_rbac();
}

/// The files of the serving certificate and its key, in memory.
#[derive(Clone, Debug, Default)]
pub(in crate::lab) struct ServingFiles(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl ServingFiles {
    /// Replaces the certificate and its key; returns the SHA-256 of the new certificate.
    pub(in crate::lab) fn renew(&self) -> [u8; 32] {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .expect("the parameters are constant");
        let pem = (made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pem;
        Sha256::digest(made.cert.der()).into()
    }

    /// Overwrites the files with content that is not a certificate.
    pub(in crate::lab) fn spoil(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (b"half".to_vec(), Vec::new());
    }

    fn source(&self) -> CertificateSource {
        let files = self.clone();
        Arc::new(move || Ok(files.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

/// The client side of an endpoint.
#[derive(Clone, Debug)]
pub(in crate::lab) enum EndpointClient {
    /// A pipe to our provider in this process.
    Pipe(mpsc::UnboundedSender<DuplexStream>),
    /// The address of a provider that is a process.
    Tcp(SocketAddr),
}

/// The side of an endpoint at which a provider in this process accepts connections.
#[derive(Debug)]
pub(in crate::lab) struct PipeListener(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for PipeListener {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
}

/// Returns both sides of a new endpoint in this process.
pub(in crate::lab) fn port() -> (EndpointClient, PipeListener) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EndpointClient::Pipe(sender), PipeListener(receiver))
}

/// Makes the endpoint that the command line describes.
///
/// # Errors
///
/// Returns the text with which a process would exit.
pub(in crate::lab) fn build(
    arguments: &ServingArguments,
    files: &ServingFiles,
    cluster: &kube::Client,
) -> Result<HealthEndpoint, String> {
    HealthEndpoint::new(Serving {
        certificate: arguments.certificate.as_ref().map(|_| files.source()),
        tls: arguments.tls.clone(),
        access: AccessSettings {
            // The provider's own account sends the reviews, as in a pod.
            authentication: Some(cluster.clone()),
            authorization: Some(cluster.clone()),
            always_allowed: arguments.always_allowed.clone(),
            token_ttl: arguments.token_ttl,
            allowed_ttl: arguments.allowed_ttl,
            refused_ttl: arguments.refused_ttl,
        },
    })
    .map_err(|err| err.to_string())
}

impl EndpointClient {
    /// Sends a GET request with the token of `by`. Returns status and body, or the reason why no
    /// answer came within 30 s. Also returns the SHA-256 of the served certificate, if the TLS
    /// handshake succeeded.
    pub(in crate::lab) async fn get(
        &self,
        path: &str,
        by: Caller,
    ) -> (Result<(u16, String), String>, Option<[u8; 32]>) {
        let mut certificate = None;
        let asking = self.ask(path, by, &mut certificate);
        let outcome = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        };
        (outcome, certificate)
    }

    async fn ask(
        &self,
        path: &str,
        by: Caller,
        certificate: &mut Option<[u8; 32]>,
    ) -> Result<(u16, String), String> {
        match self {
            Self::Pipe(port) => {
                let (ours, theirs) = tokio::io::duplex(PIPE);
                port.send(theirs).map_err(|_| {
                    "the provider does not listen on the address of its HTTPS endpoint".to_owned()
                })?;
                exchange(ours, path, by, certificate).await
            }
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(|err| err.to_string())?;
                exchange(stream, path, by, certificate).await
            }
        }
    }
}

/// Sends one request over the new connection `stream`, with the token of `by`. Sets `certificate`
/// to the SHA-256 of the served certificate once the TLS handshake has succeeded.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
    by: Caller,
    certificate: &mut Option<[u8; 32]>,
) -> Result<(u16, String), String> {
    let name = ServerName::try_from("localhost").map_err(|err| err.to_string())?;
    let stream = connector()?.connect(name, stream).await.map_err(|err| err.to_string())?;
    let served = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    *certificate = served.map(|it| Sha256::digest(it).into());
    let said = |err: hyper::Error| err.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    let mut request = http::Request::get(path).header(http::header::HOST, "localhost");
    if let Some(token) = by.token() {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::<bytes::Bytes>::new()).map_err(|err| err.to_string())?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(said)?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.map_err(said)?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::select! {
        outcome = exchange => outcome,
        ended = connection => Err(match ended {
            Ok(()) => "the connection ended before the answer".to_owned(),
            Err(err) => err.to_string(),
        }),
    }
}

fn connector() -> Result<TlsConnector, String> {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&crypto))
        .with_safe_default_protocol_versions()
        .map_err(|err| err.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(crypto)))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Accepts any certificate, as probes and monitoring do. Checks compare the served certificate
/// themselves.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
