//! Tests of power requests to guests through VMware Tools.

use std::time::Duration;

use crate::vcenter::{GuestRequest, MoRef, Power, Tools, VcFault};
use crate::{Command, Completion, Fault, Step, Time, Topology, VcRequest, World};

const NAME: &str = "node-0001";

/// A world with one machine, on host `DC0_C0_H0`.
fn lab() -> World {
    Topology::default().machines(1).build("2026-03-01T08:00:00Z".parse().unwrap(), 0)
}

fn at(seconds: u64) -> Time {
    Time::after_start(Duration::from_secs(seconds))
}

fn machine(world: &World) -> MoRef {
    world.vcenter("vc0").unwrap().inventory.by_machine_name(NAME).next().unwrap()
}

fn state(world: &World) -> (Power, Tools) {
    let inventory = &world.vcenter("vc0").unwrap().inventory;
    let machine = inventory.machine(machine(world)).unwrap();
    (machine.power, machine.guest.tools)
}

fn ask(world: &mut World, seconds: u64, request: GuestRequest) -> Result<(), Fault> {
    let machine = machine(world);
    let request = VcRequest::Guest { machine, request };
    let command = Command::Request { vcenter: "vc0".into(), request };
    world.apply(at(seconds), command).map(|_| ())
}

const UP: (Power, Tools) = (Power::PoweredOn, Tools::Running);

#[test]
fn a_guest_completes_a_power_request_after_ten_seconds() {
    for (request, after) in [
        (GuestRequest::Shutdown, Power::PoweredOff),
        (GuestRequest::Reboot, Power::PoweredOn),
        (GuestRequest::Standby, Power::Suspended),
    ] {
        let mut world = lab();
        ask(&mut world, 1, request).unwrap();
        world.advance(at(10));
        assert_eq!(state(&world), UP, "{request:?}");
        world.advance(at(11));
        assert_eq!(state(&world), (after, Tools::NotRunning), "{request:?}");
    }
}

#[test]
fn a_hanging_guest_shutdown_ends_on_the_tell_command() {
    let mut world = lab();
    let (step, completion) = (Step::GuestPower, Completion::WhenTold);
    world.apply(at(0), Command::SetTiming { step, completion }).unwrap();
    ask(&mut world, 1, GuestRequest::Shutdown).unwrap();
    world.advance(at(3600));
    assert_eq!(state(&world), UP);
    let told = Command::Tell { step: Some(step), machine: Some(NAME.into()) };
    world.apply(at(3600), told).unwrap();
    assert_eq!(state(&world), (Power::PoweredOff, Tools::NotRunning));
}

#[test]
fn a_pending_guest_shutdown_does_not_stop_a_machine_that_was_reset() {
    let mut world = lab();
    ask(&mut world, 1, GuestRequest::Shutdown).unwrap();
    world.apply(at(2), Command::Reset(NAME.into())).unwrap();
    world.advance(at(60));
    assert_eq!(state(&world), UP);
}

#[test]
fn a_refused_guest_shutdown_returns_the_fault_of_its_cause() {
    for (name, event, want) in [
        ("no tools", Command::StopTools(NAME.into()), VcFault::ToolsUnavailable),
        (
            "off",
            Command::PowerOff(NAME.into()),
            VcFault::InvalidPowerState {
                requested: Some(Power::PoweredOn),
                existing: Power::PoweredOff,
            },
        ),
        ("no host", Command::DisconnectHost("DC0_C0_H0".into()), VcFault::HostNotConnected),
        ("orphaned", Command::Orphan(NAME.into()), VcFault::InvalidState),
    ] {
        let mut world = lab();
        world.apply(at(0), event).unwrap();
        let refused = ask(&mut world, 1, GuestRequest::Shutdown);
        assert_eq!(refused, Err(Fault::VCenter(want)), "{name}");
    }
}
