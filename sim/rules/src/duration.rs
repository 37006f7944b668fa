//! Durations in rules, in the format of Go and Kubernetes: `1m30s`.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// Units that [`format`] writes, the largest first, with their lengths in nanoseconds.
const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a duration such as `1h2m3.5s`, `250ms` or `0`.
///
/// # Errors
/// A text that names the value and the remedy, for a text outside the notation of Go's
/// `time.ParseDuration`, for a sign, and for a duration that [`Duration`] cannot hold.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    seconds(text)
        // Rounded to whole nanoseconds: 0.1 has no exact binary form.
        .and_then(|sum| Duration::try_from_secs_f64((sum * 1e9).round() / 1e9).ok())
        .ok_or_else(|| format!("invalid duration `{text}`: write it like 90s, 1m30s or 250ms"))
}

/// Returns the sum of all numbers with their units, in seconds; `None` for an invalid text.
fn seconds(text: &str) -> Option<f64> {
    let is_numeral = |c: char| c.is_ascii_digit() || c == '.';
    let (mut rest, mut sum) = (text, 0.0);
    if text == "0" {
        return Some(sum);
    }
    while let Some(end) = rest.find(|c| !is_numeral(c)) {
        let (number, tail) = rest.split_at(end);
        let (unit, next) = tail.split_at(tail.find(is_numeral).unwrap_or(tail.len()));
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * scale;
        rest = next;
    }
    (rest.is_empty() && !text.is_empty()).then_some(sum)
}

/// Writes a duration in the notation that [`parse`] reads: `1m30s`, `250ms`, `0s`.
pub(crate) fn format(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (unit, length) in UNITS {
        if rest >= length {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Writes a duration, for `#[serde(with = "crate::duration")]`.
pub(crate) fn serialize<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// Reads a duration, for `#[serde(with = "crate::duration")]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Functions for `#[serde(with = "crate::duration::option")]`, where `null` is `None`.
pub(crate) mod option {
    use super::{Duration, Serializer, format, parse};
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer};

    /// Writes a duration or `null`.
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_str(&format(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration or `null`.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_parsed_in_the_notation_of_go() {
        for (text, want) in [
            ("0", Some(Duration::ZERO)),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1.5h", Some(Duration::from_secs(5400))),
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
    fn a_formatted_duration_is_parsed_as_the_same_duration() {
        for nanos in [0, 1, 1_000, 90_000_000_000, 3_661_001_002_003] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
