//! NODE-ADDR: the addresses in the status of a Node.

mod guests;
mod subnets;
mod writers;

use std::time::Duration;

use base64::Engine as _;
use sim::Face;
use sim::faults::{Action, MissingPaths, Rule};
use sim::world::objects::{self, Key};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Topology};

use crate::checks::build::{
    SETTLED, T_INIT, T_STATUS, about_machines, ips, machine, s, set_address, world,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("NODE-ADDR-001", empty_guests(backend)),
        Check::new("NODE-ADDR-002", [foreign()]),
        Check::new("NODE-ADDR-003", [reordered(backend, true), reordered(backend, false)]),
        Check::new("NODE-ADDR-004", follows(backend)),
    ];
    if backend.is_vcenter() {
        checks.extend([
            Check::new(
                "NODE-ADDR-005",
                [internal_interfaces(), unusable_first(), guests::link_local_first()],
            ),
            Check::new("NODE-ADDR-006", subnets::cases()),
            Check::new("NODE-ADDR-007", [network_name()]),
            Check::new("NODE-ADDR-008", [two_families(false), two_families(true), both_change()]),
            Check::new("NODE-ADDR-010", configured()),
        ]);
    }
    checks
}

fn follows(backend: Backend) -> Vec<Case> {
    let mut cases =
        vec![changed(), changed_by_reboot(), changed_without_node(), writers::overwritten()];
    // In Supervisor mode a provider cannot see whether VMware Tools run.
    if backend.is_vcenter() {
        cases.push(guests::stale_while_stopped());
        cases.push(many_change());
    }
    cases
}

/// Fails if the addresses of a node change after the first initialized version that has addresses.
/// Inconclusive if the node was never initialized. Other checks demand that an initialized node has
/// addresses.
fn steady(run: &Run, node: &str) -> Verdict {
    if run.initialized(node).is_none() {
        return Verdict::inconclusive(format!("node {node} was never initialized"));
    }
    let shown: Vec<_> = run
        .versions(node)
        .into_iter()
        .skip_while(|(_, node)| {
            node.as_ref().is_none_or(|node| node.uninitialized || node.ips().next().is_none())
        })
        .filter_map(|(_, node)| node.map(|node| node.addresses))
        .collect();
    let changed = shown.windows(2).find(|pair| pair[0] != pair[1]);
    match changed {
        None => Verdict::Pass,
        Some(pair) => Verdict::fail(format!(
            "addresses of {node} changed from {:?} to {:?}",
            pair[0], pair[1]
        )),
    }
}

fn empty_guests(backend: Backend) -> Vec<Case> {
    let long = T_STATUS * 2 + s(60);
    let judge = |run: &Run| steady(run, &name(1));
    let mut cases = vec![
        Case::new(
            world(3, SETTLED + long + s(300))
                .at(SETTLED, Command::ClearAddresses(machine(1)))
                .at(SETTLED + long, Command::StartTools(machine(1))),
            judge,
        )
        .named("guest reports nothing"),
        Case::new(
            world(3, SETTLED + long + s(300))
                .at(SETTLED, Command::StopTools(machine(1)))
                .at(SETTLED + s(60), Command::ClearAddresses(machine(1)))
                .at(SETTLED + long, Command::StartTools(machine(1))),
            judge,
        )
        .named("tools stop"),
        Case::new(
            world(3, SETTLED + long + s(300))
                .at(SETTLED, Command::Inaccessible(machine(1)))
                .at(SETTLED + long, Command::Connect(machine(1))),
            judge,
        )
        .named("storage is lost"),
        guests::tools_stopped(),
    ];
    if backend.is_vcenter() {
        cases.push(guests::metadata_refused());
    }
    for (case, actions) in unreadable(backend) {
        // The restart makes the provider read the machines again while they are unreadable.
        let rule = match backend {
            Backend::VCenter => Rule::new("unreadable", [actions])
                .on(Face::Soap)
                .op(["RetrieveProperties*", "WaitForUpdatesEx"]),
            Backend::Supervisor => about_machines(backend, "unreadable", [actions]),
        };
        cases.push(
            Case::new(
                world(3, SETTLED + long + s(300))
                    .at(SETTLED, rule)
                    .at(SETTLED + s(1), Act::Crash(0))
                    .at(SETTLED + s(2), Act::Start(0))
                    .at(SETTLED + long, Act::RemoveRules),
                judge,
            )
            .named(case),
        );
    }
    cases
}

