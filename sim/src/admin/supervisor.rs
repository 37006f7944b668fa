//! Events of the Supervisor as a server: tokens, certificates, roles, and the files that a provider mounts.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::AdminError;
use crate::tls::Certificate;
use crate::{Profile, Supervisor, SupervisorError};

/// Prefix of the names of these events.
const PREFIX: &str = "supervisor.";

/// An event of the Supervisor as a server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) enum Happening {
    /// Gives the provider another token.
    #[serde(rename = "supervisor.token.rotate")]
    RotateToken(Rotation),
    /// Has another authority sign the Supervisor's certificate.
    #[serde(rename = "supervisor.ca.rotate")]
    RotateAuthority {},
    /// Shows another certificate to new connections.
    #[serde(rename = "supervisor.certificate")]
    ShowCertificate(Certificate),
    /// Names another namespace in the provider's files.
    #[serde(rename = "supervisor.namespace")]
    MountNamespace(String),
    /// Gives the provider another role.
    #[serde(rename = "supervisor.grant")]
    Grant(Profile),
}

/// Parameters of a token rotation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rotation {
    /// Time for which the previous token stays valid; zero by default.
    #[serde(with = "sim_world::duration")]
    grace: Duration,
}

impl Happening {
    /// True if a name belongs to one of these events and not to an event of the world.
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
