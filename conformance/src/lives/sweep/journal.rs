//! The journal of a sweep: a file with one line per finished trial, from which an interrupted sweep
//! resumes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{Trial, TrialResult};
use crate::scenario::InputError;

/// First line of a journal. It identifies the build and the seed of the sweep, because trials with
/// another build or seed prove nothing about this sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// Digest of the program that ran the sweep.
    build: String,
    /// Seed of the worlds.
    seed: u64,
}

/// Line of a finished trial: the trial as text, true if its failure happened, and the violations.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    trial: String,
    fired: bool,
    violations: Vec<String>,
}

/// Journal of a sweep: the results that the file contained when it was opened, and the file, to
/// which each further trial adds a line.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    ended: BTreeMap<String, (bool, Vec<String>)>,
}

impl Journal {
    /// Opens a journal, or creates one if the file does not exist or is empty. Drops an incomplete
    /// last line, as a crash leaves it, so that its trial runs again.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, is not a journal, has a malformed line before its
    /// last one, or belongs to another build or seed.
    pub fn open(path: &Path, build: &str, seed: u64) -> Result<Self, InputError> {
        let unusable = |error: std::io::Error| {
            InputError::in_flag("--journal", path.display(), error.to_string())
                .remedy("name a file that can be read and written")
        };
        let header = Header { build: build.to_owned(), seed };
        let mut ended = BTreeMap::new();
        let mut whole = Vec::new();
        let existing = match File::open(path) {
            Ok(file) => Some(file),
            Err(err) if err.kind() == ErrorKind::NotFound => None,
            Err(err) => return Err(unusable(err)),
        };
        if let Some(file) = existing {
            let lines: Vec<String> =
                BufReader::new(file).lines().collect::<Result<_, _>>().map_err(unusable)?;
            for (index, text) in lines.iter().enumerate() {
                let wrong = |problem: String| {
                    InputError::new(problem)
                        .in_source(format!("--journal {}", path.display()))
                        .at_key(format!("line {}", index + 1))
                        .remedy("delete the file to start a new sweep, or name another file")
                };
                if index == 0 {
                    let found: Header = serde_json::from_str(text).map_err(|err| {
                        wrong(format!("the line is not from the journal of a sweep: {err}"))
                    })?;
                    if found != header {
                        return Err(wrong(
                            "the journal belongs to another build of conformance or another seed"
                                .to_owned(),
                        ));
                    }
                } else {
                    match serde_json::from_str::<Line>(text) {
                        Ok(line) => ended.insert(line.trial, (line.fired, line.violations)),
                        Err(_) if index + 1 == lines.len() => break,
                        Err(err) => return Err(wrong(err.to_string())),
                    };
                }
                whole.push(text.clone());
            }
        }
        if whole.is_empty() {
            whole.push(
                serde_json::to_string(&header).expect("serde writes a header of texts and numbers"),
            );
        }
        std::fs::write(path, whole.join("\n") + "\n").map_err(unusable)?;
        let file = OpenOptions::new().append(true).open(path).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), file, ended })
    }

    /// Returns the result of a trial that the journal contained when it was opened: true if its
    /// failure happened, and the violations as text. Returns `None` if the journal did not contain
    /// the trial then.
    pub fn ended(&self, trial: &Trial) -> Option<&(bool, Vec<String>)> {
        self.ended.get(&trial.to_string())
    }

    /// Appends the line of a finished trial to the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add(&mut self, trial: &Trial, ended: &TrialResult) -> anyhow::Result<()> {
        let violations = ended.violations.iter().map(ToString::to_string).collect();
        let line = Line { trial: trial.to_string(), fired: ended.fired, violations };
        let text = serde_json::to_string(&line).expect("serde writes a line of texts and booleans");
        writeln!(self.file, "{text}").with_context(|| self.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Mode;
    use crate::lives::sweep::Failure;

    fn trial(life: &'static str) -> Trial {
        let failure = Failure::Crash {
            replica: 0,
            operation: "patch nodes".to_owned(),
            object: None,
            at: sim::world::Time::ZERO,
            applied: true,
        };
        Trial { mode: Mode::default(), life, phase: "join".to_owned(), failure }
    }

    #[test]
    fn a_journal_with_an_incomplete_last_line_runs_only_its_trial_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.jsonl");
        let ended = TrialResult { fired: true, violations: Vec::new() };
        let mut journal = Journal::open(&path, "build", 7).unwrap();
        journal.add(&trial("one"), &ended).unwrap();
        journal.add(&trial("two"), &ended).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut journal = Journal::open(&path, "build", 7).unwrap();
        assert!(journal.ended(&trial("one")).is_some_and(|(fired, _)| *fired));
        assert!(journal.ended(&trial("two")).is_none(), "its line is incomplete");
        journal.add(&trial("two"), &ended).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_journal_of_another_build_or_seed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.jsonl");
        Journal::open(&path, "build", 7).unwrap();
        for (build, seed) in [("build", 8), ("other", 7)] {
            let error = Journal::open(&path, build, seed).unwrap_err().to_string();
            assert!(
                error.contains(
                    "line 1: the journal belongs to another build of conformance or another seed"
                ),
                "{error}"
            );
        }
        std::fs::write(&path, "notes\n").unwrap();
        let error = Journal::open(&path, "build", 7).unwrap_err().to_string();
        assert!(error.contains("the line is not from the journal of a sweep"), "{error}");
    }
}
