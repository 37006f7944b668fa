//! NODE-009, NODE-010, NODE-014 and NODE-017: labels and host names that a provider adds to a Node,
//! and the values of others that it must keep.

use serde_json::{Value, json};
use sim::world::Command;
use sim::world::objects::{self, Key, PatchKind};

use super::zones::{relabel, stop_zone_labels};
use crate::checks::build::{
    SETTLED, T_INIT, T_STATUS, create_joining_machine, machine, machine_object, patch, s,
    set_address, world,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Exit, Run};
use crate::scenario::{Backend, Pace, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("NODE-014", [moved_zone(backend)]),
        Check::new("NODE-017", host_names(backend)),
    ];
    if backend.is_vcenter() {
        checks.push(Check::new("NODE-009", [added()]));
        checks.push(Check::new("NODE-010", [reserved()]));
    }
    checks
}

/// Returns the values that a label of a Node had, in order and without repetitions of the previous
/// value. Null stands for a missing label.
fn values(run: &Run, node: &str, label: &str) -> Vec<Value> {
    let objects = run.node_events(node).iter().map(|(_, _, node)| &**node);
    let mut values: Vec<Value> =
        objects.map(|node| node["metadata"]["labels"][label].clone()).collect();
    values.dedup();
    values
}

/// Returns the value of a label of a Node at the end of the run, or null.
fn last(run: &Run, node: &str, label: &str) -> Value {
    run.node_object(node).map(|node| node["metadata"]["labels"][label].clone()).unwrap_or_default()
}

/// Creates a case in which the provider is configured to add two labels, and one node already has
/// one of them with another value, which the provider must keep.
fn added() -> Case {
    const NEW: (&str, &str) = ("a.example/new", "1");
    const OWN: (&str, &str) = ("b.example/own", "2");
    let labels = [NEW, OWN].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let own = json!({"metadata": {"labels": {OWN.0: "by-hand"}}});
    let scenario = world(2, SETTLED)
        .with_provider(|it| it.node_labels = labels.to_vec())
        .at(s(0), patch(&name(1), own));
    Case::new(scenario, |run| {
        let kept = values(run, &name(1), OWN.0).into_iter().filter(|it| !it.is_null());
        let kept: Vec<Value> = kept.collect();
        run.initializes(&names(2), s(0), T_INIT)
            .and(|| {
                let shown = [(1, NEW), (2, NEW), (2, OWN)]
                    .map(|(n, (key, value))| (key, value, last(run, &name(n), key)));
                let missing = shown.iter().find(|(_, value, shown)| shown != value);
                Verdict::pass_if(missing.is_none(), || {
                    format!("a node lacks a configured label; label, configured value and value on the node: {missing:?}")
                })
            })
            .and(|| {
                Verdict::pass_if(kept == ["by-hand"], || {
                    format!("a label with the value by-hand has to keep it; its values were {kept:?}")
                })
            })
    })
}

/// Creates a case with configured labels in Kubernetes' own domains, which the provider must not
/// add, and in domains that only end with the same letters, which it must add.
fn reserved() -> Case {
    const RESERVED: [&str; 4] =
        ["kubernetes.io/z", "k8s.io/z", "foo.kubernetes.io/z", "foo.bar.k8s.io/z"];
    const ALLOWED: [&str; 2] = ["mykubernetes.io/z", "myk8s.io/z"];
    let labels = RESERVED.iter().chain(&ALLOWED).map(|key| ((*key).to_owned(), "1".to_owned()));
    let scenario = world(2, SETTLED).with_provider(|it| it.node_labels = labels.collect());
    Case::new(scenario, |run| {
        let taken = RESERVED.iter().find(|key| {
            names(2).iter().any(|node| values(run, node, key).iter().any(|it| !it.is_null()))
        });
        let left_out =
            ALLOWED.iter().find(|key| names(2).iter().any(|node| last(run, node, key) != "1"));
        Verdict::none(taken, |label| format!("the provider added the reserved label {label}"))
        .and(|| match run.exits.iter().find(|exit| matches!(exit, Exit::Failed(_))) {
            // A provider that does not start adds no label at all, which proves nothing.
            Some(exit) => Verdict::fail(format!(
                "the provider does not run with reserved labels in its configuration; it {exit}"
            )),
            None => run.initializes(&names(2), s(0), T_INIT),
        })
        .and(|| {
            Verdict::none(left_out, |label| {
                format!(
                    "the provider did not add the configured label {label}, which is not reserved"
                )
            })
        })
    })
}

