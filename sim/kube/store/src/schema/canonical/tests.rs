//! Tests that decoding does not change settled documents.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::super::{GoDecoder, decode};
use super::*;
use crate::resources;

fn node(status: &Value) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": {"name": "n", "labels": {"a": "", "b": "1"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": status,
    })
}

fn ready(heartbeat: &str) -> Value {
    json!([{
        "type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat,
        "lastTransitionTime": null, "reason": "r",
    }])
}

/// True if decoding does not change the document, including the order of its fields. Panics if a
/// settled document changes.
fn agrees(root: &Struct, document: &Value) -> bool {
    let decoded = decode(root, document, GoDecoder::Json);
    let is_same = decoded.is_ok_and(|decoded| {
        let (written, given) = (decoded.object.to_string(), document.to_string());
        decoded.unknown.is_empty() && written == given
    });
    assert!(
        is_same || !is_canonical(root, document),
        "decoding changes a document that counts as settled: {document}"
    );
    is_same
}

#[test]
fn a_decoded_node_is_settled_and_a_node_that_decoding_changes_is_not() {
    let root = Types::builtin().kind("", "Node").unwrap();
    let decoded = |document: &Value| decode(root, document, GoDecoder::Json).unwrap().object;
    let whole = decoded(&node(&json!({
        "capacity": {"cpu": "1000m", "memory": "1024Mi"},
        "conditions": ready("2026-03-01T08:00:00.5Z"),
        "images": [{"names": ["b", "a"], "sizeBytes": 0}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    })));
    assert!(is_canonical(root, &whole), "{whole}");
    assert!(agrees(root, &whole));
    for (what, status) in [
        ("order of a map", json!({"capacity": {"memory": "1Gi", "cpu": "1"}})),
        ("a quantity", json!({"capacity": {"cpu": "1000m"}})),
        ("a number in place of a quantity", json!({"capacity": {"cpu": 1}})),
        ("an empty list", json!({"images": []})),
        ("an empty map", json!({"capacity": {}})),
        ("null", json!({"phase": null})),
        ("an empty text", json!({"phase": ""})),
        ("a wrong type", json!({"phase": 1})),
        ("an unknown field", json!({"phases": "x"})),
        ("a fraction of a second", json!({"conditions": ready("2026-03-01T08:00:00.5Z")})),
        ("a time zone other than UTC", json!({"conditions": ready("2026-03-01T08:00:00+01:00")})),
        ("a day that does not exist", json!({"conditions": ready("2026-02-30T08:00:00Z")})),
        (
            "a port above the range of int32",
            json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 1u64 << 31}}}),
        ),
    ] {
        let mut document = decoded(&node(&Value::Null));
        for (field, value) in status.as_object().unwrap() {
            document["status"][field] = value.clone();
        }
        assert!(!agrees(root, &document), "{what}: {document}");
    }
    assert!(!agrees(root, &json!({"metadata": {"name": "n"}, "kind": "Node"})));
    assert!(!agrees(root, &Value::Null));
}

#[test]
fn a_lease_with_microseconds_and_pointer_values_is_settled() {
    let root = Types::builtin().kind("coordination.k8s.io", "Lease").unwrap();
    let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
    let at = |time: &str| lease(json!({"holderIdentity": "", "renewTime": time}));
    for document in [
        at("2026-03-01T08:00:00.000000Z"),
        lease(json!({"leaseDurationSeconds": 0})),
        lease(json!({})),
    ] {
        assert!(is_canonical(root, &document) && agrees(root, &document), "{document}");
    }
    for document in [
        at("2026-03-01T08:00:00Z"),
        at("2026-03-01t08:00:00.000000Z"),
        at("2026-03-01T08:00:00.0000000Z"),
        lease(json!({"holderIdentity": null})),
        json!({"metadata": {"name": "l"}}),
    ] {
        assert!(!agrees(root, &document), "{document}");
    }
}

/// Returns a sample of a structure. Down to `depth` levels, all fields are set; below, only the
/// fields that Go always writes.
fn sample(of: &Struct, depth: u8) -> Value {
    let fields = of.fields.iter().filter(|field| depth > 0 || !field.omitted);
    let fields = fields.map(|it| (it.name.to_owned(), sample_of(&it.of, depth.saturating_sub(1))));
    Value::Object(fields.collect())
}

fn sample_of(of: &Type, depth: u8) -> Value {
    match of {
        Type::String(_) => json!("text"),
        Type::Bool => json!(true),
        Type::Int(_) => json!(1),
        Type::Float => json!(1.5),
        Type::Bytes => json!("YQ=="),
        Type::Time => json!("2026-03-01T08:00:00Z"),
        Type::MicroTime => json!("2026-03-01T08:00:00.000000Z"),
        Type::Duration => json!("1m0s"),
        Type::Quantity => json!("1"),
        Type::IntOrString => json!(80),
        Type::Raw => json!({"b": [1, null], "a": ""}),
        Type::Struct(at) => sample(Types::builtin().at(*at).unwrap(), depth),
        Type::List(_, of) => json!([sample_of(of, depth)]),
        Type::Map(_, of) => json!({"a": sample_of(of, depth), "b": sample_of(of, depth)}),
        Type::Pointer(of) => sample_of(of, depth),
    }
}

