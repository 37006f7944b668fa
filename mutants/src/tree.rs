//! Makes a copy of the workspace with all mutants woven in, builds it, and drops the mutants that
//! do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::find::{FoundMutants, Mutant, find};
use crate::handwritten;
use crate::weave::{owner, weave};

/// Directories of the crates that get mutants.
const CRATES: [&str; 2] = ["provider", "provider/vcenter"];
/// Cargo arguments that build the crates' own tests.
const TESTS: [&str; 6] =
    ["test", "--no-run", "-p", "vsphere-cloud-provider", "-p", "vsphere-cloud-provider-vcenter"];
/// Source of the module that decides which mutant is active; the copy of each crate of [`CRATES`]
/// gets this module.
const WOVEN: &str = include_str!("../woven.rs");

/// A mutant in the last build.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BuiltMutant {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// True for a handwritten mutant, false for one that a rule made.
    pub(crate) by_hand: bool,
}

/// The workspace, and the target directory below which its copy is.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// The tree of the workspace around the current directory.
    pub(crate) fn of_workspace() -> anyhow::Result<Self> {
        let out = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
            .output()
            .context("cannot start cargo metadata; install cargo in a folder of PATH")?;
        let told: serde_json::Value = serde_json::from_slice(&out.stdout).context(
            "the output of cargo metadata is not JSON; run this program in the folder of the \
             project",
        )?;
        let of = |key: &str| {
            told[key].as_str().map(PathBuf::from).context(format!(
                "the output of cargo metadata has no {key}; run this program in the folder of the \
                 project"
            ))
        };
        Ok(Self { root: of("workspace_root")?, target: of("target_directory")? })
    }

    /// Directory of all files that `mutants` writes.
    pub(crate) fn dir(&self) -> PathBuf {
        self.target.join("mutants")
    }

    /// The root directory of the workspace, not of its copy.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all possible mutants of the crates: first the handwritten ones, then the others in
    /// the order of files, except those that cross a handwritten one.
    pub(crate) fn all(&self) -> anyhow::Result<Vec<Mutant>> {
        let by_hand = handwritten::mutants(&self.root)?;
        let mut all = by_hand.clone();
        for file in self.sources()? {
            let source = std::fs::read_to_string(self.root.join(&file)).context(file.clone())?;
            let mut found = find(&file, &source).context(file.clone())?.mutants;
            // Two pieces must not overlap unless one contains the other.
            found.retain(|it| {
                by_hand.iter().all(|other| other.file != file || !it.wrap.crosses(&other.wrap))
            });
            all.extend(found);
        }
        Ok(all)
    }

    /// Returns the source files of the crates that get mutants: without test modules, `main.rs` and
    /// `mutant.rs`.
    fn sources(&self) -> anyhow::Result<Vec<String>> {
        let mut sources = Vec::new();
        let mut tests: BTreeSet<PathBuf> = BTreeSet::new();
        for file in self.tracked()? {
            let is_source = CRATES.iter().any(|it| file.starts_with(&format!("{it}/src/")));
            if !is_source || !file.ends_with(".rs") {
                continue;
            }
            let source = std::fs::read_to_string(self.root.join(&file)).context(file.clone())?;
            let FoundMutants { tests: found, .. } = find(&file, &source).context(file.clone())?;
            let path = Path::new(&file);
            let is_root = ["lib.rs", "mod.rs", "main.rs"].iter().any(|it| file.ends_with(it));
            let beside = if is_root {
                path.parent().unwrap_or(path).to_owned()
            } else {
                path.with_extension("")
            };
            for module in found {
                tests.insert(beside.join(format!("{module}.rs")));
                tests.insert(beside.join(module));
            }
            sources.push(file);
        }
        // Leaves out the main program, which is a separate crate, and the deliberate defects of the
        // feature `mutants`.
        let left_out = |file: &str| file.ends_with("/main.rs") || file.ends_with("/mutant.rs");
        sources
            .retain(|it| !left_out(it) && !Path::new(it).ancestors().any(|it| tests.contains(it)));
        Ok(sources)
    }

    fn tracked(&self) -> anyhow::Result<Vec<String>> {
        let out = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .context("cannot start git ls-files; install git in a folder of PATH")?;
        if !out.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&out.stderr));
        }
        let mut files: Vec<String> =
            String::from_utf8(out.stdout)?.lines().map(str::to_owned).collect();
        files.retain(|it| self.root.join(it).is_file());
        files.sort();
        Ok(files)
    }

    /// Copies the files of the workspace that get no mutants, and adds [`WOVEN`] to each of
    /// [`CRATES`]. Deletes files from the copy that the workspace no longer has. Does not write
    /// unchanged files, so that cargo does not build them again.
    fn copy(&self) -> anyhow::Result<()> {
        let tree = self.dir().join("tree");
        let sources: BTreeSet<String> = self.sources()?.into_iter().collect();
        let tracked = self.tracked()?;
        let mut wanted: BTreeSet<PathBuf> = tracked.iter().map(|it| tree.join(it)).collect();
        for file in tracked.iter().filter(|it| !sources.contains(*it)) {
            mirror(&self.root.join(file), &tree.join(file))?;
        }
        for one in CRATES {
            let woven = tree.join(one).join("src/woven.rs");
            write(&woven, WOVEN.as_bytes())?;
            wanted.insert(woven);
        }
        remove_others(&tree, &wanted)
    }

    /// Builds the judge with these mutants, and the crates' tests if `tests` is true. Leaves out
    /// mutants that do not compile, and tells `say` how many, but fails if a handwritten one does
    /// not compile. Returns the mutants in the build, and stores them for [`Tree::built`].
    pub(crate) fn build(
        &self,
        mutants: &[Mutant],
        tests: bool,
        say: &mut dyn FnMut(String),
    ) -> anyhow::Result<Vec<BuiltMutant>> {
        self.copy()?;
        let mut left: BTreeMap<u32, &Mutant> = (1..).zip(mutants).collect();
        let mut commands: Vec<&[&str]> = vec![&["build", "--release", "-p", "vsphere-conformance"]];
        if tests {
            commands.push(&TESTS);
        }
        for command in commands {
            loop {
                let woven = self.weave(&left)?;
                let wrong = self.compile(command, &woven)?;
                if wrong.is_empty() {
                    break;
                }
                say(format!("leaving out {} mutants that do not compile", wrong.len()));
                let mut by_hand = Vec::new();
                for (number, message) in wrong {
                    let Some(mutant) = left.remove(&number) else { continue };
                    if handwritten::is_handwritten(mutant) {
                        by_hand.push(format!("{}: does not compile: {message}", mutant.what));
                    }
                }
                if !by_hand.is_empty() {
                    bail!("{}\ncorrect them in {}", by_hand.join("\n"), handwritten::FILE);
                }
            }
        }
        let built: Vec<BuiltMutant> = left
            .into_iter()
            .map(|(number, it)| BuiltMutant {
                number,
                name: it.name(),
                file: it.file.clone(),
                line: it.line,
                by_hand: handwritten::is_handwritten(it),
            })
            .collect();
        write(&self.dir().join("mutants.json"), &serde_json::to_vec_pretty(&built)?)?;
        Ok(built)
    }

    /// Notes the seed and size of the samples for which the next build is made; `None` if the build
    /// has all mutants.
    pub(crate) fn note_sample(&self, sample: Option<(u64, usize)>) -> anyhow::Result<()> {
        write(&self.dir().join("sample.json"), &serde_json::to_vec(&sample)?)
    }

    /// Fails if the last build does not contain the samples of this seed and size.
    pub(crate) fn is_built_for(&self, seed: u64, sample: usize) -> anyhow::Result<()> {
        let text = std::fs::read(self.dir().join("sample.json")).unwrap_or(b"null".to_vec());
        let built: Option<(u64, usize)> = serde_json::from_slice(&text)?;
        if let Some((of, n)) = built
            && (of != seed || n < sample)
        {
            bail!(
                "the last build has the mutants for samples of at most {n} with seed {of}, not for a sample of {sample} with seed {seed}; \
                 run `mutants build --sample {sample} --seed {seed}`, or `mutants build` for all mutants"
            );
        }
        Ok(())
    }

    /// Returns the mutants of the last build.
    pub(crate) fn built(&self) -> anyhow::Result<Vec<BuiltMutant>> {
        let path = self.dir().join("mutants.json");
        let text = std::fs::read(&path)
            .context("no build of the mutants exists yet; run `mutants build` first")?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Writes every source with its mutants into the copy; returns the woven texts by file.
    fn weave(&self, left: &BTreeMap<u32, &Mutant>) -> anyhow::Result<BTreeMap<String, String>> {
        let mut by_file: BTreeMap<&str, Vec<(u32, &crate::weave::Wrap)>> = BTreeMap::new();
        for (number, mutant) in left {
            by_file.entry(&mutant.file).or_default().push((*number, &mutant.wrap));
        }
        let mut woven = BTreeMap::new();
        for file in self.sources()? {
            let source = std::fs::read_to_string(self.root.join(&file))?;
            let wraps = by_file.remove(file.as_str()).unwrap_or_default();
            let mut text = weave(&source, &wraps);
            if CRATES.iter().any(|it| file == format!("{it}/src/lib.rs")) {
                text.push_str("\nmod woven;\n");
            }
            write(&self.dir().join("tree").join(&file), text.as_bytes())?;
            woven.insert(file, text);
        }
        Ok(woven)
    }

    /// Runs cargo in the copy; returns the numbers of the mutants that the compiler refuses, each
    /// with the compiler's first message. Fails if cargo fails without refusing a mutant.
    fn compile(
        &self,
        command: &[&str],
        woven: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<u32, String>> {
        let out = Command::new("cargo")
            .args(command)
            .args(["--offline", "--message-format=json"])
            .current_dir(self.dir().join("tree"))
            .env("CARGO_TARGET_DIR", self.dir().join("build"))
            .stderr(std::process::Stdio::inherit())
            .output()
            .context("cannot start cargo; install cargo in a folder of PATH")?;
        let mut wrong = BTreeMap::new();
        let mut unknown = Vec::new();
        for line in String::from_utf8(out.stdout)?.lines() {
            let told: serde_json::Value = serde_json::from_str(line)?;
            let message = &told["message"];
            if told["reason"] != "compiler-message" || message["level"] != "error" {
                continue;
            }
            let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
            if spans.is_empty() {
                continue; // "aborting due to …"
            }
            let owners: Vec<u32> = spans.iter().filter_map(|span| owner_of(span, woven)).collect();
            let rendered = message["rendered"].as_str().unwrap_or_default().to_owned();
            match owners.first() {
                Some(first) => drop(wrong.entry(*first).or_insert(rendered)),
                None => unknown.push(rendered),
            }
        }
        if wrong.is_empty() && !out.status.success() {
            bail!(
                "the copy of the workspace does not compile, but no mutant is the cause:\n{}",
                unknown.join("\n")
            );
        }
        Ok(wrong)
    }

    /// Returns the paths of the judge with all mutants and, if `tests` is true, of the crates' test
    /// programs, which it builds if necessary.
    pub(crate) fn programs(&self, tests: bool) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
        let judge = self.dir().join("build/release/conformance");
        if !tests {
            return Ok((judge, Vec::new()));
        }
        let out = Command::new("cargo")
            .args(TESTS)
            .args(["--offline", "--message-format=json"])
            .current_dir(self.dir().join("tree"))
            .env("CARGO_TARGET_DIR", self.dir().join("build"))
            .stderr(std::process::Stdio::null())
            .output()
            .context("cannot start cargo; install cargo in a folder of PATH")?;
        let mut tests = Vec::new();
        for line in String::from_utf8(out.stdout)?.lines() {
            let told: serde_json::Value = serde_json::from_str(line)?;
            if told["profile"]["test"] == true
                && let Some(program) = told["executable"].as_str()
            {
                tests.push(PathBuf::from(program));
            }
        }
        Ok((judge, tests))
    }

    /// Returns the directory in which a test program expects to run.
    pub(crate) fn package_of(&self, program: &Path) -> PathBuf {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let tree = self.dir().join("tree");
        if name.starts_with("provider_vcenter") {
            tree.join("provider/vcenter")
        } else {
            tree.join("provider")
        }
    }
}

