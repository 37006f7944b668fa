//! Parser of durations in Go's form.

use std::time::Duration;

use super::InputError;

/// Parses a duration as Go's `time.ParseDuration` does, but refuses negative ones.
///
/// # Errors
///
/// If the text is neither `0` nor a sequence of numbers with units, or if the duration is negative
/// or longer than about 290 years.
pub fn parse_duration(text: &str) -> Result<Duration, InputError> {
    let fail = || {
        let err = InputError::invalid(text, "is not a duration");
        err.remedy("write numbers with units, like 5s, 1m30s or 300ms")
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(fail());
    }
    let mut total = 0.0f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(fail)?;
        let number: f64 = rest[..end].parse().map_err(|_| fail())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(fail()),
            };
        rest = &rest[end..];
    }
    if total > 9.2e9 {
        return Err(fail());
    }
    Duration::try_from_secs_f64(total).map_err(|_| fail())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, want) in [
            ("0", Some(0)),
            ("5s", Some(5000)),
            ("5m0s", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5h", Some(5_400_000)),
            ("300ms", Some(300)),
            ("+5s", Some(5000)),
            (".5s", Some(500)),
            ("5", None),
            ("", None),
            ("s", None),
            ("-5s", None),
            ("5 s", None),
            ("5d", None),
            ("99999999999h", None),
        ] {
            let got = parse_duration(text).ok().map(|d| d.as_millis());
            assert_eq!(got, want, "{text:?}");
        }
    }
}
