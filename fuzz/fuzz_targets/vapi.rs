//! Fuzz target: a simulated vCenter answers any request below `/api/` or `/rest/` with JSON or an
//! empty body, never with a server error other than 503, and then still serves.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::rest(body));
