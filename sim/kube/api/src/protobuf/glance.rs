//! Reads facts from an answer without its schema: the number of objects, and the reason of a
//! failure.

use super::wire::{Field, Reader, WireError};
use super::{MAGIC, Unknown, lossy};

/// Number of the items field in every Kubernetes list.
const ITEMS: i32 = 2;
/// Number of the reason field in a `Status`.
const REASON: i32 = 4;

/// Facts about the body of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerFacts {
    /// Reason of a failure `Status`; empty if the answer has none.
    pub reason: String,
    /// Number of items in a list; 1 for any other answer.
    pub objects: u64,
}

/// Reads the facts from an answer; `None` if it is not a valid protobuf body of Kubernetes.
pub(crate) fn glance(body: &[u8]) -> Option<AnswerFacts> {
    let unknown = Unknown::read(body.strip_prefix(&MAGIC)?).ok()?;
    let (is_list, is_status) = (unknown.kind.ends_with("List"), unknown.kind == "Status");
    let mut seen = AnswerFacts { objects: u64::from(!is_list), ..AnswerFacts::default() };
    let mut fields = Reader::new(unknown.raw);
    while let Some((number, field)) = next(&mut fields).ok()? {
        match (number, field) {
            (ITEMS, Field::Bytes(_)) if is_list => seen.objects += 1,
            (REASON, Field::Bytes(reason)) if is_status => seen.reason = lossy(reason),
            _ => {}
        }
    }
    Some(seen)
}

fn next<'a>(fields: &mut Reader<'a>) -> Result<Option<(i32, Field<'a>)>, WireError> {
    fields.next("answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of fewer than 128 bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [&MAGIC[..], &field(1, &meta), &field(2, raw)].concat()
    }

    #[test]
    fn a_glance_counts_listed_objects_and_reads_the_reason_of_a_refusal() {
        let items = [field(1, b""), field(2, b""), field(2, b"")].concat();
        let refusal = [field(2, b"Failure"), field(4, b"NotFound")].concat();
        for (name, body, want) in [
            ("a list", body("NodeList", &items), Some(("", 2))),
            ("an object", body("Node", &field(1, b"")), Some(("", 1))),
            ("a refusal", body("Status", &refusal), Some(("NotFound", 1))),
            ("not protobuf", b"{}".to_vec(), None),
        ] {
            let seen = glance(&body);
            let seen = seen.as_ref().map(|it| (it.reason.as_str(), it.objects));
            assert_eq!(seen, want, "{name}");
        }
    }
}
