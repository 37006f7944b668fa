//! Tests with protobuf bodies that client-go wrote (`fixtures/*.pb`; the `.json` files have the
//! same objects), and with malformed bytes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MAGIC, ProtobufError, decode, encode};

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        [$((
            $name,
            include_bytes!(concat!("fixtures/", $name, ".pb")).as_slice(),
            include_str!(concat!("fixtures/", $name, ".json")),
        )),*]
    };
}

const FIXTURES: [(&str, &[u8], &str); 19] = fixtures![
    "clusterrole",
    "configmap",
    "crd",
    "deleteoptions",
    "endpoints",
    "endpointslice",
    "event",
    "event-series",
    "lease",
    "namespace",
    "node",
    "node-bare",
    "pod",
    "rolebinding",
    "secret",
    "service",
    "serviceaccount",
    "subjectaccessreview",
    "tokenreview",
];

/// Removes nulls. Go writes them for empty lists and instants in fields without `omitempty`.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn protobuf_is_read_as_the_json_of_the_same_object() {
    for (name, bytes, json) in FIXTURES {
        let decoded = decode(bytes, "", "").unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let wanted: Value = serde_json::from_str(json).unwrap();
        let (decoded, wanted) = (without_nulls(decoded), without_nulls(wanted));
        assert_eq!(
            serde_json::to_string_pretty(&decoded.clone()).unwrap().lines().count(),
            serde_json::to_string_pretty(&wanted).unwrap().lines().count(),
            "{name}:\n{decoded:#}\n{wanted:#}"
        );
        assert_eq!(decoded, wanted, "{name}");
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The expected messages are those of the real server (1.36.3) for the same bytes.
#[test]
fn malformed_protobuf_is_refused_in_the_real_decoders_words() {
    let envelope = |why: &str| Err(ProtobufError::Envelope(why.into()));
    let object = |why: &str| {
        let (api_version, kind) = ("v1".into(), "ConfigMap".into());
        Err(ProtobufError::Object { api_version, kind, why: why.into() })
    };
    for (bytes, want) in [
        (
            "6b3873",
            envelope(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
        ),
        ("6b387300", envelope("empty body")),
        ("6b38730000", envelope("proto: Unknown: illegal tag 0 (wire type 0)")),
        ("6b387300ffff", envelope("unexpected EOF")),
        ("6b3873000a0a0a0276311204", envelope("unexpected EOF")),
        ("6b3873000a04120141", envelope("unexpected EOF")),
        ("6b3873000a0f0a0276311209436f6e6669674d61701203ffffff", object("unexpected EOF")),
        ("6b3873000a0f0a0276311209436f6e6669674d617012020a7f", object("unexpected EOF")),
    ] {
        assert_eq!(decode(&hex(bytes), "v1", "ConfigMap").map(|_| ()), want, "{bytes}");
    }
    for (bytes, kind) in [
        ("6b3873000a0f0a02763112094e616d657370616365", "Namespace"),
        ("6b3873000a0f0a0276311209436f6e6669674d6170", "ConfigMap"),
        ("6b3873001200", "ConfigMap"),
    ] {
        let decoded = decode(&hex(bytes), "v1", "ConfigMap").unwrap();
        assert_eq!(decoded["kind"], kind, "{bytes}");
    }
}

#[test]
fn an_object_written_as_protobuf_reads_as_the_same_object() {
    for (name, bytes, _) in FIXTURES {
        let object = decode(bytes, "", "").unwrap();
        let written = encode(&object).unwrap();
        assert_eq!(decode(&written, "", ""), Ok(object), "{name}");
    }
}

#[test]
fn a_group_in_place_of_a_field_is_refused() {
    // Field 1, metadata, as a group.
    let body = "6b3873000a0f0a0276311209436f6e6669674d617012020b0c";
    let refused = decode(&hex(body), "v1", "ConfigMap");
    let Err(ProtobufError::Object { why, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "proto: wrong wireType = 3 for field ObjectMeta");
}

#[test]
fn protobuf_messages_nested_too_deep_are_refused() {
    // A schema whose `not` is a schema whose `not` is …
    let mut schema: Vec<u8> = Vec::new();
    for _ in 0..20_000 {
        let mut outer = vec![0xe2, 0x01];
        let mut length = schema.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend_from_slice(&schema);
        schema = outer;
    }
    let wrapped = |field: u8, inner: &[u8]| {
        let mut outer = vec![field << 3 | 2];
        let mut length = inner.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend_from_slice(inner);
        outer
    };
    let raw = wrapped(2, &wrapped(7, &wrapped(4, &wrapped(1, &schema))));
    let mut body = MAGIC.to_vec();
    body.extend(wrapped(2, &raw));
    let refused = decode(&body, "apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let Err(ProtobufError::Object { why, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "exceeded max depth");
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, "v1", "Node");
        let mut body = MAGIC.to_vec();
        body.extend_from_slice(&bytes);
        let _ = decode(&body, "v1", "Pod");
    }

    #[test]
    fn a_damaged_message_does_not_make_the_decoder_panic(
        which in 0..FIXTURES.len(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = FIXTURES[which].1.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&bytes, "v1", "Node");
        bytes.truncate(cut.index(bytes.len()));
        let _ = decode(&bytes, "v1", "Node");
    }
}

/// A Cluster Autoscaler sends evictions in the older version, and a client-go of today in the newer.
#[test]
fn evictions_of_both_versions_are_decoded() {
    for version in ["policy/v1", "policy/v1beta1"] {
        let eviction = json!({
            "kind": "Eviction", "apiVersion": version,
            "metadata": {"name": "a", "namespace": "default"},
            "deleteOptions": {"gracePeriodSeconds": 7},
        });
        let body = encode(&eviction).unwrap();
        let read = decode(&body, "policy/v1", "Eviction").unwrap();
        assert_eq!(
            (&read["apiVersion"], &read["deleteOptions"]["gracePeriodSeconds"]),
            (&version.into(), &7.into())
        );
    }
}
