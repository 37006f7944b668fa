//! The language of rules: what a call must look like, when a rule fires, what then happens.
//!
//! Rules are read from YAML or JSON and built in Rust; both are these types.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::MissingPaths;
use crate::{Class, Face};

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Its name; unique.
    pub id: String,
    /// Rules of lower priority are asked first; then file order decides.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Which calls it is about.
    #[serde(rename = "match", default)]
    pub matcher: Matcher,
    /// When it fires; all of these must hold. Always, if empty.
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub when: When,
    /// What happens, in order.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// Whether the operation is carried out although the answer fails.
    #[serde(default, skip_serializing_if = "Effect::is_none")]
    pub effect: Effect,
    /// How long the rule lives after it was added; for ever if left out.
    #[serde(
        default,
        with = "sim_world::duration::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ttl: Option<Duration>,
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// Which calls a rule is about. What is left out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matcher {
    /// The front end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Face>,
    /// The server's name: a vCenter, or `cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Operations: exact, with `*`, or a class (`@read`, `@login`).
    #[serde(skip_serializing_if = "Ops::is_any")]
    pub op: Ops,
    /// The object.
    #[serde(skip_serializing_if = "Resource::is_any")]
    pub resource: Resource,
    /// The caller.
    #[serde(skip_serializing_if = "Client::is_any")]
    pub client: Client,
}

/// A list of operation patterns; written as one or as several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(pub Vec<String>);

impl Ops {
    fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an operation of this class matches one of the patterns.
    pub fn matches(&self, operation: &str, class: Class) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|pattern| match pattern.strip_prefix('@') {
                Some(_) => pattern == class.tag(),
                None => glob(pattern, operation),
            })
    }
}

impl<'a> FromIterator<&'a str> for Ops {
    fn from_iter<T: IntoIterator<Item = &'a str>>(patterns: T) -> Self {
        Self(patterns.into_iter().map(str::to_owned).collect())
    }
}

/// The object a call is about. Every given part must match; `*` stands for anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resource {
    /// Managed object type or Kubernetes kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Machine or object name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Managed object id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moref: Option<String>,
    /// The UUID asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

impl Resource {
    fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

/// The caller. Every given part must match; `*` stands for anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Client {
    /// The label of the connection, or the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

impl Client {
    fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

/// When a rule fires. It counts the calls that matched; all given gates must be open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// On the n-th match, from 1: `3`, or a list with ranges, `[1, "4..6"]` (both ends included).
    #[serde(skip_serializing_if = "Nth::is_any")]
    pub nth: Nth,
    /// On the first so many matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Not on the first so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// On every so-many-th.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// So many times in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// With this probability, drawn per match from the seed, the rule, the client and the count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// From the first of these points in world time until before the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
}

impl When {
    fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

/// A span of world time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between(pub Duration, pub Duration);

/// Counts at which a rule fires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nth(pub Vec<(u64, u64)>);

impl Nth {
    fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the `n`-th match is one of them.
    pub fn includes(&self, n: u64) -> bool {
        self.0.is_empty() || self.0.iter().any(|(from, to)| (*from..=*to).contains(&n))
    }
}

/// Whether the operation is carried out when its answer fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The world does not change.
    #[default]
    None,
    /// The operation is carried out, then the failure is delivered.
    Applied,
}

impl Effect {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// What happens to a call. The first that replaces the answer ends the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Wait first.
    Delay(#[serde(with = "sim_world::duration")] Duration),
    /// Answer with a vim25 fault.
    SoapFault {
        /// The class.
        #[serde(rename = "type")]
        class: String,
        /// The text; a typical one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Answer with an HTTP status, worded as the face would: a Kubernetes `Status`, a vAPI error, a
    /// proxy's page in front of `/sdk`.
    Status {
        /// The HTTP status code.
        code: u16,
        /// `Retry-After` in seconds.
        #[serde(default, rename = "retryAfter", skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
        /// The text; a typical one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Break the connection before an answer.
    Reset,
    /// Never answer.
    Blackhole,
    /// Send so many bytes of the answer's body, then break the connection.
    Truncate {
        /// Bytes of the body.
        bytes: u64,
    },
    /// Answer as if nothing matched.
    EmptyResult,
    /// Leave this object out, by name or managed object id.
    Hide(String),
    /// Properties that cannot be read.
    MissingSet(MissingPaths),
    /// The collector version is unknown; the collector starts over.
    #[serde(rename = "updates.versionReset")]
    VersionReset,
    /// A watch answers with an ERROR event, code 410.
    #[serde(rename = "watch.gone410")]
    WatchGone,
    /// A watch stays open and says nothing.
    #[serde(rename = "watch.silent")]
    WatchSilent,
    /// A watch sends no bookmarks.
    #[serde(rename = "watch.noBookmark")]
    WatchNoBookmark,
    /// A watch ends after so many events.
    #[serde(rename = "watch.closeAfter")]
    WatchCloseAfter(u64),
}

impl Rule {
    /// A rule that always fires.
    pub fn new(id: impl Into<String>, actions: impl IntoIterator<Item = Action>) -> Self {
        Self { id: id.into(), actions: actions.into_iter().collect(), ..Self::default() }
    }

    /// For one front end.
    #[must_use]
    pub fn on(mut self, face: Face) -> Self {
        self.matcher.protocol = Some(face);
        self
    }

    /// For one server.
    #[must_use]
    pub fn at(mut self, server: impl Into<String>) -> Self {
        self.matcher.server = Some(server.into());
        self
    }

    /// For these operations.
    #[must_use]
    pub fn op<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.matcher.op = patterns.into_iter().collect();
        self
    }

    /// For the object of this name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.matcher.resource.name = Some(name.into());
        self
    }

    /// For the n-th match only.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when.nth = Nth(vec![(n, n)]);
        self
    }

