//! Tests of stop, upgrade and start of a vCenter.

use crate::vcenter::{Release, VcFault};
use crate::{Command, Fault, Time, Topology, World};

fn lab() -> World {
    Topology::default().machines(1).build("2026-03-01T08:00:00Z".parse().unwrap(), 7)
}

fn upgrade(version: &str, build: &str) -> Command {
    Command::UpgradeVCenter { vcenter: None, version: version.to_owned(), build: build.to_owned() }
}

#[test]
fn an_upgraded_vcenter_keeps_everything_but_its_release() {
    let mut world = lab();
    world.apply(Time::ZERO, Command::StopVCenter { vcenter: None }).unwrap();
    let before = world.vcenters["vc0"].clone();
    world.apply(Time::ZERO, upgrade("9.0.0", "24755230")).unwrap();
    let mut after = world.vcenters["vc0"].clone();
    let release = std::mem::replace(&mut after.release, before.release.clone());
    assert_eq!((release.version.as_str(), release.build.as_str()), ("9.0.0", "24755230"));
    assert_eq!(release.api_version(), "9.0.0.0");
    assert_eq!(before.release, Release::default());
    assert_eq!(after, before);
}

#[test]
fn a_running_vcenter_cannot_be_upgraded() {
    let mut world = lab();
    let refused = world.apply(Time::ZERO, upgrade("9.0.0", "24755230"));
    assert_eq!(refused.err(), Some(Fault::VCenter(VcFault::Runs("vc0".to_owned()))));
    assert_eq!(world.vcenters["vc0"].release, Release::default());
}

#[test]
fn an_upgrade_to_a_malformed_release_is_refused() {
    let mut world = lab();
    world.apply(Time::ZERO, Command::StopVCenter { vcenter: None }).unwrap();
    for (version, build) in
        [("9", "1"), ("9.0", "1"), ("9.0.0.0", "1"), ("9.0.x", "1"), ("9.0.0", ""), ("9.0.0", "b1")]
    {
        let refused = world.apply(Time::ZERO, upgrade(version, build));
        assert!(
            matches!(refused, Err(Fault::VCenter(VcFault::InvalidArgument(_)))),
            "{version} {build}: {refused:?}"
        );
    }
}
