//! ZONE: the zone and region labels of a node.

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, Key, PatchKind};
use sim::world::supervisor::OperatorChange;
use sim::world::{
    Command, Grant, PROVIDER_USER, REGION_CATEGORY, TagName, Topology, ZONE_CATEGORY,
};

use crate::checks::build::{
    GRACE, T_INIT, T_LIFE, T_STATUS, create_joining_machine, machine, machine_object, s,
    set_address, world,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check, queries};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::judge::{Invariant, NodeFacts};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Pace, Scenario, fault_kinds};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    if !backend.is_vcenter() {
        return vec![
            Check::new(
                "ZONE-008",
                [
                    of_the_object(),
                    changed_label(),
                    without_label(),
                    late_zone(LateZoneLabels::LeftOut),
                    late_zone(LateZoneLabels::Added),
                ],
            ),
            Check::new("ZONE-009", unreadable(backend)),
        ];
    }
    vec![
        Check::new("ZONE-001", nearest().into_iter().chain(partly_visible()).chain(in_a_vapp())),
        Check::new("ZONE-002", [half_a_pair(), half_is_hidden()]),
        Check::new("ZONE-003", two_of_one_category()),
        Check::new("ZONE-004", [moved_tag()]),
        Check::new("ZONE-005", [vmotion()]),
        Check::new("ZONE-006", [off()]),
        Check::new("ZONE-007", [outage()]),
        Check::new("ZONE-009", unreadable(backend)),
        Check::new("ZONE-010", [deleted_tag()]),
    ]
}

/// Returns the name of a tag on an object, for commands that attach or detach it.
fn tag(category: &str, tag: &str, object: &str) -> TagName {
    TagName {
        vcenter: None,
        category: category.to_owned(),
        tag: tag.to_owned(),
        object: object.to_owned(),
    }
}

/// Returns the zone and the region label of a node at the end of the run; `None` for a missing
/// label, and both `None` if the Node does not exist.
fn labels(run: &Run, node: &str) -> (Option<String>, Option<String>) {
    let node = run.node(node);
    node.map(|node| (node.labels[0].clone(), node.labels[1].clone())).unwrap_or_default()
}

/// Fails unless the node has this zone and region at the end of the run.
fn shows(run: &Run, node: &str, zone: &str, region: &str) -> Verdict {
    let seen = labels(run, node);
    Verdict::pass_if(seen == (Some(zone.to_owned()), Some(region.to_owned())), || {
        format!("zone and region of node {node} are {seen:?}, not {zone} and {region}")
    })
}

/// MoRef of the folder of hosts and clusters below the only datacenter.
const HOSTS: &str = "group-h4";
/// MoRef of the folder of machines below the only datacenter.
const MACHINES: &str = "group-v3";
/// MoRef of the resource pool of the first vSphere cluster.
const POOL: &str = "resgroup-10";

/// Creates cases with tags on several objects. Three paths lead upwards, in this order of priority:
/// from the host, from the resource pool, and from the machine. On one path the tag nearest to the
/// start has priority.
fn nearest() -> Vec<Case> {
    nearest_to_tagged_clusters().into_iter().chain(nearest_to_bare_clusters()).collect()
}

fn nearest_to_tagged_clusters() -> Vec<Case> {
    let case =
        |name, tags, zone, region| nearest_case(ClusterZoneTag::Tagged, name, tags, zone, region);
    vec![
        case("cluster and datacenter", vec![], "zone-a", "region-a"),
        case(
            "host before cluster",
            vec![tag(ZONE_CATEGORY, "rack-7", "DC0_C0_H0")],
            "rack-7",
            "region-a",
        ),
        case(
            "region on the cluster before the datacenter",
            vec![tag(REGION_CATEGORY, "north", "DC0_C0")],
            "zone-a",
            "north",
        ),
        case(
            "host, cluster and datacenter each with a zone",
            vec![
                tag(ZONE_CATEGORY, "rack-7", "DC0_C0_H0"),
                tag(ZONE_CATEGORY, "everywhere", "DC0"),
            ],
            "rack-7",
            "region-a",
        ),
        case(
            "the hosts' folder before the datacenter",
            vec![tag(REGION_CATEGORY, "north", HOSTS)],
            "zone-a",
            "north",
        ),
        case(
            "the host's path before the machine and its folder",
            vec![
                tag(ZONE_CATEGORY, "own", &queries::name(1)),
                tag(ZONE_CATEGORY, "folder", MACHINES),
            ],
            "zone-a",
            "region-a",
        ),
    ]
}

