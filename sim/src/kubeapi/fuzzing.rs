//! Properties of the decoders of bodies.

use super::{duplicates, json as document, protobuf as wire};

/// Checks that a protobuf body is either refused, or reads the same after it is written again.
///
/// # Panics
/// If the property does not hold.
pub fn protobuf(body: &[u8]) {
    let Ok(object) = wire::decode(body, "v1", "Node") else { return };
    let written = wire::encode(&object).expect("what was read is of a known kind");
    assert_eq!(wire::decode(&written, "", "").as_ref(), Ok(&object));
}

/// Checks that a JSON body that serde reads gives the same value, and that any other accepted body reads
/// the same after it is written again.
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
