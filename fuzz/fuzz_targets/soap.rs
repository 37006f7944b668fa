//! Fuzz target: a simulated vCenter answers any SOAP body with an envelope or lets the call wait,
//! and then still serves.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::envelope(body));