fn nearest_to_bare_clusters() -> Vec<Case> {
    let bare =
        |name, tags, zone, region| nearest_case(ClusterZoneTag::Bare, name, tags, zone, region);
    vec![
        bare(
            "the resource pool before the machine where its host has no zone",
            vec![tag(ZONE_CATEGORY, "pool", POOL), tag(ZONE_CATEGORY, "own", &queries::name(1))],
            "pool",
            "region-a",
        ),
        bare(
            "the machine where its host has no zone",
            vec![
                tag(ZONE_CATEGORY, "own", &queries::name(1)),
                tag(ZONE_CATEGORY, "folder", MACHINES),
            ],
            "own",
            "region-a",
        ),
        bare(
            "the machine's folder where its host has no zone",
            vec![tag(ZONE_CATEGORY, "folder", MACHINES)],
            "folder",
            "region-a",
        ),
    ]
}

/// Returns the case with these additional tags in which the first node must show `zone` and
/// `region`. With [`ClusterZoneTag::Bare`], the scenario first removes the zone tag of the node's
/// vSphere cluster.
fn nearest_case(
    path: ClusterZoneTag,
    name: &str,
    tags: Vec<TagName>,
    zone: &'static str,
    region: &'static str,
) -> Case {
    let mut scenario = Scenario::new("", Topology::zones(3).machines(3), s(120));
    if let ClusterZoneTag::Bare = path {
        scenario = scenario.at(s(0), Command::DetachTag(tag(ZONE_CATEGORY, "zone-a", "DC0_C0")));
    }
    for tag in tags {
        scenario = scenario.at(s(0), Command::AttachTag(tag));
    }
    Case::new(scenario, move |run| shows(run, &queries::name(1), zone, region)).named(name)
}

/// Creates a case in which the list of tags on the vSphere cluster still contains a tag that was
/// deleted, so that a read of this tag gets a 404. The node must still get its zone and region.
fn deleted_tag() -> Case {
    const DELETED: &str = "deleted";
    let status = Action::status(404);
    let rule = Rule::new("deleted", [status]).on(Face::Vapi).named(DELETED);
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(120))
        .at(s(0), Command::AttachTag(tag("owner", DELETED, "DC0_C0")))
        .fault(rule);
    Case::new(scenario, |run| {
        run.initializes(&names(3), s(0), T_INIT).and(|| shows(run, &name(1), "zone-a", "region-a"))
    })
}

/// Creates cases with a machine in a vApp. Such a machine is in no folder: the vApp is its parent
/// and its resource pool.
fn in_a_vapp() -> Vec<Case> {
    const APP: &str = "app-1";
    let case = |name: &str, has_cluster_zone: bool, tags: Vec<TagName>, zone: &'static str| {
        let into = Command::SetVApp { machine: machine(1), vapp: Some(APP.to_owned()) };
        let mut scenario = Scenario::new("", Topology::zones(3).machines(3), s(120)).at(s(0), into);
        if !has_cluster_zone {
            let known = tag(ZONE_CATEGORY, "zone-a", "DC0_C0");
            scenario = scenario.at(s(0), Command::DetachTag(known));
        }
        for tag in tags {
            scenario = scenario.at(s(0), Command::AttachTag(tag));
        }
        Case::new(scenario, move |run| shows(run, &queries::name(1), zone, "region-a"))
            .named(format!("in a vApp, {name}"))
    };
    let app = || tag(ZONE_CATEGORY, "app", APP);
    let own = || tag(ZONE_CATEGORY, "own", &queries::name(1));
    vec![
        case("the cluster before the vApp", true, vec![app()], "zone-a"),
        case(
            "the vApp before the machine where its host has no zone",
            false,
            vec![app(), own()],
            "app",
        ),
        case(
            "the resource pool around it where its host has no zone",
            false,
            vec![tag(ZONE_CATEGORY, "pool", POOL)],
            "pool",
        ),
        case("the machine where neither host nor pool has a zone", false, vec![own()], "own"),
    ]
}

