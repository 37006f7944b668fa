//! Fuzz target: the provider parses `vsphere.conf` in both formats (INI and YAML), and checks its
//! syntax in Supervisor mode.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| provider::fuzzing::config(body));