/// Returns a decoded sample document of this kind.
fn document(root: &Struct) -> Value {
    decode(root, &sample(root, 6), GoDecoder::Json).unwrap().object
}

#[test]
fn a_document_of_every_kind_is_settled_once_it_was_decoded() {
    for def in resources::builtin() {
        let root = def.structure().unwrap();
        let document = document(root);
        assert!(is_canonical(root, &document) && agrees(root, &document), "{}", def.id);
    }
}

#[test]
fn a_single_value_is_settled_exactly_if_decoding_keeps_the_value() {
    for (what, kind, at, given, is_same) in [
        ("null bytes", "Secret", "/data/a", json!(null), false),
        ("empty bytes", "Secret", "/data/a", json!(""), true),
        ("unused bits of base64", "Secret", "/data/a", json!("YR=="), false),
        ("base64 with a line end", "Secret", "/data/a", json!("Y\nQ=="), false),
        ("null bytes of a map", "ConfigMap", "/binaryData/b", json!(null), false),
        ("a null text of a map", "ConfigMap", "/data/a", json!(null), false),
        ("an empty text of a map", "ConfigMap", "/data/a", json!(""), true),
        ("the zero time", "Event", "/firstTimestamp", json!("0001-01-01T00:00:00Z"), false),
        ("a null time", "Event", "/firstTimestamp", json!(null), true),
        ("a null pointer to a time", "Event", "/metadata/deletionTimestamp", json!(null), false),
        ("never", "Event", "/firstTimestamp", json!("9999-12-31T23:59:59Z"), true),
        ("year 10000", "Event", "/firstTimestamp", json!("10000-01-01T00:00:00Z"), false),
        ("second 60", "Event", "/firstTimestamp", json!("2016-12-31T23:59:60Z"), false),
        ("microseconds", "Event", "/eventTime", json!("2026-03-01T08:00:00.000000Z"), true),
        (
            "a comma before the fraction",
            "Event",
            "/eventTime",
            json!("2026-03-01T08:00:00,000000Z"),
            false,
        ),
        (
            "the zero time with microseconds",
            "Event",
            "/eventTime",
            json!("0001-01-01T00:00:00.000000Z"),
            false,
        ),
        (
            "one microsecond after the zero time",
            "Event",
            "/eventTime",
            json!("0001-01-01T00:00:00.000001Z"),
            true,
        ),
        ("the number 0", "Service", "/spec/ports/0/targetPort", json!(0), true),
        ("the name of a port", "Service", "/spec/ports/0/targetPort", json!("http"), true),
        ("an empty name", "Service", "/spec/ports/0/targetPort", json!(""), true),
        ("more than 32 bits", "Service", "/spec/ports/0/targetPort", json!(1_u64 << 31), false),
        ("null for a number or name", "Service", "/spec/ports/0/targetPort", json!(null), false),
        ("a float", "Service", "/spec/ports/0/port", json!(1.0), false),
        ("a null text of a list", "Node", "/spec/podCIDRs/0", json!(null), false),
        ("an empty text of a list", "Node", "/spec/podCIDRs/0", json!(""), true),
        ("a null structure of a list", "Node", "/spec/taints/0", json!(null), false),
        ("a null structure", "Node", "/status/nodeInfo", json!(null), false),
        ("an amount to round", "Node", "/status/capacity/a", json!("1u"), false),
        ("an amount that Go keeps", "Node", "/status/capacity/a", json!("+01"), true),
        ("a null amount", "Node", "/status/capacity/a", json!(null), false),
        ("any JSON", "Event", "/metadata/managedFields/0/fieldsV1", json!([{"b": null}]), true),
        ("null as any JSON", "Event", "/metadata/managedFields/0/fieldsV1", json!(null), false),
    ] {
        let root = Types::builtin().kind("", kind).unwrap();
        let mut document = document(root);
        *document.pointer_mut(at).unwrap() = given;
        assert_eq!(agrees(root, &document), is_same, "{what}");
        assert_eq!(is_canonical(root, &document), is_same, "{what}");
    }
}

/// Values of many types, to put at any place.
fn anything() -> Vec<Value> {
    vec![
        json!(null),
        json!(""),
        json!("text"),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.0),
        json!(0.5),
        json!(1_u64 << 31),
        json!(u64::MAX),
        json!([]),
        json!([null]),
        json!([""]),
        json!([{}]),
        json!({}),
        json!({"a": null}),
        json!({"b": "1", "a": "1"}),
        json!({"a": "1", "b": "1u"}),
    ]
}

