//! Parses `vsphere.conf`, in YAML or INI, into one validated [`Config`].
//!
//! Both dialects become the same list of [`Entry`]s (section, key, path, value), and one table defines each key. A
//! section that upstream reads and this provider does not is an error; an unknown section or key is a warning, or an
//! error in strict mode.

mod credentials;
mod host;
mod ini;
mod keys;
mod validate;
mod yaml;

use std::{collections::BTreeSet, path::PathBuf};

use provider_vcenter::{Credential, Endpoint};

use crate::instances::{Datacenters, Family, Selection, ZoneCategories};

pub use credentials::{SecretData, parse_secret};

/// A validated configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// The vCenters, in order of name.
    pub vcenters: Vec<VcenterConfig>,
    /// Rules that choose the addresses of nodes.
    pub selection: Selection,
    /// Tag categories of zone and region; `None` when zones are off.
    pub zones: Option<ZoneCategories>,
}

/// One vCenter.
#[derive(Clone, Debug)]
pub struct VcenterConfig {
    /// Address; the name is the key in the file.
    pub endpoint: Endpoint,
    /// Disables the verification of its certificate.
    pub insecure: bool,
    /// PEM files with trusted roots, joined with `:`.
    pub ca_file: Option<PathBuf>,
    /// SHA-1 or SHA-256 of its certificate, used when normal verification fails.
    pub thumbprint: Option<String>,
    /// IP families of its nodes, in order of priority.
    pub families: Vec<Family>,
    /// Credential written into the file.
    pub inline: Option<Credential>,
    /// Source of a credential outside the file; asked before `inline`.
    pub credentials: CredentialRef,
    /// Datacenters with machines of the cluster; no names mean all datacenters.
    pub datacenters: Datacenters,
}

/// Source of a credential outside the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRef {
    /// No other source.
    None,
    /// A Kubernetes Secret.
    Secret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// A directory with one file per key.
    Directory(PathBuf),
}

/// A warning about a key or section, for example an unknown one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reason why a configuration cannot be used. Names the file, the key and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read as a configuration.
    #[error("{file}: {what}")]
    Syntax {
        /// The file.
        file: String,
        /// The problem and its place.
        what: String,
    },
    /// A key with an unusable value, or a missing key.
    #[error("{file}: {key}: {what}")]
    Key {
        /// The file.
        file: String,
        /// Path of the key, as the dialect writes it.
        key: String,
        /// The problem and the remedy.
        what: String,
    },
}

/// Treatment of unknown keys, and of everything else that causes a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKeys {
    /// The provider reports and ignores them.
    Warn,
    /// The provider refuses a configuration that has one.
    Refuse,
}

/// One key with its value, from either dialect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Section: `Global`, `VirtualCenter`, ….
    pub section: keys::Section,
    /// Name of the vCenter or other object that the section is about.
    pub subsection: Option<String>,
    /// Known key, in the spelling of the INI dialect.
    pub key: &'static str,
    /// Path as written in the file, for messages.
    pub path: String,
    /// Value.
    pub value: Value,
}

/// A value: INI has only text, YAML has lists too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
}

/// Result of reading a dialect.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub entries: Vec<Entry>,
    pub warnings: Vec<Warning>,
    /// Names of all vCenters in the file, including those whose section has no settings.
    pub vcenters: BTreeSet<String>,
    pub is_yaml: bool,
}

impl Config {
    /// A configuration without vCenters, as in Supervisor mode.
    pub fn without_vcenters() -> Self {
        Self { vcenters: Vec::new(), selection: Selection::default(), zones: None }
    }

    /// Checks a file that the provider does not use: it must be empty, INI, or a mapping in YAML. In Supervisor mode the
    /// file must exist, and its content does not matter.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Syntax`].
    pub fn check_unused(file: &str, text: &str) -> Result<(), ConfigError> {
        let text = without_mark(text);
        let first =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        match first {
            None => Ok(()),
            Some(first) if first.starts_with('[') => Ok(()),
            Some(_) => yaml::check_syntax(file, text),
        }
    }

    /// Reads a configuration. `file` is its name, for messages only.
    ///
    /// The first line with content decides the dialect: `[section]` is INI, everything else YAML. Errors always come from
    /// that dialect, never from the other one.
    ///
    /// # Errors
    ///
    /// See [`ConfigError`]; with [`UnknownKeys::Refuse`] any warning is an error too.
    pub fn parse(
        file: &str,
        text: &str,
        unknown: UnknownKeys,
    ) -> Result<(Config, Vec<Warning>), ConfigError> {
        let text = without_mark(text);
        let first = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with(';'));
        let Some(first) = first else {
            let what =
                "no vSphere cloud provider config given: the file is empty; add a vcenter section"
                    .to_owned();
            return Err(ConfigError::Syntax { file: file.to_owned(), what });
        };
        let raw =
            if first.starts_with('[') { ini::read(file, text)? } else { yaml::read(file, text)? };
        if unknown == UnknownKeys::Refuse
            && let Some(warning) = raw.warnings.first()
        {
            let what = format!(
                "--strict-config allows no warning, and this is one: {warning}; correct or remove the key"
            );
            return Err(ConfigError::Syntax { file: file.to_owned(), what });
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
