//! Existing machines whose Node carries a reference that is refused, means another machine, or has another spelling.
//!
//! A provider that starts knows only the notes on its Nodes about their machines. None of these proves an absence by
//! itself.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, Topology};
use uuid::Uuid;

use super::survives;
use crate::backend::Backend;
use crate::checks::Case;
use crate::checks::build::{
    KNOWN_UUID, SETTLED, known_machine_arrives, known_uuid, machine, patch, s, world,
};
use crate::checks::canary::Canary;
use crate::checks::observe::name;
use crate::judge::Invariant;
use crate::scenario::{Act, Scenario};
use crate::verdict::{Told as _, Verdict};

/// Number of nodes; two may be missing before the provider holds deletions back.
const N: u32 = 20;

/// The provider is down for a minute, in which the kubelet of the first node falls silent.
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

/// No search shows the machine, and a read by its reference is answered with `NoPermission`.
pub(super) fn refused() -> Case {
    let action = Action::SoapFault { class: "NoPermission".to_owned(), message: None };
    let read = Rule::new("machine/read", [action]).on(Face::Soap).op(["RetrieveProp*"]);
    let read = read.named(name(1));
    let hide = Rule::new("machine/hidden", [Action::Hide(name(1))]).on(Face::Soap);
    let hide = hide.op(["Find*", "WaitForUpdatesEx"]);
    let scenario = started_anew(world(N, s(600))).at(SETTLED + s(1), hide).at(SETTLED + s(1), read);
    spared(scenario, "its reference is refused, started anew")
}

/// The Node's note is the reference of another machine, as after a vCenter was restored from a backup.
pub(super) fn means_another() -> Case {
    let key = "vsphere.cloud-provider/machine".to_owned();
    let mixed = Act::CopyAnnotation { key, from: name(2), to: name(1) };
    let hide = Rule::new("hidden", [Action::Hide(name(1))]).on(Face::Soap);
    let scenario =
        started_anew(world(N, s(600))).at(SETTLED + s(2), mixed).at(SETTLED + s(2), hide);
    spared(scenario, "its reference means another machine, started anew")
}

/// The machine was registered anew, and its Node has its UUID in the byte order that the firmware reports.
pub(super) fn registered_again() -> Case {
    let turned = Uuid::from_bytes_le(KNOWN_UUID.into_bytes());
    let id = serde_json::json!({"spec": {"providerID": format!("vsphere://{turned}")}});
    let scenario = known_uuid(Backend::VCenter, world(N, s(600)), 1).at(s(0), patch(&name(1), id));
    let scenario = started_anew(scenario).at(SETTLED + s(5), Command::Reregister(machine(1)));
    spared(scenario, "registered anew, its UUID in the other byte order")
        .exempt(Invariant::ProviderIdIsTrue, "a person wrote it in the other byte order")
}

/// While the provider was down, the machine moved to the other vCenter; the first one has no trace of it.
pub(super) fn moved_to_another_vcenter() -> Case {
    let arrives = known_machine_arrives(Some("vc1"));
    let topology = Topology::zones(3).machines(N).vcenters(2);
    let scenario = known_uuid(Backend::VCenter, Scenario::new("", topology, s(600)), 1);
    let scenario = started_anew(scenario)
        .at(SETTLED + s(5), Command::DeleteMachine(machine(1)))
        .at(SETTLED + s(5), arrives);
    spared(scenario, "moved to another vCenter")
}

/// The machine moves from the second vCenter, whose searches take this long, to the first one, `later` than two minutes. A
/// provider that asks one vCenter after the other may ask each of them while the machine is in the other one. A slow proof is
/// too old for a deletion, and a quick one is not.
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
        Verdict::of(deleted.is_none(), || {
            format!("the node was deleted at {deleted:?}").at(deleted)
        })
    });
    case.named(format!("moved to another vCenter during a search of {takes:?}, {later:?} later"))
}
