//! Bodies of protobuf: refused or read, and what is read can be written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| sim::fuzzing::protobuf(body));
