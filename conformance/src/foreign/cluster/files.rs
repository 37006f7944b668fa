//! Collects the files that a pod gets from this computer: their bytes for a Secret, and their mount
//! points in the pod.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Maximum size of a Secret, in bytes.
const MOST: usize = 1 << 20;

/// Files and their mount points in the pod. Has no `Debug`, because some files are secret.
#[derive(Default)]
pub(super) struct Files {
    /// Content of the files, by key in the Secret.
    pub(super) data: BTreeMap<String, Vec<u8>>,
    pub(super) mounts: Vec<Mount>,
    /// Key of each file, by its canonical path on this computer. A file that is mounted at several
    /// places has one key.
    pub(super) keys: BTreeMap<PathBuf, String>,
}

/// A mount point in the pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) inside: PathBuf,
    pub(super) what: MountContent,
}

/// Content of a mount point.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MountContent {
    /// One file, as its key in the Secret.
    File(String),
    /// A directory, as the relative paths of its files, each with its key in the Secret.
    Directory(Vec<(String, String)>),
}

impl Files {
    /// Collects the files for these mount points: pairs of a path in the pod and a path on this
    /// computer.
    ///
    /// # Errors
    /// Fails if a file cannot be read or the files are too large for a Secret.
    pub(super) fn gather<'a>(
        places: impl IntoIterator<Item = (&'a Path, &'a Path)>,
    ) -> anyhow::Result<Self> {
        let mut files = Self::default();
        for (inside, outside) in places {
            let what = files.content(outside);
            let what = what.with_context(|| {
                format!(
                    "cannot read the file {} for the provider; check the path and permissions",
                    outside.display()
                )
            })?;
            files.mounts.push(Mount { inside: inside.to_owned(), what });
        }
        let size: usize = files.data.values().map(Vec::len).sum();
        if size > MOST {
            bail!(
                "the files and binds of this provider have {size} bytes, but a Secret holds at \
                 most {MOST} bytes; put large files into the image"
            );
        }
        Ok(files)
    }

    fn content(&mut self, outside: &Path) -> io::Result<MountContent> {
        if std::fs::metadata(outside)?.is_dir() {
            let mut items = Vec::new();
            self.walk(outside, "", &mut items)?;
            items.sort();
            return Ok(MountContent::Directory(items));
        }
        Ok(MountContent::File(self.key(outside)?))
    }

    /// Adds the files of a directory and its subdirectories to `items`: for each file, its path
    /// inside the directory with the prefix `below`, and its key in the Secret. Follows links.
    /// Skips names that begin with `..`, which a kubelet uses inside its volumes.
    fn walk(
        &mut self,
        directory: &Path,
        below: &str,
        items: &mut Vec<(String, String)>,
    ) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("..") {
                continue;
            }
            let (path, name) = (entry.path(), format!("{below}{name}"));
            if std::fs::metadata(&path)?.is_dir() {
                self.walk(&path, &format!("{name}/"), items)?;
            } else {
                items.push((name, self.key(&path)?));
            }
        }
        Ok(())
    }

    fn key(&mut self, file: &Path) -> io::Result<String> {
        let file = std::fs::canonicalize(file)?;
        if let Some(key) = self.keys.get(&file) {
            return Ok(key.clone());
        }
        let key = format!("file-{}", self.data.len());
        self.data.insert(key.clone(), std::fs::read(&file)?);
        self.keys.insert(file, key.clone());
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_mounted_at_several_places_is_gathered_once() {
        let dir = tempfile::tempdir().unwrap();
        let outside = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(outside("run/mounts/..1")).unwrap();
        std::fs::write(outside("run/mounts/..1/token"), "secret").unwrap();
        std::os::unix::fs::symlink("..1", outside("run/mounts/..data")).unwrap();
        std::os::unix::fs::symlink("..data/token", outside("run/mounts/token")).unwrap();
        std::fs::write(outside("run/ca.pem"), "pem").unwrap();
        let (run, mounts, ca) = (outside("run"), outside("run/mounts"), outside("run/ca.pem"));
        let places: [(&Path, &Path); 3] = [
            (&run, &run),
            (Path::new("/etc/cloud/ccm-provider"), &mounts),
            (Path::new("/etc/ca.pem"), &ca),
        ];
        let Files { data, mounts, .. } = Files::gather(places).unwrap();
        assert_eq!(data.len(), 2, "{mounts:?}");
        let MountContent::Directory(items) = &mounts[0].what else { panic!("{mounts:?}") };
        let [(ca, pem), (token, secret)] = &items[..] else { panic!("{items:?}") };
        assert_eq!((ca.as_str(), token.as_str()), ("ca.pem", "mounts/token"));
        assert_eq!((&data[pem][..], &data[secret][..]), (&b"pem"[..], &b"secret"[..]));
        assert_eq!(
            mounts[1].what,
            MountContent::Directory(vec![("token".to_owned(), secret.clone())])
        );
        assert_eq!(mounts[2].what, MountContent::File(pem.clone()));
    }

    #[test]
    fn a_missing_file_and_a_file_too_large_for_a_secret_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("large");
        let gather = || Files::gather([(Path::new("/x"), file.as_path())]).err().unwrap();
        let unread = format!("cannot read the file {} for the provider", file.display());
        assert!(gather().to_string().starts_with(&unread), "{}", gather());
        std::fs::write(&file, vec![0; MOST + 1]).unwrap();
        assert!(gather().to_string().contains("have 1048577 bytes"), "{}", gather());
    }
}
