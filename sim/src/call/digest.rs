//! Digests of answers and of sessions.
//!
//! The digest of an answer has 64 bits. Equal answers have equal digests, so a reader of the ledger
//! can find reads that returned nothing new.
//!
//! The digest of Kubernetes objects from the built-in API server covers the UIDs and versions of
//! the objects, whatever the encoding. The digest of any other answer covers its bytes. The digests
//! omit values that change with every request: the revision of a list from the built-in API server,
//! and a session's number of calls and time of last use. A digest reveals no secret. It is not
//! collision resistant: an attacker can construct two answers with the same digest.

use std::fmt;
use std::hash::Hasher;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// Digest of an answer. Its text in the ledger has 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

/// Start and end of the fields that change with every use of a session, in SOAP and in vAPI.
const PASSING: [(&[u8], &[u8]); 3] = [
    (b"<lastActiveTime>", b"</lastActiveTime>"),
    (b"<callCount>", b"</callCount>"),
    (b"\"last_accessed_time\":\"", b"\""),
];

/// Maximum length in bytes of an answer about a session. The digest of a longer answer covers the
/// fields of [`PASSING`], too.
const ABOUT_A_SESSION: usize = 4096;

impl Digest {
    /// Returns the digest of a whole body. The digest of a body of at most 4096 bytes omits a
    /// session's number of calls and time of last use.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        let mut hasher = Folded::default();
        for said in lasting(body) {
            hasher.write(said);
        }
        Self(hasher.finish())
    }

    /// Returns the digest of several texts. Their order and their boundaries matter.
    pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = Folded::default();
        for part in parts {
            hasher.write(part.as_bytes());
        }
        Self(hasher.finish())
    }
}

/// Splits a body into pieces that omit the values of the fields of [`PASSING`]. A body of more than
/// [`ABOUT_A_SESSION`] bytes stays whole.
fn lasting(mut body: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    if body.len() <= ABOUT_A_SESSION {
        // The fields come in any order. Only the first occurrence of each is omitted.
        let mut spans: Vec<(usize, usize)> = PASSING
            .iter()
            .filter_map(|(open, close)| {
                let from = find(body, open)? + open.len();
                Some((from, from + find(&body[from..], close)?))
            })
            .collect();
        spans.sort_unstable();
        let mut done = 0;
        for (from, to) in spans {
            pieces.push(&body[..from - done]);
            body = &body[to - done..];
            done = to;
        }
    }
    pieces.push(body);
    pieces
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|it| it == what)
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::invalid_value(de::Unexpected::Str(&text), &"16 hex digits");
        u64::from_str_radix(&text, 16).map(Self).map_err(|_| wrong())
    }
}

/// Hasher that multiplies eight bytes at a time by a constant and folds the product of 128 bits
/// into 64. The hashers of the standard library may change with a release, and a cryptographic hash
/// takes longer than the rest of the answer.
#[derive(Default)]
struct Folded(u64);

impl Folded {
    fn add(&mut self, word: u64) {
        // The constants are the first digits of pi, so that no bit of a short text stays in place.
        let mixed = u128::from(self.0 ^ word ^ 0x243f_6a88_85a3_08d3) * 0x1319_8a2e_0370_7345;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (low, high) = (mixed as u64, (mixed >> 64) as u64);
        self.0 = low ^ high;
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let mut last = [0; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
        // Includes the boundaries between texts.
        self.add(bytes.len() as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns a one-way digest of a session or credential: 8 hexadecimal digits. Equal secrets have
/// equal digests.
pub(crate) fn session_digest(secret: &str) -> String {
    let hash = Sha256::digest(secret.as_bytes());
    hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_answers_have_equal_digests_and_different_answers_have_different_ones() {
        let same = [b"<a>1</a>".as_slice(), b"<a>1</a>"].map(Digest::of_body);
        assert_eq!(same[0], same[1]);
        let texts =
            ["", "\0", "\0\0", "<a>1</a>", "<a>2</a>", "12345678", "123456780", "1234567801234567"];
        let digests: std::collections::BTreeSet<Digest> =
            texts.iter().map(|it| Digest::of_body(it.as_bytes())).collect();
        assert_eq!(digests.len(), texts.len());
        assert_ne!(Digest::of_parts(["ab", "c"]), Digest::of_parts(["a", "bc"]));
        // Every later build must compute the same digest.
        assert_eq!(Digest::of_body(b"<a>1</a>").to_string(), "9b24480a0d0ef85b");
    }

    #[test]
    fn usage_counters_of_a_session_do_not_change_the_digest() {
        for (one, other) in [
            (
                "<key>k</key><lastActiveTime>1</lastActiveTime><callCount>9</callCount>",
                "<key>k</key><lastActiveTime>22</lastActiveTime><callCount>10</callCount>",
            ),
            (
                r#"{"user":"u","last_accessed_time":"1"}"#,
                r#"{"user":"u","last_accessed_time":"2"}"#,
            ),
        ] {
            let digest = |text: &str| Digest::of_body(text.as_bytes());
            assert_eq!(digest(one), digest(other));
            assert_ne!(digest(one), digest(&one.replace('u', "v").replace("k<", "l<")));
        }
    }

    #[test]
    fn a_digest_survives_a_round_trip_through_json() {
        let digest = Digest::of_body(b"x");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(text.len(), 18);
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"no digest\"").is_err());
    }
}
