//! Tests of values that the store keeps in another form than the client wrote. The expected values
//! are answers of the real server (1.36.3).

use serde_json::{Value, json};

use super::{now, store};
use crate::{Command, GroupResource, Key};

fn created(resource: &'static str, object: Value) -> Value {
    let mut store = store();
    let resource = GroupResource::from(resource);
    let namespace = if resource.resource == "nodes" { "" } else { "default" };
    store.done(Command::create(resource.clone(), namespace, object));
    store.get(&Key::new(resource, namespace, "x")).unwrap().as_ref().clone()
}

#[test]
fn null_data_becomes_empty_and_trailing_base64_bits_are_dropped() {
    let secret = json!({"metadata": {"name": "x"}, "data": {"a": null, "k": "YR=="}});
    assert_eq!(created("secrets", secret)["data"], json!({"a": "", "k": "YQ=="}));
    let map = json!({"metadata": {"name": "x"}, "data": {"x": null}, "binaryData": {"a": null}});
    let map = created("configmaps", map);
    assert_eq!((&map["data"], &map["binaryData"]), (&json!({"x": ""}), &json!({"a": ""})));
}

#[test]
fn a_zero_time_is_stored_as_null_and_dropped_by_the_next_update() {
    let spec = json!({
        "renewTime": "0001-01-01T00:00:00.000000Z", "acquireTime": "0001-01-01T00:00:00.000001Z",
        "holderIdentity": "a",
    });
    let lease = json!({"metadata": {"name": "x"}, "spec": spec});
    let want =
        r#"{"holderIdentity":"a","acquireTime":"0001-01-01T00:00:00.000001Z","renewTime":null}"#;
    let mut store = store();
    let leases = "leases.coordination.k8s.io";
    store.done(Command::create(leases, "default", lease));
    let key = Key::new(leases, "default", "x");
    let found = store.get(&key).unwrap().as_ref().clone();
    assert_eq!(found["spec"].to_string(), want);
    store.done(Command::update(key.clone(), found));
    let spec = store.get(&key).unwrap()["spec"].to_string();
    assert_eq!(spec, want.replace(r#","renewTime":null"#, ""));
}

#[test]
fn event_times_are_read_and_written_as_by_go() {
    let event = |time: &str| {
        json!({
            "metadata": {"name": "x"}, "involvedObject": {"namespace": "default"},
            "firstTimestamp": time,
        })
    };
    for (given, want) in [
        ("9999-12-31T23:59:59Z", json!("9999-12-31T23:59:59Z")),
        ("1969-12-31T23:59:59.5Z", json!("1969-12-31T23:59:59Z")),
        ("2026-03-01T8:00:00Z", json!("2026-03-01T08:00:00Z")),
        ("0001-01-01T00:00:00Z", json!(null)),
    ] {
        assert_eq!(created("events", event(given))["firstTimestamp"], want, "{given}");
    }
    let refused = Command::create("events", "default", event("2026-03-01 08:00:00Z"));
    let status = store().decide(now(), refused).unwrap_err();
    let want = r#"parsing time "2026-03-01 08:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 08:00:00Z" as "T""#;
    assert!(status.code == 400 && status.message.ends_with(want), "{}", status.message);
}

#[test]
fn node_capacity_is_rounded_to_thousandths_and_pods_must_be_whole() {
    let node = |name: &str, amount: &str| json!({"metadata": {"name": "x"}, "status": {"capacity": {name: amount}}});
    for (given, want) in [("1u", "1m"), ("10Ei", "9223372036854775807"), ("+1", "+1")] {
        let status = &created("nodes", node("cpu", given))["status"];
        assert_eq!(
            (&status["capacity"]["cpu"], &status["allocatable"]["cpu"]),
            (&want.into(), &want.into())
        );
    }
    for (given, is_taken) in
        [("1.234k", true), ("1e30", true), ("1.234", false), ("1e-3", false), ("1u", false)]
    {
        let asked = Command::create("nodes", "", node("pods", given));
        assert_eq!(store().decide(now(), asked).is_ok(), is_taken, "{given}");
    }
}
