//! Writes `ledger.jsonl`: the ledgers of all cases, each after a line that names the case.
//!
//! Each ledger goes to a temporary file when its case ends, because memory cannot hold all of them
//! and cases end in any order. At the end of the run, the files are joined in the order of the
//! catalogue.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;
use tempfile::TempDir;

use crate::catalogue::CheckId;
use crate::checks::PlayedCase;
use crate::scenario::Backend;

/// Ledgers of the cases that have ended, as temporary files below the output folder.
#[derive(Debug)]
pub struct Ledgers {
    dir: PathBuf,
    parts: TempDir,
}

impl Ledgers {
    /// Prepares a run that writes to `dir`. The `ledger.jsonl` of an earlier run stays there until
    /// [`Self::join`].
    ///
    /// # Errors
    /// Fails if the folder is not writable.
    pub fn begin(dir: &Path) -> anyhow::Result<Self> {
        let parts =
            tempfile::Builder::new().prefix(".ledger-").tempdir_in(dir).with_context(|| {
                format!(
                    "cannot create a temporary folder in {}; choose a writable folder with --out",
                    dir.display()
                )
            })?;
        Ok(Self { dir: dir.to_owned(), parts })
    }

    /// Writes the ledger of a case to a temporary file, after a line with the ID of its check, the
    /// backend and the name of the case. The indexes `check` and `case` determine the place in
    /// `ledger.jsonl`.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub fn put(
        &self,
        (check, case): (usize, usize),
        (id, backend): (CheckId, Backend),
        outcome: &PlayedCase,
    ) -> anyhow::Result<()> {
        let path = self.parts.path().join(format!("{check:06}-{case:06}"));
        let write = || -> io::Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            let head = json!({ "check": id, "mode": backend, "case": outcome.case });
            writeln!(file, "{head}")?;
            for record in &outcome.run.ledger {
                writeln!(file, "{}", record.to_line())?;
            }
            file.flush()
        };
        write().with_context(|| {
            format!("cannot write {}; choose a writable folder with --out", path.display())
        })
    }

    /// Joins the temporary files into `ledger.jsonl`, and removes them.
    ///
    /// # Errors
    /// Names `ledger.jsonl`, if it cannot be written or a temporary file cannot be read or removed.
    pub fn join(&self) -> anyhow::Result<()> {
        let path = self.dir.join("ledger.jsonl");
        let join = || -> io::Result<()> {
            let parts = std::fs::read_dir(self.parts.path())?.map(|part| Ok(part?.path()));
            let mut parts = parts.collect::<io::Result<Vec<PathBuf>>>()?;
            parts.sort();
            let mut whole = BufWriter::new(File::create(&path)?);
            for part in parts {
                io::copy(&mut File::open(&part)?, &mut whole)?;
                std::fs::remove_file(part)?;
            }
            whole.flush()
        };
        join().with_context(|| {
            format!("cannot write {}; choose a writable folder with --out", path.display())
        })
    }
}
