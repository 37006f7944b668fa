//! The files that a run is bound to: with other content it must be started again.
//!
//! The Supervisor's token is none of them: it is read again while the run goes on.

use std::path::{Path, PathBuf};

use provider::{Config, MountPaths, UnknownKeys};

use super::{load, supervisor};

/// Which files, and how they are read.
pub(super) struct Watched {
    pub(super) file: PathBuf,
    pub(super) unknown_keys: UnknownKeys,
    /// What is mounted about the Supervisor, in Supervisor mode.
    pub(super) mounted: Option<MountPaths>,
}

impl Watched {
    /// What the files are called together.
    pub(super) fn name(&self) -> String {
        let file = self.file.display();
        match &self.mounted {
            None => file.to_string(),
            Some(paths) => {
                let (credentials, owner) = (paths.credentials.display(), paths.owner.display());
                format!("{file}, {owner}, ca.crt or namespace in {credentials}")
            }
        }
    }

    /// All of them as one text, to be compared.
    pub(super) fn read(&self) -> Result<String, String> {
        let mut text = read(&self.file)?;
        for path in self.mounted.iter().flat_map(MountPaths::constant) {
            text.push('\0');
            text.push_str(&read(&path)?);
        }
        Ok(text)
    }

    /// Whether one could start with such a text: with what only this run can use a new one would fail for ever.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        let text = text.split('\0').next().unwrap_or_default();
        let Some(paths) = &self.mounted else {
            return load(&self.file, text.to_owned(), self.unknown_keys).map(drop);
        };
        check_unused(&self.file, text)?;
        supervisor::mounted(paths).map(drop)
    }
}

/// Whether a configuration file that nothing is read from can be read.
pub(super) fn check_unused(file: &Path, text: &str) -> Result<(), String> {
    Config::check_unused(&file.display().to_string(), text).map_err(|err| err.to_string())
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|err| format!("{}: {err}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
