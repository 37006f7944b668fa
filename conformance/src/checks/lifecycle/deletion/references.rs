//! Cases with running machines that a restarted provider cannot find by the reference or the
//! provider ID of their Node.
//!
//! At its start a provider has no information about machines except what its Nodes carry. A failed
//! read by one of these references or IDs does not prove that the machine is gone.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, Topology};
use uuid::Uuid;

use super::survives;
use crate::checks::Case;
use crate::checks::build::{
    KNOWN_UUID, SETTLED, known_machine_arrives, known_uuid, machine, patch, s, world,
};
use crate::checks::canary::Canary;
use crate::checks::queries::name;
use crate::judge::Invariant;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::scenario::{Act, Backend, Scenario};

/// Number of nodes. Two of them may be gone at once without a hold of deletions.
const N: u32 = 20;

/// Crashes the provider for a minute, in which the kubelet of the first node falls silent.
fn started_anew(scenario: Scenario) -> Scenario {
    scenario
        .at(SETTLED, Act::Crash(0))
        .at(SETTLED + s(1), Command::StopKubelet(machine(1)))
        .at(SETTLED + s(60), Act::Start(0))
}

fn spared(scenario: Scenario, what: &str) -> Case {
    let case = Case::new(scenario, |run| survives(run, N - 1)).named(what);
    case.canary(Canary::Gone(N), s(300))
}

/// Creates a case in which no search finds the machine, and vCenter answers a read by its reference
/// with `NoPermission`.
pub(super) fn refused() -> Case {
    let action = Action::soap_fault("NoPermission");
    let read = Rule::new("machine/read", [action]).on(Face::Soap).op(["RetrieveProp*"]);
    let read = read.named(name(1));
    let hide = Rule::new("machine/hidden", [Action::Hide(name(1))]).on(Face::Soap);
    let hide = hide.op(["Find*", "WaitForUpdatesEx"]);
    let scenario = started_anew(world(N, s(600))).at(SETTLED + s(1), hide).at(SETTLED + s(1), read);
    spared(scenario, "its reference is refused, started anew")
}

/// Creates a case in which the Node carries the reference of another machine, as after the
/// restoration of a vCenter from a backup, and vCenter hides the Node's own machine.
pub(super) fn means_another() -> Case {
    let key = "vsphere.cloud-provider/machine".to_owned();
    let mixed = Act::CopyAnnotation { key, from: name(2), to: name(1) };
    let hide = Rule::new("hidden", [Action::Hide(name(1))]).on(Face::Soap);
    let scenario =
        started_anew(world(N, s(600))).at(SETTLED + s(2), mixed).at(SETTLED + s(2), hide);
    spared(scenario, "its reference means another machine, started anew")
}

/// Creates a case in which vCenter registers the machine again under a new reference, and the
/// provider ID of its Node has the UUID in the other byte order.
pub(super) fn registered_again() -> Case {
    let turned = Uuid::from_bytes_le(KNOWN_UUID.into_bytes());
    let id = serde_json::json!({"spec": {"providerID": format!("vsphere://{turned}")}});
    let scenario = known_uuid(Backend::VCenter, world(N, s(600)), 1).at(s(0), patch(&name(1), id));
    let scenario = started_anew(scenario).at(SETTLED + s(5), Command::Reregister(machine(1)));
    spared(scenario, "registered anew, its UUID in the other byte order").exempt(
        Invariant::ProviderIdIsTrue,
        "the scenario writes the provider ID in the other byte order",
    )
}

/// Creates a case in which the machine moves to the other vCenter while the provider is down. The
/// first vCenter has no trace of it.
pub(super) fn moved_to_another_vcenter() -> Case {
    let arrives = known_machine_arrives(Some("vc1"));
    let topology = Topology::zones(3).machines(N).vcenters(2);
    let scenario = known_uuid(Backend::VCenter, Scenario::new("", topology, s(600)), 1);
    let scenario = started_anew(scenario)
        .at(SETTLED + s(5), Command::DeleteMachine(machine(1)))
        .at(SETTLED + s(5), arrives);
    spared(scenario, "moved to another vCenter")
}

/// Creates a case in which a machine moves from the second vCenter to the first, at 120 s plus
/// `later`. Each search in the second vCenter takes the time `takes`. A provider that searches one
/// vCenter after the other may search each of them while the machine is in the other one. A proof
/// from slow searches is too old for a deletion, but a proof from fast searches is not.
pub(super) fn moved_during_a_search(takes: Duration, later: Duration) -> Case {
    let moved = Named { vcenter: Some("vc1".into()), name: "node-1-0001".into() };
    let uuid = Some(KNOWN_UUID);
    let spec = MachineSpec { name: Some(moved.name.clone()), uuid, ..MachineSpec::default() };
    let arrives = Command::CreateMachine {
        vcenter: Some("vc0".into()),
        spec,
        cluster: None,
        power_on: true,
        kubelet: false,
    };
    let slow = Rule::new("slow", [Action::Delay(takes)]).at("vc1").on(Face::Soap);
    let at = s(120) + later;
    let topology = Topology::zones(3).machines(3).vcenters(2);
    let scenario = Scenario::new("", topology, s(300))
        .at(s(0), Command::SetUuid { machine: moved.clone(), uuid })
        .at(s(0), Command::StartKubelet(moved.clone()))
        .at(SETTLED, slow.op(["FindByUuid", "FindAllByUuid"]))
        .at(SETTLED, Command::StopKubelet(moved.clone()))
        .at(at, Command::DeleteMachine(moved))
        .at(at, arrives);
    let case = Case::new(scenario, |run| {
        let deleted = run.deleted("node-1-0001");
        Verdict::pass_if(deleted.is_none(), || {
            format!(
                "the node was deleted {deleted}, but its machine only moved to another vCenter",
                deleted = when(deleted)
            )
            .at(deleted)
        })
    });
    case.named(format!("moved to another vCenter during a search of {takes:?}, {later:?} later"))
}