/// Returns names and actions of the faults that keep a provider from reading addresses.
fn unreadable(backend: Backend) -> Vec<(&'static str, Action)> {
    match backend {
        Backend::VCenter => {
            let missing = MissingPaths::new(["guest"], "SystemError");
            let fault = Action::soap_fault("SystemError");
            vec![
                ("guest cannot be read", Action::MissingSet(missing)),
                ("nothing can be read", fault),
            ]
        }
        Backend::Supervisor => {
            let fault = Action::status(500);
            vec![("nothing can be read", fault)]
        }
    }
}

fn foreign() -> Case {
    // Two machines swap their addresses, so that each machine has the old address of the other.
    let scenario = world(3, s(800))
        .at(s(60), set_address(1, &["10.0.0.2"]))
        .at(s(60), set_address(2, &["10.0.0.1"]))
        .at(s(300), set_address(3, &["10.9.0.3"]));
    Case::new(scenario, |run| {
        let shown =
            |n| run.node(&name(n)).map(|node| node.ips().map(str::to_owned).collect::<Vec<_>>());
        let ok = shown(1).is_some_and(|it| it.contains(&"10.0.0.2".to_owned()))
            && shown(2).is_some_and(|it| it.contains(&"10.0.0.1".to_owned()));
        Verdict::pass_if(ok, || {
            format!(
                "the machines of node 1 and 2 swapped their addresses, but the nodes show {:?} and {:?}",
                shown(1),
                shown(2)
            )
        })
    })
}

/// Creates a case in which a machine reports its addresses in another order every minute: with
/// `dual_stack` one address of each family, else several of one family. The provider must not write
/// the node for this reason.
fn reordered(backend: Backend, dual_stack: bool) -> Case {
    let topology = Topology { dual_stack, ..Topology::zones(3).machines(3) };
    let mut scenario = Scenario::new("", topology, s(900));
    // In vCenter mode the provider chooses one address per family, so one family gives one address.
    let has_several = dual_stack || !backend.is_vcenter();
    if dual_stack {
        scenario = scenario.with_provider(|it| it.families = vec!["ipv4".into(), "ipv6".into()]);
    } else {
        let addresses: &[&str] = match backend {
            Backend::VCenter => &["10.0.0.1", "10.7.0.8", "10.7.0.9"],
            // VM Operator reports the primary address first, then the others in the order of the
            // network cards. So only two addresses have a fixed order.
            Backend::Supervisor => &["10.0.0.1", "10.7.0.8"],
        };
        // The provider starts after VM Operator has reported the new addresses.
        scenario = scenario
            .with_provider(|it| it.start = false)
            .at(s(0), set_address(1, addresses))
            .at(s(3), Act::StartAll);
    }
    for minute in 1..12 {
        scenario = scenario.at(s(60 * minute), Command::ReorderAddresses(machine(1)));
    }
    Case::new(scenario, move |run| {
        let several = || match has_several {
            true => run.shows_several(&name(1)),
            false => Verdict::Pass,
        };
        steady(run, &name(1)).and(several).and(|| {
            let opened = run.initialized(&name(1)).map(|at| at.since_start()).unwrap_or_default();
            let node = name(1);
            let late =
                run.writes_on(&node).filter(|call| call.t.since_start() > opened + s(5)).count();
            Verdict::pass_if(late == 0, || {
                format!(
                    "the provider wrote the node {late} times more than 5 s after its \
                     initialization, although only the order of its addresses changed"
                )
            })
        })
    })
    .named(if dual_stack { "two families" } else { "one family" })
}

