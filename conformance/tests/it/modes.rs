//! Tests the instances modes with vCenter: all of them lead to the same Nodes, and v1 makes
//! upstream's calls.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use conformance::checks;
use conformance::judge::facts;
use conformance::judge::verdict::Verdict;
use conformance::lab::{Mode, Run, Stage, run};
use conformance::scenario::{Act, Backend, Scenario};
use conformance::suite::{CaseResult, Conclusion};
use provider::InstancesMode;
use sim::ledger::Record;
use sim::world::objects::Key;
use sim::world::{Command, Named, Topology};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn scenario(n: u32, horizon: Duration) -> Scenario {
    let scenario = Scenario::new("modes", Topology::zones(3).machines(n), horizon);
    scenario.at(s(0), Command::SetHeartbeats { every: None })
}

fn play(scenario: &Scenario, mode: InstancesMode) -> Run {
    run(scenario, &Stage { mode: Mode::VCenter(mode), ..Stage::default() })
}

fn node<'a>(run: &'a Run, name: &str) -> Option<&'a serde_json::Value> {
    run.end.cluster.get(&Key::node(name)).map(|node| &**node)
}

/// Returns the calls to vCenter in a phase, in order. A search in the inventory becomes the place
/// that it searches, another read of properties becomes the properties, and any other call becomes
/// its operation.
fn calls(run: &Run, phase: &str) -> Vec<String> {
    told(run.calls_in(phase).filter(|call| call.is_vcenter_call()))
}

fn told<'a>(calls: impl Iterator<Item = &'a Record>) -> Vec<String> {
    let shown = calls.map(|call| match call.op.as_str() {
        "RetrievePropertiesEx" => {
            let (what, of) = call.req.detail.rsplit_once(" of ").unwrap_or_default();
            let of = of.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
            match what {
                _ if what.starts_with("ManagedEntity{") => format!("ancestors of {of}"),
                _ if what.starts_with("Folder{name}") => format!("inside {of}"),
                _ => what.to_owned(),
            }
        }
        op => op.replace("tagging.tag-association.", "").replace("tagging.", ""),
    });
    shown.collect()
}

const CONNECTED: &str = "SessionManager{currentSession}";
/// Calls that search one datacenter, configured by name, from the root folder on.
const SEARCH: [&str; 3] = ["ancestors of group-d", "inside group-d", "FindByUuid"];
/// Calls that read the found machine, twice.
const READ: [&str; 2] =
    ["VirtualMachine{config,summary,guest}", "VirtualMachine{guest,summary,config}"];
/// Calls that find the zone of the machine, with tags on cluster and datacenter.
const ZONE: [&str; 14] = [
    "VirtualMachine{summary.runtime.host}",
    "VirtualMachine{resourcePool}",
    "HostSystem{summary}",
    "cis.session.create",
    "ancestors of host",
    "list-attached-tags",
    "list-attached-tags",
    "tag.get",
    "category.get",
    "list-attached-tags",
    "list-attached-tags",
    "tag.get",
    "category.get",
    "cis.session.delete",
];

