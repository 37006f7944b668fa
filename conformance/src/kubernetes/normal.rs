//! Normalizes answers: replaces values that differ on every server by names, so that equal values
//! get equal names.
//!
//! | value | becomes | reason |
//! | --- | --- | --- |
//! | the sequence's namespace | `$id` | each play of a sequence uses another namespace |
//! | UIDs | `uid1`, `uid2` … in order of appearance | the server draws them; equality stays visible |
//! | resourceVersions of objects | `rv1`, `rv2` … by size | the server counts all writes; equality and order stay visible |
//! | resourceVersions of lists and bookmarks | `≥rvN`, the newest object that they cover | a real server writes leases in between |
//! | times after 2020 | `(time)`, `(micro time)` | they come from the server's clock; sequences write older times |
//! | generated names | prefix and `?1`, `?2` … | the server draws them |
//! | addresses of `10.96.0.0/12` | `ip1` … | the server allocates them at random |
//! | node ports | `port1` … | the server allocates them at random |
//! | an object quoted in a message | `(the object)` | it contains managedFields and times of the server |
//! | `storageVersionHash` | `(hash)` | it depends on the API group, whose name contains the namespace |
//! | ages in tables, up to two minutes | `(age)` | they depend on the duration of the play |
//! | the server's current resourceVersion in a message | `(version)` | the server counts all writes |
//! | continue tokens | `(token)` | they are opaque to clients |
//! | `metadata.managedFields` | left out, unless the sequence compares them | they repeat the fields of every request |
//! | order of JSON fields | by name | clients must not depend on the order |

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer to one step: the answer to a request, events of a watch, or nothing for a compaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepAnswer {
    /// The HTTP status; 0 for a step that is not a request.
    #[serde(default, skip_serializing_if = "is_none")]
    pub status: u16,
    /// Headers of the answer that clients use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: JSON or text. `None` for an answer that opens a watch, and for a step that is not
    /// a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Events that a step read from a watch; `None` for any other step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Value>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(status: &u16) -> bool {
    *status == 0
}

/// Normalizes the answers of one play of a sequence in the namespace `id`. Keeps
/// `metadata.managedFields` only if `managed_fields` is true.
pub fn normalise(mut answers: Vec<StepAnswer>, id: &str, managed_fields: bool) -> Vec<StepAnswer> {
    let mut names = Names { id: id.to_owned(), managed_fields, ..Names::default() };
    for answer in &answers {
        names.learn_all(answer);
    }
    for answer in &mut answers {
        for value in answer.headers.values_mut() {
            *value = names.text(value);
        }
        for value in answer.body.iter_mut().chain(answer.events.iter_mut().flatten()) {
            *value = names.value(value, "", false);
        }
    }
    answers
}

/// Values of the server that were seen in the answers of one play, and the names that replace them.
#[derive(Default)]
struct Names {
    id: String,
    managed_fields: bool,
    versions: BTreeSet<u64>,
    uids: Vec<String>,
    addresses: Vec<String>,
    ports: Vec<u64>,
    /// Generated names, each with its replacement.
    generated: Vec<(String, String)>,
}

/// True if the cell is an age under two minutes in the short form of kubectl, such as `0s` or
/// `119s`.
fn is_age(cell: &str) -> bool {
    cell.strip_suffix('s').and_then(|it| it.parse::<u32>().ok()).is_some_and(|it| it < 120)
}

/// True if the resourceVersion in this object's metadata is that of a collection.
fn is_collection(object: &Map<String, Value>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    object.get("items").is_some_and(Value::is_array) || kind.ends_with("List") || kind == "Table"
}

fn is_bookmark(object: &Map<String, Value>) -> bool {
    object.get("type").and_then(Value::as_str) == Some("BOOKMARK")
}

