//! Files that only their owner can read (on Unix).

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Creates or replaces a file with the content `text`, readable by its owner only. A reader sees
/// either the old or the new file. After an error the old file stays.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = private(&temporary).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&temporary, path));
    if moved.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    moved
}

/// Opens a file for writing and empties it. Creates the file if it does not exist, readable by its
/// owner only; an existing file keeps its permissions.
pub(crate) fn private(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
