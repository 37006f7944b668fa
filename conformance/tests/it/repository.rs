//! Files of the repository outside this crate. An unpacked package has no repository around it, so
//! the tests that read such files end there at once.

use std::path::Path;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// True in an unpacked package. cargo writes `Cargo.toml.orig` into every package.
pub(crate) fn is_absent() -> bool {
    Path::new(PACKAGE).join("Cargo.toml.orig").exists()
}

/// Returns the text of a file of the repository, or `None` if [`is_absent`].
pub(crate) fn text(path: &str) -> Option<String> {
    let path = Path::new(PACKAGE).join("..").join(path);
    let read = || std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{path:?}: {err}"));
    (!is_absent()).then(read)
}
