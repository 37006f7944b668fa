//! Decides whether a case can be played with a provider on the real clock, and at which pace.

use std::time::Duration;

use sim::world::Command;

use crate::catalogue::Entry;
use crate::checks::Case;
use crate::foreign::apiserver::{ApiServer, needs_built_in};
use crate::foreign::manifest::{Driver, Knob, Manifest, template};
use crate::judge::verdict::Verdict;
use crate::scenario::{Act, Pace, ProviderSetup, Scenario};

/// Maximum number of machines per vCenter in a case. More would overload this computer, on which
/// other cases run at the same time.
const MOST_MACHINES: u32 = 500;

/// Decision about a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::foreign) enum Plan {
    /// The case is played, at this number of seconds of world time per second of the clock.
    Play(u32),
    /// The case is not played, and this verdict contains the reason.
    Not(Verdict),
}

/// Settings of a run that [`Plan::for_case`] takes into account.
#[derive(Clone, Copy, Debug)]
pub(in crate::foreign) struct Limits {
    /// Seconds of world time per second of the clock, in a case that need not run in real time.
    pub(in crate::foreign) compress: u32,
    /// Maximum real time of a case.
    pub(in crate::foreign) longest: Duration,
    pub(in crate::foreign) apiserver: ApiServer,
}

impl Plan {
    /// Decides whether a case of the check `entry` is played with the provider of this manifest,
    /// and at which pace.
    pub(in crate::foreign) fn for_case(
        case: &Case,
        entry: &Entry,
        manifest: &Manifest,
        limits: Limits,
    ) -> Self {
        let skip = |why: String| Self::Not(Verdict::skipped(why));
        if let Some(feature) = entry.features.iter().find(|it| manifest.lacks(it)) {
            return Self::Not(Verdict::not_supported(format!(
                "the manifest lists the feature {feature} as unsupported"
            )));
        }
        if let Some(it) = manifest.spec.skips.iter().find(|skip| skip.check == entry.id.as_str()) {
            let issue =
                if it.issue.is_empty() { String::new() } else { format!(" ({})", it.issue) };
            return skip(format!("{}{issue}, until {}", it.reason, it.expires));
        }
        let backend = manifest.spec.mode;
        if !entry.backends.iter().any(|it| it == backend.as_str()) {
            return skip(format!("the check is about a backend other than {backend}"));
        }
        if let Pace::Virtual(why) = case.pace {
            return skip(format!("played only in virtual time: {why}"));
        }
        if let Some(why) = hindrance(&case.scenario, manifest, limits.apiserver) {
            return skip(why);
        }
        let pace = match case.pace {
            Pace::Usual if !something_fails(&case.scenario) => {
                pace(&case.scenario, limits.compress)
            }
            _ => 1,
        };
        let takes = case.scenario.horizon / pace;
        if takes > limits.longest {
            let (takes, longest) = (takes.as_secs(), limits.longest.as_secs());
            return skip(format!(
                "takes {takes} s on the real clock, but --longest is {longest} s"
            ));
        }
        Self::Play(pace)
    }
}

/// Returns the reason why a scenario cannot be played with this provider, or `None`.
pub(in crate::foreign) fn hindrance(
    scenario: &Scenario,
    manifest: &Manifest,
    apiserver: ApiServer,
) -> Option<String> {
    let machines = scenario.topology.machines;
    if machines > MOST_MACHINES {
        return Some(format!(
            "played only in virtual time: the world has {machines} machines, and at most {MOST_MACHINES} are possible on the real clock"
        ));
    }
    if let Some(why) =
        cannot_set_up(scenario, manifest).or_else(|| cannot_act(scenario, manifest.driver()))
    {
        return Some(why);
    }
    if apiserver == ApiServer::Real
        && let Some(what) = needs_built_in(scenario)
    {
        return Some(format!("needs the built-in API server: {what}"));
    }
    None
}

/// Returns the pace of a scenario in which nothing fails: `compress`, or 1 if replicas elect a
/// leader. An election takes place in real time, because the duration of a lease and the periods of
/// its holder are constants of the provider.
pub(in crate::foreign) fn pace(scenario: &Scenario, compress: u32) -> u32 {
    if scenario.provider.elects() { 1 } else { compress }
}