/// Concatenates lists of calls.
fn all(parts: &[&[&'static str]]) -> Vec<&'static str> {
    parts.concat()
}

fn hit() -> Vec<&'static str> {
    all(&[&[CONNECTED], &SEARCH, &READ])
}

#[test]
fn v1_makes_the_calls_of_upstream_in_the_same_order() {
    let scenario = scenario(1, s(900))
        .at(s(0), Act::Phase("join".into()))
        .at(s(100), Act::Phase("steady".into()))
        .at(s(310), Act::Phase("".into()))
        .at(s(310), Command::StopKubelet("node-0001".into()))
        .at(s(401), Act::Phase("not-ready".into()))
        .at(s(406), Act::Phase("".into()))
        .at(s(500), Command::DeleteMachine("node-0001".into()))
        .at(s(500), Act::Phase("delete".into()));
    let run = play(&scenario, InstancesMode::V1);
    let cold = ["RetrieveServiceContent", "Login"];
    assert_eq!(calls(&run, "join"), all(&[&cold, &SEARCH, &READ, &ZONE, &hit()]), "{}", run.logs);
    assert_eq!(calls(&run, "steady"), all(&[&ZONE, &hit()]));
    assert_eq!(calls(&run, "not-ready"), all(&[&hit(), &["VirtualMachine{summary}"]]));
    let miss = all(&[&[CONNECTED], &SEARCH]);
    let state = ["VirtualMachine{summary.runtime.powerState}"];
    assert_eq!(calls(&run, "delete"), all(&[&miss, &miss, &state]));
    assert!(node(&run, "node-0001").is_none(), "{}", run.logs);
}

/// The notation of datacenters determines the calls before each search.
#[test]
fn v1_resolves_datacenters_before_each_search_as_upstream() {
    let bare = &SEARCH[..2];
    let by_id: &[&str] = &["ancestors of datacenter"];
    for (names, asked) in [
        (&[][..], bare),
        (&["DC0"], bare),
        (&["D?0"], bare),
        (&["/DC0"], &bare[1..]),
        (&["datacenter-2"], by_id),
        (&["Datacenter:datacenter-2"], by_id),
    ] {
        let scenario = scenario(1, s(500))
            .with_provider(|it| {
                it.datacenters = names.iter().map(|&name| name.to_owned()).collect()
            })
            .with_provider(|it| it.zones = false)
            .at(s(100), Act::Phase("steady".into()))
            .at(s(400), Act::Phase("".into()));
        let run = play(&scenario, InstancesMode::V1);
        let want = all(&[&[CONNECTED], asked, &SEARCH[2..], &READ]);
        assert_eq!(calls(&run, "steady"), want, "{names:?}: {}", run.logs);
    }
}

#[test]
fn v1_searches_one_vcenter_after_the_other() {
    let scenario = Scenario::new("modes", Topology::zones(3).machines(1).vcenters(2), s(400))
        .with_provider(|it| it.zones = false)
        .at(s(0), Command::SetHeartbeats { every: None })
        .at(s(100), Act::Phase("steady".into()));
    let run = play(&scenario, InstancesMode::V1);
    let asked = |server| {
        let calls = run.calls_in("steady").filter(|it| it.is_vcenter_call() && it.server == server);
        told(calls)
    };
    assert_eq!(asked("vc0"), all(&[&hit(), &[CONNECTED], &SEARCH]), "{}", run.logs);
    assert_eq!(asked("vc1"), hit(), "{}", run.logs);
}

/// While one vCenter is down, the provider still finds the machines of another one. A machine that
/// no answering vCenter has counts as gone only after all vCenters have answered.
#[test]
fn v1_updates_nodes_but_deletes_none_while_a_vcenter_is_down() {
    let there = |n: u32| Named { vcenter: Some("vc1".into()), name: format!("node-1-{n:04}") };
    let address: IpAddr = Ipv4Addr::new(10, 77, 0, 1).into();
    for (horizon, is_back) in [(s(880), false), (s(1200), true)] {
        let scenario = Scenario::new("modes", Topology::zones(3).machines(2).vcenters(2), horizon)
            .at(s(100), Command::StopVCenter { vcenter: Some("vc0".into()) })
            .at(s(110), Command::SetAddresses { machine: there(1), addresses: vec![vec![address]] })
            .at(s(120), Command::DeleteMachine(there(2)))
            .at(s(900), Command::StartVCenter { vcenter: Some("vc0".into()) });
        let run = play(&scenario, InstancesMode::V1);
        let moved = node(&run, "node-1-0001").expect("its machine exists");
        let addresses = moved["status"]["addresses"].to_string();
        assert!(addresses.contains(&address.to_string()), "{addresses}: {}", run.logs);
        assert_eq!(node(&run, "node-1-0002").is_none(), is_back, "{}", run.logs);
        for name in ["node-0001", "node-0002"] {
            assert!(node(&run, name).is_some(), "{name}: {}", run.logs);
        }
    }
}

#[test]
fn polling_and_v1_lead_to_the_same_nodes() {
    let scenario = scenario(10, s(700))
        .at(s(100), Command::PowerOff("node-0003".into()))
        .at(s(120), Command::Suspend("node-0004".into()))
        .at(s(130), Command::StopTools("node-0005".into()))
        .at(s(140), Command::DeleteMachine("node-0006".into()))
        .at(
            s(150),
            Command::SetAddresses {
                machine: "node-0007".into(),
                addresses: vec![vec![Ipv4Addr::new(10, 77, 0, 7).into()]],
            },
        );
    let nodes = |mode| {
        let run = play(&scenario, mode);
        assert!(node(&run, "node-0006").is_none(), "{mode:?}: {}", run.logs);
        let shown = |name: &String| {
            let node = node(&run, name)?;
            let parts = [
                "/metadata/labels",
                "/metadata/annotations",
                "/spec/providerID",
                "/status/addresses",
            ]
            .map(|it| node.pointer(it).cloned().unwrap_or_default());
            assert!(!facts(node).uninitialized, "{mode:?}: {}", run.logs);
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            let keys: Vec<String> = taints.map(|taint| taint["key"].to_string()).collect();
            Some((name.clone(), parts, keys))
        };
        run.end.kubelets.keys().map(shown).collect::<Vec<_>>()
    };
    let watched = nodes(InstancesMode::Auto);
    let off = |keys: &[String]| {
        keys.iter().any(|key| key.contains("cloudprovider") && key.contains("shutdown"))
    };
    let n_off = watched.iter().flatten().filter(|(_, _, keys)| off(keys)).count();
    assert_eq!(n_off, 2, "{watched:?}");
    for mode in [InstancesMode::Poll, InstancesMode::V1] {
        for (node, wanted) in nodes(mode).into_iter().zip(&watched) {
            assert_eq!(node, *wanted, "{mode:?}");
        }
    }
}

/// The modes that read machines periodically and do not wait for changes.
const ASKING: [InstancesMode; 2] = [InstancesMode::Poll, InstancesMode::V1];

#[test]
fn an_outage_removes_no_node_and_a_machine_deletion_after_it_removes_one() {
    let scenario = scenario(3, s(700))
        .at(s(100), Command::StopVCenter { vcenter: None })
        .at(s(110), Command::StopKubelet("node-0001".into()))
        .at(s(300), Command::StartVCenter { vcenter: None })
        .at(s(400), Command::DeleteMachine("node-0002".into()));
    for mode in ASKING {
        let run = play(&scenario, mode);
        assert!(node(&run, "node-0001").is_some(), "{mode:?}: {}", run.logs);
        assert!(node(&run, "node-0002").is_none(), "{mode:?}: {}", run.logs);
        assert!(run.calls().all(|call| call.op != "WaitForUpdatesEx"), "{mode:?}");
    }
}

/// After a restart, the annotation on the Node says where the machine was.
#[test]
fn a_machine_deleted_while_the_provider_is_down_loses_its_node() {
    let scenario = scenario(3, s(400))
        .at(s(100), Act::Crash(0))
        .at(s(110), Command::DeleteMachine("node-0002".into()))
        .at(s(200), Act::Start(0));
    for mode in ASKING {
        let run = play(&scenario, mode);
        assert!(node(&run, "node-0002").is_none(), "{mode:?}: {}", run.logs);
        assert!(node(&run, "node-0001").is_some(), "{mode:?}: {}", run.logs);
    }
}

#[test]
fn a_provider_whose_session_expired_still_updates_addresses() {
    let address = Ipv4Addr::new(10, 77, 0, 1);
    let scenario =
        scenario(2, s(700)).at(s(310), Command::ExpireSessions { vcenter: None, family: None }).at(
            s(311),
            Command::SetAddresses {
                machine: "node-0001".into(),
                addresses: vec![vec![address.into()]],
            },
        );
    for mode in ASKING {
        let run = play(&scenario, mode);
        let node = node(&run, "node-0001").expect("the node exists");
        let addresses = node["status"]["addresses"].to_string();
        assert!(addresses.contains(&address.to_string()), "{mode:?}: {addresses}\n{}", run.logs);
    }
}

#[test]
fn a_node_whose_guest_reports_late_is_initialized_then() {
    let scenario = scenario(2, s(300))
        .with_provider(|it| it.start = false)
        .at(s(1), Command::StopTools("node-0001".into()))
        .at(s(10), Act::Start(0))
        .at(s(40), Act::Phase("waiting".into()))
        .at(s(100), Command::StartTools("node-0001".into()));
    for mode in ASKING {
        let run = play(&scenario, mode);
        assert!(run.calls_in("waiting").any(|call| call.is_vcenter_call()), "{mode:?}");
        for name in ["node-0001", "node-0002"] {
            let node = node(&run, name).expect("the node exists");
            assert!(!facts(node).uninitialized, "{mode:?}: {}", run.logs);
        }
    }
}

/// A hundred nodes whose kubelets stop together cost one read per two monitor ticks, instead of one
/// read per node.
#[test]
fn one_poll_serves_all_nodes_that_fall_silent_together() {
    let mut scenario = scenario(100, s(422)).at(s(402), Act::Phase("silent".into()));
    for k in 1..=100 {
        scenario =
            scenario.at(s(310), Command::StopKubelet(format!("node-{k:04}").as_str().into()));
    }
    let run = play(&scenario, InstancesMode::Poll);
    assert_eq!(calls(&run, "silent").len(), 2, "{:?}", calls(&run, "silent"));
}

/// Plays checks of deletion, and in mode `poll` also ISO-001 and LIVE-003. Other checks count calls
/// or need a view with changes, so they apply only to a provider that watches.
#[test]
fn polling_and_v1_pass_the_deletion_checks_that_apply_to_them() {
    let held: [(InstancesMode, &[&str]); 2] = [
        (InstancesMode::Poll, &["NODE-DEL-00", "ISO-001", "LIVE-003"]),
        (InstancesMode::V1, &["NODE-DEL-00"]),
    ];
    let mut others = Vec::new();
    for (mode, ids) in held {
        let stage = Stage { mode: Mode::VCenter(mode), ..Stage::default() };
        let mut n_run = 0;
        for check in checks::all(Backend::VCenter) {
            if !ids.iter().any(|id| check.id.starts_with(id)) {
                continue;
            }
            let conclusion = Conclusion::run(&check, &stage, || Duration::ZERO);
            n_run += conclusion.outcomes.len();
            let not_passed = |it: &&CaseResult| it.verdict != Verdict::Pass;
            others.extend(
                conclusion
                    .outcomes
                    .iter()
                    .filter(not_passed)
                    .map(|it| format!("{mode:?} {} {}: {}", check.id, it.case, it.verdict)),
            );
        }
        assert!(n_run > 40, "{mode:?}: {n_run}");
    }
    // Faults in calls that these modes do not make, and a check for providers that see every
    // machine.
    let unmet = [
        "Poll NODE-DEL-002 search answers, reads of that machine fail, cold cache: inconclusive: \
         the fault rule faults/reads, faults/updates never fired, so the case tested nothing",
        "V1 NODE-DEL-002 search is empty, read fails, cold cache: inconclusive: the fault rule \
         empty never fired, so the case tested nothing",
        "V1 NODE-DEL-008 machines of ready nodes really deleted: inconclusive: \
         v1 looks only for machines of nodes that are not ready",
    ];
    assert_eq!(others, unmet);
}