/// Creates a case in which the machine of a node moves to another zone and gets another address, so
/// that the provider writes the Node. The zone label of the Node must stay.
fn moved_zone(backend: Backend) -> Case {
    const ADDRESS: &str = "10.6.0.1";
    const ZONE: &str = "topology.kubernetes.io/zone";
    let scenario = world(3, SETTLED + T_STATUS * 2 + s(30));
    let scenario = match backend {
        Backend::VCenter => {
            let host = "DC0_C1_H0".to_owned();
            scenario.at(SETTLED, Command::VMotion { machine: machine(1), host })
        }
        // Without the first command VM Operator would restore the label.
        Backend::Supervisor => scenario
            .at(SETTLED, stop_zone_labels())
            .at(SETTLED, relabel(1, json!({ZONE: "zone-b"}))),
    };
    let scenario = scenario
        .at(SETTLED + s(10), set_address(1, &[ADDRESS]))
        .at(SETTLED + s(20), create_joining_machine("newcomer", Some("DC0_C1")));
    Case::new(scenario, move |run| {
        let is_moved = match backend {
            Backend::VCenter => last(run, "newcomer", ZONE) == "zone-b",
            Backend::Supervisor => zone_of_object(run, 1) == "zone-b",
        };
        if !is_moved {
            return Verdict::inconclusive("the machine did not move to another zone");
        }
        let shown = run.when_after(&name(1), SETTLED, |node| node.ips().any(|ip| ip == ADDRESS));
        let other =
            run.when_after(&name(1), SETTLED, |node| node.labels[0].as_deref() != Some("zone-a"));
        run.initializes(&names(3), s(0), T_INIT)
            .and(|| {
                Verdict::pass_if(other.is_none(), || {
                    format!(
                        "the zone of the initialized node node-0001 changed {other}",
                        other = when(other)
                    )
                    .at(other)
                })
            })
            .and(|| {
                let in_time = shown.is_some_and(|at| at.since_start() <= SETTLED + T_STATUS * 2);
                Verdict::pass_if(in_time, || {
                    format!(
                        "the node shows the new address {shown}; the limit is two address periods",
                        shown = when(shown)
                    )
                    .late(shown)
                })
            })
    })
}

fn zone_of_object(run: &Run, n: u32) -> Value {
    let object = run.end.supervisor.objects.get(&machine_object(n));
    let zone = |object: &Value| object["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
    object.map(|object| zone(object)).unwrap_or_default()
}

/// Host name that the kubelet wrote to the Node; no guest has it.
const KUBELETS: &str = "by-kubelet.example";
/// Host name that the guest reports.
const GUESTS: &str = "by-guest.example";

fn host_names(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![replaced_host_name(), vanished_host_name()],
        Backend::Supervisor => vec![untold_host_name(), own_host_name()],
    }
}

/// Returns a scenario in which the kubelet writes [`KUBELETS`] to the first Node, and which lasts
/// long enough for one change of addresses.
fn host_name_of_kubelet() -> Scenario {
    let addresses = json!({"status": {"addresses": [{"type": "Hostname", "address": KUBELETS}]}});
    let key = Key::node(name(1));
    let by_kubelet = objects::Command::patch(key, PatchKind::StrategicMerge, addresses).on_status();
    world(2, SETTLED + T_STATUS + s(30)).at(s(0), Command::Cluster(by_kubelet))
}

/// Returns the addresses of type Hostname in each version of a Node that has an IP address, without
/// repetitions of the previous version.
fn host_names_of(run: &Run, node: &str) -> Vec<Vec<String>> {
    let versions = run.versions(node).into_iter().filter_map(|(_, node)| node);
    let shown = versions.filter(|node| node.ips().next().is_some());
    let mut entries: Vec<Vec<String>> =
        shown.map(|node| node.of_type("Hostname").map(str::to_owned).collect()).collect();
    entries.dedup();
    entries
}

