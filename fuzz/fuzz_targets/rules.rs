//! Fuzz target: the sim parses fault rules in YAML or JSON, or refuses them with a remedy. An
//! accepted rule stays the same when it is written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::rules(body));