/// Returns the paces at which a run is played until this computer keeps up: `pace`, its half, and
/// its quarter if that is at least 1. A run in real time is repeated once. A delay counts by the
/// world time that passed in it, so a lower pace permits a longer delay.
pub(in crate::foreign) fn paces_of_repetitions(pace: u32) -> impl Iterator<Item = u32> {
    [pace, (pace / 2).max(1), pace / 4].into_iter().filter(|it| *it > 0)
}

/// True if an act of the scenario makes something fail: a fault rule, a changed Secret, or a
/// command such as the stop of a vCenter. After a failure a provider follows its own constants:
/// deadlines, back-offs, holds. No option shortens these constants, so a scenario with failures is
/// played in real time.
fn something_fails(scenario: &Scenario) -> bool {
    scenario.timeline.iter().any(|step| match &step.act {
        Act::Fault(_) | Act::Secret { .. } => true,
        Act::World(command) => matches!(
            command,
            Command::StopVCenter { .. }
                | Command::ExpireSessions { .. }
                | Command::EndWatches { .. }
                | Command::RestoreCluster
                | Command::SetLoginRules { .. }
                | Command::RotatePassword { .. }
                | Command::RevokePrivilege(_)
                | Command::SetInstanceUuid { .. }
                | Command::UpgradeVCenter { .. }
                | Command::DisconnectHost(_)
                | Command::FailHost(_)
                | Command::Inaccessible(_)
                | Command::Orphan(_)
        ),
        _ => false,
    })
}

/// Returns the reason why the manifest cannot express the scenario's set-up of the provider, or
/// `None`.
fn cannot_set_up(scenario: &Scenario, manifest: &Manifest) -> Option<String> {
    cannot_start(scenario, manifest)
        .or_else(|| cannot_configure(scenario, manifest))
        .or_else(|| cannot_set_flags(&scenario.provider, manifest))
}

/// Returns the reason why the manifest cannot start the replicas of a scenario with its vCenters,
/// Secret, flags, election and endpoint, or `None`.
fn cannot_start(scenario: &Scenario, manifest: &Manifest) -> Option<String> {
    let ProviderSetup { secret, replicas, flags, .. } = &scenario.provider;
    if scenario.topology.vcenters > 1 && secret.is_some() {
        return Some("the Secret has the credentials by the address of each vCenter, but all vCenters of this run have the same address".to_owned());
    }
    if !flags.is_empty() && !manifest.spec.knobs.contains_key(&Knob::Flags) {
        return Some("the manifest has no knob flags".to_owned());
    }
    let elects = manifest.spec.knobs.contains_key(&Knob::LeaderElection)
        || manifest.placeholders().contains("leaderElect");
    if (*replicas > 1 || scenario.provider.elects()) && !elects {
        return Some("an election needs the knob leaderElection or the placeholder $(leaderElect), but the manifest has neither".to_owned());
    }
    if scenario.reads_endpoint() && !matches!(manifest.driver(), Driver::Process(_)) {
        return Some("the HTTPS endpoint of a container or a pod is not read".to_owned());
    }
    None
}

/// Returns the reason why no file of the manifest can have the configuration of a scenario, or
/// `None`.
fn cannot_configure(scenario: &Scenario, manifest: &Manifest) -> Option<String> {
    let ProviderSetup { zones, nodes, datacenters, families, secret, config, .. } =
        &scenario.provider;
    let written = |placeholder: &str| {
        let mut files = manifest.spec.files.keys();
        files.any(|name| {
            let text = manifest.template(name).unwrap_or_default();
            template::names(&text).iter().any(|it| it == placeholder)
        })
    };
    let is_vcenter = manifest.spec.mode.is_vcenter();
    let in_file = is_vcenter && !families.is_empty();
    let elsewhere = is_vcenter && *datacenters != ProviderSetup::default().datacenters;
    let special = scenario.topology.vcenters > 1
        || !nodes.is_empty()
        || in_file
        || elsewhere
        || secret.is_some()
        || config.is_some();
    if special && !written("config.yaml") {
        return Some(
            "the case needs a file of the manifest with $(config.yaml), but none has it".to_owned(),
        );
    }
    if !zones && !written("config.yaml") && !written("config.labels") {
        return Some("no file of the manifest has $(config.yaml) or $(config.labels), so zones cannot be switched off".to_owned());
    }
    None
}

