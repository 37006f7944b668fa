//! Parses `vsphere.conf`, in YAML or INI, into one validated [`Config`].
//!
//! The parsers of both dialects return the same list of [`Entry`]s (section, key, path, value), and
//! one table defines all keys. A section that upstream reads and this provider does not is an
//! error. An unknown section or key is a warning, or an error in strict mode (`--strict-config`).

mod credential_source;
mod credentials;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod host;
mod ini;
mod keys;
mod validate;
mod yaml;

use std::{collections::BTreeSet, path::PathBuf};

use provider_vcenter::{Credential, Endpoint};

use crate::{
    InputError,
    instances::{Datacenters, Selection, ZoneCategories},
    model::Family,
};

pub(crate) use credential_source::Credentials;
pub use credential_source::SecretFiles;
pub use credentials::{SecretData, parse_secret};

/// A validated configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// The vCenters, in order of name.
    pub vcenters: Vec<VcenterConfig>,
    /// Rules that choose the addresses of nodes.
    pub selection: Selection,
    /// Tag categories of zone and region; `None` if zones are off.
    pub zones: Option<ZoneCategories>,
}

/// Configuration of one vCenter.
#[derive(Clone, Debug)]
pub struct VcenterConfig {
    /// Host and port of the vCenter, and its name: the key of its section in the file.
    pub endpoint: Endpoint,
    /// True if the provider accepts any certificate of the vCenter.
    pub insecure: bool,
    /// Paths of PEM files with trusted roots, joined with `:`; `None` stands for the trusted roots
    /// of this host.
    pub ca_file: Option<PathBuf>,
    /// SHA-1 or SHA-256 of the vCenter's certificate, used if normal verification fails.
    pub thumbprint: Option<String>,
    /// IP families of the nodes in this vCenter, in order of priority.
    pub families: Vec<Family>,
    /// Credential that the file itself contains; `None` if the file lacks user or password.
    pub inline: Option<Credential>,
    /// Source of a credential outside the file; the provider tries it before `inline`.
    pub credentials: CredentialRef,
    /// Datacenters with machines of the cluster; an empty list means all datacenters.
    pub datacenters: Datacenters,
}

/// Source of a credential outside the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRef {
    /// No source outside the file.
    None,
    /// A Kubernetes Secret.
    Secret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// A directory with one file per key, as a mounted Secret.
    Directory(PathBuf),
}

/// A warning about a key or section of the configuration, for example an unknown one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Treatment of unknown keys, and of everything else that causes a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKeys {
    /// The provider logs the warning and accepts the configuration. It ignores unknown sections and
    /// keys, merges a repeated section, and uses the last value of a repeated key.
    Warn,
    /// The provider refuses a configuration that causes a warning.
    Refuse,
}

/// One key of the file with its value, from either dialect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Section: `Global`, `VirtualCenter`, ….
    pub section: keys::Section,
    /// Name of the vCenter that the section configures; `None` for the sections without a name.
    pub subsection: Option<String>,
    /// Known key, in the spelling of the INI dialect.
    pub key: &'static str,
    /// Path as written in the file, for messages.
    pub path: String,
    /// Value of the key.
    pub value: Value,
}

/// A value: INI has only text, YAML has lists too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
}

/// Content of a file before validation, from either dialect.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub entries: Vec<Entry>,
    pub warnings: Vec<Warning>,
    /// Names of all vCenter sections in the file, also of sections without settings.
    pub vcenters: BTreeSet<String>,
    pub is_yaml: bool,
}

impl Config {
    /// A configuration without vCenters, as in Supervisor mode.
    pub fn without_vcenters() -> Self {
        Self { vcenters: Vec::new(), selection: Selection::default(), zones: None }
    }

    /// Checks the syntax of a file that the provider does not use, as in Supervisor mode. Apart
    /// from blank lines and comments with `#` at its start, the file must be empty, begin with `[`
    /// as INI does, or be a YAML mapping.
    ///
    /// # Errors
    ///
    /// If it is none of these.
    pub fn check_unused(file: &str, text: &str) -> Result<(), InputError> {
        let text = without_mark(text);
        let first =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        match first {
            None => Ok(()),
            Some(first) if first.starts_with('[') => Ok(()),
            Some(_) => yaml::check_syntax(file, text),
        }
    }

    /// Parses and validates a configuration, and returns it with the warnings. `file` is the name
    /// of the file in messages.
    ///
    /// The first line that is neither blank nor a comment decides the dialect: a line that begins
    /// with `[` means INI, everything else YAML. Syntax errors always come from the parser of that
    /// dialect.
    ///
    /// # Errors
    ///
    /// If the file does not parse, has an invalid value or a section that this provider does not
    /// support, or lacks a vCenter, an address or a credential; with [`UnknownKeys::Refuse`] a
    /// warning is an error too.
    pub fn parse(
        file: &str,
        text: &str,
        unknown: UnknownKeys,
    ) -> Result<(Config, Vec<Warning>), InputError> {
        let text = without_mark(text);
        let first = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with(';'));
        let Some(first) = first else {
            let what = "no vSphere cloud provider config given: the file has no key";
            return Err(InputError::new(what).remedy("add a vcenter section").in_source(file));
        };
        let raw =
            if first.starts_with('[') { ini::read(file, text)? } else { yaml::read(file, text)? };
        if unknown == UnknownKeys::Refuse
            && let Some(warning) = raw.warnings.first()
        {
            let what = format!("--strict-config refuses a file with a warning: {warning}");
            let err = InputError::new(what).remedy("correct or remove the key");
            return Err(err.in_source(file));
        }
        validate::validate(file, raw)
    }
}

/// Removes the byte order mark that some editors write at the start of a file.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests;
