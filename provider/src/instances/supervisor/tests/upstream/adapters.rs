//! The cases of upstream's
//! `pkg/cloudprovider/vsphereparavirtual/vmoperator/adapter/*/adapter_test.go` that concern
//! machines: each API version has its own path.

use super::*;
use crate::supervisor::VmOperatorVersion;

const VERSIONS: [VmOperatorVersion; 3] =
    [VmOperatorVersion::V1Alpha2, VmOperatorVersion::V1Alpha5, VmOperatorVersion::V1Alpha6];

/// Starts a backend in v1 mode that reads machines in this API version.
fn v1(version: VmOperatorVersion) -> Way {
    let (mode, fake) = (InstancesMode::V1, Fake::with(3));
    let tuning = Tuning { mode, version, seed: 7, ..Tuning::default() };
    let stop = CancellationToken::new();
    let made =
        SupervisorV1::new(fake.client(), "dev", tuning, Telemetry::default().supervisor_requests());
    made.spawn(&Tasks::new(&stop, &CancellationToken::new()));
    Way { mode, fake, instances: Arc::new(made), stop }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_read_by_its_name_in_each_version() {
    for version in VERSIONS {
        let way = v1(version);
        let node = node("n0001", None);
        assert!(matches!(way.metadata(&node, ZoneWanted::No).await, Lookup::Found(_)), "{version}");
        assert_eq!(way.fake.take_calls(), ["GET n0001"], "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_found_by_its_uuid_in_a_list_in_each_version() {
    for version in VERSIONS {
        let way = v1(version);
        assert_eq!(way.exists(&nth(1)).await, Lookup::Found(()), "{version}");
        assert_eq!(way.fake.take_calls(), ["LIST", "LIST"], "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_are_listed_and_watched_in_each_version() {
    for version in VERSIONS {
        let fake = Fake::with(3);
        let tuning = Tuning { version, seed: 7, ..Tuning::default() };
        let (telemetry, active) = (Telemetry::default(), Active::default());
        let made = SupervisorInstances::new(fake.client(), "dev", tuning, &telemetry, active);
        let stop = CancellationToken::new();
        made.spawn(&Tasks::new(&stop, &CancellationToken::new()));
        moment().await;
        assert_eq!(made.view_state(), ViewState::Fresh, "{version}");
        assert_eq!(fake.take_calls(), ["LIST", "WATCH"], "{version}");
        stop.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_uuid_finds_nothing_and_sends_nothing() {
    let way = v1(VmOperatorVersion::V1Alpha2);
    way.fake.put(object("empty", "", "10.0.0.9"));
    assert!(is_gone(&way.exists(&node("empty", Some("vsphere://"))).await), "upstream's answer");
    assert!(way.fake.take_calls().is_empty());
    // In the other modes, an empty UUID does not match a machine without a UUID either. The name of
    // the node decides.
    for way in ways(|fake| fake.put(object("empty", "", "10.0.0.9"))).await {
        if way.mode == InstancesMode::V1 {
            continue;
        }
        let other = node("other", Some("vsphere://"));
        assert!(is_gone(&way.exists(&other).await), "{:?}", way.mode);
        let named = node("empty", Some("vsphere://"));
        assert_eq!(way.exists(&named).await, Lookup::Found(()), "{:?}", way.mode);
    }
}
