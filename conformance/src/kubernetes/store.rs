//! Reads and writes the files of the comparison: sequences, recorded answers, known differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::known::{self, Difference};
use super::normal::StepAnswer;
use super::sequence::Sequence;

const KNOWN: &str = "known-differences.yaml";

/// Recorded answers of a real server, by the name of the sequence.
pub type RecordedAnswers = BTreeMap<String, Vec<StepAnswer>>;

/// The folder with the files of the comparison; by default `conformance/kubernetes`.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// A file of sequences.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Name of the file without its extension.
    pub name: String,
    /// Sequences in the order of the file.
    pub sequences: Vec<Sequence>,
}

impl Default for Folder {
    fn default() -> Self {
        Self(Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes"))
    }
}

impl Folder {
    /// Returns a folder with this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns all sequences, by file. Files with compactions come last.
    ///
    /// # Errors
    /// Fails if the folder or a file cannot be read, if a file cannot be parsed, if a sequence
    /// cannot be played, or if two sequences have the same name.
    pub fn topics(&self) -> anyhow::Result<Vec<Topic>> {
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.0)
            .with_context(|| {
                format!("cannot read the folder of sequences {}; check the path", self.0.display())
            })?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension().is_some_and(|it| it == "yaml") && !path.ends_with(KNOWN)
            })
            .collect();
        paths.sort();
        let mut names = BTreeSet::new();
        let mut topics = Vec::new();
        for path in paths {
            let sequences: Vec<Sequence> = yaml(&read(&path)?).with_context(|| {
                format!("{}: the file is not a valid list; correct the file", path.display())
            })?;
            for sequence in &sequences {
                sequence.check()?;
                ensure!(
                    names.insert(sequence.name.clone()),
                    "two sequences have the name {}; rename one of them",
                    sequence.name
                );
            }
            let name = path.file_stem().map(|it| it.to_string_lossy().into_owned());
            topics.push(Topic { name: name.unwrap_or_default(), sequences });
        }
        // Topics with compactions come last, because other topics read the oldest revisions.
        topics.sort_by_key(|topic| {
            topic.sequences.iter().any(|it| it.steps.iter().any(|step| step.compact))
        });
        Ok(topics)
    }

    /// Returns the recorded answers of a topic; empty if it has none.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed.
    pub fn recorded(&self, topic: &str) -> anyhow::Result<RecordedAnswers> {
        let path = self.answers(topic);
        if !path.exists() {
            return Ok(RecordedAnswers::new());
        }
        serde_json::from_str(&read(&path)?).with_context(|| {
            format!(
                "{}: the file does not contain recorded answers; restore the file, or delete it and \
                 record its answers: conformance kubernetes record",
                path.display()
            )
        })
    }

    /// Writes the recorded answers of a topic.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn record(&self, topic: &str, recorded: &RecordedAnswers) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(recorded)?;
        text.push('\n');
        write(&self.answers(topic), &text)
    }

    /// Returns the known differences; empty if the file does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed.
    pub fn known(&self) -> anyhow::Result<Vec<Difference>> {
        let path = self.0.join(KNOWN);
        if !path.exists() {
            return Ok(Vec::new());
        }
        serde_saphyr::from_str(&read(&path)?).with_context(|| {
            format!(
                "{}: the file is not a valid list of known differences; correct the line",
                path.display()
            )
        })
    }

    /// Writes the list of known differences.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn keep_known(&self, known: &[Difference]) -> anyhow::Result<()> {
        write(&self.0.join(KNOWN), &known::text(known))
    }

    fn answers(&self, topic: &str) -> PathBuf {
        self.0.join("answers").join(format!("{topic}.json"))
    }
}

/// Parses YAML 1.2, in which `y`, `n`, `on` and `off` are strings.
fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path)
        .with_context(|| format!("cannot read {}; check the path and permissions", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| {
            format!(
                "cannot create the folder {}; check the permissions of its parent",
                folder.display()
            )
        })?;
    }
    fs::write(path, text).with_context(|| {
        format!("cannot write {}; check the permissions of the file", path.display())
    })
}