/// Existing or missing zone tag on the path of the first machine's host.
#[derive(Clone, Copy)]
enum ClusterZoneTag {
    /// The vSphere cluster has the zone tag of the topology.
    Tagged,
    /// The vSphere cluster has no zone tag.
    Bare,
}

fn half_a_pair() -> Case {
    // The vSphere cluster has a region but no zone until 120 s.
    let scenario = world(3, s(400))
        .at(s(0), Command::DetachTag(tag(ZONE_CATEGORY, "zone-a", "DC0_C0")))
        .at(s(120), Command::AttachTag(tag(ZONE_CATEGORY, "zone-a", "DC0_C0")));
    Case::new(scenario, |run| {
        let early = run.initialized(&name(1));
        Verdict::pass_if(early.is_none_or(|at| at.since_start() >= s(120)), || {
            format!(
                "the provider initialized the node {early}, with a region but without a zone",
                early = when(early)
            )
            .at(early)
        })
        .and(|| run.initializes(&[name(2), name(3)], s(0), T_INIT))
        .and(|| run.initializes(&[name(1)], s(120), s(270)))
        .and(|| shows(run, &name(1), "zone-a", "region-a"))
    })
}

/// Creates a case in which the login may not see the vSphere cluster, which has the only zone tag,
/// until 120 s. The provider must not initialize the node without its zone, and must report the
/// hidden object.
fn half_is_hidden() -> Case {
    let object = "DC0_C0".to_owned();
    let grant = Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object };
    let (hidden, others) = (name(1), [name(2), name(3)]);
    let scenario = world(3, s(400))
        .at(s(0), Command::RevokePrivilege(grant.clone()))
        .at(s(120), Command::GrantPrivilege(grant));
    Case::new(scenario, move |run| {
        let early = run.initialized(&hidden);
        // The hosts and the resource pool of the cluster are hidden, too. A text must contain the
        // name or the MoRef of one of these objects.
        let told = |text: &str| {
            ["DC0_C0", "domain-c", "host-", "resgroup-"].iter().any(|it| text.contains(it))
        };
        let logged = run.logged_after(s(0)).any(told);
        let event = run.events().iter().any(|it| told(&it.message));
        Verdict::pass_if(early.is_none_or(|at| at.since_start() >= s(120)), || {
            format!("the provider initialized the node {early}, while it could not see the zone of the machine", early = when(early)).at(early)
        })
        .and(|| {
            Verdict::pass_if(logged || event, || {
                "neither an event nor a log line names an object that the login cannot see".to_owned()
            })
        })
        .and(|| run.initializes(&others, s(0), T_INIT))
        .and(|| run.initializes(std::slice::from_ref(&hidden), s(120), s(270)))
        .and(|| shows(run, &hidden, "zone-a", "region-a"))
    })
    .named("the object with the zone cannot be seen")
}

