//! What is shipped: the binaries as `cargo build -p sim` and `-p provider` make them, by what cargo says of their
//! dependencies and features. Features add up over a workspace, so that nothing in the code itself could tell.

use std::collections::BTreeMap;
use std::process::Command;

/// The packages that a build of this one links, each with its features.
fn linked(package: &str) -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", package])
        .args(["--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the cargo that runs this test can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let linked = text.lines().filter_map(|line| {
        let (name, features) = line.split_once('|')?;
        let name = name.split(' ').next().unwrap_or(name);
        let features = features.split(',').filter(|feature| !feature.is_empty());
        Some((name.to_owned(), features.map(str::to_owned).collect()))
    });
    linked.collect()
}

#[test]
fn shipped_binaries_know_neither_mutants_nor_a_paused_clock() {
    for package in ["sim", "provider"] {
        let linked = linked(package);
        assert!(linked.contains_key(package), "cargo named nothing of {package}");
        for (name, features) in &linked {
            for banned in ["mutants", "test-util"] {
                assert!(
                    !features.iter().any(|feature| feature == banned),
                    "{package} links {name} with the feature {banned}"
                );
            }
        }
    }
    // The same question about the one that has them: it can be answered with yes.
    let judge = linked("conformance");
    assert!(judge["provider"].contains(&"mutants".to_owned()));
    assert!(judge["tokio"].contains(&"test-util".to_owned()));
}

/// One misreading must not sit on both sides of the wire.
#[test]
fn sim_and_provider_share_no_wire_types() {
    let sim = linked("sim");
    for foreign in ["provider", "provider-vcenter", "kube", "kube-core", "k8s-openapi"] {
        assert!(!sim.contains_key(foreign), "sim links {foreign}");
    }
    let provider = linked("provider");
    for foreign in ["sim", "sim-world", "conformance"] {
        assert!(!provider.contains_key(foreign), "provider links {foreign}");
    }
    let world = linked("sim-world");
    for foreign in ["tokio", "hyper", "axum", "rustls", "sim"] {
        assert!(!world.contains_key(foreign), "sim-world links {foreign}");
    }
}