fn changed() -> Case {
    let scenario = world(4, s(800)).at(s(100), set_address(2, &["10.8.0.2"]));
    Case::new(scenario, |run| {
        let since = s(100);
        let shown = run.when_after(&name(2), since, |node| node.ips().any(|ip| ip == "10.8.0.2"));
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() <= since + T_STATUS * 2), || {
            format!(
                "the node shows the new address {shown}; its machine has had it since {since:?}",
                shown = when(shown)
            )
            .at(shown)
        })
        .and(|| {
            let mixed =
                run.versions(&name(2)).into_iter().filter_map(|(_, node)| node).find(|node| {
                    node.ips().any(|ip| ip == "10.8.0.2") && node.ips().any(|ip| ip == "10.0.0.2")
                });
            Verdict::pass_if(mixed.is_none(), || {
                "one version of the node shows both the old and the new address".to_owned()
            })
        })
    })
    .named("new lease")
}

/// Number of machines that change at once: more than vCenter reports in one answer.
pub(in crate::checks) const MANY: u32 = 1100;

fn address_of(n: u32) -> String {
    format!("10.200.{}.{}", n / 200, n % 200 + 1)
}

/// Returns a scenario in which [`MANY`] machines change address at the same time, and the time of
/// this change. The scenario lasts until the provider must have written all addresses.
pub(in crate::checks) fn many_changes() -> (Scenario, Duration) {
    let begin = s(200);
    // Turns the kubelets' heartbeats off, because they would be most of the recorded run.
    let mut scenario =
        world(MANY, begin + T_STATUS + s(90)).at(s(0), Command::SetHeartbeats { every: None });
    for n in 1..=MANY {
        scenario = scenario.at(begin, set_address(n, &[&address_of(n)]));
    }
    (scenario, begin)
}

/// Fails unless every Node of [`many_changes`] shows its new address by [`T_STATUS`] plus 55 s
/// after `begin`, the time of the changes.
pub(in crate::checks) fn all_shown(run: &Run, begin: Duration) -> Verdict {
    let bound = begin + T_STATUS + s(u64::from(MANY) / 20);
    let late = (1..=MANY).find(|n| {
        let wanted = address_of(*n);
        let shown = run.when_after(&name(*n), begin, |node| node.ips().any(|ip| ip == wanted));
        shown.is_none_or(|at| at.since_start() > bound)
    });
    Verdict::none(late, |n| {
        format!(
            "the address of machine {n} changed {begin}, but its node did not show the new one by {bound:?}",
            begin = when(begin)
        )
    })
}

fn many_change() -> Case {
    let (scenario, begin) = many_changes();
    Case::new(scenario, move |run| all_shown(run, begin)).named("1,100 at once")
}

/// Creates a case in which a machine gets another address while it has no Node. The next Node must
/// not show the old address.
fn changed_without_node() -> Case {
    let back = s(130);
    let delete = objects::Command::delete(Key::node(name(2)));
    let scenario = world(4, s(500))
        .at(s(100), Command::StopKubelet(machine(2)))
        .at(s(101), Command::Cluster(delete))
        .at(s(110), set_address(2, &["10.8.0.2"]))
        .at(back, Command::StartKubelet(machine(2)));
    Case::new(scenario, move |run| {
        run.initializes(&[name(2)], back, s(60)).and(|| {
            let old = run.when_after(&name(2), back, |node| node.ips().any(|ip| ip == "10.0.0.2"));
            Verdict::pass_if(old.is_none(), || {
                format!("the new Node shows an address that its machine lost before {back:?}")
                    .at(old)
            })
        })
    })
    .named("another address while there is no Node")
}

