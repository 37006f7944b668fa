//! What happens to the Supervisor as a server: tokens, certificates, roles, and what a provider mounts.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::AdminError;
use crate::tls::Certificate;
use crate::{Profile, Supervisor, SupervisorError};

/// What the names of these begin with.
const PREFIX: &str = "supervisor.";

/// Something that happens to it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) enum Happening {
    /// The provider gets another token.
    #[serde(rename = "supervisor.token.rotate")]
    RotateToken(Rotation),
    /// Another authority signs its certificate.
    #[serde(rename = "supervisor.ca.rotate")]
    RotateAuthority {},
    /// New connections see another certificate.
    #[serde(rename = "supervisor.certificate")]
    ShowCertificate(Certificate),
    /// The provider's files name another namespace.
    #[serde(rename = "supervisor.namespace")]
    MountNamespace(String),
    /// The provider gets another role.
    #[serde(rename = "supervisor.grant")]
    Grant(Profile),
}

/// How a token is rotated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rotation {
    /// How long the token before stays good.
    #[serde(with = "sim_world::duration")]
    grace: Duration,
}

impl Happening {
    /// Whether a name is one of these, and none of the world's own.
    pub(super) fn is_called(name: &str) -> bool {
        name.starts_with(PREFIX) && name != "supervisor.quota"
    }

    pub(super) fn happen(self, supervisor: Option<&Supervisor>) -> Result<(), AdminError> {
        let Some(supervisor) = supervisor else {
            return Err(no_supervisor());
        };
        let done = match self {
            Self::RotateToken(Rotation { grace }) => supervisor.rotate_token(grace).map(drop),
            Self::RotateAuthority {} => supervisor.rotate_authority().map(drop),
            Self::ShowCertificate(certificate) => supervisor.show_certificate(certificate),
            Self::MountNamespace(namespace) => supervisor.mount_namespace(&namespace),
            Self::Grant(profile) => {
                supervisor.grant(profile);
                Ok(())
            }
        };
        done.map_err(refused)
    }
}

pub(super) fn no_supervisor() -> AdminError {
    AdminError::new(StatusCode::CONFLICT, "this world has no Supervisor")
        .remedy("start with sim serve --supervisor DIR")
}

fn refused(error: SupervisorError) -> AdminError {
    let (status, remedy) = match &error {
        SupervisorError::NotMounted | SupervisorError::NoTls => {
            (StatusCode::CONFLICT, "nothing has changed")
        }
        SupervisorError::Mount(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "make the directory of --supervisor writable")
        }
        SupervisorError::Tls(_) => (StatusCode::INTERNAL_SERVER_ERROR, "try again"),
    };
    AdminError::new(status, error.to_string()).remedy(remedy)
}
