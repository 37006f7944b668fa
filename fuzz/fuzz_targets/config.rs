//! vsphere.conf in both dialects, and Secrets of Supervisor mode.
//!
//! It is read or refused in words that name the file, twice the same way; strictness only refuses more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use provider::{Config, UnknownKeys};

fuzz_target!(|text: &str| {
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
    if let Ok((strict, warnings)) = read(UnknownKeys::Refuse) {
        assert!(warnings.is_empty() || loose.is_ok());
        assert_eq!(Some(format!("{strict:?}")), loose.ok().map(|(config, _)| format!("{config:?}")));
    }
    let _ = Config::check_unused("vsphere.conf", text);
});
