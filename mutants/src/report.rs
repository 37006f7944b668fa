//! Writes `docs/kill-matrix.md`: the results of the samples, and the explanation of each mutant that the catalogue misses.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::handwritten;
use crate::run::{self, End, Result};
use crate::tree::Tree;

/// File that explains survivors, from the root of the workspace.
const SURVIVORS: &str = "mutants/survivors.yaml";

/// Explanations of mutants that the catalogue does not catch.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Survivors {
    /// Reasons why mutants cannot be told from the original program, by name of the mutant. A mode and a colon before the name
    /// restrict the reason to runs of that mode.
    #[serde(default)]
    equivalent: BTreeMap<String, String>,
    /// Behavior that no check looks at.
    #[serde(default)]
    holes: Vec<Hole>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hole {
    /// Name of the behavior.
    name: String,
    /// Reason, and the check that would look at it.
    why: String,
    /// Beginnings of names of mutants.
    of: Vec<String>,
}

/// Explanation of a mutant that the catalogue does not catch.
enum Kind<'a> {
    Equivalent(&'a str),
    Hole(&'a Hole),
    Unknown,
}

impl Survivors {
    pub(crate) fn read(tree: &Tree) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(tree.root().join(SURVIVORS)).context(SURVIVORS)?;
        serde_saphyr::from_str(&text).context(SURVIVORS)
    }

    fn kind(&self, mode: &str, name: &str) -> Kind<'_> {
        let of_mode = || self.equivalent.get(&format!("{mode}: {name}"));
        if let Some(why) = self.equivalent.get(name).or_else(of_mode) {
            return Kind::Equivalent(why);
        }
        let hole =
            self.holes.iter().find(|hole| hole.of.iter().any(|of| name.starts_with(of.as_str())));
        hole.map_or(Kind::Unknown, Kind::Hole)
    }
}

/// The text of the page, from the results of the samples of this seed.
pub(crate) fn text(
    tree: &Tree,
    seed: u64,
    modes: impl Iterator<Item = &'static str>,
) -> anyhow::Result<String> {
    let survivors = Survivors::read(tree)?;
    let mut out = String::from(HEAD);
    let mut bodies = String::new();
    for mode in modes {
        let results = run::results(tree, mode, seed)?;
        ensure!(
            !results.is_empty(),
            "no results: `mutants run --mode {mode} --seed {seed}` makes them"
        );
        summary(&mut out, &survivors, mode, seed, &results);
        body(&mut bodies, &survivors, mode, &results);
    }
    out.push_str(&bodies);
    by_hand(&mut out, tree)?;
    holes(&mut out, &survivors);
    Ok(out)
}

const HEAD: &str = "\
# Which bugs the catalogue catches

Small bugs are put into our provider, one at a time, and the catalogue is run as a vendor runs it. A bug that the catalogue misses in
our provider, it also misses in a vendor's. `mutants/` makes the bugs (decision 12), and `mutants report` writes this page from the
results of runs. A bug is run in the instances mode of its code; some that survive there are run in the other instances modes, too.

- *Drawn*: bugs in code that the mode can execute.
- *Run with*: the instances modes in which the catalogue was run, and `process` where a few checks ran the provider as a process.
- *Reached*: bugs whose line a check executes. Many others are in code for files, sockets and signals, which virtual time does not use.
- *Tests*: the provider's own tests, run with each bug that the catalogue misses.

| mode | seed | drawn | reached | caught by the catalogue | of those reached and not equivalent | of all not equivalent | caught by tests | by both, of all not equivalent | equivalent | in a hole that has a name | unexplained |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

fn is_caught(result: &Result) -> bool {
    result.end.is_caught()
}

/// Number of these mutants that the catalogue should catch: a run reaches them, and no explanation exempts them.
pub(crate) fn counted(survivors: &Survivors, mode: &str, results: &[Result]) -> usize {
    let counts = |it: &&Result| {
        it.reached && (is_caught(it) || matches!(survivors.kind(mode, &it.name), Kind::Unknown))
    };
    results.iter().filter(counts).count()
}