fn changed_by_reboot() -> Case {
    let command = Command::Reset(machine(2));
    let plan = set_address(2, &["10.8.0.9"]);
    // The machine gets another address while it is powered off, so its guest boots with the new
    // one.
    let scenario = world(4, s(1000))
        .at(s(100), Command::PowerOff(machine(2)))
        .at(s(110), plan)
        .at(s(120), Command::PowerOn(machine(2)))
        .at(s(300), command);
    Case::new(scenario, |run| {
        let shown = run.when_after(&name(2), s(100), |node| node.ips().any(|ip| ip == "10.8.0.9"));
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() <= s(140) + T_STATUS * 2), || {
            format!(
                "the node shows the new address {shown}; the guest has had it since 140 s",
                shown = when(shown)
            )
            .at(shown)
        })
    })
    .named("reboot")
}

/// Creates a case in which each guest first reports only an address that other nodes cannot reach,
/// and a minute later also a usable one. No node may show an address of the first kind, and each
/// must be initialized once its guest reports the usable one.
fn unusable_first() -> Case {
    const UNUSABLE: [&str; 4] = ["127.0.0.1", "0.0.0.0", "169.254.7.7", "224.0.0.251"];
    let mut scenario = world(4, s(60) + T_INIT + s(400));
    for (n, unusable) in (1..).zip(UNUSABLE) {
        let good = format!("10.6.0.{n}");
        scenario = scenario
            .at(s(0), set_address(n, &[unusable]))
            .at(s(60), set_address(n, &[unusable, &good]));
    }
    Case::new(scenario, move |run| {
        for (name, unusable) in names(4).iter().zip(UNUSABLE) {
            for (at, node) in run.versions(name) {
                if node.is_some_and(|node| node.ips().any(|ip| ip == unusable)) {
                    return Verdict::fail(
                        format!("node {name} shows the unusable address {unusable} at {at}").at(at),
                    );
                }
            }
        }
        run.initializes(&names(4), s(60), T_INIT)
    })
    .named("nothing but such an address at first")
}

fn internal_interfaces() -> Case {
    let scenario = world(2, s(700))
        .at(
            s(0),
            Command::AddInternalInterface { machine: machine(1), addresses: ips(&["172.17.0.1"]) },
        )
        .at(s(0), set_address(2, &["169.254.7.7", "127.0.0.1", "10.0.0.2"]))
        .at(
            s(100),
            Command::AddInternalInterface { machine: machine(2), addresses: ips(&["10.244.0.1"]) },
        );
    Case::new(scenario, |run| {
        for name in names(2) {
            for (at, node) in run.versions(&name) {
                let Some(node) = node else { continue };
                let bad: Vec<&str> = node
                    .ips()
                    .filter(|ip| {
                        ip.starts_with("169.254.")
                            || ip.starts_with("127.")
                            || ip.starts_with("fe80")
                            || matches!(*ip, "172.17.0.1" | "10.244.0.1")
                    })
                    .collect();
                if !bad.is_empty() {
                    return Verdict::fail(
                        format!("node {name} shows the unusable addresses {bad:?} at {at}").at(at),
                    );
                }
            }
        }
        run.initializes(&names(2), s(0), T_INIT)
    })
}

fn network_name() -> Case {
    let scenario = world(3, s(1500))
        .with_provider(|it| {
            it.nodes = vec![
                ("internalVmNetworkName".into(), "VM Network".into()),
                ("externalVmNetworkName".into(), "VM Network".into()),
            ];
        })
        .at(s(100), Command::StopVCenter { vcenter: None })
        .at(
            s(101),
            Command::SetNetworkName {
                machine: machine(1),
                name: Some("50 2f 6e 0a 54 1c 72 4b-9d 8a 77 13 d0 f1 20 6c".into()),
            },
        )
        .at(s(120), Command::StartVCenter { vcenter: None })
        .at(
            s(900),
            Command::SetNetworkName { machine: machine(1), name: Some("VM Network".into()) },
        );
    Case::new(scenario, |run| steady(run, &name(1)))
}

