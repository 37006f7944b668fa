//! Properties of the decoders of request bodies, for fuzzing and tests.

use super::{duplicates, json as document, protobuf as wire};

/// Checks that the decoder either refuses a protobuf body, or returns an object that stays the same
/// when it is encoded and decoded again.
///
/// # Panics
/// If the property does not hold.
pub fn protobuf(body: &[u8]) {
    let Ok(object) = wire::decode(body, "v1", "Node") else { return };
    let written = wire::encode(&object).expect("a decoded object has a known kind");
    assert_eq!(wire::decode(&written, "", "").as_ref(), Ok(&object));
}

/// Checks that our reader returns the same value as serde for a JSON body that serde accepts. If
/// only our reader accepts the body, checks that the value stays the same when it is written and
/// read again.
///
/// # Panics
/// If the property does not hold.
pub fn json(body: &[u8]) {
    let _ = duplicates::find(body);
    let strict = serde_json::from_slice::<serde_json::Value>(body);
    match (document::read(body), strict) {
        (Ok(object), Ok(strict)) => assert_eq!(object, strict),
        (Ok(object), Err(_)) => {
            assert_eq!(document::read(object.to_string().as_bytes()), Ok(object));
        }
        (Err(why), Ok(_)) => panic!("{why}"),
        (Err(why), Err(_)) => assert!(!why.is_empty()),
    }
}