fn summary(out: &mut String, survivors: &Survivors, mode: &str, seed: u64, results: &[Result]) {
    let count = |wanted: &dyn Fn(&Result) -> bool| results.iter().filter(|it| wanted(it)).count();
    let caught = count(&is_caught);
    let equivalent = |it: &Result| {
        !is_caught(it) && matches!(survivors.kind(mode, &it.name), Kind::Equivalent(_))
    };
    let fair = count(&|it| it.reached && !equivalent(it));
    let different = results.len() - count(&equivalent);
    let tests = count(&|it| matches!(it.end, End::Test(_)) && !equivalent(it));
    let survived =
        |it: &Result| matches!(it.end, End::Survived | End::Unsure(_)) && !equivalent(it);
    let hole = count(&|it| survived(it) && matches!(survivors.kind(mode, &it.name), Kind::Hole(_)));
    let unknown =
        count(&|it| survived(it) && matches!(survivors.kind(mode, &it.name), Kind::Unknown));
    let _ = writeln!(
        out,
        "| {mode} | {seed} | {} | {} | {caught} | {} % | {} % | {tests} | {} % | {} | {hole} | {unknown} |",
        results.len(),
        count(&|it| it.reached),
        (caught * 100).checked_div(fair).unwrap_or_default(),
        (caught * 100).checked_div(different).unwrap_or_default(),
        ((caught + tests) * 100).checked_div(different).unwrap_or_default(),
        count(&equivalent),
    );
}

fn body(out: &mut String, survivors: &Survivors, mode: &str, results: &[Result]) {
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    for result in results.iter().filter(|it| is_caught(it)) {
        let what = match &result.end {
            End::Check(id) => id.clone(),
            End::Hung => "took too long".to_owned(),
            _ => "the judge could not go on".to_owned(),
        };
        *by.entry(what).or_default() += 1;
    }
    let by: Vec<String> = by.iter().map(|(what, n)| format!("{what} {n}")).collect();
    let _ = write!(
        out,
        "\n## {mode}\n\nThe first check that failed: {}.\n\nNot caught by the catalogue:\n\n",
        by.join(", ")
    );
    let mut left: Vec<&Result> = results.iter().filter(|it| !is_caught(it)).collect();
    left.sort_by(|a, b| a.name.cmp(&b.name));
    let _ = writeln!(
        out,
        "| mutant | run with | reached | what becomes of it |\n| --- | --- | --- | --- |"
    );
    for result in left {
        let what = match (survivors.kind(mode, &result.name), &result.end) {
            (Kind::Equivalent(why), _) => format!("equivalent: {why}"),
            (_, End::Test(program)) => format!("caught by the tests of {program}"),
            (Kind::Hole(hole), _) => format!("hole: {}", hole.name),
            (Kind::Unknown, _) => "nothing notices".to_owned(),
        };
        let reached = if result.reached { "yes" } else { "no" };
        let (name, ways) = (result.name.replace('|', "\\|"), result.ways.join(", "));
        let _ = writeln!(out, "| `{name}` | {ways} | {reached} | {what} |");
    }
}

fn by_hand(out: &mut String, tree: &Tree) -> anyhow::Result<()> {
    let _ = write!(
        out,
        "\n## Written by hand\n\nBugs that were there once, and those that vendors make. `mutants by-hand` fails if one is not caught by \
         each check that is named.\n\n| bug | caught by |\n| --- | --- |\n"
    );
    for one in handwritten::read(tree.root())? {
        let _ = writeln!(out, "| {} | {} |", one.name, one.caught_by.join(", "));
    }
    Ok(())
}

fn holes(out: &mut String, survivors: &Survivors) {
    let _ = write!(out, "\n## Holes\n\n| hole | why, and what would look at it |\n| --- | --- |\n");
    for Hole { name, why, .. } in &survivors.holes {
        let _ = writeln!(out, "| {name} | {why} |");
    }
}
