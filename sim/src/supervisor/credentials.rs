//! Credentials and files of the provider, and their changes: another token, authority or namespace.

use std::io;
use std::path::Path;
use std::sync::MutexGuard;
use std::time::Duration;

use serde_json::{Value, json};

use super::mounts::Mounts;
use super::{Supervisor, provider};
use crate::ledger::Kind;
#[cfg(feature = "listen")]
use crate::tls::{Certificate, Certificates, TlsError};

/// Credentials and files of the provider.
#[derive(Default)]
pub(crate) struct ProviderCredentials {
    /// Current token; `None` while the first token is current.
    token: Option<String>,
    n_rotations: u32,
    mounts: Option<Mounts>,
    /// Certificates of the listener, if it uses TLS.
    #[cfg(feature = "listen")]
    certificates: Option<std::sync::Arc<Certificates>>,
}

/// Reason why a change of the Supervisor or of the provider's files fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The files of a provider cannot be written.
    #[error("cannot write the mounted files of the provider: {0}")]
    Mount(#[from] io::Error),
    /// The provider has no mounted files.
    #[error(
        "the files of the provider are not mounted; start with `sim serve --supervisor DIR` or \
         call `Supervisor::mount`"
    )]
    NotMounted,
    /// The Supervisor does not listen with TLS.
    #[cfg(feature = "listen")]
    #[error("the Supervisor does not listen with TLS; start `sim serve` without `--plain-text`")]
    NoTls,
    /// A certificate cannot be made.
    #[cfg(feature = "listen")]
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Supervisor {
    /// Writes, into the directory `below`, the files that a provider mounts, with `ca_pem` as the
    /// authority to trust. Later changes of credentials rewrite the files.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn mount(&self, below: &Path, ca_pem: &str) -> Result<(), SupervisorError> {
        let mounts = Mounts {
            below: below.to_owned(),
            authority: ca_pem.to_owned(),
            namespace: self.namespace.clone(),
            owner: self.owner(),
        };
        let mut given = self.given();
        self.publish(&given, &mounts)?;
        given.mounts = Some(mounts);
        Ok(())
    }

    /// Owner reference for objects that the provider creates. It names the workload cluster and is
    /// also in the provider's files.
    pub(crate) fn owner(&self) -> Value {
        let uid = self.control.world.read(|world| world.ids().uuid("cluster", "owner"));
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "name": self.cluster,
            "uid": uid.to_string(),
        })
    }

    /// Authority (PEM) and namespace in the files of the provider; `None` without files.
    #[cfg(feature = "listen")]
    pub(crate) fn mounted(&self) -> Option<(String, String)> {
        self.given().mounts.as_ref().map(|it| (it.authority.clone(), it.namespace.clone()))
    }

    /// Current token of the provider.
    pub fn current_token(&self) -> String {
        self.given().token.clone().unwrap_or_else(|| self.provider_token.clone())
    }

    /// Gives the provider another token, and returns that token. The new token is valid at once and
    /// replaces the previous one in the files. The Supervisor refuses the previous token after
    /// `grace` of world time.
    ///
    /// # Errors
    /// An error of the file system. Both tokens stay valid then, and the new one is the current
    /// token.
    pub fn rotate_token(&self, grace: Duration) -> Result<String, SupervisorError> {
        let before = self.current_token();
        let mut given = self.given();
        given.n_rotations += 1;
        let of = format!("provider-{}", given.n_rotations);
        let token = self.control.world.read(|world| world.ids().token("supervisor-token", &of));
        self.tokens.issue(&token, self.provider(), None);
        given.token = Some(token.clone());
        if let Some(mounts) = &given.mounts {
            self.publish(&given, mounts)?;
        }
        if grace == Duration::ZERO {
            self.tokens.revoke(&before);
        } else {
            let expires = self.control.world.now() + grace;
            self.tokens.issue(&before, provider(&self.namespace), Some(expires));
        }
        self.note("the provider's token was rotated");
        Ok(token)
    }

    /// Writes another namespace into the files of the provider. Does not create the namespace.
    ///
    /// # Errors
    /// An error of the file system, or no mounted files.
    pub fn mount_namespace(&self, namespace: &str) -> Result<(), SupervisorError> {
        self.remount(|mounts| namespace.clone_into(&mut mounts.namespace))?;
        self.note("the files of the provider name another namespace");
        Ok(())
    }

    fn remount(&self, change: impl FnOnce(&mut Mounts)) -> Result<(), SupervisorError> {
        let mut given = self.given();
        let mut mounts = given.mounts.clone().ok_or(SupervisorError::NotMounted)?;
        change(&mut mounts);
        self.publish(&given, &mounts)?;
        given.mounts = Some(mounts);
        Ok(())
    }

    fn publish(&self, given: &ProviderCredentials, mounts: &Mounts) -> io::Result<()> {
        let world = &self.control.world;
        let now = world.now().timestamp(world.clock().epoch());
        let token = given.token.as_ref().unwrap_or(&self.provider_token);
        mounts.write(token, &now.strftime("%Y_%m_%d_%H_%M_%S").to_string())
    }

    fn note(&self, what: &str) {
        let control = &self.control;
        control.ledger.note(control.world.now(), Kind::World, format!("supervisor: {what}"));
    }

    fn given(&self) -> MutexGuard<'_, ProviderCredentials> {
        self.given.lock().expect("no task panics while it holds the lock of the credentials")
    }
}

/// Certificates of the Supervisor's listener.
#[cfg(feature = "listen")]
impl Supervisor {
    /// Makes the Supervisor show new connections a certificate of this kind.
    ///
    /// # Errors
    /// No TLS on the listener, or no randomness.
    pub fn show_certificate(&self, certificate: Certificate) -> Result<(), SupervisorError> {
        let certificates = self.given().certificates.clone().ok_or(SupervisorError::NoTls)?;
        certificates.show(certificate)?;
        self.note(&format!("the kind of its certificate is now {certificate:?}"));
        Ok(())
    }

    /// Replaces the authority that signs the certificate, and writes the new authority into the
    /// files, if the provider has files. Returns the new authority as PEM.
    ///
    /// A sim that restarts with saved state uses the first authority again.
    ///
    /// # Errors
    /// No TLS on the listener, no randomness, or an error of the file system. After an error of the
    /// file system the new authority signs the certificate, but the files may name the earlier one.
    pub fn rotate_authority(&self) -> Result<String, SupervisorError> {
        let certificates = self.given().certificates.clone().ok_or(SupervisorError::NoTls)?;
        let pem = certificates.rotate()?;
        match self.remount(|mounts| mounts.authority.clone_from(&pem)) {
            Ok(()) | Err(SupervisorError::NotMounted) => {}
            Err(error) => return Err(error),
        }
        self.note("another authority signs its certificate");
        Ok(pem)
    }

    /// Stores the certificates of the listener; `None` if the listener does not use TLS.
    pub(crate) fn listens_with(&self, certificates: Option<std::sync::Arc<Certificates>>) {
        self.given().certificates = certificates;
    }
}
