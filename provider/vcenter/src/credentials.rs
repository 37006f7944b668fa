//! Credentials (a user name and a password), and their sources.

use futures::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};

/// A user name and a password. `Debug` shows neither.
#[derive(Clone)]
pub struct Credential {
    /// User name, for example `ccm@vsphere.local`.
    pub username: String,
    /// Password.
    pub password: SecretString,
}

impl Credential {
    /// Creates a credential from plain strings.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: SecretString::from(password.into()) }
    }

    /// True if both name and password are equal.
    pub(crate) fn same_as(&self, other: &Credential) -> bool {
        self.username == other.username
            && self.password.expose_secret() == other.password.expose_secret()
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// Reason why the source returns no credential. The text never contains a credential.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct CredentialError(pub String);

/// Source of the credential. The client requests the credential before every login, so that the
/// next login uses a rotated password.
pub trait CredentialSource: Send + Sync {
    /// Returns the credential to use now.
    fn credential(&self) -> BoxFuture<'_, Result<Credential, CredentialError>>;
}

/// A source that always returns the same credential.
#[derive(Debug)]
pub struct FixedCredential(pub Credential);

impl CredentialSource for FixedCredential {
    fn credential(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
        let credential = self.0.clone();
        Box::pin(async move { Ok(credential) })
    }
}
