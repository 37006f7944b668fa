//! TLS of the HTTPS endpoint: versions, suites and groups, and a certificate that the provider
//! reads again every 10 s.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use rustls::{
    CipherSuite, NamedGroup, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::{InputError, input::certified_key};

/// Period between two reads of the certificate and key files, which are small.
const PERIOD: Duration = Duration::from_secs(10);

/// Function that returns the certificate chain and the key, both in PEM.
pub type CertificateSource = Arc<dyn Fn() -> Result<(Vec<u8>, Vec<u8>), InputError> + Send + Sync>;

/// TLS settings of the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingTls {
    /// True if the endpoint serves TLS 1.3 only; otherwise it serves TLS 1.2 and 1.3.
    pub only_13: bool,
    /// Suites of TLS 1.2; `None` for all. The suites of TLS 1.3 are fixed.
    pub suites: Option<Vec<CipherSuite>>,
    /// Groups for the key exchange; `None` for all.
    pub groups: Option<Vec<NamedGroup>>,
}

/// The certificate that the endpoint serves now, and the source of later ones.
pub(super) struct Certificate {
    current: RwLock<Arc<CertifiedKey>>,
    source: Option<CertificateSource>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().expect("nothing panics under this lock")))
    }
}

impl Certificate {
    /// Reads the certificate from the source; without a source makes a self-signed one for this
    /// run. Fails if the source fails, or if certificate or key is invalid.
    pub(super) fn new(source: Option<CertificateSource>) -> Result<Arc<Self>, InputError> {
        let key = match &source {
            None => self_signed()?,
            Some(source) => {
                let (chain, key) = source()?;
                certified_key(&chain, &key)?
            }
        };
        Ok(Arc::new(Self { current: RwLock::new(Arc::new(key)), source }))
    }

    /// Reads the source again every 10 s, forever, and serves a changed certificate. If the source
    /// fails or the new certificate is invalid, keeps the old one and logs the problem once.
    /// Without a source does nothing, forever.
    pub(super) async fn follow(&self) {
        let Some(source) = &self.source else { return std::future::pending().await };
        let mut told = None;
        loop {
            tokio::time::sleep(PERIOD).await;
            match source().and_then(|(chain, key)| certified_key(&chain, &key)) {
                Ok(new) => {
                    told = None;
                    let mut current = self.current.write().expect("nothing panics under this lock");
                    // The library cannot compare keys, but the same certificate implies the same
                    // key.
                    if new.cert != current.cert {
                        tracing::info!(
                            "certificate files of the HTTPS endpoint have changed; serving the \
                             new certificate"
                        );
                        *current = Arc::new(new);
                    }
                }
                Err(what) if told.as_ref() != Some(&what) => {
                    tracing::warn!("{what}; serving the old certificate");
                    told = Some(what);
                }
                Err(_) => {}
            }
        }
    }

    pub(super) fn config(self: Arc<Self>, tls: &ServingTls) -> Result<ServerConfig, InputError> {
        let all = ring::default_provider();
        let is_chosen = |suite: CipherSuite, version: &SupportedProtocolVersion| {
            *version == TLS13 || tls.suites.as_ref().is_none_or(|it| it.contains(&suite))
        };
        let provider = CryptoProvider {
            cipher_suites: all
                .cipher_suites
                .iter()
                .filter(|it| is_chosen(it.suite(), it.version()))
                .copied()
                .collect(),
            kx_groups: all
                .kx_groups
                .iter()
                .filter(|it| tls.groups.as_ref().is_none_or(|wanted| wanted.contains(&it.name())))
                .copied()
                .collect(),
            ..all
        };
        let versions: &[&SupportedProtocolVersion] =
            if tls.only_13 { &[&TLS13] } else { &[&TLS12, &TLS13] };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .map_err(|err| {
                let what = "cannot serve TLS with these values; correct --tls-cipher-suites, \
                            --tls-min-version or --tls-curve-preferences";
                InputError::new(format!("{what}: {err}"))
            })?;
        Ok(builder.with_no_client_auth().with_cert_resolver(self))
    }
}

