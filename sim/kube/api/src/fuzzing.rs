//! Properties of the decoders of request bodies, for fuzzing and tests.

use kube_sim_store::duplicate_fields;

use crate::protobuf as wire;
use crate::request::json as document;

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
/// read again. If both refuse the body, checks that our reader gives a reason.
///
/// # Panics
/// If one of these properties does not hold.
pub fn json(body: &[u8]) {
    let _ = duplicate_fields(body);
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Calls `play` with each committed input of a fuzz target.
    fn replay(target: &str, play: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(target);
        let inputs = fs::read_dir(&folder).expect("a directory of inputs");
        let mut n_played = 0;
        for input in inputs {
            let path = input.expect("a readable directory entry").path();
            println!("{}", path.display());
            play(&fs::read(&path).expect("a readable input"));
            n_played += 1;
        }
        assert!(n_played > 0, "{}", folder.display());
    }

    #[test]
    fn the_committed_fuzzing_inputs_pass_their_checks() {
        replay("json", super::json);
        replay("protobuf", super::protobuf);
    }
}
