//! Protobuf bodies: each is refused, or reads the same after it is written again.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::protobuf(body));
