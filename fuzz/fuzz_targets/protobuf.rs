//! Fuzz target: the sim refuses a protobuf body, or decodes it to an object that stays the same
//! when it is encoded and decoded again.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::protobuf(body));
