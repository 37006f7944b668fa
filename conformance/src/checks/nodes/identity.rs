//! NODE-ID: how a provider finds the machine of a node, and the provider ID that it writes.

use std::time::Duration;

use sim::faults::{Action, Rule};
use sim::world::supervisor::OperatorChange;
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Completion, Step, Topology};

use crate::checks::build::{
    KNOWN_UUID, SETTLED, T_INIT, create_joining_machine, known_uuid, machine, s, with_outage,
    world, world_with,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check, build};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("NODE-ID-001", stable(backend)),
        Check::new("NODE-ID-002", [empty_uuid(backend)]),
        Check::new("NODE-ID-004", [same_name_new_uuid(backend)]),
    ];
    if backend.is_vcenter() {
        checks.extend([
            Check::new("NODE-ID-003", [byte_order(true), byte_order(false)]),
            Check::new(
                "NODE-ID-005",
                [
                    duplicate_here(),
                    duplicate_elsewhere(Duration::ZERO),
                    duplicate_elsewhere(Duration::from_millis(500)),
                ],
            ),
            Check::new("NODE-ID-007", datacenters()),
        ]);
    }
    checks
}

/// Creates a case per list of datacenters in the configuration. Some of the lists match the only
/// datacenter, DC0, and the others do not.
fn datacenters() -> Vec<Case> {
    let of = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<String>>();
    let is_meant = [&["DC0"][..], &["/DC0"], &["DC*"], &["D?0"], &["*"], &["DC1", "DC0"], &[]];
    let is_not = [&["DC1"][..], &["dc0"], &["/x/DC0"], &["DC0?"], &["C0"], &["DC0/x", "/"]];
    let mut cases = Vec::new();
    for listed in is_meant {
        let scenario = world(3, SETTLED).with_provider(|it| it.datacenters = of(listed));
        let judge = |run: &Run| run.initializes(&names(3), s(0), T_INIT);
        cases.push(Case::new(scenario, judge).named(format!("{listed:?}")));
    }
    cases.extend(is_not.map(|listed| not_meant(of(listed)).named(format!("{listed:?}"))));
    cases
}

/// Creates a case in which the provider restarts with a list that does not match the datacenter,
/// and later with the right one. Meanwhile a node joins and a kubelet falls silent. The new node
/// must stay uninitialized. The Node of the silent kubelet must stay, because a machine outside of
/// the listed datacenters is not proven to be gone.
fn not_meant(listed: Vec<String>) -> Case {
    let (changed, mended) = (SETTLED, s(300));
    let late = || ["late".to_owned()];
    let scenario = world(3, s(400))
        .at(changed, Act::Datacenters(listed))
        .at(changed, Act::Crash(0))
        .at(changed + s(1), Act::StartAll)
        .at(changed + s(5), create_joining_machine("late", None))
        .at(changed + s(10), Command::StopKubelet(machine(1)))
        .at(mended, Act::Datacenters(vec!["DC0".to_owned()]))
        .at(mended, Act::Crash(0))
        .at(mended + s(1), Act::StartAll);
    let judge = move |run: &Run| {
        let left = run.nodes();
        let taken = run.initialized("late").filter(|at| at.since_start() < mended);
        let asked =
            run.lookups().any(|call| (changed + s(60)..mended).contains(&call.t.since_start()));
        run.was_not_ready(&name(1))
            .and(|| {
                Verdict::pass_if(left.len() == 4, || {
                    format!("4 Nodes have to be left at the end, not {left:?}")
                })
            })
            .and(|| {
                Verdict::pass_if(taken.is_none(), || {
                    "the provider initialized a node whose datacenter is not in the configured list"
                        .to_owned()
                        .at(taken)
                })
            })
            .and(|| run.initializes(&names(3), s(0), T_INIT))
            .and(|| run.initializes(&late(), mended + s(1), T_INIT))
            .and(|| {
                Verdict::pass_if(asked, || {
                    "the provider did not look for the machine of the NotReady node in vCenter"
                        .to_owned()
                })
            })
    };
    Case::new(scenario, judge)
}

