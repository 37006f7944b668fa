//! `vsphere.conf`, in YAML or INI, into one validated [`Config`].
//!
//! Both dialects are read into the same list of [`Entry`]s (section, key, value, position), and one table
//! says what each key means. A key that upstream reads and this provider does not is an error; a key that nobody reads
//! is a warning, or an error in strict mode.

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

/// What the provider is to do, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The vCenters, in order of name.
    pub vcenters: Vec<VcenterConfig>,
    /// Which addresses to choose.
    pub selection: Selection,
    /// Tag categories of zone and region; `None` when zones are off.
    pub zones: Option<ZoneCategories>,
}

/// One vCenter.
#[derive(Clone, Debug)]
pub struct VcenterConfig {
    /// Where it is; the name is the key in the file.
    pub endpoint: Endpoint,
    /// No verification of its certificate.
    pub insecure: bool,
    /// PEM files with trusted roots, joined with `:`.
    pub ca_file: Option<PathBuf>,
    /// SHA-1 or SHA-256 of its certificate, used when normal verification fails.
    pub thumbprint: Option<String>,
    /// IP families of its nodes, in order of priority.
    pub families: Vec<Family>,
    /// Credential written into the file.
    pub inline: Option<Credential>,
    /// Where else a credential is; asked first.
    pub credentials: CredentialRef,
    /// Where machines count; no names mean everywhere.
    pub datacenters: Datacenters,
}

/// Where a credential is, besides the file itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRef {
    /// Nowhere else.
    None,
    /// A Kubernetes Secret.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A directory with one file per key.
    Directory(PathBuf),
}

/// A key that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a configuration cannot be used. Names the file, the key and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not readable as text of either dialect.
    #[error("{file}: {what}")]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong, and where.
        what: String,
    },
    /// A key with an unusable value, or a missing one.
    #[error("{file}: {key}: {what}")]
    Key {
        /// The file.
        file: String,
        /// Path of the key, as the dialect writes it.
        key: String,
        /// What is wrong and what to do about it.
        what: String,
    },
}

/// Whether keys that nobody reads are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are reported and ignored.
    Warn,
    /// They are errors.
    Refuse,
}

/// One key with its value, from either dialect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Section: `Global`, `VirtualCenter`, ….
    pub section: keys::Section,
    /// Name of the vCenter or of whatever else the section is about.
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

/// What a dialect's reader found.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub entries: Vec<Entry>,
    pub warnings: Vec<Warning>,
    /// vCenters, also those without keys.
    pub vcenters: BTreeSet<String>,
    pub is_yaml: bool,
}

impl Config {
    /// No vCenter at all, as in Supervisor mode.
    pub fn without_vcenters() -> Self {
        Self { vcenters: Vec::new(), selection: Selection::default(), zones: None }
    }

    /// Whether a file that nothing is read from is readable all the same: empty, INI, or a mapping in YAML. In Supervisor
    /// mode it must be there and its content does not matter.
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
    /// The dialect is decided by the first line that says anything: `[section]` is INI, everything else YAML. An error
    /// is then an error of that dialect; it is never hidden behind the other one's.
    ///
    /// # Errors
    ///
    /// See [`ConfigError`]; with [`UnknownKeys::Refuse`] also for keys that nobody reads.
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

/// The text without the byte order mark that some editors begin a file with.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests;
