//! Properties of the code of this crate that reads foreign bytes, for fuzz targets.
//!
//! Compiled only for fuzzing and for tests, which replay the committed inputs; the targets are in `fuzz/`.

use crate::{Config, UnknownKeys};

/// Checks the parsers of vsphere.conf in both dialects: the text is accepted, or refused with an error that names the file; a
/// second parse gives the same result; strict mode only refuses more. The syntax check of Supervisor mode must not panic.
///
/// # Panics
/// If a property does not hold.
pub fn config(text: &[u8]) {
    // The process refuses other bytes before it parses them.
    let Ok(text) = std::str::from_utf8(text) else { return };
    let read = |unknown| Config::parse("vsphere.conf", text, unknown);
    let loose = read(UnknownKeys::Warn);
    match &loose {
        Ok((config, _)) => assert!(!config.vcenters.is_empty(), "a configuration names a vCenter"),
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains("vsphere.conf"), "{words}");
            assert!(words.len() < 4000, "{} characters", words.len());
        }
    }
    let again = read(UnknownKeys::Warn);
    assert_eq!(format!("{loose:?}"), format!("{again:?}"));
    if let Ok((strict, _)) = read(UnknownKeys::Refuse) {
        let loose = loose.ok().map(|(config, _)| format!("{config:?}"));
        assert_eq!(Some(format!("{strict:?}")), loose, "strictness only refuses");
    }
    let _ = Config::check_unused("vsphere.conf", text);
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn the_committed_fuzzing_inputs_pass_their_checks() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/inputs/config");
        let mut n_played = 0;
        for input in fs::read_dir(&folder).expect("the inputs are committed") {
            let path = input.expect("a file").path();
            println!("{}", path.display());
            super::config(&fs::read(&path).expect("it can be read"));
            n_played += 1;
        }
        assert!(n_played > 0, "{}", folder.display());
    }
}
