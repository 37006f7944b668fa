//! Fuzz target: the sim's JSON reader gives the same value as serde_json for every body that
//! serde_json accepts. If only the sim's reader accepts a body, the value stays the same when it is
//! written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::json(body));
