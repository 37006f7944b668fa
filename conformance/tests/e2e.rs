//! Runs the suite in containers: a kind cluster for each mode, every scenario, and a complete
//! cleanup. The command is `cargo test -p vsphere-conformance --test e2e -- --ignored`. The test
//! needs a Docker engine, or root and `dockerd` (see `kind/README.md`), and takes a quarter of an
//! hour.

use std::process::Command;

fn all(mode: &str) {
    let mut conformance = Command::new(env!("CARGO_BIN_EXE_conformance"));
    conformance.args(["e2e", "all", "--start-engine", "--mode", mode]);
    conformance.args(["--name", &format!("cargo-test-{mode}")]);
    let done = conformance.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    let done = done.expect("cargo has built the program");
    assert!(done.success(), "{done}: the output above names the scenario and the failure");
}

#[test]
#[ignore = "takes a quarter of an hour and a Docker engine"]
fn every_scenario_passes_with_vcenter() {
    all("vcenter");
}

#[test]
#[ignore = "takes a quarter of an hour and a Docker engine"]
fn every_scenario_passes_with_a_supervisor() {
    all("supervisor");
}
