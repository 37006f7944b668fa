//! Tests of reading and writing VirtualMachine objects, and of the view.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{machine::*, view::View};
use crate::controllers::autoscaler::{
    group::{Group, MachineKind, parse},
    instance::{FailureClass, State},
    plan::{Membership, NamedNode},
};

const UUID: &str = "42290000-0000-4000-8000-000000000001";

fn group() -> Group {
    let text = "groups: [{name: g, max: 3, machine: {className: c, imageName: i, storageClass: s, zone: z, \
                resourcePolicyName: p, bootstrap: {secretName: b}}}]";
    parse("f", text, &MachineKind::virtual_machines("ns")).unwrap().groups.remove(0)
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The object that an API server returns for a new machine, with a status.
fn object(status: Value) -> Value {
    let new = NewMachine {
        name: "g-abcde".to_owned(),
        bios_uuid: Uuid::parse_str(UUID).unwrap(),
        held_until: None,
    };
    let mut object = manifest(&group(), "ns", "v1alpha5", &new);
    object["metadata"]["uid"] = "u1".into();
    object["metadata"]["resourceVersion"] = "7".into();
    object["metadata"]["creationTimestamp"] = time(1000).to_string().into();
    object["status"] = status;
    object
}

fn state(object: &Value, now: i64) -> State {
    Machine::read(object).unwrap().instance(time(now)).state
}

#[test]
fn a_manifest_has_the_shape_of_the_group_and_a_bios_uuid() {
    let new = NewMachine {
        name: "g-abcde".to_owned(),
        bios_uuid: Uuid::parse_str(UUID).unwrap(),
        held_until: Some(time(60)),
    };
    let object = manifest(&group(), "ns", "v1alpha5", &new);
    assert_eq!(
        object,
        json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha5",
            "kind": "VirtualMachine",
            "metadata": {
                "name": "g-abcde",
                "namespace": "ns",
                "labels": {
                    "vsphere.cloud-provider/node-group": "g",
                    "topology.kubernetes.io/zone": "z",
                },
                "annotations": {
                    "vsphere.cloud-provider/created": format!("g-abcde/{UUID}"),
                    "vmoperator.vmware.com/paused": "",
                    "vsphere.cloud-provider/held-until": "1970-01-01T00:01:00Z",
                },
            },
            "spec": {
                "biosUUID": UUID,
                "className": "c",
                "imageName": "i",
                "storageClass": "s",
                "powerState": "PoweredOn",
                "powerOffMode": "TrySoft",
                "bootstrap": { "cloudInit": { "rawCloudConfig": { "name": "b", "key": "user-data" } } },
                "reserved": { "resourcePolicyName": "p" },
            },
        })
    );
}

#[test]
fn the_state_of_an_instance_follows_the_object() {
    let on = json!({"uniqueID": "vm-1", "powerState": "PoweredOn"});
    let with_address = json!({
        "uniqueID": "vm-1", "powerState": "PoweredOn", "network": {"primaryIP4": "10.0.0.1"},
    });
    assert_eq!(state(&object(json!({})), 1000), State::Creating);
    assert_eq!(state(&object(on), 9000), State::Creating, "no address yet");
    assert_eq!(state(&object(with_address.clone()), 1000), State::Running);
    let mut deleting = object(with_address);
    deleting["metadata"]["deletionTimestamp"] = time(1).to_string().into();
    assert_eq!(state(&deleting, 1000), State::Deleting);
    let mut off = object(json!({"uniqueID": "vm-1", "powerState": "PoweredOff"}));
    assert_eq!(state(&off, 1000), State::Creating, "before the first boot");
    off["metadata"]["annotations"]["virtualmachine.vmoperator.vmware.com/first-boot-done"] =
        "".into();
    assert_eq!(state(&off, 1000), State::Running, "the autoscaler sees the node that is not ready");
}

#[test]
fn a_condition_that_stays_false_for_a_minute_is_a_failure_with_code_and_class() {
    let failing = |kind: &str, reason: &str, message: &str| {
        object(json!({"conditions": [
            {"type": "Other", "status": "False"},
            {"type": kind, "status": "False", "reason": reason, "message": message,
             "lastTransitionTime": time(2000).to_string()},
        ]}))
    };
    for (kind, reason, message, code, class) in [
        (
            "VirtualMachineClassReady",
            "NotFound",
            "no\nclass",
            "VM_CLASS_READY",
            FailureClass::Other,
        ),
        ("VirtualMachineBootstrapReady", "NotFound", "", "VM_BOOTSTRAP_READY", FailureClass::Other),
        ("VirtualMachineCreated", "Error", "what", "VM_CREATE_FAILED", FailureClass::Other),
        (
            "VirtualMachineCreated",
            "Error",
            "Insufficient CPU resources",
            "INSUFFICIENT_RESOURCES",
            FailureClass::OutOfResources,
        ),
        (
            "VirtualMachineConditionPlacementReady",
            "NotReady",
            "exceeded quota: q",
            "QUOTA_EXCEEDED",
            FailureClass::OutOfResources,
        ),
    ] {
        let object = failing(kind, reason, message);
        assert_eq!(state(&object, 2059), State::Creating, "{kind}: within the grace period");
        let State::Failed(failure) = state(&object, 2060) else { panic!("{kind}") };
        assert_eq!((failure.code.as_str(), failure.class), (code, class), "{kind}");
        assert!(!failure.message.contains('\n') && failure.message.contains(reason), "{failure:?}");
    }
    let mut made = failing("VirtualMachineCreated", "Error", "late");
    made["status"]["uniqueID"] = "vm-1".into();
    assert_eq!(state(&made, 9000), State::Creating, "a machine that exists has not failed");
}

