//! Fuzz target: the provider parses `vsphere.conf` in both formats (INI and YAML), or refuses it
//! with an error that names the file. In Supervisor mode it only checks the syntax.

#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| provider::fuzzing::config(body));