/// Creates cases with two zone tags on one object, in each order of the names and of the
/// attachments. The provider must choose neither and must report both.
fn two_of_one_category() -> Vec<Case> {
    let mut cases = Vec::new();
    for other in ["aaa", "zzz"] {
        for first in [true, false] {
            let mut scenario = world(3, s(200));
            let mut tags =
                [tag(ZONE_CATEGORY, "zone-a", "DC0_C0"), tag(ZONE_CATEGORY, other, "DC0_C0")];
            if first {
                tags.reverse();
                let known = tag(ZONE_CATEGORY, "zone-a", "DC0_C0");
                scenario = scenario.at(s(0), Command::DetachTag(known));
            }
            for tag in tags {
                scenario = scenario.at(s(0), Command::AttachTag(tag));
            }
            let judge = move |run: &Run| {
                let (zone, _) = labels(run, &name(1));
                // A text must contain the names of both tags and the name or the MoRef of the
                // object.
                let told = |text: &str| {
                    text.contains("zone-a")
                        && text.contains(other)
                        && (text.contains("DC0_C0") || text.contains("domain-c"))
                };
                let event = run.events().iter().any(|it| told(&it.message));
                let logged = run.logged_after(s(0)).any(told);
                Verdict::pass_if(zone.is_none(), || format!("the provider chose one of two zone tags on the same object: {zone:?}"))
                    .and(|| {
                        Verdict::pass_if(event || logged, || {
                            "neither an event nor a log line names the object with two zone tags and both tags"
                                .to_owned()
                        })
                    })
                    .and(|| run.initializes(&[name(2), name(3)], s(0), T_INIT))
            };
            let order = if first { "attached before" } else { "attached after" };
            cases.push(Case::new(scenario, judge).named(format!("{other}, {order}")));
        }
    }
    cases
}

fn moved_tag() -> Case {
    let scenario = world(3, s(2400))
        .at(s(60), Command::DetachTag(tag(ZONE_CATEGORY, "zone-a", "DC0_C0")))
        .at(s(60), Command::AttachTag(tag(ZONE_CATEGORY, "zone-z", "DC0_C0")))
        // The provider has read the tags again by then.
        .at(s(2000), create_joining_machine("newcomer", Some("DC0_C0")));
    Case::new(scenario, |run| {
        shows(run, &name(1), "zone-a", "region-a")
            .and(|| shows(run, "newcomer", "zone-z", "region-a"))
    })
}

/// Creates cases in which the login may not see an object above the machine. A tag below this
/// object or on another path must decide.
fn partly_visible() -> Vec<Case> {
    let case = |hidden: &str, name: &str, tags: Vec<TagName>, zone: &'static str| {
        let grant =
            Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object: hidden.to_owned() };
        let mut scenario = world(3, s(120)).at(s(0), Command::RevokePrivilege(grant));
        for tag in tags {
            scenario = scenario.at(s(0), Command::AttachTag(tag));
        }
        Case::new(scenario, move |run| {
            shows(run, &queries::name(1), zone, "region-a")
                .and(|| run.initializes(&names(3), s(0), T_INIT))
        })
        .named(name)
    };
    let of_folder = vec![tag(ZONE_CATEGORY, "rack-7", MACHINES)];
    vec![
        case("Resources", "the resource pool is not visible", vec![], "zone-a"),
        case(
            "DC0_C0",
            "the cluster is not visible, and the folder has a zone",
            of_folder,
            "rack-7",
        )
        .exempt(
            Invariant::LabelsAgree,
            "the login cannot see the nearer tag on the vSphere cluster",
        ),
    ]
}

fn vmotion() -> Case {
    let scenario = world(3, s(1000))
        .at(s(60), Command::VMotion { machine: machine(1), host: "DC0_C1_H0".into() })
        .at(s(400), Act::Crash(0))
        .at(s(401), Act::Start(0));
    Case::new(scenario, |run| shows(run, &name(1), "zone-a", "region-a"))
}

fn off() -> Case {
    let scenario = world(4, s(700))
        .with_provider(|it| it.zones = false)
        .at(s(300), set_address(1, &["10.7.0.1"]));
    Case::new(scenario, |run| {
        let calls = run.calls().filter(|call| call.face == Some(Face::Vapi)).count();
        Verdict::pass_if(calls == 0, || {
            format!("the provider made {calls} vAPI calls, although zones are not configured")
        })
        .and(|| run.initializes(&names(4), s(0), T_INIT))
        .and(|| {
            let seen = labels(run, &name(1));
            Verdict::pass_if(seen == (None, None), || {
                format!("the zone and region labels are {seen:?} although zones are not configured")
            })
        })
    })
}

