//! Writes the files that a provider mounts to reach the Supervisor: token, authority, namespace,
//! owner.
//!
//! The layout is that of the upstream provider: `/etc/cloud/ccm-provider` and
//! `/etc/kubernetes/guestclusters/cluster`, both below a given directory. The first one looks like
//! a volume that a kubelet publishes: its files are links through `..data`, and a change swaps that
//! link, so that a reader sees either all of the old files or all of the new ones.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::document::file;

const CREDENTIALS: &str = "etc/cloud/ccm-provider";
const OWNER: &str = "etc/kubernetes/guestclusters/cluster";

/// The directory of a provider's files, and their contents except the token.
#[derive(Clone, Debug)]
pub(crate) struct Mounts {
    pub(crate) below: PathBuf,
    /// Certificate of the authority to trust, as PEM.
    pub(crate) authority: String,
    pub(crate) namespace: String,
    pub(crate) owner: Value,
}

impl Mounts {
    /// Writes all files below the directory, with the given token. Only the user of this process
    /// may read the files. `stamp` is the time in the format that a kubelet uses in names of
    /// directories. Fails if a file, directory or link cannot be written.
    pub(crate) fn write(&self, token: &str, stamp: &str) -> io::Result<()> {
        let Self { below, authority, namespace, owner } = self;
        let all = [("ca.crt", authority.as_str()), ("namespace", namespace), ("token", token)];
        publish(&credentials(below), &all, stamp)?;
        let owner_ref = owner_ref(below);
        if let Some(directory) = owner_ref.parent() {
            fs::create_dir_all(directory)?;
        }
        file::replace(&owner_ref, owner.to_string().as_bytes())
    }
}

/// Directory of the files `token`, `ca.crt` and `namespace`, given the directory of `--supervisor`.
pub fn credentials(below: &Path) -> PathBuf {
    below.join(CREDENTIALS)
}

/// File of the owner reference, given the directory of `--supervisor`.
pub fn owner_ref(below: &Path) -> PathBuf {
    below.join(OWNER).join("ownerref.json")
}

/// Publishes files as a kubelet does: writes them into a new directory, makes `..data` point to
/// that directory, and then removes the previous one.
///
/// After `kubernetes: pkg/volume/util/atomic_writer.go`.
fn publish(directory: &Path, all: &[(&str, &str)], stamp: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let data = directory.join("..data");
    let before = fs::read_link(&data).ok();
    let name = fresh(directory, stamp)?;
    for (file, text) in all {
        io::Write::write_all(
            &mut file::private(&directory.join(&name).join(file))?,
            text.as_bytes(),
        )?;
    }
    link(Path::new(&name), &data)?;
    for (file, _) in all {
        let (target, visible) = (Path::new("..data").join(file), directory.join(file));
        if fs::read_link(&visible).ok().as_ref() != Some(&target) {
            link(&target, &visible)?;
        }
    }
    match before.filter(|before| before.as_os_str() != name.as_str()) {
        // Does not remove a directory elsewhere, because this code did not create it.
        Some(before) if before.components().count() == 1 => {
            match fs::remove_dir_all(directory.join(before)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Creates a directory below `directory` with an unused name, such as
/// `..2026_01_01_00_00_00.000000000`, and returns the name. `stamp` is the part between the dots.
/// Fails if all 10,000 names of this stamp are in use, or if the directory cannot be created.
fn fresh(directory: &Path, stamp: &str) -> io::Result<String> {
    for n in 0..10_000_u32 {
        let name = format!("..{stamp}.{n:09}");
        match fs::create_dir(directory.join(&name)) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a directory"))
}

/// Replaces `place` with a link to `target` in one step. `place` may be a file, a link or missing.
fn link(target: &Path, place: &Path) -> io::Result<()> {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push("_tmp");
    let temporary = place.with_file_name(name);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(target, &temporary)?;
    fs::rename(&temporary, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut all: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn files_are_published_as_a_kubelet_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        // A file of an earlier release, or of the user.
        fs::write(path.join("token"), "old").unwrap();
        publish(path, &[("token", "one"), ("namespace", "a")], "2026_01_01_00_00_00").unwrap();
        assert_eq!(fs::read_to_string(path.join("token")).unwrap(), "one");
        assert_eq!(fs::read_link(path.join("token")).unwrap(), Path::new("..data/token"));
        let first = fs::read_link(path.join("..data")).unwrap();
        let reader = fs::File::open(path.join("token")).unwrap();
        publish(path, &[("token", "two"), ("namespace", "a")], "2026_01_01_00_00_00").unwrap();
        assert_eq!(fs::read_to_string(path.join("token")).unwrap(), "two");
        assert_ne!(fs::read_link(path.join("..data")).unwrap(), first);
        // A reader that has opened the old file reads it to its end.
        assert_eq!(io::read_to_string(reader).unwrap(), "one");
        let second = fs::read_link(path.join("..data")).unwrap();
        let second = second.to_str().unwrap();
        let mut want = ["..data", second, "namespace", "token"];
        want.sort_unstable();
        assert_eq!(names(path), want);
    }
}