/// Returns other texts for the type of a sample value; none for most types. Decoding rewrites or
/// refuses some of the texts.
fn like(sample: &Value) -> Vec<Value> {
    let texts: &[&str] = match sample.as_str() {
        Some("YQ==") => &["YR==", "Y\nQ==", "YQ", "YWJj", "YWJ="],
        Some("1") => &["1Gi", "1024Mi", "1500u", "+1", "01", "1.", "10Ei", "0.5", "1e3", "12e2"],
        Some(time) if time.starts_with("2026") => &[
            "2026-03-01T08:00:00Z",
            "2026-03-01T08:00:00.5Z",
            "2026-03-01T08:00:00.000001Z",
            "2026-03-01T08:00:00,000001Z",
            "2026-03-01T08:00:00+01:00",
            "2026-03-01T8:00:00Z",
            "2026-02-30T08:00:00Z",
            "2016-12-31T23:59:60Z",
            "0001-01-01T00:00:00Z",
            "0001-01-01T00:00:00.000000Z",
            "9999-12-31T23:59:59Z",
        ],
        _ => &[],
    };
    texts.iter().map(|text| json!(text)).collect()
}

/// One change of a document.
#[derive(Clone, Debug)]
enum Change {
    Replace(Index),
    /// Replaces a value by one of the texts that [`like`] returns for it; by any value if `like`
    /// returns none.
    Imitate(Index),
    Remove(Index),
    /// Moves the first entry of a map to its end.
    Rotate,
    Insert(Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any::<Index>().prop_map(Change::Replace),
        4 => any::<Index>().prop_map(Change::Imitate),
        1 => any::<Index>().prop_map(Change::Remove),
        1 => Just(Change::Rotate),
        1 => any::<Index>().prop_map(Change::Insert),
    ]
}

impl Change {
    fn apply(self, value: &mut Value) {
        match (self, value) {
            (Self::Imitate(at), value) if !like(value).is_empty() => {
                *value = at.get(like(value).as_slice()).clone()
            }
            (Self::Replace(at) | Self::Imitate(at), value) => {
                *value = at.get(anything().as_slice()).clone();
            }
            (Self::Remove(at), Value::Object(map)) if !map.is_empty() => {
                let at = at.index(map.len());
                let mut left = 0..;
                map.retain(|_, _| left.next() != Some(at));
            }
            (Self::Rotate, Value::Object(map)) if !map.is_empty() => {
                let first = map.keys().next().unwrap().clone();
                let value = map.shift_remove(&first).unwrap();
                map.insert(first, value);
            }
            (Self::Insert(at), Value::Object(map)) => {
                map.insert("z".into(), at.get(anything().as_slice()).clone());
            }
            (Self::Insert(at), Value::Array(list)) => {
                list.push(at.get(anything().as_slice()).clone())
            }
            (Self::Remove(at), Value::Array(list)) if !list.is_empty() => {
                list.remove(at.index(list.len()));
            }
            // The value has no element to remove or move, or cannot hold one.
            (Self::Remove(_) | Self::Rotate | Self::Insert(_), value) => *value = Value::Null,
        }
    }
}

/// Groups the JSON pointers of all values by the text of the value; all maps form one group, and
/// all lists another. Samples of different scalar types have different texts.
fn places(value: &Value, at: &str, out: &mut BTreeMap<String, Vec<String>>) {
    let looks = match value {
        Value::Object(_) => "map".into(),
        Value::Array(_) => "list".into(),
        other => other.to_string(),
    };
    out.entry(looks).or_default().push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                places(value, &format!("{at}/{name}"), out);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{index}"), out);
            }
        }
        _ => {}
    }
}

/// Replaces each value of a document of each kind by every text that [`like`] returns, one at a
/// time. `agrees` makes the assertion.
#[test]
fn a_value_in_another_spelling_is_unsettled_or_kept_by_decoding() {
    for def in resources::builtin() {
        let root = def.structure().unwrap();
        let document = document(root);
        let mut all = BTreeMap::new();
        places(&document, "", &mut all);
        for place in all.into_values().flatten() {
            for other in like(document.pointer(&place).unwrap()) {
                let mut document = document.clone();
                *document.pointer_mut(&place).unwrap() = other;
                agrees(root, &document);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn decoding_keeps_every_settled_document(
        kind in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<Index>(), change()), 1..3),
    ) {
        let kinds = resources::builtin();
        let root = kinds[kind.index(kinds.len())].structure().unwrap();
        let mut document = document(root);
        for (looks, at, change) in changes {
            let mut all = BTreeMap::new();
            places(&document, "", &mut all);
            let all: Vec<Vec<String>> = all.into_values().collect();
            let alike: &Vec<String> = looks.get(all.as_slice());
            let place: &String = at.get(alike.as_slice());
            change.apply(document.pointer_mut(place).unwrap());
        }
        // `agrees` makes the assertion.
        agrees(root, &document);
    }
}