fn stable(backend: Backend) -> Vec<Case> {
    let mut cases = vec![stable_form(backend)];
    if backend == Backend::Supervisor {
        cases.push(respelled());
    }
    cases
}

/// Creates a case in which VM Operator begins to write UUIDs in capitals. The provider must still
/// match the Nodes to their machines, and so keep them when their kubelets fall silent.
fn respelled() -> Case {
    let capitals = OperatorChange { upper_case_uuids: Some(true), ..OperatorChange::default() };
    let mut scenario = world(4, s(400)).at(SETTLED, Command::SetVmOperator(capitals));
    for n in 1..=3 {
        // The new address makes VM Operator write the status of the machine's object.
        let address = format!("10.6.0.{n}");
        scenario = scenario
            .at(SETTLED + s(1), build::set_address(n, &[&address]))
            .at(SETTLED + s(10), Command::StopKubelet(machine(n)));
    }
    let case = Case::new(scenario, |run| {
        let left = run.nodes();
        run.was_not_ready(&name(1)).and(|| {
            Verdict::pass_if(left.len() == 3, || {
                format!("3 Nodes have to be left at the end, not {left:?}")
            })
        })
    });
    case.canary(Canary::Gone(4), s(200)).named("spelled in capitals")
}

fn stable_form(backend: Backend) -> Case {
    let scenario = world(3, s(400))
        .at(s(60), Act::Crash(0))
        .at(s(65), Act::Start(0))
        .at(s(100), Command::Reset(machine(1)));
    let scenario = with_outage(scenario, backend, s(200), s(220));
    Case::new(scenario, |run| {
        run.initializes(&names(3), s(0), T_INIT).and(|| {
            for name in names(3) {
                let ids: Vec<String> = run
                    .versions(&name)
                    .into_iter()
                    .filter_map(|(_, node)| node?.provider_id)
                    .collect();
                let lower =
                    ids.iter().all(|id| *id == id.to_lowercase() && id.starts_with("vsphere://"));
                if !lower || ids.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Verdict::fail(format!("node {name} had the provider IDs {ids:?}; it needs one, with vsphere:// and in lower case"));
                }
            }
            Verdict::Pass
        })
    })
}

fn empty_uuid(backend: Backend) -> Case {
    match backend {
        Backend::VCenter => emptied_uuid(),
        Backend::Supervisor => super::initialization::late_uuid(),
    }
}

fn emptied_uuid() -> Case {
    let scenario = known_uuid(Backend::VCenter, world(2, s(500)), 1)
        .at(s(0), Command::SetUuid { machine: machine(1), uuid: None })
        // Restores the UUID; until then vCenter reports none.
        .at(s(120), Command::SetUuid { machine: machine(1), uuid: Some(KNOWN_UUID) });
    Case::new(scenario, |run| {
        let early = run.initialized(&name(1));
        Verdict::pass_if(early.is_none_or(|at| at.since_start() >= s(120)), || {
            format!(
                "the provider initialized the node {early}, while its machine had no UUID",
                early = when(early)
            )
            .at(early)
        })
        .and(|| match run.node(&name(1)) {
            Some(node) if node.uninitialized => Verdict::fail(
                "the provider did not initialize the node after its machine got a UUID again"
                    .to_owned(),
            ),
            Some(_) => Verdict::Pass,
            None => {
                Verdict::fail("the provider deleted the Node of a machine that exists".to_owned())
            }
        })
    })
}

fn byte_order(swapped: bool) -> Case {
    let topology = Topology { swapped_uuids: swapped, ..Topology::zones(3).machines(4) };
    Case::new(Scenario::new("", topology, SETTLED), |run| {
        let searches = run.calls().filter(|call| call.op.starts_with("FindAllByUuid")).count();
        run.initializes(&names(4), s(0), T_INIT).and(|| {
            Verdict::pass_if(searches <= 8, || {
                format!(
                    "the provider made {searches} searches by UUID for 4 nodes; at most 8 are \
                     allowed"
                )
            })
        })
    })
    .named(if swapped { "guests show swapped bytes" } else { "guests show plain bytes" })
}