impl Names {
    fn learn_all(&mut self, answer: &StepAnswer) {
        for value in answer.body.iter().chain(answer.events.iter().flatten()) {
            self.learn(value);
        }
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                if is_bookmark(object) {
                    return;
                }
                let metadata = &object.get("metadata").unwrap_or(&Value::Null);
                let version = metadata["resourceVersion"].as_str().and_then(|it| it.parse().ok());
                if let Some(version) = version
                    && !is_collection(object)
                {
                    self.versions.insert(version);
                }
                if let (Some(prefix), Some(name)) =
                    (metadata["generateName"].as_str(), metadata["name"].as_str())
                    && name.starts_with(prefix)
                    && !prefix.is_empty()
                    && !self.generated.iter().any(|(known, _)| known == name)
                {
                    let stands = format!("{prefix}?{}", self.generated.len() + 1);
                    self.generated.push((name.to_owned(), stands));
                }
                object.values().for_each(|value| self.learn(value));
            }
            Value::Array(entries) => entries.iter().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    fn value(&mut self, value: &Value, field: &str, covers: bool) -> Value {
        match value {
            Value::Object(object) => {
                let covers = is_bookmark(object)
                    || is_collection(object)
                    || (covers && matches!(field, "metadata" | "object"));
                let mut sorted: BTreeMap<String, Value> = BTreeMap::new();
                for (name, value) in object {
                    if name == "managedFields" && !self.managed_fields {
                        continue;
                    }
                    let value =
                        self.value(value, name, covers && name != "items" && name != "rows");
                    sorted.insert(self.text(name), value);
                }
                Value::Object(sorted.into_iter().collect())
            }
            Value::Array(entries) => {
                entries.iter().map(|value| self.value(value, field, false)).collect()
            }
            Value::String(text) => self.string(text, field, covers).into(),
            Value::Number(number) if field.to_lowercase().ends_with("nodeport") => {
                match number.as_u64().filter(|port| (30000..=32767).contains(port)) {
                    Some(port) => format!("port{}", index(&mut self.ports, &port)).into(),
                    None => value.clone(),
                }
            }
            other => other.clone(),
        }
    }

    fn string(&mut self, text: &str, field: &str, covers: bool) -> String {
        if field == "resourceVersion" && text != "0" {
            let Ok(version) = text.parse::<u64>() else { return self.text(text) };
            return self.version(version, covers);
        }
        if field.contains("cells") && is_age(text) {
            return "(age)".into();
        }
        if field == "storageVersionHash" {
            return "(hash)".into();
        }
        if field == "continue" && !text.is_empty() {
            return "(token)".into();
        }
        self.text(text)
    }

    fn version(&self, version: u64, covers: bool) -> String {
        let rank = self.versions.range(..=version).count();
        if covers || !self.versions.contains(&version) {
            format!("≥rv{rank}")
        } else {
            format!("rv{rank}")
        }
    }

    /// Returns the text with values of the server replaced by names. Gives new names to UIDs and
    /// addresses that no earlier text contained.
    fn text(&mut self, text: &str) -> String {
        if let Ok(time) = text.parse::<Timestamp>()
            && text.get(..4).is_some_and(|year| year > "2020")
        {
            // The two forms stay distinct: Kubernetes writes seconds or microseconds, and a client
            // may parse only one of them.
            return match (text.contains('.'), time.subsec_nanosecond()) {
                (true, _) => "(micro time)".into(),
                (false, _) => "(time)".into(),
            };
        }
        let mut text = text.replace(&self.id, "$id");
        for (name, stands) in &self.generated {
            text = text.replace(&name.replace(&self.id, "$id"), &stands.replace(&self.id, "$id"));
        }
        text = without_quoted_object(&text);
        text = self.uids_in(&text);
        text = self.addresses_in(&text);
        if text.contains("esource version") {
            text = counters_in(&text);
        }
        if text.contains("in the precondition (") {
            text = self.versions_in(&text);
        }
        text
    }

