//! The certificate authority of a sim.
//!
//! The sim generates the authority once, or restores it from saved state. Clients that have the PEM
//! of the authority trust its certificates. Keys are random and do not follow from the seed. They
//! never appear in the ledger.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Leaf;

/// Reason why a certificate, key or authority cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate or key cannot be generated or parsed.
    #[error("cannot generate or parse a certificate or private key")]
    Certificate(#[from] rcgen::Error),
    /// A text is not the PEM of a certificate or key.
    #[error("the text is not a certificate or private key in PEM format")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The verifier of client certificates cannot use the authority.
    #[error("cannot use the certificate authority to verify client certificates")]
    Clients(#[from] rustls::server::VerifierBuilderError),
    /// rustls rejects the certificate, the key or the configuration.
    #[error("the TLS library rejects the certificate, the private key or the configuration")]
    Rustls(#[from] rustls::Error),
}

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    /// From 2025 to 2050, longer than any sim runs.
    Long,
    /// The first day of 2025, so that the certificate has expired.
    Over,
}

/// A certificate authority: its certificate and its private key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// Omits the private key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("pem", &self.pem).finish_non_exhaustive()
    }
}

impl Authority {
    /// Generates a new authority.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn generate() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = params()?.self_signed(&key)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.into(),
            issuer: Issuer::new(params()?, key),
        })
    }

    /// Restores an authority from [`pem`](Self::pem) and [`key_pem`](Self::key_pem).
    ///
    /// # Errors
    /// If the texts are not the PEM of a certificate and a key.
    pub fn restore(pem: &str, key_pem: &str) -> Result<Self, TlsError> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())?;
        // An issuer consists of a name and a key. All authorities of this module have the same
        // name.
        let issuer = Issuer::new(params()?, KeyPair::from_pem(key_pem)?);
        Ok(Self { issuer, certificate, pem: pem.to_owned() })
    }

    /// The authority's certificate, which clients trust, as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's private key as PEM, to be kept secret.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Issues a client certificate for the cluster. Its common name is `user`, its organization
    /// `group`.
    ///
    /// Supports at most one group, because rcgen writes every attribute of a name once. The cluster
    /// also accepts certificates with several groups.
    ///
    /// # Errors
    /// If a name is not valid in a certificate, or the system has no randomness.
    pub fn issue_client(&self, user: &str, group: Option<&str>) -> Result<Leaf, TlsError> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        set_validity(&mut params);
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, user);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Leaf::new(certificate.pem(), key.serialize_pem(), self)
    }

    /// Issues a certificate for the server `name`, valid for these host names and addresses.
    ///
    /// # Errors
    /// If a name or host is not valid in a certificate, or the system has no randomness.
    pub(crate) fn issue(&self, name: &str, hosts: &[String]) -> Result<Leaf, TlsError> {
        self.issue_for(name, hosts, Validity::Long)
    }

    /// Issues a server certificate with a given validity period. `name` is the common name; `hosts`
    /// are the names and addresses that the certificate covers. Fails if a name or host is not
    /// valid in a certificate, or if the system has no randomness.
    pub(super) fn issue_for(
        &self,
        name: &str,
        hosts: &[String],
        validity: Validity,
    ) -> Result<Leaf, TlsError> {
        let mut params = CertificateParams::new(hosts)?;
        set_validity(&mut params);
        if validity == Validity::Over {
            params.not_after = date_time_ymd(2025, 1, 2);
        }
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "sim");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Leaf::new(certificate.pem(), key.serialize_pem(), self)
    }
}

fn params() -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    set_validity(&mut params);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "sim");
    params.distinguished_name.push(DnType::CommonName, "sim CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Sets the validity from 2025 to 2050, so that a certificate does not reveal when a sim was
/// started.
fn set_validity(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2025, 1, 1);
    params.not_after = date_time_ymd(2050, 1, 1);
}
