//! Reads the credential of a vCenter: from its Secret or directory first, then from the
//! configuration file.
//!
//! The provider reads the Secret (with `get`) or the directory before each login. So it needs no
//! watch on Secrets, and the next login uses a rotated password. If the read fails, the provider
//! uses the credential that it read before, or else the one in the configuration file.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use base64::Engine as _;
use futures::future::BoxFuture;
use provider_vcenter::{Chain, Credential, CredentialError, CredentialSource};
use serde_json::Value;

use super::{CredentialRef, SecretData, VcenterConfig, parse_secret};
use crate::cluster::Cluster;

/// Function that reads a directory of credentials and returns content by file name. The provider
/// calls it before every login to a vCenter whose credentials are in a directory.
pub type SecretFiles = Arc<dyn Fn(&Path) -> Result<SecretData, String> + Send + Sync>;

/// Source of the credential of one vCenter.
pub(crate) struct Credentials {
    vcenter: VcenterConfig,
    /// Cluster with the Secret; `None` if the caller has none.
    cluster: Option<Cluster>,
    files: Option<SecretFiles>,
    last: Mutex<Option<Credential>>,
}

impl Credentials {
    /// Returns the source for a vCenter. `cluster` has the Secret, if one has the credential.
    pub(crate) fn new(
        vcenter: &VcenterConfig,
        cluster: Option<Cluster>,
        files: Option<SecretFiles>,
    ) -> Self {
        Self { vcenter: vcenter.clone(), cluster, files, last: Mutex::new(None) }
    }

    async fn data(&self) -> Result<Option<SecretData>, CredentialError> {
        match &self.vcenter.credentials {
            CredentialRef::None => Ok(None),
            CredentialRef::Directory(path) => {
                let files = self.files.as_ref().ok_or_else(|| {
                    CredentialError(
                        "the caller of the library passed no function that reads secrets \
                         directories"
                            .to_owned(),
                    )
                })?;
                files(path).map(Some).map_err(CredentialError)
            }
            CredentialRef::Secret { namespace, name } => {
                let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
                let cluster = self.cluster.as_ref().ok_or_else(|| {
                    CredentialError(format!("Secret {namespace}/{name}: no cluster is known"))
                })?;
                let secret = cluster.get(&path).await.map_err(|err| {
                    CredentialError(format!("Secret {namespace}/{name}: {}", Chain(&err)))
                })?;
                decode(&secret)
                    .map(Some)
                    .map_err(|what| CredentialError(format!("Secret {namespace}/{name}: {what}")))
            }
        }
    }

    async fn read(&self) -> Result<Credential, CredentialError> {
        let found = match self.data().await {
            Ok(None) => return self.inline(),
            Ok(Some(data)) => parse_secret(&data, &self.vcenter.endpoint.host)
                .map_err(|err| CredentialError(format!("{}: {err}", self.source()))),
            Err(err) => Err(err),
        };
        match found {
            Ok(credential) => {
                *self.last.lock().expect("nothing panics under this lock") =
                    Some(credential.clone());
                Ok(credential)
            }
            Err(err) => {
                let last = self.last.lock().expect("nothing panics under this lock").clone();
                let (vcenter, source) = (&self.vcenter.endpoint.name, self.source());
                if let Some(credential) = last {
                    tracing::warn!(vcenter = %vcenter, source = %source, error = %err, "reading the credential failed; using the credential that was read last");
                    return Ok(credential);
                }
                let Ok(credential) = self.inline() else { return Err(err) };
                tracing::warn!(vcenter = %vcenter, source = %source, error = %err, "reading the credential failed; using user and password of the configuration file");
                Ok(credential)
            }
        }
    }

    /// Name of the Secret or directory with the credential, for messages.
    fn source(&self) -> String {
        match &self.vcenter.credentials {
            CredentialRef::None => "the configuration file".to_owned(),
            CredentialRef::Directory(path) => format!("directory {}", path.display()),
            CredentialRef::Secret { namespace, name } => format!("Secret {namespace}/{name}"),
        }
    }

    fn inline(&self) -> Result<Credential, CredentialError> {
        let inline = self.vcenter.inline.clone();
        inline.ok_or_else(|| {
            CredentialError(
                "the configuration has no user and password for this vCenter; add them".to_owned(),
            )
        })
    }
}

impl CredentialSource for Credentials {
    fn credential(&self) -> BoxFuture<'_, Result<Credential, CredentialError>> {
        Box::pin(self.read())
    }
}

fn decode(secret: &Value) -> Result<SecretData, String> {
    let Some(Value::Object(data)) = secret.get("data") else { return Ok(SecretData::new()) };
    data.iter()
        .map(|(key, value)| {
            let bytes = value
                .as_str()
                .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
            let bytes = bytes.ok_or_else(|| {
                format!("the value of key {key:?} is not base64; encode it as base64")
            })?;
            Ok((key.clone(), bytes))
        })
        .collect()
}
