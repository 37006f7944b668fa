//! Tests the dependencies and features of the shipped binaries and of the library `sim`, as
//! `cargo tree` reports them for `-p vsphere-sim` and `-p vsphere-cloud-provider`. A build of the
//! whole workspace unites the features of all crates, so a test in the code itself could not tell.

use std::collections::BTreeMap;
use std::process::Command;

/// Returns the packages that a build of `package` links, by name, each with its features. `package`
/// itself is among them.
fn linked(package: &str) -> BTreeMap<String, Vec<String>> {
    linked_with(package, &[])
}

/// Returns what [`linked`] does, for a build with `options`.
fn linked_with(package: &str, options: &[&str]) -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", package])
        .args([
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "none",
            "--no-dedupe",
            "--format",
            "{p}|{f}",
        ])
        .args(options)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo, which runs this test, can be started");
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
fn shipped_binaries_link_neither_mutants_nor_a_paused_clock() {
    if crate::repository::is_absent() {
        return;
    }
    for package in ["vsphere-sim", "vsphere-cloud-provider"] {
        let linked = linked(package);
        assert!(linked.contains_key(package), "cargo tree does not list {package}");
        for (name, features) in &linked {
            for banned in ["mutants", "test-util"] {
                assert!(
                    !features.iter().any(|feature| feature == banned),
                    "{package} links {name} with the feature {banned}"
                );
            }
        }
    }
    // Proves that the test can fail: the program `conformance` has both features.
    let judge = linked("vsphere-conformance");
    assert!(judge["vsphere-cloud-provider"].contains(&"mutants".to_owned()));
    assert!(judge["tokio"].contains(&"test-util".to_owned()));
}

/// Separate types prevent one mistake about the protocol from affecting both sides of the
/// connection.
#[test]
fn sim_and_provider_share_no_wire_types() {
    if crate::repository::is_absent() {
        return;
    }
    let sim = linked("vsphere-sim");
    for foreign in [
        "vsphere-cloud-provider",
        "vsphere-cloud-provider-vcenter",
        "vsphere-cloud-provider-externalgrpc",
        "tonic",
        "kube",
        "kube-core",
        "k8s-openapi",
    ] {
        assert!(!sim.contains_key(foreign), "sim links {foreign}");
    }
    let provider = linked("vsphere-cloud-provider");
    for foreign in ["vsphere-sim", "vsphere-sim-world", "vsphere-conformance"] {
        assert!(!provider.contains_key(foreign), "provider links {foreign}");
    }
    let world = linked("vsphere-sim-world");
    for foreign in ["tokio", "hyper", "axum", "rustls", "vsphere-sim"] {
        assert!(!world.contains_key(foreign), "the world links {foreign}");
    }
}

/// A test in this process needs neither sockets nor the program, so the crates for them are behind
/// the features `listen` and `cli` of `vsphere-sim`.
#[test]
fn sim_without_features_links_no_crate_for_sockets_or_for_the_program() {
    if crate::repository::is_absent() {
        return;
    }
    let sockets = ["axum", "rcgen", "ring", "rustls", "tokio-rustls"];
    let program = ["clap", "clap_builder", "tracing-subscriber"];
    let without = linked_with("vsphere-sim", &["--no-default-features"]);
    let listen = linked_with("vsphere-sim", &["--no-default-features", "--features", "listen"]);
    let all = linked("vsphere-sim");
    for name in sockets {
        assert!(!without.contains_key(name), "sim without features links {name}");
        assert!(listen.contains_key(name), "sim with `listen` does not link {name}");
    }
    for name in program {
        assert!(!without.contains_key(name), "sim without features links {name}");
        assert!(!listen.contains_key(name), "sim with `listen` links {name}");
        // Proves that the names are right.
        assert!(all.contains_key(name), "the program sim does not link {name}");
    }
    assert!(!all.contains_key("anyhow"), "only tests of sim use anyhow");
}

/// A profile inherits the levels of packages from `release`. A package that `release` optimizes less
/// and that the other profile does not name would be shipped, or measured, that way.
#[test]
fn releases_and_benches_optimize_every_package_that_the_main_job_does_not() {
    let Some(manifest) = crate::repository::text("Cargo.toml") else {
        return;
    };
    let levels = |profile: &str| -> BTreeMap<String, u32> {
        let head = format!("[profile.{profile}.package]\n");
        let (_, table) = manifest.split_once(&head).expect("a table of packages");
        let lines = table.lines().take_while(|line| !line.starts_with('['));
        let level = |line: &str| {
            let (package, level) = line.split_once(".opt-level = ")?;
            Some((package.to_owned(), level.parse().expect("a number")))
        };
        lines.filter_map(level).collect()
    };
    let release = levels("release");
    assert!(release.len() > 20, "{release:?}");
    for profile in ["dist", "bench"] {
        let shipped = levels(profile);
        for package in release.keys() {
            let wanted = if package == "vsphere-conformance" { 1 } else { 3 };
            assert_eq!(shipped.get(package), Some(&wanted), "{package} in the profile {profile}");
        }
    }
}