    /// For the first so many matches.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        self.when.first = Some(n);
        self
    }

    /// With the operation carried out.
    #[must_use]
    pub fn applied(mut self) -> Self {
        self.effect = Effect::Applied;
        self
    }

    /// What is wrong with the rule itself.
    ///
    /// # Errors
    /// A sentence that names the key, the value and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let Self { id, actions, when, .. } = self;
        if id.is_empty() {
            return Err("id is empty; give the rule a name".to_owned());
        }
        if actions.is_empty() {
            return Err(format!("rule `{id}`: do is empty; name at least one action"));
        }
        if let Some(probability) = when.probability
            && !(0.0..=1.0).contains(&probability)
        {
            return Err(format!(
                "rule `{id}`: when.probability is {probability}; it must lie between 0 and 1"
            ));
        }
        if when.every == Some(0) {
            return Err(format!("rule `{id}`: when.every is 0; count from 1"));
        }
        for (key, pattern) in [("protocol", &self.matcher.op)]
            .into_iter()
            .flat_map(|(_, ops)| ops.0.iter().map(|pattern| ("match.op", pattern)))
        {
            let known = ["@read", "@write", "@login", "@longpoll", "@task"];
            if pattern.starts_with('@') && !known.contains(&pattern.as_str()) {
                return Err(format!(
                    "rule `{id}`: {key} `{pattern}` is no class; there are {}",
                    known.join(", ")
                ));
            }
        }
        for action in actions {
            match action {
                Action::Status { code, .. } if !(100..=599).contains(code) => {
                    return Err(format!("rule `{id}`: status code {code} is none of HTTP's"));
                }
                Action::SoapFault { class, .. } if crate::vim::fault_class(class).is_none() => {
                    return Err(format!(
                        "rule `{id}`: soapFault type `{class}` is not known; try SystemError"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any run of characters.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

impl Serialize for Ops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ops {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany("an operation or a list of operations")).map(Self)
    }
}

impl Serialize for Nth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |(from, to): &(u64, u64)| match from == to {
            true => from.to_string(),
            false => format!("{from}..{to}"),
        };
        self.0.iter().map(text).collect::<Vec<_>>().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Nth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = deserializer
            .deserialize_any(OneOrMany("a number, a range like 4..6, or a list of those"))?;
        let bound = |text: &str| text.trim().parse::<u64>().ok().filter(|n| *n > 0);
        let range = |text: &String| {
            let range = match text.split_once("..") {
                Some((from, to)) => bound(from).zip(bound(to)),
                None => bound(text).map(|n| (n, n)),
            };
            range.filter(|(from, to)| from <= to).ok_or_else(|| {
                D::Error::custom(format!("`{text}` is no count from 1 and no range like 4..6"))
            })
        };
        texts.iter().map(range).collect::<Result<Vec<_>, _>>().map(Self)
    }
}

impl Serialize for Between {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.0, self.1].map(sim_world::duration::format).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Between {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [from, to] = <[String; 2]>::deserialize(deserializer)?;
        let read = |text: &str| sim_world::duration::parse(text).map_err(D::Error::custom);
        Ok(Self(read(&from)?, read(&to)?))
    }
}

/// Reads a scalar or a list of scalars as texts.
struct OneOrMany(&'static str);

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
