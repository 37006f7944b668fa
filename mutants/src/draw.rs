//! Draws the mutants of a sample by seed.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::find::Mutant;
use crate::handwritten;
use crate::tree::BuiltMutant;

/// A sample to run, and the ways in which to run it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) mode: String,
    pub(crate) seed: u64,
    pub(crate) sample: usize,
    pub(crate) jobs: usize,
    pub(crate) tests: bool,
    /// True if a mutant that survives is run again in the other instances modes.
    pub(crate) all_ways: bool,
    /// True if a mutant that no run in virtual time executes is run again with the provider as a
    /// process.
    pub(crate) process: bool,
    /// Texts; only mutants of the sample whose names contain one of them are run. Empty means all.
    pub(crate) only: Vec<String>,
    /// IDs of checks that are not run.
    pub(crate) without: Vec<String>,
}

/// Way that is not an instances mode: a run with the provider as a process.
pub(crate) const PROCESS: &str = "process";
/// The ways in which a mutant may be run: the instances modes, and [`PROCESS`].
pub(crate) const WAYS: [&str; 5] = ["auto", "watch", "poll", "v1", PROCESS];

impl Plan {
    /// True if the plan includes the mutant with this name.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }

    /// Returns the ways in which a mutant of this file is run: first the instances mode that
    /// executes this code, then the other ones if `all_ways` is true, then [`PROCESS`] if `process`
    /// is true. With a vCenter, the other ones do not include `watch`, which is the same as `auto`
    /// there.
    pub(crate) fn ways(&self, file: &str) -> Vec<&'static str> {
        let own = way(file);
        // With a vCenter, `watch` is the same as `auto`.
        let differs = |it: &&str| {
            ![own, PROCESS].contains(it) && (self.mode == "supervisor" || *it != "watch")
        };
        let others = WAYS.into_iter().filter(|it| self.all_ways && differs(it));
        let process = self.process.then_some(PROCESS);
        std::iter::once(own).chain(others).chain(process).collect()
    }
}

/// Paths of code that runs only with a Supervisor.
const SUPERVISOR_ALONE: [&str; 3] = [
    "provider/src/instances/supervisor",
    "provider/src/supervisor",
    "provider/src/telemetry/supervisor.rs",
];
/// Paths of code that runs only with a vCenter.
const VCENTER_ALONE: [&str; 14] = [
    "provider/vcenter",
    "provider/src/instances/vcenter",
    "provider/src/instances/addresses",
    "provider/src/instances/datacenters.rs",
    "provider/src/instances/instance_type.rs",
    "provider/src/instances/zones.rs",
    "provider/src/telemetry/vcenter.rs",
    "provider/src/controllers/node/record.rs",
    "provider/src/model/reference.rs",
    // In Supervisor mode the provider checks that the file is YAML or INI, and reads none of its
    // keys.
    "provider/src/config/credentials.rs",
    "provider/src/config/host.rs",
    "provider/src/config/ini.rs",
    "provider/src/config/keys.rs",
    "provider/src/config/validate.rs",
];

/// Paths of code that the catalogue does not run: the server for the Cluster Autoscaler, the
/// publisher of capacities, and what only these two use.
const NOT_PLAYED: [&str; 9] = [
    "provider/src/controllers/autoscaler",
    "provider/src/controllers/capacity",
    "provider/src/controllers/quantity.rs",
    "provider/src/cluster/discovery.rs",
    "provider/src/cluster/list_watch",
    "provider/src/cli/autoscaler",
    "provider/src/cli/capacity.rs",
    "provider/src/process/autoscaler",
    "provider/src/process/capacity.rs",
];

/// True if a mode uses the code of this file.
fn is_of(mode: &str, file: &str) -> bool {
    let other: &[&str] = match mode {
        "vcenter" => &SUPERVISOR_ALONE,
        _ => &VCENTER_ALONE,
    };
    !other.iter().chain(&NOT_PLAYED).any(|it| file.starts_with(it))
}

/// Returns the sample of a mode's mutants, drawn by seed, without the handwritten ones.
pub(crate) fn drawn(built: &[BuiltMutant], plan: &Plan) -> Vec<BuiltMutant> {
    let mut all: Vec<BuiltMutant> =
        built.iter().filter(|it| !it.by_hand && is_of(&plan.mode, &it.file)).cloned().collect();
    all.sort_by_cached_key(|it| rank(plan.seed, &it.name));
    all.truncate(plan.sample);
    all
}

