//! Tests of the next step for a VirtualMachine.

use serde_json::{Value, json};

use super::*;

fn object(finalizers: &Value, status: &Value) -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "n", "finalizers": finalizers},
        "spec": {"powerState": "PoweredOn"},
        "status": status,
    })
}

fn met(kind: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True"}]})
}

#[test]
fn the_state_of_an_object_decides_the_next_step_of_vm_operator() {
    let held = json!([FINALIZER]);
    let class = met("VirtualMachineClassReady");
    let unmet = json!({"conditions": [{"type": "VirtualMachineClassReady", "status": "False"}]});
    for (what, object, wanted, step) in [
        ("new", object(&json!([]), &json!({})), json!({}), Some(Step::VmAccepted)),
        ("accepted", object(&held, &json!({})), class.clone(), Some(Step::VmPrerequisites)),
        ("ready", object(&held, &class), class.clone(), Some(Step::VmCreated)),
        ("without a class", object(&held, &unmet), unmet.clone(), None),
        ("nothing to report", object(&held, &json!({})), json!({}), None),
        (
            "gone in vCenter",
            object(&held, &json!({"uniqueID": "vm-1"})),
            json!({"uniqueID": "vm-1", "conditions": []}),
            Some(Step::VmStatus),
        ),
        (
            "gone in vCenter, and reported as gone",
            object(&held, &json!({"uniqueID": "vm-1"})),
            json!({"uniqueID": "vm-1"}),
            None,
        ),
    ] {
        assert_eq!(next(&object, None, &wanted, true), step, "{what}");
    }
}

#[test]
fn vm_operator_waits_for_the_holders_of_a_deleted_object() {
    let deleted = |finalizers: Value, annotations: Value| {
        json!({"metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers, "annotations": annotations,
        }})
    };
    let held = json!([FINALIZER]);
    for (object, step) in [
        (deleted(held.clone(), Value::Null), Some(Step::VmDeleted)),
        (deleted(json!(["example.com/other"]), Value::Null), None),
        (deleted(held.clone(), json!({(PAUSED): ""})), None),
        (deleted(held, json!({"delete.check.vmoperator.vmware.com/backup": ""})), None),
    ] {
        assert_eq!(next(&object, None, &Value::Null, true), step, "{object}");
    }
}
