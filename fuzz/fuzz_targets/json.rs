//! JSON bodies, read as Go reads them.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::json(body));
