//! What a provider is given, as it changes: tokens are rotated, authorities replaced, files rewritten.

use std::io;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use super::mounts::Mounts;
use super::{Supervisor, provider};
use crate::ledger::Kind;
use crate::tls::{Certificate, Certificates, TlsError};

/// What was handed out.
#[derive(Default)]
pub(crate) struct Given {
    /// The token of now; the first one if there is none here.
    token: Option<String>,
    n_rotations: u32,
    mounts: Option<Mounts>,
    /// What its listener shows, if it listens with TLS.
    certificates: Option<Arc<Certificates>>,
}

/// Why something about a Supervisor could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The files of a provider cannot be written.
    #[error("the files of the provider cannot be written: {0}")]
    Mount(#[from] io::Error),
    /// There are no files of a provider.
    #[error(
        "nothing is mounted; start with `sim serve --supervisor DIR` or call `Supervisor::mount`"
    )]
    NotMounted,
    /// It shows no certificates.
    #[error("the Supervisor does not listen with TLS")]
    NoTls,
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Supervisor {
    /// Writes below a directory what a provider mounts, and writes it again whenever it changes.
    ///
    /// # Errors
    /// The file system's.
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

    /// Who owns what the provider makes: the workload cluster, as its file says it.
    pub(crate) fn owner(&self) -> Value {
        let uid = self.control.world.read(|world| world.ids().uuid("cluster", "owner"));
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "name": self.cluster,
            "uid": uid.to_string(),
        })
    }

    /// Authority and namespace in the files of the provider, if there are files.
    pub(crate) fn mounted(&self) -> Option<(String, String)> {
        self.given().mounts.as_ref().map(|it| (it.authority.clone(), it.namespace.clone()))
    }

    /// The token of the provider as it is now.
    pub fn current_token(&self) -> String {
        self.given().token.clone().unwrap_or_else(|| self.provider_token.clone())
    }

    /// Gives the provider another token: it is good at once and stands in the files, and the one before is
    /// refused after `grace`.
    ///
    /// # Errors
    /// The file system's; both tokens are good then.
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

    /// Writes another namespace into the files of the provider. The namespace itself is not made.
    ///
    /// # Errors
    /// The file system's, or that there are no files.
    pub fn mount_namespace(&self, namespace: &str) -> Result<(), SupervisorError> {
        self.remount(|mounts| namespace.clone_into(&mut mounts.namespace))?;
        self.note("the provider was given another namespace");
        Ok(())
    }

    /// Lets new connections see another kind of certificate.
    ///
    /// # Errors
    /// That it does not listen with TLS, or there is no randomness.
    pub fn show_certificate(&self, certificate: Certificate) -> Result<(), SupervisorError> {
        let certificates = self.given().certificates.clone().ok_or(SupervisorError::NoTls)?;
        certificates.show(certificate)?;
        self.note(&format!("its certificate is {certificate:?} from now on"));
        Ok(())
    }

    /// Lets another authority sign its certificate, and writes that one into the files. Returns it as PEM.
    ///
    /// A restart with kept state goes back to the first authority.
    ///
    /// # Errors
    /// That it does not listen with TLS, the file system's, or there is no randomness.
    pub fn rotate_authority(&self) -> Result<String, SupervisorError> {
        let certificates = self.given().certificates.clone().ok_or(SupervisorError::NoTls)?;
        let pem = certificates.rotate()?;
        match self.remount(|mounts| mounts.authority.clone_from(&pem)) {
            Ok(()) | Err(SupervisorError::NotMounted) => {}
            Err(error) => return Err(error),
        }
        self.note("its authority is another one");
        Ok(pem)
    }

    /// Notes what its listener shows.
    pub(crate) fn listens_with(&self, certificates: Option<Arc<Certificates>>) {
        self.given().certificates = certificates;
    }

    fn remount(&self, change: impl FnOnce(&mut Mounts)) -> Result<(), SupervisorError> {
        let mut given = self.given();
        let mut mounts = given.mounts.clone().ok_or(SupervisorError::NotMounted)?;
        change(&mut mounts);
        self.publish(&given, &mounts)?;
        given.mounts = Some(mounts);
        Ok(())
    }

    fn publish(&self, given: &Given, mounts: &Mounts) -> io::Result<()> {
        let world = &self.control.world;
        let now = world.now().timestamp(world.clock().epoch());
        let token = given.token.as_ref().unwrap_or(&self.provider_token);
        mounts.write(token, &now.strftime("%Y_%m_%d_%H_%M_%S").to_string())
    }

    fn note(&self, what: &str) {
        let control = &self.control;
        control.ledger.note(control.world.now(), Kind::World, format!("supervisor: {what}"));
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().expect("no holder of what was given panics")
    }
}
