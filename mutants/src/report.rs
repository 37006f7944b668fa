//! Writes `docs/kill-matrix.md`: the results of the samples, and the explanation of each mutant
//! that the catalogue misses.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::end::End;
use crate::handwritten;
use crate::run::{self, MutantResult};
use crate::tree::Tree;

/// File that explains survivors, from the root of the workspace.
const SURVIVORS: &str = "mutants/survivors.yaml";

/// The explanations of mutants that the catalogue does not catch, from [`SURVIVORS`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Survivors {
    /// Reasons why no run can distinguish a mutant from the original program, by name of the
    /// mutant. A mode and a colon before the name restrict the reason to runs of that mode.
    #[serde(default)]
    equivalent: BTreeMap<String, String>,
    /// Behavior that no check covers.
    #[serde(default)]
    holes: Vec<Hole>,
}

/// Behavior that no check of the catalogue covers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hole {
    /// Name of the behavior.
    name: String,
    /// Reason why no check covers the behavior, or the tests that cover it.
    why: String,
    /// Prefixes of the names of the mutants in this behavior.
    of: Vec<String>,
}

/// Explanation of one mutant that the catalogue does not catch.
enum Explanation<'a> {
    Equivalent(&'a str),
    Hole(&'a Hole),
    Unknown,
}

impl Survivors {
    pub(crate) fn read(tree: &Tree) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(tree.root().join(SURVIVORS)).context(SURVIVORS)?;
        serde_saphyr::from_str(&text).context(SURVIVORS)
    }

    fn kind(&self, mode: &str, name: &str) -> Explanation<'_> {
        let of_mode = || self.equivalent.get(&format!("{mode}: {name}"));
        if let Some(why) = self.equivalent.get(name).or_else(of_mode) {
            return Explanation::Equivalent(why);
        }
        let hole =
            self.holes.iter().find(|hole| hole.of.iter().any(|of| name.starts_with(of.as_str())));
        hole.map_or(Explanation::Unknown, Explanation::Hole)
    }
}

/// Returns the text of the page, from the stored results of the samples of this seed. Fails if a
/// mode has no stored results.
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
            "no stored results; run `mutants run --mode {mode} --seed {seed}` first"
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

`mutants` puts small bugs into our provider, one at a time, and runs the catalogue as a vendor runs it. A bug that the catalogue misses in
our provider it would also miss in a vendor's. The crate `mutants/` makes the bugs (decision 12), and `mutants report` writes this page
from the results. Each bug runs in the instances mode that executes its code; some that survive there also run in the other modes.

- *Drawn*: bugs of the sample, all in code that the mode can execute.
- *Run with*: the instances modes in which the catalogue ran, and `process` if a few checks also ran the provider as a process.
- *Reached*: bugs whose code a check executes. Many others are in code for files, sockets and signals, which virtual time does not use.
- *Tests*: the provider's own tests, which run with each bug that the catalogue misses.
- *Equivalent*: bugs that no run can distinguish from the original program. The shares do not count them.
- *Hole*: behavior that no check covers; the last table gives the reasons.

| mode | seed | drawn | reached | caught by the catalogue | share of reached bugs | share of all bugs | caught only by tests | share of all bugs caught by either | equivalent | in a hole | unexplained |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

fn is_caught(result: &MutantResult) -> bool {
    result.end.is_caught()
}

/// Number of the mutants that count for `--at-least`: a run reaches them, and the catalogue catches
/// them or no explanation exempts them.
pub(crate) fn counted(survivors: &Survivors, mode: &str, results: &[MutantResult]) -> usize {
    let counts = |it: &&MutantResult| {
        it.reached
            && (is_caught(it) || matches!(survivors.kind(mode, &it.name), Explanation::Unknown))
    };
    results.iter().filter(counts).count()
}

