//! Fuzz target: the sim parses world files in YAML or JSON, or refuses them with a remedy.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::world(body));