fn guest_is_called(host_name: Option<&str>) -> Command {
    Command::SetHostName { machine: machine(1), host_name: host_name.map(str::to_owned) }
}

/// Creates a case in which the guest reports another host name than the kubelet. The Node must show
/// the host name of the guest. The case is not supported by a provider on the real clock that keeps
/// the host name of the kubelet.
fn replaced_host_name() -> Case {
    let scenario = host_name_of_kubelet().at(s(0), guest_is_called(Some(GUESTS)));
    Case::new(scenario, |run| {
        let shown = host_names_of(run, &name(1));
        run.initializes(&names(2), s(0), T_INIT).and(|| {
            if run.hosted && shown == [[KUBELETS]] {
                return Verdict::not_supported(
                    "the provider does not report host names of guests".to_owned(),
                );
            }
            Verdict::pass_if(shown == [[GUESTS]], || {
                format!("the node has to show the guest's host name {GUESTS}, but showed {shown:?}")
            })
        })
    })
    .named("the guest has one")
}

/// Creates a case in which the guest stops reporting a host name, as while VMware Tools restart,
/// and reports another address. The Node must keep its host name.
fn vanished_host_name() -> Case {
    let scenario = host_name_of_kubelet()
        .at(s(0), guest_is_called(Some(GUESTS)))
        .at(SETTLED, guest_is_called(None))
        .at(SETTLED, set_address(1, &["10.6.0.1"]));
    let case = Case::new(scenario, |run| {
        let shown = host_names_of(run, &name(1));
        let is_kept = shown == [[GUESTS]] || shown == [[KUBELETS]];
        run.initializes(&names(2), s(0), T_INIT).and(|| {
            Verdict::pass_if(is_kept, || {
                format!("the node has to keep one host name after the guest stopped to report its own, but showed {shown:?}")
            })
        })
    });
    case.canary(Canary::Moved(2), SETTLED).named("the guest has none any more")
}

/// Creates the case of [`untold_host_name`] with the flag that stops our provider from reporting an
/// empty host name. The host name of the kubelet must stay.
fn own_host_name() -> Case {
    let case = untold_host_name();
    let scenario = case
        .scenario
        .with_provider(|it| it.flags = vec!["--supervisor-empty-hostname=false".to_owned()]);
    Case::new(scenario, |run| {
        let shown = host_names_of(run, &name(1));
        run.initializes(&names(2), s(0), T_INIT).and(|| {
            Verdict::pass_if(shown == [[KUBELETS]], || {
                format!(
                    "the node has to keep the kubelet's host name {KUBELETS}, but showed {shown:?}"
                )
            })
        })
    })
    .paced(Pace::Virtual("only our provider has the flag for the host name"))
    .named("without an empty one")
}

/// Creates a case in Supervisor mode, where VirtualMachines have no host name. The Node must keep
/// the host name of the kubelet, or show an empty one, which upstream's provider reports.
fn untold_host_name() -> Case {
    const ADDRESS: &str = "10.6.0.1";
    let scenario = host_name_of_kubelet().at(SETTLED, set_address(1, &[ADDRESS]));
    Case::new(scenario, |run| {
        let shown = host_names_of(run, &name(1));
        let moved = run.when_after(&name(1), SETTLED, |it| it.ips().any(|ip| ip == ADDRESS));
        run.initializes(&names(2), s(0), T_INIT)
            .and(|| {
                let is_one = shown == [[KUBELETS]] || shown == [[""]];
                Verdict::pass_if(is_one, || {
                    format!("the node has to show the kubelet's host name {KUBELETS} or an empty one, but showed {shown:?}")
                })
            })
            .and(|| match moved {
                Some(_) => Verdict::Pass,
                None => Verdict::inconclusive("the provider did not write the new address, so it did not write the host name again"),
            })
    })
    .named("the cloud has none")
}