fn outage() -> Case {
    let down = Rule::new("tags down", [Action::status(503)]).on(Face::Vapi);
    let scenario = world(3, s(1500))
        .at(s(60), down)
        .at(s(70), set_address(1, &["10.7.0.1"]))
        .at(s(80), Command::PowerOff(machine(2)))
        // The provider has not read the tags of this host before, so it has to read them.
        .at(s(90), Command::VMotion { machine: machine(3), host: "DC0_C1_H2".into() })
        .at(s(100), Command::AttachTag(tag(ZONE_CATEGORY, "rack-1", "DC0_C0_H0")))
        .at(s(110), Act::Crash(0))
        .at(s(111), Act::Start(0))
        .at(s(120), create_joining_machine("newcomer", Some("DC0_C0")))
        .at(s(900), Act::RemoveRules);
    Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(70), |node| node.ips().any(|ip| ip == "10.7.0.1"));
        let marked = run.when_after(&name(2), s(80), |node| node.shutdown);
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(70) + T_STATUS * 2), || {
            format!(
                "the node shows the new address {shown}; the limit is two address periods",
                shown = when(shown)
            )
            .late(shown)
        })
        .and(|| {
            Verdict::pass_if(marked.is_some_and(|at| at.since_start() < s(80) + GRACE + T_LIFE), || {
                format!(
                    "the node got the shutdown taint {marked}, too late: its machine has been off since 80 s",
                    marked = when(marked)
                )
                .late(marked)
            })
        })
        .and(|| run.initializes(&["newcomer".to_owned()], s(900), s(300)))
    })
}

/// Returns the command that changes labels of the `n`-th machine's object, in place of a person.
pub(in crate::checks) fn relabel(n: u32, labels: serde_json::Value) -> Command {
    let patch = serde_json::json!({"metadata": {"labels": labels}});
    Command::Supervisor(objects::Command::patch(machine_object(n), PatchKind::Merge, patch))
}

/// Zone label of machines' objects and of Nodes.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Creates a case in which each node must have the zone of its machine's object and no region,
/// because a Supervisor has no regions.
fn of_the_object() -> Case {
    Case::new(world(6, s(120)), |run| {
        let zones = ["zone-a", "zone-b", "zone-c"];
        let wrong = names(6)
            .into_iter()
            .zip(zones.iter().cycle())
            .find(|(node, zone)| labels(run, node) != (Some((**zone).to_owned()), None));
        run.initializes(&names(6), s(0), T_INIT).and(|| {
            Verdict::pass_if(wrong.is_none(), || format!("a node does not have the zone of its machine's object; node and expected zone: {wrong:?}"))
        })
    })
    .named("each in its own")
}

/// Creates a case in which the zone label of a machine's object changes after the initialization.
/// The node must keep its zone.
fn changed_label() -> Case {
    let scenario = world(3, s(700))
        .at(s(60), relabel(1, serde_json::json!({ZONE: "zone-z"})))
        .at(s(400), Act::Crash(0))
        .at(s(401), Act::Start(0));
    Case::new(scenario, |run| {
        let seen = labels(run, &name(1));
        Verdict::pass_if(seen == (Some("zone-a".to_owned()), None), || {
            format!("an initialized node has to keep zone-a without a region, but has {seen:?}")
        })
    })
    .named("changed later")
}

/// Returns the command that stops VM Operator from writing and restoring zone labels.
pub(in crate::checks) fn stop_zone_labels() -> Command {
    Command::SetVmOperator(OperatorChange { tells_zones: Some(false), ..OperatorChange::default() })
}

/// Creates a case in which one machine's object lacks the zone label. The machine's node must be
/// initialized without a zone label.
fn without_label() -> Case {
    let scenario = world(3, s(120))
        .at(s(0), stop_zone_labels())
        .at(s(0), relabel(1, serde_json::json!({ZONE: null})));
    Case::new(scenario, |run| {
        let (first, second) = (labels(run, &name(1)), labels(run, &name(2)));
        run.initializes(&names(3), s(0), T_INIT).and(|| {
            let is_right = first == (None, None) && second.0.is_some();
            Verdict::pass_if(is_right, || format!("the first node must have no zone, and the second node must have one; zone and region are {first:?} and {second:?}"))
        })
    })
    .named("without one")
}