fn two_families(ipv6_first: bool) -> Case {
    let topology = Topology { dual_stack: true, ..Topology::zones(3).machines(3) };
    let order: [&str; 2] = if ipv6_first { ["ipv6", "ipv4"] } else { ["ipv4", "ipv6"] };
    let scenario = Scenario::new("", topology, s(120))
        .with_provider(|it| it.families = order.iter().map(|it| (*it).to_owned()).collect())
        .at(s(0), Command::ReorderAddresses(machine(2)));
    Case::new(scenario, move |run| {
        for name in names(3) {
            let node = run.node(&name);
            let ips: Vec<String> = node
                .iter()
                .flat_map(|node| node.of_type("InternalIP"))
                .map(str::to_owned)
                .collect();
            let families: Vec<&str> =
                ips.iter().map(|ip| if ip.contains(':') { "ipv6" } else { "ipv4" }).collect();
            if families != order {
                return Verdict::fail(format!("node {name} shows {ips:?}; it needs one address per family, in the configured order"));
            }
        }
        Verdict::Pass
    })
    .named(order.join(", "))
}

/// Creates a case in which a node shows an IPv4 and an IPv6 address, and both change at once.
fn both_change() -> Case {
    let topology = Topology { dual_stack: true, ..Topology::zones(3).machines(3) };
    let scenario = Scenario::new("", topology, SETTLED + T_STATUS * 2 + s(30))
        .with_provider(|it| it.families = vec!["ipv4".to_owned(), "ipv6".to_owned()])
        .at(SETTLED, set_address(1, &["10.6.0.1", "fd00::6:1"]));
    Case::new(scenario, |run| {
        let node = run.node(&name(1));
        let shown: Vec<&str> = node.iter().flat_map(|node| node.of_type("InternalIP")).collect();
        run.initializes(&names(3), s(0), T_INIT).and(|| {
            Verdict::pass_if(shown == ["10.6.0.1", "fd00::6:1"], || {
                format!("both addresses of the machine changed, but the node shows {shown:?}")
            })
        })
    })
    .named("both change")
}

/// Creates a case for each form of cloud-init's metadata. If the metadata configures the address of
/// a network card, this address must come first on the node. If the metadata is unreadable, the
/// node must stay uninitialized.
fn configured() -> Vec<Case> {
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let network = "ethernets: {eth1: {addresses: [10.9.0.1/24]}, eth2: {dhcp4: true}}";
    let wrapped = format!("network: {{{network}}}");
    let outer = format!("instance-id: it\nnetwork: {}\nnetwork.encoding: base64", base64(&wrapped));
    let broken = "network: '{'\nnetwork.encoding: rot13";
    [
        ("inline", format!("network: {{{network}}}"), Some("10.9.0.1")),
        ("encoded inside", outer, Some("10.9.0.1")),
        ("no network", "instance-id: it".to_owned(), Some("10.7.0.1")),
        ("unreadable", broken.to_owned(), None),
    ]
    .map(|(what, metadata, first)| {
        let extra = [
            ("guestinfo.metadata".to_owned(), base64(&metadata)),
            ("guestinfo.metadata.encoding".to_owned(), "base64".to_owned()),
        ];
        let spec = MachineSpec { extra: extra.into(), ..MachineSpec::default() };
        let scenario = world(2, s(120))
            .at(s(0), set_address(2, &["10.7.0.1", "10.9.0.1"]))
            .at(s(0), Command::Reconfigure { machine: machine(2), spec });
        Case::new(scenario, move |run| match first {
            Some(first) => {
                let node = run.node(&name(2));
                let shown = node.iter().flat_map(|node| node.of_type("InternalIP")).next();
                run.initializes(&names(2), s(5), T_INIT).and(|| {
                    Verdict::pass_if(shown == Some(first), || {
                        format!("the first internal address on the node is {shown:?}, not {first}")
                    })
                })
            }
            // The provider must not guess the address that unreadable metadata configures.
            None => {
                let guessed = run.initialized(&name(2));
                run.initializes(&names(1), s(5), T_INIT).and(|| {
                    Verdict::pass_if(guessed.is_none(), || {
                        format!("the node was initialized {guessed} although its metadata is unreadable", guessed = when(guessed)).at(guessed)
                    })
                })
            }
        })
        .named(what)
    })
    .into()
}