fn self_signed() -> Result<CertifiedKey, InputError> {
    let fail = |err: &dyn std::fmt::Display| {
        let what = "cannot make a self-signed certificate for the HTTPS endpoint; give one with \
                    --tls-cert-file and --tls-private-key-file";
        InputError::new(format!("{what}: {err}"))
    };
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|err| fail(&err))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let key = ring::sign::any_supported_type(&key).map_err(|err| fail(&err))?;
    Ok(CertifiedKey::new(vec![made.cert.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use rustls::{
        CipherSuite::{
            TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 as AES_128,
            TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 as AES_256,
        },
        ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConnection,
    };

    use super::*;

    type Agreed = (ProtocolVersion, CipherSuite, NamedGroup);

    /// The versions, suites and groups that a client supports.
    struct Client {
        version: &'static SupportedProtocolVersion,
        suites: Vec<CipherSuite>,
        groups: Vec<NamedGroup>,
    }

    impl Client {
        fn of_12(suites: &[CipherSuite]) -> Self {
            Self { version: &TLS12, suites: suites.to_vec(), groups: vec![NamedGroup::X25519] }
        }

        fn of_13(groups: &[NamedGroup]) -> Self {
            Self { version: &TLS13, suites: Vec::new(), groups: groups.to_vec() }
        }

        fn config(&self, trusted: &CertifiedKey) -> ClientConfig {
            let mut provider = ring::default_provider();
            if !self.suites.is_empty() {
                provider.cipher_suites.retain(|it| self.suites.contains(&it.suite()));
            }
            let all = provider.kx_groups.clone();
            let by_name = |name: &NamedGroup| all.iter().find(|it| it.name() == *name).copied();
            provider.kx_groups = self.groups.iter().filter_map(by_name).collect();
            let mut roots = RootCertStore::empty();
            roots.add(trusted.cert[0].clone()).unwrap();
            ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[self.version])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth()
        }

        /// Makes a TLS handshake in memory with an endpoint that was started with `flags`; `None`
        /// if the handshake fails.
        fn meets(&self, flags: &str) -> Option<Agreed> {
            let words = format!("provider --cloud-config=c {flags}");
            let arguments = crate::cli::parse(words.split_whitespace().map(str::to_owned)).unwrap();
            let certificate = Certificate::new(None).unwrap();
            let client = self.config(&certificate.current.read().unwrap());
            let server = certificate.config(&arguments.serving.tls).unwrap();
            let name = "localhost".try_into().unwrap();
            let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
            let mut server = ServerConnection::new(Arc::new(server)).unwrap();
            while client.is_handshaking() || server.is_handshaking() {
                let (mut sent, mut answer) = (Vec::new(), Vec::new());
                client.write_tls(&mut sent).unwrap();
                server.read_tls(&mut sent.as_slice()).unwrap();
                server.process_new_packets().ok()?;
                server.write_tls(&mut answer).unwrap();
                client.read_tls(&mut answer.as_slice()).unwrap();
                client.process_new_packets().ok()?;
            }
            let group = client.negotiated_key_exchange_group()?.name();
            Some((client.protocol_version()?, client.negotiated_cipher_suite()?.suite(), group))
        }
    }

    #[test]
    fn versions_suites_and_groups_are_those_of_the_flags() {
        use NamedGroup::{X25519, secp256r1, secp384r1};
        let of_12 = |suite| Some((ProtocolVersion::TLSv1_2, suite, X25519));
        let both = [AES_128, AES_256];
        for (flags, client, want) in [
            ("", Client::of_12(&[AES_128]), of_12(AES_128)),
            ("--tls-min-version=VersionTLS12", Client::of_12(&[AES_128]), of_12(AES_128)),
            ("--tls-min-version=VersionTLS13", Client::of_12(&both), None),
            (
                "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                Client::of_12(&both),
                of_12(AES_256),
            ),
            (
                "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                Client::of_12(&both),
                of_12(AES_128),
            ),
            (
                "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                Client::of_12(&[AES_128]),
                None,
            ),
            ("--tls-cipher-suites=TLS_AES_128_GCM_SHA256", Client::of_12(&both), None),
            ("--tls-curve-preferences=24", Client::of_12(&both), None),
            ("--tls-curve-preferences=24", Client::of_13(&[X25519]), None),
        ] {
            assert_eq!(client.meets(flags), want, "{flags}");
        }
        for (flags, group) in [
            ("", X25519),
            ("--tls-min-version=VersionTLS13", X25519),
            ("--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", X25519),
            ("--tls-curve-preferences=24", secp384r1),
            ("--tls-curve-preferences=23", secp256r1),
        ] {
            let met = Client::of_13(&[X25519, secp384r1, secp256r1]).meets(flags);
            let met = met.map(|(version, _, group)| (version, group));
            assert_eq!(met, Some((ProtocolVersion::TLSv1_3, group)), "{flags}");
        }
    }
}
