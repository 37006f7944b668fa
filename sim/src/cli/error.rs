//! Errors that end a command, with their exit codes.

use std::path::Path;
use std::process::ExitCode;

use crate::ListenError;
use crate::document::DocumentError;
use crate::listen::causes::with_causes;
use crate::tls::TlsError;

/// Exit code for bad input: an invalid command line, file or address.
const BAD_INPUT: u8 = 2;

/// Error that ends a command.
#[derive(Debug)]
pub(super) struct CliError {
    what: String,
    remedy: String,
    code: u8,
}

impl CliError {
    /// Returns an error about bad input.
    pub(super) fn input(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into(), code: BAD_INPUT }
    }

    /// Returns an error about a failure that the input did not cause.
    pub(super) fn failed(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into(), code: 1 }
    }

    /// Returns an error about the content of the file that a flag names.
    pub(super) fn document(flag: &str, path: &Path, wrong: &DocumentError) -> Self {
        let what = format!("{flag} {}: {}", path.display(), wrong.summary());
        Self::input(what, wrong.remedy.clone())
    }

    /// Returns an error about access to the file or directory that a flag names.
    pub(super) fn file(flag: &str, path: &Path, error: &std::io::Error) -> Self {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check the permissions of the file",
            _ => "choose another path",
        };
        Self::input(format!("{flag} {}: {error}", path.display()), remedy)
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        match self.remedy.as_str() {
            "" => Ok(()),
            remedy => write!(f, "\n  remedy: {remedy}"),
        }
    }
}

impl From<ListenError> for CliError {
    fn from(error: ListenError) -> Self {
        match &error {
            ListenError::Bind { face, address, source } => {
                let flag = match face.as_str() {
                    crate::CLUSTER => "--cluster-listen",
                    crate::SUPERVISOR => "--supervisor-listen",
                    crate::AUTOSCALER => "--autoscaler-listen",
                    "admin" => "--admin-listen",
                    _ => "--vcenter-listen",
                };
                let remedy = match source.kind() {
                    std::io::ErrorKind::AddrInUse => {
                        "stop the process that uses this address, choose another port, or 0 to \
                         let the system pick a port"
                    }
                    std::io::ErrorKind::PermissionDenied => {
                        "choose a port from 1024 on, or let sim listen on lower ports"
                    }
                    _ => "choose an address of this computer",
                };
                Self::input(format!("{flag} {address}: {face}: {source}"), remedy)
            }
            ListenError::TooFewPorts(_) => {
                Self::input(format!("--vcenter-listen: {error}"), "choose a lower port, or 0")
            }
            ListenError::Tls(source) => {
                let remedy = match source {
                    TlsError::Certificate(_) => {
                        "check the names of --tls-san and of the options that end with -advertise"
                    }
                    _ => {
                        "with --state, remove sim.json in its directory to get new certificates; else try again"
                    }
                };
                Self::input(with_causes(&error), remedy)
            }
        }
    }
}
