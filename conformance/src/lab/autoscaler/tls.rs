//! Certificates for both sides of a connection, and the client's side of the handshake.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client::CallError;
use super::subject::{Credentials, TlsFacts};

/// Host for which the certificates of servers in this process are valid.
pub(super) const HOST: &str = "autoscaler.test";

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Certificate.
    pub(super) certificate: String,
    /// Private key.
    pub(super) key: String,
}

/// Certificates and authorities of a client, for each of its credentials.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// Authorities of the server's certificate, in PEM.
    pub(super) authorities: String,
    /// Certificate that the server expects.
    pub(super) expected: Identity,
    /// Certificate of an authority that the server does not know.
    pub(super) stranger: Identity,
    /// That authority, in PEM.
    stranger_authority: String,
}

/// Certificates and authorities of both sides.
#[derive(Clone, Debug)]
pub(super) struct TlsMaterial {
    /// Certificate of the server.
    pub(super) server: Identity,
    /// The client's side.
    pub(super) client: ClientTls,
}

type Problem = Box<dyn std::error::Error + Send + Sync>;

impl TlsMaterial {
    /// Creates two authorities: one for server and client, and one that neither knows.
    pub(super) fn generate() -> Result<Self, Problem> {
        let (ours, theirs) = (authority()?, authority()?);
        let client = ClientTls {
            authorities: ours.pem(),
            expected: issue(&ours, ExtendedKeyUsagePurpose::ClientAuth)?,
            stranger: issue(&theirs, ExtendedKeyUsagePurpose::ClientAuth)?,
            stranger_authority: theirs.pem(),
        };
        Ok(Self { server: issue(&ours, ExtendedKeyUsagePurpose::ServerAuth)?, client })
    }

    /// Returns the settings of a server that accepts clients of `authorities`; of any client if
    /// `authorities` is `None`.
    pub(super) fn server_config(&self, authorities: Option<&str>) -> Result<ServerConfig, Problem> {
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&TLS13, &TLS12])?;
        let builder = match authorities {
            Some(pem) => {
                let roots = Arc::new(roots(pem)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, crypto).build()?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let (chain, key) = self.server.read()?;
        Ok(builder.with_single_cert(chain, key)?)
    }
}

impl Identity {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Problem> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        Ok((chain?, PrivateKeyDer::from_pem_slice(self.key.as_bytes())?))
    }
}

impl ClientTls {
    /// Creates the client's side from PEM texts: the authorities of the server's certificate, and
    /// certificate and key that the server expects. Creates an unknown certificate.
    ///
    /// # Errors
    /// If a text is not PEM of its kind, if certificate and key do not belong together, or if the
    /// system has no randomness.
    pub(crate) fn new(
        authorities: String,
        certificate: String,
        key: String,
    ) -> Result<Self, String> {
        let theirs = authority().map_err(|err| err.to_string())?;
        let stranger = issue(&theirs, ExtendedKeyUsagePurpose::ClientAuth);
        let tls = Self {
            authorities,
            expected: Identity { certificate, key },
            stranger: stranger.map_err(|err| err.to_string())?,
            stranger_authority: theirs.pem(),
        };
        tls.config(Credentials::Expected).map_err(|err| err.to_string())?;
        Ok(tls)
    }

    /// Returns the authorities of the expected and of the unknown certificate.
    pub(super) fn all_authorities(&self) -> String {
        format!("{}{}", self.authorities, self.stranger_authority)
    }

    fn config(&self, as_whom: Credentials) -> Result<ClientConfig, Problem> {
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_root_certificates(roots(&self.authorities)?);
        let identity = match as_whom {
            Credentials::Expected => Some(&self.expected),
            Credentials::Stranger => Some(&self.stranger),
            Credentials::None => None,
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                builder.with_client_auth_cert(chain, key)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// Shakes hands over a stream with a server that has a certificate for `host`.
    pub(crate) async fn connect<S>(
        &self,
        stream: S,
        host: &str,
        as_whom: Credentials,
    ) -> Result<(TlsStream<S>, TlsFacts), CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.config(as_whom).map_err(CallError::own)?;
        let name = ServerName::try_from(host.to_owned()).map_err(CallError::own)?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.map_err(CallError::own)?;
        let (_, connection) = stream.get_ref();
        let alpn = connection.alpn_protocol().map(String::from_utf8_lossy);
        let version = connection.protocol_version().map(|it| format!("{it:?}"));
        let facts = TlsFacts {
            alpn: alpn.unwrap_or_default().into_owned(),
            version: version.unwrap_or_default(),
        };
        Ok((stream, facts))
    }
}

fn roots(pem: &str) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    Ok(roots)
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, Problem> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn issue(
    authority: &CertifiedIssuer<'static, KeyPair>,
    purpose: ExtendedKeyUsagePurpose,
) -> Result<Identity, Problem> {
    let mut params = CertificateParams::new(vec![HOST.to_owned()])?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.extended_key_usages = vec![purpose];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
}
