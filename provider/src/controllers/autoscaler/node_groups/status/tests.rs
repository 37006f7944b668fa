//! Tests of the statuses.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::controllers::{
    autoscaler::{
        group::{MachineKind, read_spec},
        node_groups::decide::Reason,
    },
    capacity::ObjectName,
};

fn decision(generation: i64, is_accepted: bool) -> Decision {
    let spec = json!({"max": 1, "machine": {"className": "c", "imageName": "i", "storageClass": "s",
        "bootstrap": {"secretName": "b"}}});
    let group = read_spec("workers", &spec, &MachineKind::virtual_machines("ns")).unwrap();
    let verdict = match is_accepted {
        true => Verdict::Accepted(Arc::new(group)),
        false => Verdict::Refused { reason: Reason::Invalid, message: "why".to_owned() },
    };
    let object = ObjectName::new("a", "workers");
    Decision { object, uid: "u".to_owned(), generation, verdict, is_in_status: false }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Applies a patch of the first level, as the API server does.
fn merged(mut status: Value, patch: &Value) -> Value {
    for (key, value) in patch.as_object().unwrap() {
        match value {
            Value::Null => drop(status.as_object_mut().unwrap().remove(key)),
            value => status[key] = value.clone(),
        }
    }
    status
}

#[test]
fn a_status_says_the_decision_and_the_size_and_then_needs_no_patch() {
    let size = Some(Size { target: 3, machines: 2 });
    let first = patch(&Value::Null, &decision(1, true), size, at(0)).unwrap();
    let condition = json!({
        "type": "Accepted", "status": "True", "reason": "Accepted",
        "message": "The server scales VirtualMachine/ns/workers",
        "observedGeneration": 1, "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    let want = json!({"observedGeneration": 1, "id": "VirtualMachine/ns/workers",
        "targetSize": 3, "machines": 2, "conditions": [condition]});
    assert_eq!(first, want);
    let status = merged(json!({}), &first);
    assert_eq!(patch(&status, &decision(1, true), size, at(9)), None);
    assert_eq!(patch(&status, &decision(1, true), None, at(9)), None, "an unknown size stays");
}

#[test]
fn only_what_changes_is_written_and_the_transition_keeps_its_time() {
    let size = |target| Some(Size { target, machines: 2 });
    let status = patch(&Value::Null, &decision(1, true), size(3), at(0)).unwrap();
    assert_eq!(patch(&status, &decision(1, true), size(4), at(9)), Some(json!({"targetSize": 4})));
    let next = patch(&status, &decision(2, true), size(3), at(9)).unwrap();
    assert_eq!(next["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!((next["observedGeneration"].as_i64(), next.get("id")), (Some(2), None));
    let refused = patch(&status, &decision(2, false), None, at(9)).unwrap();
    assert_eq!(refused["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:09Z");
    assert_eq!(refused["conditions"][0]["reason"], "Invalid");
    for key in ["id", "targetSize", "machines"] {
        assert_eq!(refused.get(key), Some(&Value::Null), "{key}: a refused group has no size");
    }
    let status = merged(status, &refused);
    assert_eq!(patch(&status, &decision(2, false), None, at(99)), None);
}

#[test]
fn conditions_of_others_stay() {
    let other = json!({"type": "Other", "status": "True"});
    let status = json!({"conditions": [other]});
    let next = patch(&status, &decision(1, false), None, at(0)).unwrap();
    assert_eq!(next["conditions"][0], other);
    assert_eq!(next["conditions"].as_array().unwrap().len(), 2);
}
