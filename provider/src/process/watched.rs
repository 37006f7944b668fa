//! The files whose change requires a restart of the provider.
//!
//! The file with the Supervisor's token is not among them, because the provider reads it again
//! during the run.

use std::path::{Path, PathBuf};

use provider::{Config, InputError, MountPaths, UnknownKeys};

use super::{files::read_text, load, supervisor};

/// The paths of the files, and the setting with which the provider parses the configuration.
pub(super) struct WatchedFiles {
    pub(super) file: PathBuf,
    pub(super) unknown_keys: UnknownKeys,
    /// Paths of the files mounted for the Supervisor; `None` in vCenter mode.
    pub(super) mounted: Option<MountPaths>,
}

impl WatchedFiles {
    /// Returns the paths of the files as one text, for messages.
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

    /// Reads all files and returns their content as one text, for comparison.
    pub(super) fn read(&self) -> Result<String, String> {
        let mut text = read_text(&self.file).map_err(|err| err.to_string())?;
        for path in self.mounted.iter().flat_map(MountPaths::constant) {
            text.push('\0');
            text.push_str(&read(&path)?);
        }
        Ok(text)
    }

    /// Checks that the provider could start with the configuration file in `text`; otherwise a
    /// restart would fail. In Supervisor mode also checks the mounted files, which it reads again.
    pub(super) fn check(&self, text: &str) -> Result<(), InputError> {
        let text = text.split('\0').next().unwrap_or_default();
        let Some(paths) = &self.mounted else {
            return load(&self.file, text.to_owned(), self.unknown_keys).map(drop);
        };
        check_unused(&self.file, text)?;
        supervisor::read_mounts(paths).map(drop)
    }
}

/// Checks the syntax of a configuration file that the provider does not use.
pub(super) fn check_unused(file: &Path, text: &str) -> Result<(), InputError> {
    Config::check_unused(&file.display().to_string(), text)
}

/// Reads a mounted file; replaces bytes that are not UTF-8.
fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|err| format!("{}: {err}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mounted files in a temporary directory, and beside them a directory with a similar name.
    struct Mount {
        directory: tempfile::TempDir,
        watched: WatchedFiles,
    }

    impl Mount {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            for folder in ["ccm-provider", "ccm-provider-x"] {
                std::fs::create_dir(at(folder)).unwrap();
                for key in ["token", "ca.crt", "namespace"] {
                    std::fs::write(at(folder).join(key), format!("{key} of before")).unwrap();
                }
            }
            std::fs::write(at("vsphere.conf"), "").unwrap();
            std::fs::write(at("ownerref.json"), "{}").unwrap();
            let mounted = MountPaths {
                credentials: at("ccm-provider"),
                owner: at("ownerref.json"),
                server: None,
            };
            let (file, unknown_keys) = (at("vsphere.conf"), UnknownKeys::Warn);
            Self { watched: WatchedFiles { file, unknown_keys, mounted: Some(mounted) }, directory }
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.directory.path().join(name), text).unwrap();
        }

        /// True if the change alters the text that is compared.
        fn changes(self, change: impl FnOnce(&Self)) -> bool {
            let before = self.watched.read().unwrap();
            change(&self);
            self.watched.read().unwrap() != before
        }
    }

    #[test]
    fn a_new_token_alone_is_not_a_change() {
        assert!(!Mount::new().changes(|it| it.write("ccm-provider/token", "another")));
    }

    #[test]
    fn another_ca_certificate_is_a_change() {
        assert!(Mount::new().changes(|it| it.write("ccm-provider/ca.crt", "another")));
    }

    #[test]
    fn another_namespace_is_a_change() {
        assert!(Mount::new().changes(|it| it.write("ccm-provider/namespace", "another")));
    }

    #[test]
    fn another_owner_reference_is_a_change() {
        assert!(Mount::new().changes(|it| it.write("ownerref.json", "{\"name\":\"a\"}")));
    }

    #[test]
    fn another_cloud_config_is_a_change() {
        assert!(Mount::new().changes(|it| it.write("vsphere.conf", "global: {}")));
    }

    #[test]
    fn the_same_content_written_again_is_not_a_change() {
        assert!(!Mount::new().changes(|it| it.write("ccm-provider/ca.crt", "ca.crt of before")));
    }

    #[test]
    fn files_beside_the_mount_are_not_watched() {
        let changes = |name: &str| Mount::new().changes(|it| it.write(name, "another"));
        assert!(!changes("ccm-provider-x/namespace"));
        assert!(!changes("ccm-provider/..data_tmp"));
        assert!(!changes("unrelated"));
    }

    #[test]
    fn a_watched_key_that_disappears_is_an_error_that_names_its_file() {
        for key in ["ca.crt", "namespace"] {
            let mount = Mount::new();
            std::fs::remove_file(mount.directory.path().join("ccm-provider").join(key)).unwrap();
            let said = mount.watched.read().unwrap_err();
            assert!(said.contains(&format!("ccm-provider/{key}: ")), "{said}");
        }
    }

    #[test]
    fn a_key_that_was_unreadable_at_the_start_is_a_change_when_it_can_be_read() {
        let mount = Mount::new();
        // The text of a start that cannot read every file: the configuration file alone.
        let at_the_start = std::fs::read_to_string(&mount.watched.file).unwrap();
        assert_ne!(mount.watched.read().unwrap(), at_the_start);
    }

    #[test]
    fn a_configuration_that_is_not_utf_8_is_an_error_that_names_the_line() {
        let mount = Mount::new();
        std::fs::write(&mount.watched.file, b"a\npassword: p\xe4ss\n").unwrap();
        let said = mount.watched.read().unwrap_err();
        assert!(
            said.ends_with("vsphere.conf: line 2 is not UTF-8; save the file as UTF-8"),
            "{said}"
        );
    }

    #[test]
    fn in_vcenter_mode_the_configuration_file_alone_counts() {
        let mut mount = Mount::new();
        mount.watched.mounted = None;
        assert!(!mount.changes(|it| it.write("ccm-provider/ca.crt", "another")));
    }
}