#[tokio::test(start_paused = true)]
async fn membership_goes_by_provider_id_and_by_name_only_without_one() {
    let mut view = View::default();
    view.apply(Machine::read(&object(json!({}))).unwrap());
    let id = format!("vsphere://{UUID}");
    let member = |view: &View, group: &str, id: &str, name: &str| {
        let node = NamedNode { id: id.to_owned(), name: name.to_owned(), failed_creation: false };
        match view.membership(group, &node, time(1000)) {
            Membership::Here(_) => "here".to_owned(),
            other => format!("{other:?}"),
        }
    };
    for (group, node_id, name, want) in [
        ("g", id.as_str(), "any", "here"),
        ("g", &id, &id, "here"),
        ("g", "", "g-abcde", "here"),
        ("g", "", "", "Unknown"),
        ("g", "vsphere://42290000-0000-4000-8000-00000000000f", "g-abcde", "Unknown"),
        ("g", &id.to_uppercase(), "g-abcde", "Unknown"),
        ("h", &id, "any", "Elsewhere(\"g\")"),
    ] {
        assert_eq!(member(&view, group, node_id, name), want, "{node_id} {name}");
    }
    view.remove("u1", None);
    assert_eq!(member(&view, "g", &id, "g-abcde"), "Deleted");
    view.apply(Machine::read(&object(json!({}))).unwrap());
    assert_eq!(view.uids(), [""; 0], "a late event does not bring a deleted machine back");
    tokio::time::advance(Duration::from_secs(3601)).await;
    view.remove("another", None);
    assert_eq!(member(&view, "g", &id, "g-abcde"), "Unknown", "forgotten");
}

#[test]
fn a_copy_of_a_machine_counts_only_for_a_group_that_adopts() {
    let mut renamed = object(json!({}));
    renamed["metadata"]["name"] = "g-copy".into();
    let mut view = View::default();
    view.apply(Machine::read(&renamed).unwrap());
    assert_eq!(view.instances("g", time(1)).len(), 0, "with the same UUID");
    let mut copy = object(json!({}));
    copy["spec"]["biosUUID"] = "42290000-0000-4000-8000-00000000000f".into();
    let mut view = View::default();
    view.apply(Machine::read(&copy).unwrap());
    assert_eq!(view.instances("g", time(1)).len(), 0);
    view.adopting.insert("g".to_owned());
    assert_eq!(view.instances("g", time(1)).len(), 1);
}

#[test]
fn a_provider_id_that_two_adopted_machines_have_names_none_of_them() {
    let mut view = View::default();
    view.adopting.insert("g".to_owned());
    for (name, uid) in [("a", "u1"), ("b", "u2")] {
        let mut object = object(json!({}));
        object["metadata"]["name"] = name.into();
        object["metadata"]["uid"] = uid.into();
        view.apply(Machine::read(&object).unwrap());
    }
    let id = Machine::read(&object(json!({}))).unwrap().id;
    assert_eq!(view.by_id(id), None);
    assert_eq!(view.find(&id.to_string(), "a"), None);
    assert_eq!(view.find("", "b").map(|it| it.name.as_str()), Some("b"));
}

#[test]
fn a_machine_that_has_run_stays_one_and_an_older_state_is_ignored() {
    let with_address = json!({
        "uniqueID": "vm-1", "powerState": "PoweredOn", "network": {"primaryIP4": "10.0.0.1"},
    });
    let mut view = View::default();
    view.apply(Machine::read(&object(with_address)).unwrap());
    let mut later = object(json!({"uniqueID": "vm-1", "powerState": "PoweredOn"}));
    later["metadata"]["resourceVersion"] = "8".into();
    view.apply(Machine::read(&later).unwrap());
    assert_eq!(view.instances("g", time(1))[0].state, State::Running);
    let mut earlier = later.clone();
    earlier["metadata"]["resourceVersion"] = "6".into();
    earlier["metadata"]["deletionTimestamp"] = time(1).to_string().into();
    view.apply(Machine::read(&earlier).unwrap());
    assert_eq!(view.instances("g", time(1))[0].state, State::Running);
}

#[test]
fn a_list_removes_what_it_lacks_except_machines_made_meanwhile() {
    let mut view = View::default();
    view.apply(Machine::read(&object(json!({}))).unwrap());
    let before = view.uids();
    let mut made = object(json!({}));
    made["metadata"]["uid"] = "u2".into();
    view.apply(Machine::read(&made).unwrap());
    view.replace(Vec::new(), &before, "9");
    assert_eq!(view.uids(), ["u2"]);
}

#[test]
fn a_machine_whose_label_returns_counts_again_and_a_restored_list_is_taken_as_it_is() {
    let at = |version: &str| {
        let mut object = object(json!({}));
        object["metadata"]["resourceVersion"] = version.into();
        Machine::read(&object).unwrap()
    };
    let mut view = View::default();
    view.apply(at("7"));
    view.remove("u1", Some("8"));
    view.apply(at("7"));
    assert_eq!(view.uids(), [""; 0], "an older state");
    view.apply(at("9"));
    assert_eq!(view.uids(), ["u1"], "the label is back");
    view.replace(Vec::new(), &["u1".to_owned()], "12");
    assert_eq!(view.uids(), [""; 0]);
    view.replace(vec![at("4")], &[], "5");
    assert_eq!(view.uids(), ["u1"], "the Supervisor was restored from a backup");
    view.remove("u1", Some("20"));
    view.seen_at = "20".to_owned();
    view.replace(vec![at("6")], &[], "10");
    assert_eq!(view.uids(), ["u1"], "restored to a state after the last list");
}
