//! `ledger.jsonl`: the ledgers of all cases, each behind a line that names it.
//!
//! A ledger is written as its case ends, to a file of its own, because no run can hold them all; cases may end in any
//! order. At the end the files become one, in the order of the catalogue.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;
use tempfile::TempDir;

use crate::backend::Backend;
use crate::checks::Outcome;

/// Ledgers of cases that have ended.
#[derive(Debug)]
pub struct Ledgers {
    dir: PathBuf,
    parts: TempDir,
}

impl Ledgers {
    /// For a run with this folder. What an earlier run left there stays until [`Self::join`].
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn begin(dir: &Path) -> anyhow::Result<Self> {
        let parts = tempfile::Builder::new()
            .prefix(".ledger-")
            .tempdir_in(dir)
            .with_context(|| format!("cannot write below {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), parts })
    }

    /// Writes the ledger of a case: the `case`-th of the `check`-th check.
    ///
    /// # Errors
    /// A file that cannot be written, by name.
    pub fn put(
        &self,
        (check, case): (usize, usize),
        (id, backend): (&str, Backend),
        outcome: &Outcome,
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
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Makes one file of them.
    ///
    /// # Errors
    /// A file that cannot be written, by name.
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
        join().with_context(|| format!("cannot write {}", path.display()))
    }
}
