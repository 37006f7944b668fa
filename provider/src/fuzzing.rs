//! Checks that fuzz targets run: properties of the code in this crate that parses untrusted bytes.
//!
//! Compiled only for fuzzing and for tests. The targets are in `fuzz/`; a test replays their
//! committed inputs.

use crate::{Config, UnknownKeys};

/// Checks properties of the parsers of `vsphere.conf` (YAML and INI) with one text:
///
/// - A parse returns a configuration with a vCenter, or an error of less than 4000 bytes that names
///   the file.
/// - A second parse returns the same.
/// - Strict mode refuses the text or returns the configuration that the other mode returns.
/// - The syntax check of Supervisor mode does not panic.
///
/// Bytes that are not UTF-8 pass without a parse.
///
/// # Panics
/// If a property does not hold.
pub fn config(text: &[u8]) {
    // The process refuses bytes that are not UTF-8 before it parses them.
    let Ok(text) = std::str::from_utf8(text) else { return };
    let read = |unknown| Config::parse("vsphere.conf", text, unknown);
    let loose = read(UnknownKeys::Warn);
    match &loose {
        Ok((config, _)) => assert!(!config.vcenters.is_empty(), "no vCenter"),
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
        assert_eq!(Some(format!("{strict:?}")), loose, "strict mode changes the result");
    }
    let _ = Config::check_unused("vsphere.conf", text);
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn the_committed_fuzzing_inputs_pass_their_checks() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/config");
        let mut n_played = 0;
        for input in fs::read_dir(&folder).expect("the folder of fuzzing inputs exists") {
            let path = input.expect("a directory entry").path();
            println!("{}", path.display());
            super::config(&fs::read(&path).expect("a readable input"));
            n_played += 1;
        }
        assert!(n_played > 0, "no fuzzing input in {}", folder.display());
    }
}
