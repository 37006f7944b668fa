//! Files and directories that only their owner can read (on Unix): locks, cleanup.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a file for writing, locks it against other sims, and empties it. Creates the file if it
/// does not exist, readable by its owner only; an existing file keeps its permissions. Opens a
/// device or a pipe without a lock if the system cannot lock it.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] while another process has locked the file; the file then stays
/// unchanged. Any other error means that the system cannot open, lock or empty the file.
pub(crate) fn exclusive(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        // Some systems cannot lock a device or a pipe. Neither needs a lock.
        Err(fs::TryLockError::Error(_)) if !file.metadata()?.is_file() => return Ok(file),
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A lock file: marks a file beside it, or the directory that contains it, as used by this process.
/// Dropping this value removes the lock file.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: fs::File,
}

impl Lock {
    /// Creates the lock file and takes the lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while another process has the lock. Any other error means
    /// that the system cannot create, lock or inspect the file.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        loop {
            let file = exclusive(&path)?;
            // The previous holder removes the file when it ends. A process that had opened the
            // removed file then holds a lock that later processes do not see, so it tries again.
            if is_at(&file, &path)? {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// True if `path` names the open file `file`; false if `path` names another file or none.
#[cfg(unix)]
fn is_at(file: &fs::File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns true, because the standard library cannot compare files on this system.
#[cfg(not(unix))]
fn is_at(_: &fs::File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Creates a directory and its missing parents, which only their owner can enter. Leaves an
/// existing directory unchanged.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// A temporary directory of this process; removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the directory `sim-<process id>-<n>` in the system's directory of temporary files,
    /// with the first `n` from 0 to 99 that is free. Fails if none is free or the system cannot
    /// create the directory.
    pub(crate) fn new() -> io::Result<Self> {
        let base = std::env::temp_dir();
        let id = std::process::id();
        for n in 0..100 {
            let path = base.join(format!("sim-{id}-{n}"));
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let problem = "the temporary directory has all 100 names `sim-<process id>-<n>` already; \
                       remove old ones of them";
        Err(io::Error::new(io::ErrorKind::AlreadyExists, problem))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
