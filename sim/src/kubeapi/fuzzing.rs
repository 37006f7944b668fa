//! Properties of what reads bodies.

use super::{duplicates, json as document, protobuf as wire};

/// A body of protobuf is refused, or read; what is read can be written and read again.
///
/// # Panics
/// If it is not so.
pub fn protobuf(body: &[u8]) {
    let Ok(object) = wire::decode(body, "v1", "Node") else { return };
    let written = wire::encode(&object).expect("what was read is of a known kind");
    assert_eq!(wire::decode(&written, "", "").as_ref(), Ok(&object));
}

/// A body of JSON is read if serde reads it, and then says the same; what else is read reads again as it
/// is written.
///
/// # Panics
/// If it is not so.
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