/// Digest of the seed and the name of a mutant. A sample has the mutants with the least digests, so
/// that it changes little when the sources change.
fn rank(seed: u64, name: &str) -> Vec<u8> {
    Sha256::digest(format!("{seed} {name}")).to_vec()
}

/// Returns the handwritten mutants, and for each mode up to twice as many others as a sample has,
/// because some do not compile.
pub(crate) fn drawable(all: Vec<Mutant>, seed: u64, sample: usize) -> Vec<Mutant> {
    let mut ranked: Vec<&Mutant> =
        all.iter().filter(|it| !handwritten::is_handwritten(it)).collect();
    ranked.sort_by_cached_key(|it| rank(seed, &it.name()));
    let names: BTreeSet<String> = ["vcenter", "supervisor"]
        .iter()
        .flat_map(|mode| ranked.iter().filter(|it| is_of(mode, &it.file)).take(2 * sample))
        .map(|it| it.name())
        .collect();
    all.into_iter()
        .filter(|it| handwritten::is_handwritten(it) || names.contains(&it.name()))
        .collect()
}

/// Returns the first `--instances-mode` in which a mutant of this file is run, because it executes
/// the code of the file. Some code runs only with `v1` or only with `poll`; all other code runs
/// with `auto`.
fn way(file: &str) -> &'static str {
    // Only the mode `v1`, like upstream, makes calls for one machine at a time.
    let is_v1 = ["/v1.rs", "/singly.rs", "/question_queue.rs"].iter().any(|it| file.ends_with(it));
    if file.contains("/v1/") || is_v1 {
        "v1"
    } else if file.ends_with("/vcenter/poll.rs") {
        "poll"
    } else {
        "auto"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weave::Wrap;

    #[test]
    fn each_path_that_a_mode_does_not_use_exists() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for path in SUPERVISOR_ALONE.iter().chain(&VCENTER_ALONE).chain(&NOT_PLAYED) {
            assert!(root.join(path).exists(), "{path} was moved or removed");
        }
    }

    #[test]
    fn the_first_instances_mode_is_that_of_the_code() {
        let plan = |mode: &str, all_ways| Plan {
            mode: mode.to_owned(),
            seed: 0,
            sample: 1,
            jobs: 1,
            tests: false,
            all_ways,
            process: false,
            only: Vec::new(),
            without: Vec::new(),
        };
        let (poll, v1) =
            ("provider/src/instances/vcenter/poll.rs", "provider/src/instances/question_queue.rs");
        assert_eq!(plan("vcenter", false).ways(poll), ["poll"]);
        assert_eq!(plan("vcenter", true).ways(poll), ["poll", "auto", "v1"]);
        assert_eq!(plan("supervisor", true).ways(v1), ["v1", "auto", "watch", "poll"]);
    }

    #[test]
    fn a_build_for_a_sample_has_the_mutants_that_the_sample_draws() {
        let mutant = |name: String, by_hand: bool| Mutant {
            file: "provider/src/app/run.rs".to_owned(),
            line: 1,
            what: if by_hand { format!("by hand: {name}") } else { name },
            wrap: Wrap { range: 0..1, before: String::new(), after: String::new() },
        };
        let all: Vec<Mutant> = (0..100).map(|n| mutant(n.to_string(), n % 10 == 0)).collect();
        let build = |chosen: &[Mutant]| -> Vec<BuiltMutant> {
            let built = |(number, it): (u32, &Mutant)| BuiltMutant {
                number,
                name: it.name(),
                file: it.file.clone(),
                line: it.line,
                by_hand: handwritten::is_handwritten(it),
            };
            (1..).zip(chosen).map(built).collect()
        };
        let part = drawable(all.clone(), 7, 10);
        assert_eq!(part.len(), 10 + 20);
        let plan = Plan {
            mode: "vcenter".to_owned(),
            seed: 7,
            sample: 10,
            jobs: 1,
            tests: false,
            all_ways: false,
            process: false,
            only: Vec::new(),
            without: Vec::new(),
        };
        let names = |built: &[BuiltMutant]| -> Vec<String> {
            drawn(built, &plan).into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names(&build(&part)), names(&build(&all)));
    }
}
