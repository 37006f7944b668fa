//! Handwritten mutants: past bugs of our provider, and bugs of vendors. Each names the checks that
//! must catch it.
//!
//! A file outside the sources of the provider describes each mutant by a piece of a source and its
//! replacement.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::find::Mutant;
use crate::weave::Wrap;

/// File of the handwritten mutants, from the root of the workspace.
pub(crate) const FILE: &str = "mutants/handwritten.yaml";

/// One handwritten mutant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(rename = "Handwritten")]
pub(crate) struct HandwrittenMutant {
    /// Name of the mutant.
    pub(crate) name: String,
    /// Description of the bug, in a sentence.
    #[expect(dead_code, reason = "documentation in the file")]
    what: String,
    /// File that the mutant changes, from the root of the workspace.
    file: String,
    /// A piece of that file: an expression or statements. It occurs once in the file, or once in
    /// `within`. Whitespace matches any whitespace.
    find: String,
    /// A longer piece that contains `find` and occurs once, if `find` occurs more than once in the
    /// file.
    within: Option<String>,
    /// Name of the variable that the statements bind and later code uses; `None` if `find` is an
    /// expression or binds none.
    binds: Option<String>,
    /// Replacement of `find`.
    replace: String,
    /// Checks that must fail with the mutant; see [`CaughtBy`].
    pub(crate) caught_by: Vec<String>,
}

/// A check that must catch a mutant in this mode and instances mode.
pub(crate) struct CaughtBy<'a> {
    /// Backend of the provider: `vcenter` or `supervisor`.
    pub(crate) mode: &'a str,
    /// The provider's `--instances-mode` in the run.
    pub(crate) way: &'a str,
    pub(crate) id: &'a str,
}

impl<'a> CaughtBy<'a> {
    /// Parses `vcenter NODE-DEL-001` or `vcenter/poll NODE-DEL-001`.
    pub(crate) fn read(text: &'a str) -> anyhow::Result<Self> {
        let (whole, id) =
            text.split_once(' ').context("expected MODE ID or MODE/INSTANCES-MODE ID")?;
        let (mode, way) = whole.split_once('/').unwrap_or((whole, "auto"));
        ensure!(["vcenter", "supervisor"].contains(&mode), "mode: expected vcenter or supervisor");
        ensure!(["auto", "poll", "v1"].contains(&way), "instances mode: expected auto, poll or v1");
        Ok(Self { mode, way, id })
    }
}

/// Reads all handwritten mutants. Fails if a mutant names no check, or a check in another form than
/// [`CaughtBy::read`] parses.
pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<HandwrittenMutant>> {
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    let all: Vec<HandwrittenMutant> = serde_saphyr::from_str(&text).context(FILE)?;
    for one in &all {
        ensure!(
            !one.caught_by.is_empty(),
            "{FILE}: {}: caught_by is empty; name at least one check",
            one.name
        );
        for by in &one.caught_by {
            CaughtBy::read(by)
                .with_context(|| format!("{FILE}: {}: caught_by: '{by}'", one.name))?;
        }
    }
    Ok(all)
}

/// Returns all handwritten mutants, ready to be woven into the sources.
pub(crate) fn mutants(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    read(root)?.into_iter().map(|it| mutant(root, it)).collect()
}

/// True if the mutant is handwritten.
pub(crate) fn is_handwritten(mutant: &Mutant) -> bool {
    mutant.what.starts_with("by hand: ")
}

fn mutant(root: &Path, it: HandwrittenMutant) -> anyhow::Result<Mutant> {
    let HandwrittenMutant { name, file, find, within, binds, replace, .. } = it;
    let source = std::fs::read_to_string(root.join(&file))
        .with_context(|| format!("{FILE}: {name}: file: cannot use {file}; correct the path"))?;
    let replace = replace.trim();
    let around = match &within {
        Some(within) => {
            place(&source, within).with_context(|| format!("{FILE}: {name}: within, in {file}"))?
        }
        None => 0..source.len(),
    };
    let found = place(&source[around.clone()], &find);
    let found = found.with_context(|| format!("{FILE}: {name}: find, in {file}"))?;
    let range = around.start + found.start..around.start + found.end;
    let (find, start) = (&source[range.clone()], range.start);
    let line = 1 + source[..start].matches('\n').count();
    let wrap = if syn::parse_str::<syn::Expr>(find).is_ok()
        && syn::parse_str::<syn::Expr>(replace).is_ok()
    {
        Wrap { range, before: format!("(if @ {{ {replace} }} else {{ "), after: " })".to_owned() }
    } else if let Some(bound) = binds {
        let before = format!("let {bound} = if @ {{ {replace} {bound} }} else {{ ");
        Wrap { range, before, after: format!(" {bound} }};") }
    } else {
        Wrap { range, before: format!("if @ {{ {replace} }} else {{ "), after: " }".to_owned() }
    };
    Ok(Mutant { file, line, what: format!("by hand: {name}"), wrap })
}

/// Returns the place of a piece in a source; any whitespace may separate the words of the piece.
/// Fails unless the piece occurs exactly once.
fn place(source: &str, piece: &str) -> anyhow::Result<Range<usize>> {
    let words: Vec<String> = piece.split_whitespace().map(regex::escape).collect();
    let all: Vec<_> = regex::Regex::new(&words.join(r"\s+"))?.find_iter(source).collect();
    match all[..] {
        [one] => Ok(one.range()),
        _ => bail!(
            "the text occurs {} times instead of once; make the text longer or correct it",
            all.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_occurs_once_in_its_source_and_no_two_pieces_cross() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let all = mutants(root).unwrap();
        for (n, one) in all.iter().enumerate() {
            let crossing = all[..n]
                .iter()
                .find(|other| other.file == one.file && other.wrap.crosses(&one.wrap));
            assert!(crossing.is_none(), "{} and {}", one.what, crossing.unwrap().what);
        }
    }
}
