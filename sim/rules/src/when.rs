//! Part `when` of a rule: the conditions under which the rule fires on a match.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::scalars::OneOrMany;

/// Conditions under which a rule fires on a call that it matches. All given conditions must hold.
/// Counts of matches begin with 1 at the first match after the addition of the rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct When {
    /// Fires only on the n-th match, counted from 1: `3`, or a list with ranges, `[1, "4..6"]`
    /// (both ends included).
    #[serde(skip_serializing_if = "Nth::is_any")]
    pub nth: Nth,
    /// Fires only on the first n matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Does not fire on the first n matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Fires only on every n-th match: n, 2n, 3n, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Fires at most n times in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Probability from 0 to 1 that the rule fires on a match that fulfils the other conditions.
    /// Seed, rule, client and number of the match determine the random number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Fires only in this span of world time, counted from the beginning of the world. The span
    /// excludes its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
}

impl When {
    pub(crate) fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

/// A span of world time. Excludes its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Between {
    /// Beginning of the span, counted from the beginning of the world.
    pub begin: Duration,
    /// End of the span, counted from the beginning of the world.
    pub end: Duration,
}

impl Between {
    /// Returns the span from `begin` to `end`, both counted from the beginning of the world.
    pub fn new(begin: Duration, end: Duration) -> Self {
        Self { begin, end }
    }

    /// True if the span contains this time, counted from the beginning of the world.
    pub fn contains(&self, time: Duration) -> bool {
        (self.begin..self.end).contains(&time)
    }
}

/// Ranges of match counts, from 1, at which a rule may fire; empty for all counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nth(Vec<(u64, u64)>);

impl Nth {
    /// Returns the range of match counts from `first` to `last`, both included.
    pub fn range(first: u64, last: u64) -> Self {
        Self(vec![(first, last)])
    }

    /// True if the rule may fire on every match.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the rule may fire on the `n`-th match.
    pub fn includes(&self, n: u64) -> bool {
        self.0.is_empty() || self.0.iter().any(|(from, to)| (*from..=*to).contains(&n))
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
            .deserialize_any(OneOrMany("a number, a range like 4..6, or a list of these"))?;
        let bound = |text: &str| text.trim().parse::<u64>().ok().filter(|n| *n > 0);
        let range = |text: &String| {
            let range = match text.split_once("..") {
                Some((from, to)) => bound(from).zip(bound(to)),
                None => bound(text).map(|n| (n, n)),
            };
            range.filter(|(from, to)| from <= to).ok_or_else(|| {
                D::Error::custom(format!(
                    "`{text}` is not a count or a range; write a number from 1 on, or a range like 4..6"
                ))
            })
        };
        texts.iter().map(range).collect::<Result<Vec<_>, _>>().map(Self)
    }
}

impl Serialize for Between {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.begin, self.end].map(sim_duration::format).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Between {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [from, to] = <[String; 2]>::deserialize(deserializer)?;
        let read = |text: &str| sim_duration::parse(text).map_err(D::Error::custom);
        Ok(Self::new(read(&from)?, read(&to)?))
    }
}