/// Returns the number of the mutant that contains a place in the compiler's message; `None` if the
/// place is in no mutant. For a place inside a macro, returns the mutant that contains the call of
/// the macro.
fn owner_of(span: &serde_json::Value, woven: &BTreeMap<String, String>) -> Option<u32> {
    let text = woven.get(span["file_name"].as_str()?);
    let byte = usize::try_from(span["byte_start"].as_u64()?).ok()?;
    match text.and_then(|text| owner(text, byte + 1)) {
        Some(number) => Some(number),
        None => owner_of(span.get("expansion")?.get("span")?, woven),
    }
}

/// Copies a file, unless the copy is the same already, and sets the modification time of the copy.
/// A new copy gets the time of the original: if the caller has put the project's own build beside
/// the tree, cargo then does not build a crate without mutants again. A changed copy gets the
/// present time, because the build beside the tree may be younger than the change of the original.
fn mirror(from: &Path, to: &Path) -> anyhow::Result<()> {
    let is_new = !to.exists();
    write(to, &std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)?;
    if !is_new {
        return Ok(());
    }
    let dated = || {
        let changed = from.metadata()?.modified()?;
        std::fs::File::options().append(true).open(to)?.set_modified(changed)
    };
    dated().with_context(|| format!("cannot set the time of {}", to.display()))
}

/// Removes the files below a directory that are not wanted. A module that has moved would otherwise
/// exist twice.
fn remove_others(dir: &Path, wanted: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir)
        .with_context(|| format!("cannot read the folder {}", dir.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot delete {}", path.display()))?;
        }
    }
    Ok(())
}

/// Writes a file unless it already has this content.
fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    if std::fs::read(path).is_ok_and(|it| it == text) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_wanted_are_removed_from_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let [old, new] = ["a.rs", "a/mod.rs"].map(|it| dir.path().join(it));
        write(&old, b"").unwrap();
        write(&new, b"").unwrap();
        remove_others(dir.path(), &[new.clone()].into()).unwrap();
        assert!(!old.exists() && new.exists());
    }
}
