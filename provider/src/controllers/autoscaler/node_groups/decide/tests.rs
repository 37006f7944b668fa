//! Tests of the decisions about objects.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

fn object(namespace: &str, name: &str, created: &str, spec: Value) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
            "generation": 3, "creationTimestamp": created},
        "spec": spec,
    })
}

fn machine(max: u32) -> Value {
    json!({"max": max, "machine": {"className": "c", "imageName": "i", "storageClass": "s",
        "bootstrap": {"secretName": "b"}}})
}

fn clone(file: &str) -> Value {
    json!({"max": 1, "clone": {"datacenter": "d", "template": "t", "folder": "f",
        "resourcePool": "p", "bootstrap": {"file": file}}})
}

/// Returns each decision as `NAMESPACE/NAME: ID`, or with reason and message.
fn shown(objects: &[Value], machines: &MachineKind, directory: Option<&Path>) -> Vec<String> {
    let shown = |it: Decision| match it.verdict {
        Verdict::Accepted(group) => format!("{}: {}", it.object, group.id),
        Verdict::Refused { reason, message } => format!("{}: {reason}: {message}", it.object),
    };
    decide(objects.iter(), machines, directory).into_iter().map(shown).collect()
}

fn of_machines(objects: &[Value]) -> Vec<String> {
    shown(objects, &MachineKind::virtual_machines("ns"), None)
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

#[test]
fn a_wrong_object_is_refused_with_key_value_and_remedy_and_the_others_are_groups() {
    let mut inverted = machine(2);
    inverted["min"] = 3.into();
    let mut named = machine(2);
    named["name"] = "x".into();
    let objects = [
        object("a", "clones", EARLY, clone("f")),
        object("a", "inverted", EARLY, inverted),
        object("a", "many", EARLY, machine(20_001)),
        object("a", "named", EARLY, named),
        object("a", "no.label", EARLY, machine(2)),
        object("a", "nothing", EARLY, Value::Null),
        object("b", "workers", EARLY, machine(2)),
    ];
    assert_eq!(
        of_machines(&objects),
        [
            "a/clones: Invalid: spec: clone: the key belongs to another --backend; write machine instead",
            "a/inverted: Invalid: spec: max: 2 is less than min, which is 3; write at least min",
            "a/many: Invalid: spec: max: \"20001\" is not a valid size; write 0 to 20000",
            "a/named: Invalid: spec: name: the name of the object is that of the group; remove the key",
            "a/no.label: Invalid: spec: name: \"no.label\" is not a valid name; write at most 57 lower-case \
             letters, digits and dashes, with a letter or digit at both ends",
            "a/nothing: Invalid: spec: is not a map of keys; docs/autoscaler.md, Groups, describes every key",
            "b/workers: VirtualMachine/ns/workers",
        ]
    );
}

#[test]
fn the_oldest_object_of_a_name_is_the_group_also_while_it_is_wrong() {
    let duplicate = |at: &str, owner: &str| {
        format!(
            "{at}: Duplicate: metadata.name: \"workers\" is the group of NodeGroup {owner}, which is older; \
             create this object with another name"
        )
    };
    let (old, young) =
        ((object("b", "workers", EARLY, machine(2))), object("a", "workers", LATE, machine(2)));
    let group = "b/workers: VirtualMachine/ns/workers".to_owned();
    assert_eq!(
        of_machines(&[young.clone(), old.clone()]),
        [duplicate("a/workers", "b/workers"), group]
    );
    let wrong = object("b", "workers", EARLY, machine(0));
    let shown = of_machines(&[young.clone(), wrong]);
    assert_eq!(shown[0], duplicate("a/workers", "b/workers"));
    assert!(
        shown[1].starts_with("b/workers: Invalid: spec: max: \"0\" allows no machine"),
        "{shown:?}"
    );
    let same_age = object("a", "workers", EARLY, machine(2));
    assert_eq!(of_machines(&[same_age, old.clone()])[1], duplicate("b/workers", "a/workers"));
    let mut accepted = old.clone();
    accepted["status"]["conditions"] = json!([{"type": "Accepted", "status": "True"}]);
    let same_age = object("a", "workers", EARLY, machine(2));
    let shown = of_machines(&[same_age, accepted]);
    assert_eq!(shown[0], duplicate("a/workers", "b/workers"), "an accepted object stays the group");
    let mut leaving = old;
    leaving["metadata"]["deletionTimestamp"] = LATE.into();
    let shown = of_machines(&[young, leaving]);
    assert_eq!(
        shown[0], "a/workers: VirtualMachine/ns/workers",
        "an object in deletion has no name"
    );
    assert_eq!(shown[1], "b/workers: Deleting: the object is being deleted; its machines stay");
}

#[test]
fn an_object_names_only_a_file_in_the_directory_of_bootstrap_data() {
    let directory = Some(Path::new("/bootstrap"));
    let decided = |file: &str, directory| {
        let objects = [object("a", "workers", EARLY, clone(file))];
        decide(objects.iter(), &MachineKind::clones(), directory).remove(0).verdict
    };
    let Verdict::Accepted(group) = decided("user-data", directory) else { panic!() };
    let Shape::Clone(shape) = &group.shape else { panic!() };
    assert_eq!(shape.bootstrap.file, PathBuf::from("/bootstrap/user-data"));
    for (file, directory) in [
        ("/etc/passwd", directory),
        ("../token", directory),
        ("..", directory),
        (".", directory),
        ("a/b", directory),
        ("user-data", None),
    ] {
        let Verdict::Refused { reason, message } = decided(file, directory) else {
            panic!("{file}")
        };
        let want = format!(
            "spec: clone: bootstrap: file: {file:?} is not the name of a file; write the name of a file in the \
             directory of --bootstrap-directory"
        );
        assert_eq!((reason, message), (Reason::Invalid, want));
    }
}

#[test]
fn a_decision_notes_whether_the_status_has_it_already() {
    let mut it = object("a", "workers", EARLY, machine(2));
    let is_in_status = |it: &Value| {
        decide([it].into_iter(), &MachineKind::virtual_machines("ns"), None)[0].is_in_status
    };
    assert!(!is_in_status(&it));
    it["status"]["conditions"] = json!([{"type": "Accepted", "status": "True", "reason": "Accepted",
        "message": "The server scales VirtualMachine/ns/workers"}]);
    assert!(is_in_status(&it));
    it["spec"]["max"] = 0.into();
    assert!(!is_in_status(&it));
}
