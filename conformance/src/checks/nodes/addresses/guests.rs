//! Cases about guests: VMware Tools that have stopped, guests that report only a link-local
//! address, and guest metadata that the login may not read.

use sim::faults::{Action, MissingPaths};
use sim::ledger::Record;
use sim::world::objects::{self, Key};
use sim::world::{Command, Topology};

use super::{
    Case, SETTLED, T_INIT, T_STATUS, about_machines, machine, name, names, s, set_address, steady,
    world,
};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::scenario::{Act, Backend, Pace, Scenario};

/// Creates a case in which VMware Tools stop and vCenter keeps the last guest information. The
/// provider restarts and reads this information. The node must keep its addresses.
pub(super) fn tools_stopped() -> Case {
    let long = T_STATUS * 2 + s(60);
    let scenario = world(3, SETTLED + long + s(300))
        .at(SETTLED, Command::StopTools(machine(1)))
        .at(SETTLED + s(1), Act::Crash(0))
        .at(SETTLED + s(2), Act::Start(0))
        .at(SETTLED + long, Command::StartTools(machine(1)));
    Case::new(scenario, |run| steady(run, &name(1))).named("tools stop, old addresses stay")
}

/// Creates a case in which VMware Tools are stopped while the machine gets another address and a
/// new Node. The new Node must not show the old address, which vCenter still reports. Within 90 s
/// plus [`T_INIT`] after the tools start again, the Node must show the new address.
pub(super) fn stale_while_stopped() -> Case {
    let (joins, back) = (s(130), s(250));
    let delete = objects::Command::delete(Key::node(name(2)));
    let scenario = world(4, s(500))
        .at(s(90), Command::StopTools(machine(2)))
        .at(s(100), Command::StopKubelet(machine(2)))
        .at(s(101), Command::Cluster(delete))
        .at(s(110), set_address(2, &["10.8.0.2"]))
        .at(joins, Command::StartKubelet(machine(2)))
        .at(back, Command::StartTools(machine(2)));
    Case::new(scenario, move |run| {
        let shows = |address: &'static str| {
            run.when_after(&name(2), joins, |node| node.ips().any(|ip| ip == address))
        };
        let (old, new) = (shows("10.0.0.2"), shows("10.8.0.2"));
        Verdict::pass_if(old.is_none(), || {
            format!("the new Node shows {old} the address that VMware Tools reported before they stopped", old = when(old)).at(old)
        })
        .and(|| {
            // The provider retries after at most a minute, lengthened by half.
            let in_time = new.is_some_and(|at| at.since_start() <= back + s(90) + T_INIT);
            Verdict::pass_if(in_time, || {
                format!("the Node shows the new address {new}; VMware Tools have reported it since {back:?}", new = when(new))
                    .at(new)
            })
        })
    })
    .named("another address while the tools are stopped")
}

/// Creates a case in an IPv6 cluster: a guest reports only a link-local address, and a minute later
/// also an ordinary one. The node must never show the link-local address, and must be initialized
/// within [`T_INIT`] after the guest reports the ordinary one.
pub(super) fn link_local_first() -> Case {
    const LOCAL: &str = "fe80::250:56ff:fe01:203";
    let topology = Topology { dual_stack: true, ..Topology::zones(3).machines(3) };
    let scenario = Scenario::new("", topology, s(60) + T_INIT + s(400))
        .with_provider(|it| it.families = vec!["ipv6".to_owned()])
        .at(s(0), set_address(1, &[LOCAL]))
        .at(s(60), set_address(1, &[LOCAL, "fd00::6:1"]));
    Case::new(scenario, |run| {
        let local = run.when(&name(1), |node| node.ips().any(|ip| ip.starts_with("fe80")));
        Verdict::pass_if(local.is_none(), || {
            format!("the node shows the link-local address {LOCAL} {local}; the provider must wait for another address", local = when(local)).at(local)
        })
        .and(|| run.initializes(&[name(1)], s(60), T_INIT))
    })
    .named("nothing but a link-local IPv6 address at first")
}

/// Creates a case in which the login may not read the extra configuration key with cloud-init's
/// metadata, which few providers read. The simulated vCenter omits a whole structure if the login
/// may not read a part of it. So a provider that reads all of `config` may wait until the rule is
/// removed at [`SETTLED`]. Any other provider must initialize the nodes within [`T_INIT`].
pub(super) fn metadata_refused() -> Case {
    let path = "config.extraConfig[\"guestinfo.metadata\"]".to_owned();
    let missing = MissingPaths::new([path], "NoPermission");
    let rule = about_machines(Backend::VCenter, "refused", [Action::MissingSet(missing)]);
    let scenario = world(3, SETTLED + T_STATUS).fault(rule).at(SETTLED, Act::RemoveRules);
    Case::new(scenario, |run| {
        let reads = |call: &Record| call.req.detail.split(['{', ',', '}']).any(|it| it == "config");
        if run.calls().any(reads) {
            return run.initializes(&names(3), SETTLED, T_STATUS);
        }
        run.initializes(&names(3), s(0), T_INIT).and(|| steady(run, &name(1)))
    })
    .paced(Pace::Virtual("a provider that reads whole structures would lose more than guestinfo"))
    .named("guestinfo may not be read")
}