    /// Replaces each resourceVersion in parentheses by its name, such as `rv1`.
    fn versions_in(&self, text: &str) -> String {
        let mut parts = text.split('(');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out.push('(');
            match part.split_once(')').and_then(|(it, rest)| Some((it.parse().ok()?, rest))) {
                Some((version, rest)) => {
                    out.push_str(&format!("{}){rest}", self.version(version, false)))
                }
                None => out.push_str(part),
            }
        }
        out
    }

    fn uids_in(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let is_uid = |it: &[u8]| {
            it.iter().enumerate().all(|(n, byte)| match n {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.as_bytes().windows(LENGTH).position(is_uid) {
            out.push_str(&rest[..at]);
            let uid = rest[at..at + LENGTH].to_owned();
            out.push_str(&format!("uid{}", index(&mut self.uids, &uid)));
            rest = &rest[at + LENGTH..];
        }
        out + rest
    }

    fn addresses_in(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("10.") {
            let begins = at == 0 || !rest.as_bytes()[at - 1].is_ascii_alphanumeric();
            let length = rest[at..]
                .find(|it: char| !it.is_ascii_digit() && it != '.')
                .unwrap_or(rest.len() - at);
            let (before, tail) = rest.split_at(at);
            let (address, tail) = tail.split_at(length);
            out.push_str(before);
            let ip = address.trim_end_matches('.');
            let is_service =
                ip.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.octets()[1] & 0xf0 == 96);
            // An address with a slash is the service network, which is the same on all servers.
            if begins && is_service && !tail.starts_with('/') {
                out.push_str(&format!("ip{}", index(&mut self.addresses, &ip.to_owned())));
                out.push_str(&address[ip.len()..]);
            } else {
                out.push_str(address);
            }
            rest = tail;
        }
        out + rest
    }
}

/// Returns the position of a value in the order of appearance, from 1. Adds a new value to `known`.
fn index<T: PartialEq + Clone>(known: &mut Vec<T>, value: &T) -> usize {
    match known.iter().position(|it| it == value) {
        Some(at) => at + 1,
        None => {
            known.push(value.clone());
            known.len()
        }
    }
}

/// Replaces an object that a message quotes, because the object contains managedFields and times of
/// the server.
fn without_quoted_object(text: &str) -> String {
    let begin = ["Invalid value: \"{", "Invalid value: {\"apiVersion"]
        .iter()
        .find_map(|quote| Some(text.find(quote)? + "Invalid value: ".len()));
    let end = text.rfind("}\": ").map(|at| at + 2).or_else(|| text.rfind("}: ").map(|at| at + 1));
    match (begin, end) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}(the object){}", &text[..begin], &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// Replaces the server's current resourceVersion in messages such as `current: 123` and `too old
/// resource version: 1 (123)`.
fn counters_in(text: &str) -> String {
    let mut text = text.to_owned();
    for (before, after) in [("current: ", ""), ("(", ")")] {
        if let Some(at) = text.find(before) {
            let begin = at + before.len();
            let digits = text[begin..].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 && text[begin + digits..].starts_with(after) {
                text.replace_range(begin..begin + digits, "(version)");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(body: Value) -> Value {
        let answer = StepAnswer { body: Some(body), ..StepAnswer::default() };
        normalise(vec![answer], "kd-1", false).remove(0).body.unwrap()
    }

    #[test]
    fn values_that_the_server_generates_are_replaced() {
        let uid = "0b5ad2b5-93c1-4b3c-9a39-4a7e6d3d0f52";
        for (name, body, want) in [
            (
                "UIDs, also inside of texts",
                json!({"a": uid, "b": format!("x {uid}.")}),
                json!({"a": "uid1", "b": "x uid1."}),
            ),
            ("times of the server", json!({"t": "2026-03-01T08:00:00Z"}), json!({"t": "(time)"})),
            (
                "times of the sequence",
                json!({"t": "2020-03-01T08:00:00Z"}),
                json!({"t": "2020-03-01T08:00:00Z"}),
            ),
            (
                "versions of objects by size, and that of a list by its newest object",
                json!({"kind": "NodeList", "metadata": {"resourceVersion": "70"}, "items": [
                    {"metadata": {"resourceVersion": "60"}}, {"metadata": {"resourceVersion": "51"}}]}),
                json!({"kind": "NodeList", "metadata": {"resourceVersion": "≥rv2"}, "items": [
                    {"metadata": {"resourceVersion": "rv2"}}, {"metadata": {"resourceVersion": "rv1"}}]}),
            ),
            (
                "generated names",
                json!({"metadata": {"generateName": "kd-1-", "name": "kd-1-x7z2p"}}),
                json!({"metadata": {"generateName": "$id-", "name": "$id-?1"}}),
            ),
            ("addresses", json!(["10.96.3.4", "10.96.0.0/16"]), json!(["ip1", "10.96.0.0/16"])),
            (
                "node ports",
                json!({"nodePort": 30123, "port": 30123}),
                json!({"nodePort": "port1", "port": 30123}),
            ),
            (
                "counters in messages",
                json!("Too large resource version: 99, current: 12"),
                json!("Too large resource version: 99, current: (version)"),
            ),
        ] {
            assert_eq!(one(body), want, "{name}");
        }
    }
}
