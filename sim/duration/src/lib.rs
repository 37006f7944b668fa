//! Durations in files, rules and commands, in the format of Go and Kubernetes: `1m30s`.
//!
//! [`parse()`] and [`format()`] convert text. The functions of the crate itself and of its module
//! [`option`] are for serde.
//!
//! ```
//! use std::time::Duration;
//!
//! #[derive(serde::Deserialize)]
//! struct Settings {
//!     #[serde(with = "sim_duration")]
//!     grace: Duration,
//! }
//!
//! let settings: Settings = serde_json::from_str(r#"{"grace": "1m30s"}"#).unwrap();
//! assert_eq!(settings.grace, Duration::from_secs(90));
//! ```

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// The error of [`parse`] for a text that is not a valid duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError(String);

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid duration `{}`: write it like 90s, 1m30s or 250ms", self.0)
    }
}

impl std::error::Error for ParseDurationError {}

/// Parses a duration such as `1h2m3.5s`, `250ms` or `0`.
///
/// # Errors
/// Fails for a text outside the notation of Go's `time.ParseDuration`, for a sign, for a unit other
/// than `h`, `m`, `s`, `ms`, `us`, `µs` and `ns`, and for a duration that [`Duration`] cannot hold.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let refuse = || ParseDurationError(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(refuse()),
        };
        seconds += number.parse::<f64>().map_err(|_| refuse())? * scale;
        rest = next;
    }
    if text.is_empty() {
        return Err(refuse());
    }
    // Rounded to whole nanoseconds: 0.1 has no exact binary form.
    Duration::try_from_secs_f64((seconds * 1e9).round() / 1e9).map_err(|_| refuse())
}

/// Writes a duration in the notation that [`parse`] reads: `1m30s`, `250ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let units: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let mut rest = nanos;
    let mut text = String::new();
    for (size, unit) in units {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    text
}

/// Writes a duration, for `#[serde(with = "sim_duration")]`.
///
/// # Errors
/// Errors of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// Reads a duration, for `#[serde(with = "sim_duration")]`.
///
/// # Errors
/// A text that [`parse`] refuses.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Functions for `#[serde(with = "sim_duration::option")]`, where `null` is `None`.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Error, Serializer, format, parse};

    /// Writes a duration or `null`.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_str(&format(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration or `null`.
    ///
    /// # Errors
    /// A text that [`parse`] refuses.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| parse(&text).map_err(D::Error::custom))
            .transpose()
    }
}

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_parses_in_the_notation_of_go() {
        for (text, want) in [
            ("0", Some(Duration::ZERO)),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1.5h", Some(Duration::from_secs(5400))),
            ("250ms", Some(Duration::from_millis(250))),
            ("0.1s", Some(Duration::from_millis(100))),
            ("", None),
            ("5", None),
            ("1s5", None),
            ("s", None),
            ("5 s", None),
            ("-5s", None),
            ("1d", None),
        ] {
            assert_eq!(parse(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn a_formatted_duration_parses_to_the_same_value() {
        for nanos in [0, 1, 1_000, 90_000_000_000, 3_661_001_002_003] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
