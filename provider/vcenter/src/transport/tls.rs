//! Verification of server certificates: by root certificates, by a thumbprint as fallback, or not
//! at all.
//!
//! The verifier uses the thumbprint only if verification by root certificates fails. A mismatch
//! ends the handshake before the client sends a credential. The verifier compares thumbprints as
//! bytes, so case and colons do not matter.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use sha2::Digest as _;

/// Trust settings of one vCenter. The caller reads the certificate files.
#[derive(Clone, Debug, Default)]
pub struct TlsTrust {
    /// Trusted root certificates as PEM; if empty, only the thumbprint counts.
    pub roots_pem: Vec<u8>,
    /// SHA-1 or SHA-256 of the server certificate in hex; colons are optional. `None` if only the
    /// roots count.
    pub thumbprint: Option<String>,
    /// True if the client accepts every certificate without verification.
    pub insecure: bool,
}

/// Reason why trust settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No root certificate, no thumbprint, and verification is on.
    #[error("the trusted roots contain no certificate")]
    NoCertificate,
    /// A certificate in the PEM text cannot be read, or cannot be a root.
    #[error("cannot read a certificate in the trusted roots: {0}")]
    BadCertificate(String),
    /// The thumbprint is not 20 or 32 bytes in hex.
    #[error("the thumbprint is neither SHA-1 (20 bytes) nor SHA-256 (32 bytes) in hex")]
    BadThumbprint,
    /// The TLS library refused the settings.
    #[error("the TLS library rejects the TLS settings")]
    Refused(#[from] rustls::Error),
}

impl TlsTrust {
    /// Checks the settings, and builds the client configuration with the crypto provider `ring`.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let thumbprint = self.thumbprint.as_deref().map(parse_thumbprint).transpose()?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.roots_pem) {
            let certificate =
                certificate.map_err(|err| TlsError::BadCertificate(err.to_string()))?;
            roots.add(certificate).map_err(|err| TlsError::BadCertificate(err.to_string()))?;
        }
        if roots.is_empty() && !self.insecure && thumbprint.is_none() {
            return Err(TlsError::NoCertificate);
        }
        let normal = if self.insecure || roots.is_empty() {
            None
        } else {
            let built =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            Some(built.build().map_err(|err| TlsError::BadCertificate(err.to_string()))?)
        };
        let verifier = Verifier {
            normal,
            thumbprint,
            insecure: self.insecure,
            provider: Arc::clone(&provider),
        };
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth())
    }
}

/// Parses a thumbprint in hex. Ignores colons and spaces.
fn parse_thumbprint(text: &str) -> Result<Vec<u8>, TlsError> {
    let hex: Vec<u8> = text.bytes().filter(|b| !matches!(b, b':' | b' ')).collect();
    let bytes: Option<Vec<u8>> = hex
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect();
    bytes.filter(|b| matches!(b.len(), 20 | 32)).ok_or(TlsError::BadThumbprint)
}

/// Verifier of server certificates according to a [`TlsTrust`].
#[derive(Debug)]
struct Verifier {
    /// Verifies by root certificates; `None` if the settings have none, or if verification is off.
    normal: Option<Arc<WebPkiServerVerifier>>,
    thumbprint: Option<Vec<u8>>,
    insecure: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.insecure {
            return Ok(ServerCertVerified::assertion());
        }
        let failure = match &self.normal {
            Some(normal) => match normal.verify_server_cert(leaf, intermediates, name, ocsp, now) {
                Ok(verified) => return Ok(verified),
                Err(err) => err,
            },
            None => rustls::CertificateError::UnknownIssuer.into(),
        };
        let Some(wanted) = &self.thumbprint else { return Err(failure) };
        let matches = if wanted.len() == 20 {
            sha1::Sha1::digest(leaf).as_slice() == wanted.as_slice()
        } else {
            sha2::Sha256::digest(leaf).as_slice() == wanted.as_slice()
        };
        if matches {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General(format!(
                "{failure}, and the certificate's thumbprint does not match the configured one; \
                 correct the thumbprint if the certificate is right"
            )))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbprints_are_read_with_and_without_colons() {
        assert_eq!(parse_thumbprint(&"AB:".repeat(20)).map(|b| b.len()).ok(), Some(20));
        assert_eq!(parse_thumbprint(&"ab".repeat(32)).map(|b| b.len()).ok(), Some(32));
        assert!(parse_thumbprint("abc").is_err());
        assert!(parse_thumbprint(&"zz".repeat(20)).is_err());
    }

    #[test]
    fn a_trust_without_roots_or_thumbprint_is_refused_unless_insecure() {
        assert!(matches!(TlsTrust::default().client_config(), Err(TlsError::NoCertificate)));
        let insecure = TlsTrust { insecure: true, ..TlsTrust::default() };
        assert!(insecure.client_config().is_ok());
    }
}