/// Returns the reason why the manifest cannot set a flag of the provider, or `None`.
fn cannot_set_flags(setup: &ProviderSetup, manifest: &Manifest) -> Option<String> {
    let usual = ProviderSetup::default();
    let in_flag = !manifest.spec.mode.is_vcenter() && !setup.families.is_empty();
    [
        (in_flag, Knob::IpFamily, "ipFamily"),
        (setup.skip_deletion, Knob::SkipDeletion, "skipDeletion"),
        (setup.kube_qps != usual.kube_qps, Knob::Qps, "qps"),
        (!setup.node_labels.is_empty(), Knob::NodeLabels, "nodeLabels"),
        (setup.workers != usual.workers, Knob::Workers, "workers"),
    ]
    .into_iter()
    .find(|(is_needed, knob, _)| *is_needed && !manifest.spec.knobs.contains_key(knob))
    .map(|(_, _, name)| format!("the manifest has no knob {name}"))
}

/// Returns the reason why an act of the scenario cannot be carried out with replicas of this
/// driver, or `None`.
fn cannot_act(scenario: &Scenario, driver: Driver<'_>) -> Option<String> {
    let why = |act: &Act| match (act, driver) {
        (Act::StepClocks(_), _) => {
            Some("played only in virtual time: the clock of one process cannot be stepped")
        }
        (Act::Scrape, _) => Some(
            "played only in virtual time: the lab reads no metrics of a provider on the real clock",
        ),
        (Act::RenewCertificate | Act::SpoilCertificate, _) => Some(
            "played only in virtual time: a process gets no serving certificate that could change",
        ),
        (Act::SuspendLeader, Driver::Container(_) | Driver::Cluster(_)) => {
            Some("needs the driver process: a container and a pod cannot be suspended")
        }
        (Act::Token { .. }, Driver::Cluster(_)) => Some(
            "the case needs a changed token file at once, but a kubelet brings it to a pod only later",
        ),
        (Act::Token { .. }, _) if scenario.provider.replicas > 1 => {
            Some("only the token file of one replica can change, but the case has several replicas")
        }
        _ => None,
    };
    scenario.timeline.iter().find_map(|step| why(&step.act)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use sim::world::Topology;

    use super::*;
    use crate::scenario::Caller;

    #[test]
    fn several_vcenters_need_a_file_that_names_them_all() {
        let manifest = |name| Manifest::load(name, date(2026, 1, 1)).unwrap();
        let topology = Topology::zones(3).machines(4).vcenters(2);
        let mut scenario = Scenario::new("", topology, Duration::from_secs(1));
        assert_eq!(cannot_set_up(&scenario, &manifest("ours-vcenter")), None);
        let why = cannot_set_up(&scenario, &manifest("stock-ccm"));
        assert!(why.unwrap_or_default().contains("$(config.yaml)"));
        scenario.provider.secret = Some("credentials".to_owned());
        let why = cannot_set_up(&scenario, &manifest("ours-vcenter"));
        assert!(why.unwrap_or_default().contains("Secret"));
    }

    #[test]
    fn a_token_rotation_cannot_be_set_up_for_a_pod() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cluster/supervisor.yaml");
        let manifest = |name| Manifest::load(name, date(2026, 1, 1)).unwrap();
        let grace = Duration::ZERO;
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(9));
        let rotated = scenario.clone().at(Duration::from_secs(1), Act::Token { grace });
        let hindrance = |scenario: &Scenario, name| {
            super::hindrance(scenario, &manifest(name), ApiServer::Builtin)
        };
        assert_eq!(hindrance(&scenario, directory), None);
        let why = hindrance(&rotated, directory).unwrap_or_default();
        assert!(why.contains("a kubelet brings it"), "{why}");
        assert_eq!(hindrance(&rotated, "ours-supervisor"), None);
        let both = rotated.with_provider(|it| it.replicas = 2);
        let why = hindrance(&both, "ours-supervisor").unwrap_or_default();
        assert!(why.contains("the token file of one replica"), "{why}");
    }

    #[test]
    fn replicas_need_the_knob_for_an_election() {
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(9));
        let several = scenario.clone().with_provider(|it| it.replicas = 2);
        let one = scenario.with_provider(|it| it.leader_election = true);
        for name in ["ours-vcenter", "ours-supervisor", "stock-ccm", "upstream-vcenter"] {
            let mut manifest = Manifest::load(name, date(2026, 1, 1)).unwrap();
            assert_eq!(cannot_set_up(&several, &manifest), None, "{name}");
            manifest.spec.knobs.remove(&Knob::LeaderElection);
            for scenario in [&several, &one] {
                let why = cannot_set_up(scenario, &manifest).unwrap_or_default();
                assert!(why.contains("needs the knob leaderElection"), "{name}: {why}");
            }
        }
    }

    #[test]
    fn an_act_that_a_driver_cannot_carry_out_is_refused_by_name() {
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(9));
        let after = |act| scenario.clone().at(Duration::from_secs(1), act);
        let ours = Manifest::load("ours-vcenter", date(2026, 1, 1)).unwrap();
        let clocks = cannot_act(&after(Act::StepClocks(1)), ours.driver()).unwrap_or_default();
        assert!(clocks.contains("the clock of one process cannot be stepped"), "{clocks}");
        let scrape = cannot_act(&after(Act::Scrape), ours.driver()).unwrap_or_default();
        assert!(scrape.contains("reads no metrics of a provider"), "{scrape}");
        for act in [Act::RenewCertificate, Act::SpoilCertificate] {
            let why = cannot_act(&after(act), ours.driver()).unwrap_or_default();
            assert!(why.contains("serving certificate"), "{why}");
        }
        let suspended = after(Act::SuspendLeader);
        assert_eq!(cannot_act(&suspended, ours.driver()), None);
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cluster/vcenter.yaml");
        let pod = Manifest::load(directory, date(2026, 1, 1)).unwrap();
        let why = cannot_act(&suspended, pod.driver()).unwrap_or_default();
        assert!(why.contains("needs the driver process"), "{why}");
    }

    #[test]
    fn an_election_takes_place_in_real_time() {
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(9));
        assert_eq!(pace(&scenario, 10), 10);
        assert_eq!(pace(&scenario.with_provider(|it| it.replicas = 2), 10), 1);
    }

    #[test]
    fn a_case_on_a_late_computer_is_repeated_at_lower_paces() {
        for (pace, wanted) in [(10, vec![10, 5, 2]), (2, vec![2, 1]), (1, vec![1, 1])] {
            assert_eq!(paces_of_repetitions(pace).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn a_scenario_that_reads_the_endpoint_of_a_pod_cannot_be_set_up() {
        let pod = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cluster/vcenter.yaml");
        let manifest = |name| Manifest::load(name, date(2026, 1, 1)).unwrap();
        let (path, by) = ("/healthz".to_owned(), Caller::Anonymous);
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(9))
            .at(Duration::from_secs(1), Act::GetEndpoint { path, by });
        assert_eq!(cannot_set_up(&scenario, &manifest("ours-vcenter")), None);
        let why = cannot_set_up(&scenario, &manifest(pod)).unwrap_or_default();
        assert!(why.contains("a pod is not read"), "{why}");
    }

    #[test]
    fn flags_and_a_configuration_need_a_place_in_the_manifest() {
        let mut ours = Manifest::load("ours-vcenter", date(2026, 1, 1)).unwrap();
        let stock = Manifest::load("stock-ccm", date(2026, 1, 1)).unwrap();
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(1));
        let flagged = scenario.clone().with_provider(|it| it.flags = vec!["--v=2".to_owned()]);
        let written = scenario.with_provider(|it| it.config = Some(String::new()));
        assert_eq!(cannot_set_up(&flagged, &ours), None);
        assert_eq!(cannot_set_up(&written, &ours), None);
        let why = cannot_set_up(&written, &stock).unwrap_or_default();
        assert!(why.contains("$(config.yaml)"), "{why}");
        ours.spec.knobs.remove(&Knob::Flags);
        let why = cannot_set_up(&flagged, &ours);
        assert_eq!(why.as_deref(), Some("the manifest has no knob flags"));
    }

    #[test]
    fn address_families_need_a_configuration_file_or_a_knob() {
        let mut ours = Manifest::load("ours-supervisor", date(2026, 1, 1)).unwrap();
        let mut scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(1));
        scenario.provider.families = vec!["ipv4".to_owned(), "ipv6".to_owned()];
        assert_eq!(cannot_set_up(&scenario, &ours), None);
        ours.spec.knobs.remove(&Knob::IpFamily);
        let why = cannot_set_up(&scenario, &ours);
        assert_eq!(why.as_deref(), Some("the manifest has no knob ipFamily"));
        let stock = Manifest::load("stock-ccm", date(2026, 1, 1)).unwrap();
        assert!(cannot_set_up(&scenario, &stock).unwrap_or_default().contains("$(config.yaml)"));
    }
}
