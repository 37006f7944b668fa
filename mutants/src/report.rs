//! `docs/kill-matrix.md`: what the samples showed.

use crate::tree::Tree;

/// The text of it.
pub(crate) fn text(_tree: &Tree, _seed: u64) -> anyhow::Result<String> {
    anyhow::bail!("not yet")
}
