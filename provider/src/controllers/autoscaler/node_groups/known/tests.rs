//! Tests of the known objects.

use serde_json::{Value, json};

use super::*;
use crate::controllers::autoscaler::group::MachineKind;

fn object(generation: u32, version: u32, status: Value) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "workers", "uid": "u", "generation": generation,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"max": generation}, "status": status,
    })
}

fn decide(known: &mut Known) -> Option<usize> {
    let decide = |objects: &mut dyn Iterator<Item = &Value>| {
        super::super::decide::decide(objects, &MachineKind::clones(), None)
    };
    known.decide(decide).map(|it| it.decisions.iter().filter(|(_, is_new)| *is_new).count())
}

#[test]
fn a_decision_is_new_after_the_first_list_and_after_a_change_of_the_spec() {
    let mut known = Known::default();
    assert_eq!((decide(&mut known), known.usable().is_ok()), (None, false));
    assert!(known.replace(Vec::new(), "1"), "the first list counts also if it is empty");
    assert!(known.usable().is_err(), "listed, and not decided");
    assert_eq!((decide(&mut known), known.usable()), (Some(0), Ok(())));
    assert!(known.change(ObjectChange::Applied(&object(1, 2, Value::Null))));
    assert_eq!((decide(&mut known), decide(&mut known)), (Some(1), None));
    let own = object(1, 3, json!({"observedGeneration": 1}));
    assert!(!known.change(ObjectChange::Applied(&own)), "the echo of a status is no change");
    assert!(!known.replace(vec![own.clone()], "4"));
    assert!(known.replace(vec![object(2, 5, Value::Null)], "5"), "a change that a list shows");
    assert_eq!(decide(&mut known), Some(1));
    assert!(!known.change(ObjectChange::Applied(&own)), "an older state");
    assert!(known.change(ObjectChange::Deleted(&object(2, 6, Value::Null))));
    assert_eq!(decide(&mut known), Some(0));
    assert_eq!(known.decided(), []);
}

#[test]
fn a_failure_is_shown_before_the_first_list_and_an_absence_always() {
    let failing = || Progress::Failing("GET x was answered with 403".to_owned());
    let mut known = Known::default();
    assert!(known.set_progress(failing()) && !known.set_progress(failing()));
    let why = "cannot list nodegroups.vsphere.cloud-provider: GET x was answered with 403";
    assert_eq!(known.usable(), Err(why.to_owned()));
    known.replace(Vec::new(), "1");
    decide(&mut known);
    assert!(!known.set_progress(failing()));
    assert_eq!(known.usable(), Ok(()), "the known groups stay");
    assert!(known.set_progress(Progress::Absent));
    assert!(known.usable().unwrap_err().contains("--print-crd"));
    assert!(!known.is_served());
}

#[test]
fn an_object_that_was_created_again_has_no_decision_until_it_is_decided_upon() {
    let mut known = Known::default();
    known.replace(vec![object(1, 1, Value::Null)], "1");
    decide(&mut known);
    assert_eq!(known.decided().len(), 1);
    let mut again = object(1, 2, Value::Null);
    again["metadata"]["uid"] = "v".into();
    assert!(known.change(ObjectChange::Applied(&again)));
    assert_eq!(known.decided(), []);
}
