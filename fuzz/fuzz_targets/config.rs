//! vsphere.conf in both dialects, and Secrets of Supervisor mode.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| provider::fuzzing::config(body));