fn summary(
    out: &mut String,
    survivors: &Survivors,
    mode: &str,
    seed: u64,
    results: &[MutantResult],
) {
    let count =
        |wanted: &dyn Fn(&MutantResult) -> bool| results.iter().filter(|it| wanted(it)).count();
    let caught = count(&is_caught);
    let equivalent = |it: &MutantResult| {
        !is_caught(it) && matches!(survivors.kind(mode, &it.name), Explanation::Equivalent(_))
    };
    let fair = count(&|it| it.reached && !equivalent(it));
    let different = results.len() - count(&equivalent);
    let tests = count(&|it| matches!(it.end, End::Test(_)) && !equivalent(it));
    let survived =
        |it: &MutantResult| matches!(it.end, End::Survived | End::Unsure(_)) && !equivalent(it);
    let hole =
        count(&|it| survived(it) && matches!(survivors.kind(mode, &it.name), Explanation::Hole(_)));
    let unknown =
        count(&|it| survived(it) && matches!(survivors.kind(mode, &it.name), Explanation::Unknown));
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

fn body(out: &mut String, survivors: &Survivors, mode: &str, results: &[MutantResult]) {
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    for result in results.iter().filter(|it| is_caught(it)) {
        let what = match &result.end {
            End::Check(id) => id.clone(),
            End::Hung => "took too long".to_owned(),
            _ => "the judge crashed".to_owned(),
        };
        *by.entry(what).or_default() += 1;
    }
    let by: Vec<String> = by.iter().map(|(what, n)| format!("{what} {n}")).collect();
    let _ = write!(
        out,
        "\n## {mode}\n\nThe first check that failed: {}.\n\nNot caught by the catalogue:\n\n",
        by.join(", ")
    );
    let mut left: Vec<&MutantResult> = results.iter().filter(|it| !is_caught(it)).collect();
    left.sort_by(|a, b| a.name.cmp(&b.name));
    let _ = writeln!(out, "| mutant | run with | reached | result |\n| --- | --- | --- | --- |");
    for result in left {
        let what = match (survivors.kind(mode, &result.name), &result.end) {
            (Explanation::Equivalent(why), _) => format!("equivalent: {why}"),
            (_, End::Test(program)) => format!("caught by the tests of {program}"),
            (Explanation::Hole(hole), _) => format!("hole: {}", hole.name),
            (Explanation::Unknown, _) => "not caught".to_owned(),
        };
        let reached = if result.reached { "yes" } else { "no" };
        let (name, ways) = (result.name.replace('|', "\\|"), result.ways.join(", "));
        let _ = writeln!(out, "| `{name}` | {ways} | {reached} | {what} |");
    }
}

fn by_hand(out: &mut String, tree: &Tree) -> anyhow::Result<()> {
    let _ = write!(
        out,
        "\n## Written by hand\n\nPast bugs of our provider, and bugs of vendors. `mutants by-hand` fails unless each named check \
         catches its bug.\n\n| bug | caught by |\n| --- | --- |\n"
    );
    for one in handwritten::read(tree.root())? {
        let _ = writeln!(out, "| {} | {} |", one.name, one.caught_by.join(", "));
    }
    Ok(())
}

fn holes(out: &mut String, survivors: &Survivors) {
    let _ = write!(out, "\n## Holes\n\n| hole | why, and what covers it |\n| --- | --- |\n");
    for Hole { name, why, .. } in &survivors.holes {
        let _ = writeln!(out, "| {name} | {why} |");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_explanation_names_a_mutant_that_exists() {
        let tree = Tree::of_workspace().unwrap();
        let names: BTreeSet<String> = tree.all().unwrap().iter().map(|it| it.name()).collect();
        let survivors = Survivors::read(&tree).unwrap();
        let is_stale = |name: &&String| {
            let of_mode = name.strip_prefix("vcenter: ").or(name.strip_prefix("supervisor: "));
            !names.contains(of_mode.unwrap_or(name))
        };
        let mut stale: Vec<&String> = survivors.equivalent.keys().filter(is_stale).collect();
        let prefixes = survivors.holes.iter().flat_map(|hole| &hole.of);
        stale.extend(prefixes.filter(|of| !names.iter().any(|it| it.starts_with(of.as_str()))));
        assert_eq!(stale, Vec::<&String>::new(), "{SURVIVORS} explains mutants that do not exist");
    }
}
