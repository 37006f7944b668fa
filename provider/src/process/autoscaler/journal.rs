//! A journal in a file. A lock keeps two servers from writing it.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use provider::{InputError, JournalError, JournalStore};

use crate::process::files::{read_text, unreadable};

/// A journal in a file.
pub(super) struct FileJournal {
    path: PathBuf,
    /// The locked file beside the journal, which the process keeps open.
    lock: Mutex<Option<File>>,
    /// Number of the last write that was begun.
    begun: AtomicU64,
    /// Number of the last write that was carried out, and the turn of the writes. A caller may drop a
    /// write, which goes on then and must not replace the content of a later one.
    carried_out: Arc<Mutex<u64>>,
}

impl FileJournal {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            lock: Mutex::new(None),
            begun: AtomicU64::new(0),
            carried_out: Arc::default(),
        }
    }

    /// Returns the path of a file beside the journal.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        self.path.with_file_name(name)
    }

    /// Locks the journal until the process ends.
    fn lock(&self) -> Result<(), InputError> {
        let path = self.beside(".lock");
        let open = File::options().create(true).append(true).open(&path);
        let file = open.map_err(|err| {
            let err = InputError::new(format!("cannot lock {}: {err}", path.display()));
            err.remedy("check the permissions of the folder")
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let err = InputError::new("another server uses the journal");
                return Err(err.remedy("end it, or name another file"));
            }
            Err(TryLockError::Error(err)) => {
                let err = InputError::new(format!("cannot lock {}: {err}", path.display()));
                return Err(err.remedy("name a file on a file system with locks"));
            }
        }
        *self.lock.lock().expect("no holder panics") = Some(file);
        Ok(())
    }
}

/// Replaces a file, so that a crash at any time leaves the old content or the new one.
fn replace(path: &Path, new: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[provider::async_trait]
impl JournalStore for FileJournal {
    fn place(&self) -> String {
        format!("--journal {}", self.path.display())
    }

    async fn read(&self) -> Result<Option<String>, InputError> {
        self.lock()?;
        match fs::exists(&self.path) {
            Ok(true) => read_text(&self.path).map(Some),
            Ok(false) => Ok(None),
            Err(err) => Err(unreadable(&err)),
        }
    }

    async fn write(&self, text: &str) -> Result<(), JournalError> {
        let (path, new, text) = (self.path.clone(), self.beside(".new"), text.to_owned());
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let carried_out = Arc::clone(&self.carried_out);
        let write = move || {
            let mut last = carried_out.lock().expect("no holder panics");
            if *last > number {
                return Err(io::Error::other("a later write came first"));
            }
            *last = number;
            replace(&path, &new, &text)
        };
        let written = tokio::task::spawn_blocking(write).await;
        let failed = |err: String| JournalError::Failed(err);
        written.map_err(|err| failed(err.to_string()))?.map_err(|err| failed(err.to_string()))
    }
}

/// Returns the store of a file.
pub(super) fn file(path: &Path) -> Arc<dyn JournalStore> {
    Arc::new(FileJournal::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_has_the_last_journal_and_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.json");
        let store = FileJournal::new(&path);
        assert_eq!(store.read().await, Ok(None));
        store.write("one").await.unwrap();
        store.write("two").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let second = FileJournal::new(&path);
        let err = second.read().await.unwrap_err().to_string();
        assert!(err.contains("another server uses the journal"), "{err}");
        drop(store);
        assert_eq!(second.read().await, Ok(Some("two".to_owned())));
    }

    #[tokio::test]
    async fn a_write_that_is_given_up_does_not_replace_a_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.json");
        let store = FileJournal::new(&path);
        for _ in 0..50 {
            let first = tokio::time::timeout(std::time::Duration::ZERO, store.write("one"));
            drop(first.await);
            store.write("two").await.unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        }
    }

    #[tokio::test]
    async fn a_write_that_fails_leaves_the_last_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.json");
        let store = FileJournal::new(&path);
        store.write("one").await.unwrap();
        fs::create_dir(folder.path().join("journal.json.new")).unwrap();
        assert!(matches!(store.write("two").await, Err(JournalError::Failed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    }
}
