//! Parser of fields that hold a scalar (a text or a whole number) or a list of scalars.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Visitor that reads a scalar or a list of scalars as texts. Contains the description of the
/// expected value for error messages.
pub(crate) struct OneOrMany(pub(crate) &'static str);

impl<'de> serde::de::Visitor<'de> for OneOrMany {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(vec![value.to_string()])
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(vec![value.to_string()])
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(vec![value.to_owned()])
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Scalar(text)) = seq.next_element()? {
            all.push(text);
        }
        Ok(all)
    }
}

struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut one = deserializer.deserialize_any(OneOrMany("a text or a number"))?;
        one.pop().map(Self).ok_or_else(|| D::Error::custom("a text or a number is expected"))
    }
}