fn same_name_new_uuid(backend: Backend) -> Case {
    let uuid = uuid::Uuid::from_u128(0x4242_0000_1111_4222_8333_abcd_efab_cdef);
    // The kubelet of the new machine starts long after the Node of the old one became NotReady.
    let late = Command::SetTiming { step: Step::Kubelet, completion: Completion::After(s(200)) };
    let scenario = world(3, s(500)).at(s(99), late);
    let scenario = match backend {
        Backend::VCenter => scenario.at(s(100), Command::Replace { machine: machine(1), uuid }),
        // The Supervisor accepts a new object of the same name only after the old one is gone.
        Backend::Supervisor => {
            scenario.at(s(100), Command::DeleteMachine(machine(1))).at(s(130), rebuilt(uuid))
        }
    };
    Case::new(scenario, move |run| {
        let deleted = run.deleted(&name(1));
        Verdict::pass_if(deleted.is_some(), || {
            "the provider did not delete the Node of the old machine".to_owned()
        })
        .and(|| {
            let now = run.node(&name(1)).and_then(|node| node.provider_id);
            Verdict::pass_if(now == Some(format!("vsphere://{uuid}")), || {
                format!(
                    "the Node of the new machine has the provider ID {now:?}, not that of its UUID"
                )
            })
        })
        .and(|| {
            Verdict::pass_if(run.node(&name(2)).is_some() && run.node(&name(3)).is_some(), || {
                "the provider deleted the Node of another machine, which exists".to_owned()
            })
        })
    })
}

/// Returns the command that creates a machine with the name of the first machine and this UUID.
pub(in crate::checks) fn rebuilt(uuid: uuid::Uuid) -> Command {
    let spec = MachineSpec { name: Some(name(1)), uuid: Some(uuid), ..MachineSpec::default() };
    Command::CreateMachine { vcenter: None, spec, cluster: None, power_on: true, kubelet: true }
}

/// Creates a case in which two machines of one vCenter have the same UUID, and the kubelet of one
/// of them registers a Node. The provider must not initialize this Node.
fn duplicate_here() -> Case {
    // Machine 3 runs no kubelet and gets the UUID of machine 1.
    let scenario = known_uuid(Backend::VCenter, world_with(2, 3, s(180)), 1)
        .at(s(0), Command::SetUuid { machine: machine(3), uuid: Some(KNOWN_UUID) });
    Case::new(scenario, ambiguous).named("in one vCenter")
}

/// Creates a case in which two machines in different vCenters have the same UUID. The second
/// vCenter delays its answers to searches and reads by `later`. The provider must not initialize
/// the Node of the first machine.
fn duplicate_elsewhere(later: Duration) -> Case {
    let topology = Topology::zones(3).machines(2).vcenters(2);
    let spec = MachineSpec {
        name: Some("clone".into()),
        uuid: Some(KNOWN_UUID),
        ..MachineSpec::default()
    };
    let scenario = known_uuid(Backend::VCenter, Scenario::new("", topology, s(180)), 1).at(
        s(0),
        Command::CreateMachine {
            vcenter: Some("vc1".into()),
            spec,
            cluster: None,
            power_on: true,
            kubelet: false,
        },
    );
    if later.is_zero() {
        return Case::new(scenario, ambiguous).named("in two vCenters");
    }
    let slow = Rule::new("slow", [Action::Delay(later)]).at("vc1").op([
        "FindAllByUuid",
        "FindByUuid",
        "RetrievePropertiesEx",
    ]);
    Case::new(scenario.fault(slow), ambiguous).named("in two vCenters, one of them slow")
}

fn ambiguous(run: &crate::lab::Run) -> Verdict {
    let node = run.node(&name(1));
    Verdict::pass_if(node.is_some(), || {
        "the provider deleted the Node of a machine that exists".to_owned()
    })
    .and(|| {
        let open =
            node.as_ref().is_some_and(|node| !node.uninitialized || node.provider_id.is_some());
        Verdict::pass_if(!open, || {
            "the provider initialized a node although two machines have its UUID".to_owned()
        })
    })
    .and(|| run.initializes(&[name(2)], s(0), T_INIT))
}
