//! Certificates of one server: the current one, earlier ones and defective ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::authority::Validity;
use super::{Authority, TlsError};
use crate::WorldHandle;

/// Digests of a certificate in the format of client configurations: `AA:BB:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thumbprints {
    /// SHA-1 digest, which vSphere tools call *the* thumbprint.
    pub sha1: String,
    /// SHA-256 digest of the certificate.
    pub sha256: String,
}

impl Thumbprints {
    fn of(certificate: &[u8]) -> Self {
        let pairs = |digest: &[u8]| {
            digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
        };
        Self {
            sha1: pairs(&Sha1::digest(certificate)),
            sha256: pairs(&Sha256::digest(certificate)),
        }
    }
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Leaf {
    /// The certificate, as PEM.
    pub pem: String,
    /// Thumbprints of the certificate.
    pub thumbprints: Thumbprints,
    key_pem: String,
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("thumbprints", &self.thumbprints).finish_non_exhaustive()
    }
}

impl Leaf {
    /// Parses a certificate that `authority` has signed, and its private key. Does not verify the
    /// signature.
    ///
    /// # Errors
    /// If the texts are not the PEM of a certificate and of a key of a supported type.
    pub fn new(pem: String, key_pem: String, authority: &Authority) -> Result<Self, TlsError> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())?;
        let thumbprints = Thumbprints::of(&certificate);
        let key = any_supported_type(&PrivateKeyDer::from_pem_slice(key_pem.as_bytes())?)?;
        let chain = vec![certificate, authority.certificate().clone()];
        let certified = Arc::new(CertifiedKey::new(chain, key));
        Ok(Self { pem, thumbprints, key_pem, certified })
    }

    /// The private key as PEM, to be kept secret.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }
}

/// Kind of certificate that a server shows: a good one, or one with a defect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Certificate {
    /// The certificate is valid, for the right host names, and signed by the sim's authority.
    #[default]
    Good,
    /// The certificate has expired.
    Expired,
    /// The certificate is for another host name.
    WrongName,
    /// An unknown authority has signed the certificate.
    Untrusted,
}

/// Certificates that a server shows in handshakes.
///
/// The world numbers the certificates of a vCenter. A handshake gets the certificate with the
/// current number, unless a replacement is set; open connections keep the certificate of their
/// handshake.
pub(crate) struct Certificates {
    authority: Arc<Authority>,
    name: String,
    hosts: Vec<String>,
    /// World that numbers the certificates of a vCenter; `None` for other servers, whose
    /// certificate has number 0.
    world: Option<WorldHandle>,
    /// The numbered certificates, restored or issued, by number; replacements have no number.
    made: Mutex<BTreeMap<u32, Leaf>>,
    /// Replacements that [`show`](Self::show) and [`rotate`](Self::rotate) set. The state of a sim
    /// does not contain them.
    instead: Mutex<Replacements>,
}

/// Replacements of the authority and of the certificate that handshakes get; `None` keeps the
/// original.
#[derive(Default)]
struct Replacements {
    authority: Option<Arc<Authority>>,
    leaf: Option<Leaf>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Certificates {
    pub(crate) fn new(
        authority: Arc<Authority>,
        name: &str,
        hosts: Vec<String>,
        world: Option<WorldHandle>,
        kept: BTreeMap<u32, Leaf>,
    ) -> Result<Self, TlsError> {
        let name = name.to_owned();
        let instead = Mutex::default();
        let all = Self { authority, name, hosts, world, made: Mutex::new(kept), instead };
        all.current()?;
        Ok(all)
    }

    /// Returns the certificate that a handshake gets now. Issues the certificate if it does not
    /// exist yet; fails if a name is not valid in a certificate, or if the system has no
    /// randomness.
    pub(crate) fn current(&self) -> Result<Leaf, TlsError> {
        if let Some(leaf) = &self.instead().leaf {
            return Ok(leaf.clone());
        }
        let number = self.number();
        if let Some(leaf) = self.lock().get(&number) {
            return Ok(leaf.clone());
        }
        let leaf = self.authority.issue(&self.name, &self.hosts)?;
        Ok(self.lock().entry(number).or_insert(leaf).clone())
    }

    /// Makes all later handshakes get a certificate of this kind. Fails if the system has no
    /// randomness; the handshakes then get the same certificate as before.
    pub(crate) fn show(&self, certificate: Certificate) -> Result<(), TlsError> {
        let mut instead = self.instead();
        let authority = instead.authority.as_ref().unwrap_or(&self.authority);
        let issue = |hosts: &[String], validity| authority.issue_for(&self.name, hosts, validity);
        instead.leaf = match (certificate, &instead.authority) {
            (Certificate::Good, None) => None,
            (Certificate::Good, Some(_)) => Some(issue(&self.hosts, Validity::Long)?),
            (Certificate::Expired, _) => Some(issue(&self.hosts, Validity::Over)?),
            (Certificate::WrongName, _) => {
                Some(issue(&["somebody-else.example".to_owned()], Validity::Long)?)
            }
            (Certificate::Untrusted, _) => {
                Some(Authority::generate()?.issue(&self.name, &self.hosts)?)
            }
        };
        Ok(())
    }

    /// Generates another authority, which signs this server's certificates from now on, and makes
    /// later handshakes get a good certificate of that authority. Returns the certificate of the
    /// authority as PEM. Fails if the system has no randomness.
    pub(crate) fn rotate(&self) -> Result<String, TlsError> {
        let authority = Arc::new(Authority::generate()?);
        let leaf = authority.issue(&self.name, &self.hosts)?;
        let pem = authority.pem().to_owned();
        *self.instead() = Replacements { authority: Some(authority), leaf: Some(leaf) };
        Ok(pem)
    }

    /// Every numbered certificate, restored or issued, by number, without the replacements that
    /// [`show`](Self::show) and [`rotate`](Self::rotate) issue.
    pub(crate) fn all(&self) -> BTreeMap<u32, Leaf> {
        self.lock().clone()
    }

    fn number(&self) -> u32 {
        let number = |world: &WorldHandle| {
            world.read(|world| world.vcenter(&self.name).map(|vc| vc.certificate))
        };
        self.world.as_ref().and_then(number).unwrap_or_default()
    }

    fn instead(&self) -> MutexGuard<'_, Replacements> {
        self.instead.lock().expect("no task panics while it holds this lock")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Leaf>> {
        self.made.lock().expect("no task panics while it holds this lock")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match self.current() {
            Ok(leaf) => Some(leaf.certified),
            Err(error) => {
                let error = &error as &(dyn std::error::Error + 'static);
                tracing::error!(
                    error,
                    server = self.name,
                    "cannot issue a certificate for this server; refusing the TLS handshake"
                );
                None
            }
        }
    }
}