/// Treatment of zones that become known after the initialization of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LateZoneLabels {
    /// The provider runs without a flag and, as upstream, does not add zone labels later.
    LeftOut,
    /// The provider runs with `--supervisor-late-zone-labels` and adds missing zone labels later.
    Added,
}

/// Creates a case in which the objects of two machines get their zone labels after the
/// initialization of their nodes. Before that, another client sets the zone label of the second
/// node, which must stay.
fn late_zone(late: LateZoneLabels) -> Case {
    let (labelled, told) = (s(60), s(90));
    let elsewhere = serde_json::json!({"metadata": {"labels": {ZONE: "elsewhere"}}});
    let elsewhere = objects::Command::patch(Key::node(name(2)), PatchKind::Merge, elsewhere);
    let mut scenario = world(3, told + T_STATUS * 2 + s(30))
        .at(s(0), stop_zone_labels())
        .at(s(0), relabel(1, serde_json::json!({ZONE: null})))
        .at(s(0), relabel(2, serde_json::json!({ZONE: null})))
        .at(labelled, Command::Cluster(elsewhere))
        .at(told, relabel(1, serde_json::json!({ZONE: "zone-a"})))
        .at(told, relabel(2, serde_json::json!({ZONE: "zone-b"})));
    if late == LateZoneLabels::Added {
        scenario = scenario
            .with_provider(|it| it.flags = vec!["--supervisor-late-zone-labels".to_owned()]);
    }
    let case = Case::new(scenario, move |run| {
        let has_zone = |node: &NodeFacts| node.labels[0].as_deref() == Some("zone-a");
        let added = run.when_after(&name(1), told, has_zone);
        let (first, second) = (labels(run, &name(1)), labels(run, &name(2)));
        run.initializes(&names(3), s(0), T_INIT)
            .and(|| match late {
                LateZoneLabels::LeftOut => Verdict::pass_if(first == (None, None), || {
                    format!("the zone became known after the initialization, so the node has to stay without it; zone and region are {first:?}")
                }),
                LateZoneLabels::Added => {
                    let is_in_time = added.is_some_and(|at| at.since_start() < told + T_STATUS * 2);
                    Verdict::pass_if(is_in_time, || {
                        format!("the zone became known {told}, but the provider added its label only {added}", told = when(told), added = when(added))
                    })
                }
            })
            .and(|| {
                Verdict::pass_if(second == (Some("elsewhere".to_owned()), None), || {
                    format!("another client set the zone label to elsewhere, but zone and region are now {second:?}")
                })
            })
    });
    match late {
        LateZoneLabels::LeftOut => case.named("told after the initialization"),
        LateZoneLabels::Added => case
            .paced(Pace::Virtual("only our provider has the flag for late zones"))
            .named("told after the initialization, with the flag for late zones"),
    }
}

fn unreadable(backend: Backend) -> Vec<Case> {
    let face = if backend.is_vcenter() { Face::Vapi } else { Face::Supervisor };
    fault_kinds(face)
        .into_iter()
        .map(|kind| {
            let rule = Rule::new("unreadable", kind.actions.clone()).on(face);
            let scenario = world(3, s(2400))
                .at(s(60), rule)
                .at(s(61), Act::Crash(0))
                .at(s(62), Act::Start(0))
                .at(s(100), Command::VMotion { machine: machine(1), host: "DC0_C1_H0".into() })
                // The new node makes the provider read tags.
                .at(s(120), create_joining_machine("newcomer", Some("DC0_C0")))
                .at(s(2100), Act::RemoveRules);
            Case::new(scenario, move |run| {
                let region = backend.is_vcenter().then(|| "region-a".to_owned());
                let seen = labels(run, &name(1));
                Verdict::pass_if(seen == (Some("zone-a".to_owned()), region), || {
                    format!("the node has to keep its zone and region, but they are {seen:?}")
                })
            })
            .named(kind.name)
        })
        .collect()
}
