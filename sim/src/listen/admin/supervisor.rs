//! Events that change how a provider reaches the Supervisor: tokens, certificates, roles, and the
//! files that the provider mounts.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::AdminError;
use crate::listen::causes::with_causes;
use crate::tls::Certificate;
use crate::{Profile, Supervisor, SupervisorError};

/// Prefix of the names of Supervisor events ([`SupervisorEvent`]).
const PREFIX: &str = "supervisor.";

/// A Supervisor event: changes how a provider reaches the Supervisor. The world has no command for
/// such a change.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) enum SupervisorEvent {
    /// Issues a new token to the provider and writes it to the provider's files, if it has any.
    #[serde(rename = "supervisor.token.rotate")]
    RotateToken(Rotation),
    /// Replaces the authority that signs the Supervisor's certificate, also in the provider's
    /// files, if it has any.
    #[serde(rename = "supervisor.ca.rotate")]
    RotateAuthority {},
    /// Sets the kind of certificate that the Supervisor presents to new connections.
    #[serde(rename = "supervisor.certificate")]
    ShowCertificate(Certificate),
    /// Writes another namespace to the provider's files. Fails if the provider has no files.
    #[serde(rename = "supervisor.namespace")]
    MountNamespace(String),
    /// Replaces the role of the provider.
    #[serde(rename = "supervisor.grant")]
    Grant(Profile),
}

/// Parameters of a token rotation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rotation {
    /// World time for which the previous token stays valid; zero by default.
    #[serde(with = "sim_world::duration")]
    grace: Duration,
}

impl SupervisorEvent {
    /// True if an event of this name is a Supervisor event. `supervisor.quota` is not: it is a
    /// command of the world.
    pub(super) fn is_called(name: &str) -> bool {
        name.starts_with(PREFIX) && name != "supervisor.quota"
    }

    /// Carries out the event.
    ///
    /// # Errors
    /// An error answer if the world has no Supervisor, or if the event fails.
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
        .remedy("start the sim with `sim serve --supervisor DIR`")
}

fn refused(error: SupervisorError) -> AdminError {
    let (status, remedy) = match &error {
        SupervisorError::NotMounted | SupervisorError::NoTls => (
            StatusCode::CONFLICT,
            "start the sim as the error says; the request has changed nothing",
        ),
        SupervisorError::Mount(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "make the directory of --supervisor writable")
        }
        SupervisorError::Tls(_) => (StatusCode::INTERNAL_SERVER_ERROR, "try again"),
    };
    let text = match &error {
        SupervisorError::Tls(error) => with_causes(error),
        // The texts of the others contain the cause.
        _ => error.to_string(),
    };
    AdminError::new(status, text).remedy(remedy)
}
