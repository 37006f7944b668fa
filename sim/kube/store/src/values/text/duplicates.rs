//! Finds fields that occur more than once in a JSON object. A parsed document keeps only one of
//! them.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Maximum number of reported fields: 100, as in the real decoder.
const MAX_FOUND: usize = 100;

/// Returns the paths of duplicate fields, each path once, in the order of their second occurrence,
/// at most 100.
///
/// Empty for a body that does not begin with a valid JSON value, or whose value is nested too
/// deeply for `serde_json`.
pub fn duplicate_fields(body: &[u8]) -> Vec<String> {
    let mut finder = Finder { path: String::new(), found: Vec::new() };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    if Value(&mut finder).deserialize(&mut deserializer).is_err() {
        return Vec::new();
    }
    finder.found
}

struct Finder {
    path: String,
    found: Vec<String>,
}

/// Visitor that scans one JSON value for duplicate fields without keeping the value.
struct Value<'a>(&'a mut Finder);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        let n_before = self.0.path.len();
        while let Some(name) = map.next_key::<String>()? {
            if n_before > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&name);
            let is_again = !seen.insert(name) && self.0.found.len() < MAX_FOUND;
            if is_again && !self.0.found.contains(&self.0.path) {
                self.0.found.push(self.0.path.clone());
            }
            map.next_value_seed(Value(self.0))?;
            self.0.path.truncate(n_before);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let n_before = self.0.path.len();
        for at in 0_usize.. {
            self.0.path.push_str(&format!("[{at}]"));
            let next = list.next_element_seed(Value(self.0))?;
            self.0.path.truncate(n_before);
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::duplicate_fields;

    #[test]
    fn duplicate_fields_are_found_with_their_paths() {
        for (body, want) in [
            (r#"{"a": 1, "b": {"a": 2}}"#, vec![]),
            (r#"{"a": 1, "a": 2, "a": 3}"#, vec!["a"]),
            (
                r#"{"spec": {"x": [{"k": 1}, {"k": 1, "k": 2}]}, "b": 1, "b": null}"#,
                vec!["spec.x[1].k", "b"],
            ),
            ("{", vec![]),
        ] {
            assert_eq!(duplicate_fields(body.as_bytes()), want, "{body}");
        }
        let many: String = (0..500).map(|n| format!(r#""{n}":0,"{n}":1,"#)).collect();
        assert_eq!(duplicate_fields(format!(r#"{{{many}"end":0}}"#).as_bytes()).len(), 100);
    }
}
