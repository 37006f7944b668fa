//! Mutual TLS: certificate, key and authorities of clients, read again while the server runs.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};

use crate::{InputError, input::certified_key};

/// Period between two reads of the files, which are small.
const PERIOD: Duration = Duration::from_secs(10);

/// Function that returns the certificate chain, the key and the authorities of clients, all in PEM.
pub type TlsFiles = Arc<dyn Fn() -> Result<[Vec<u8>; 3], InputError> + Send + Sync>;

/// The TLS settings for the next connection, and the source of later ones.
pub(crate) struct Tls {
    files: TlsFiles,
    current: RwLock<([Vec<u8>; 3], Arc<ServerConfig>)>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is no PEM file of its kind, or if certificate and key do not belong
    /// together.
    pub(crate) fn read(files: TlsFiles) -> Result<Self, InputError> {
        let content = files()?;
        let config = config(&content)?;
        Ok(Self { files, current: RwLock::new((content, config)) })
    }

    /// Returns the settings for a new connection.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().expect("nothing panics under this lock").1)
    }

    /// Reads the files again every 10 s, forever. Open connections stay; new ones use the new
    /// files. After an error the old settings stay, and the problem is logged once.
    pub(crate) async fn follow(&self) {
        let mut told = None;
        loop {
            tokio::time::sleep(PERIOD).await;
            match (self.files)() {
                Ok(content) => {
                    let is_new = {
                        let current = self.current.read().expect("nothing panics under this lock");
                        current.0 != content
                    };
                    if !is_new {
                        told = None;
                        continue;
                    }
                    match config(&content) {
                        Ok(config) => {
                            tracing::info!(
                                "the files for TLS have changed; new connections use them"
                            );
                            let mut current =
                                self.current.write().expect("nothing panics under this lock");
                            *current = (content, config);
                            told = None;
                        }
                        Err(err) => warn_once(&mut told, err),
                    }
                }
                Err(err) => warn_once(&mut told, err),
            }
        }
    }
}

fn warn_once(told: &mut Option<InputError>, err: InputError) {
    if told.as_ref() != Some(&err) {
        tracing::warn!("{err}; serving with the old files for TLS");
        *told = Some(err);
    }
}

fn config([chain, key, authorities]: &[Vec<u8>; 3]) -> Result<Arc<ServerConfig>, InputError> {
    let in_flag = |err: InputError| err.in_flag("client-ca-file");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate
            .map_err(|err| in_flag(InputError::new(format!("the file is not valid PEM: {err}"))))?;
        roots.add(certificate).map_err(|err| {
            in_flag(InputError::new(format!("a certificate is not one of an authority: {err}")))
        })?;
    }
    let crypto = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&crypto)).build();
    let verifier = verifier.map_err(|err| {
        let err = InputError::new(format!("the file has no usable authority: {err}"));
        in_flag(err.remedy("give a PEM file with the certificates that signed those of clients"))
    })?;
    let key = certified_key(chain, key)?;
    let builder = ServerConfig::builder_with_provider(crypto);
    let builder = builder.with_protocol_versions(&[&TLS13, &TLS12]).map_err(|err| {
        InputError::new(format!("this program cannot serve TLS 1.2 and 1.3: {err}"))
    })?;
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    // Clients refuse a server that does not choose HTTP/2 here.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
