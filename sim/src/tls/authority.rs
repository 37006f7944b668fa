//! The certificate authority of a sim.
//!
//! Generated once and trusted by clients that have its PEM. Only the keys do not follow from the
//! seed; they never appear in a ledger.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Leaf;

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key could not be made or read.
    #[error("cannot make or read a certificate")]
    Certificate(#[from] rcgen::Error),
    /// A PEM file does not contain a certificate or key.
    #[error("not a PEM file of a certificate")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The authority cannot verify client certificates.
    #[error("cannot check the certificates of clients")]
    Clients(#[from] rustls::server::VerifierBuilderError),
    /// rustls rejects the certificate or key.
    #[error("cannot serve with a certificate")]
    Rustls(#[from] rustls::Error),
}

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    /// From 2025 to 2050, longer than any sim runs.
    Long,
    /// One day in the past.
    Over,
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// Omits the key.
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
    /// If these are not a valid certificate and key.
    pub fn restore(pem: &str, key_pem: &str) -> Result<Self, TlsError> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())?;
        // An issuer is its name and its key. The name is the same in every authority made here.
        let issuer = Issuer::new(params()?, KeyPair::from_pem(key_pem)?);
        Ok(Self { issuer, certificate, pem: pem.to_owned() })
    }

    /// The certificate that clients trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Private key, to be kept secret.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Issues a client certificate for `user` of the cluster: common name and organization.
    ///
    /// Supports one group at most, because rcgen writes every attribute of a name once. The cluster
    /// accepts certificates with more.
    ///
    /// # Errors
    /// If a name is not valid in a certificate.
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
    /// If one of them is not valid in a certificate.
    pub(crate) fn issue(&self, name: &str, hosts: &[String]) -> Result<Leaf, TlsError> {
        self.issue_for(name, hosts, Validity::Long)
    }

    /// Issues a server certificate with a given validity period.
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

/// Sets a long period, so that a certificate does not reveal when a sim was started.
fn set_validity(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2025, 1, 1);
    params.not_after = date_time_ymd(2050, 1, 1);
}
