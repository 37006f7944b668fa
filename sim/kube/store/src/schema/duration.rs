//! Durations in Go's format. Go writes `90s` as `1m30s`.
//!
//! Follows Go's `time.ParseDuration` and `Duration.String`: 64 bits of nanoseconds.

use crate::values::text::quote;

const SECOND: u64 = 1_000_000_000;

/// Returns a duration in the form in which Go writes it.
///
/// # Errors
/// Go's error text for an invalid duration.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let nanos = nanos(text)?;
    let sign = if nanos < 0 { "-" } else { "" };
    Ok(format!("{sign}{}", write(nanos.unsigned_abs())))
}

/// Returns a duration in nanoseconds.
///
/// # Errors
/// Go's error text for an invalid duration.
pub(crate) fn nanos(text: &str) -> Result<i64, String> {
    let (is_negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    let nanos = parse(text, rest)?;
    let nanos = match is_negative {
        true => 0_i64.checked_sub_unsigned(nanos),
        false => i64::try_from(nanos).ok(),
    };
    nanos.ok_or_else(|| invalid(text))
}

fn invalid(text: &str) -> String {
    format!("time: invalid duration {}", quote(text))
}

/// Returns the sum of all numbers with their units, in nanoseconds. `text` is the whole duration,
/// for error texts.
fn parse(text: &str, mut rest: &str) -> Result<u64, String> {
    let mut sum: u64 = 0;
    if rest.is_empty() {
        return Err(invalid(text));
    }
    while !rest.is_empty() {
        let (whole, tail) = digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid(text));
        }
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let size = size_of(unit).ok_or_else(|| match unit {
            "" => format!("time: missing unit in duration {}", quote(text)),
            unit => format!("time: unknown unit {} in duration {}", quote(unit), quote(text)),
        })?;
        let whole = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
        let nanos = whole
            .and_then(|whole| whole.checked_mul(size))
            .and_then(|nanos| nanos.checked_add(part_of(fraction, size)))
            .and_then(|nanos| sum.checked_add(nanos));
        sum = nanos.ok_or_else(|| invalid(text))?;
        rest = next;
    }
    Ok(sum)
}

/// Splits a text after the digits that it begins with.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn size_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu look the same.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        _ => return None,
    })
}

/// Returns the nanoseconds that the digits after the point stand for, rounded down; `size` is the
/// unit in nanoseconds.
fn part_of(digits: &str, size: u64) -> u64 {
    let mut rest = u128::from(size);
    let mut sum = 0;
    // Counts in units of the 18th digit; more digits make no difference.
    rest *= 10_u128.pow(18);
    for digit in digits.bytes().take(18) {
        rest /= 10;
        sum += rest * u128::from(digit - b'0');
    }
    u64::try_from(sum / 10_u128.pow(18)).unwrap_or(size)
}

fn write(nanos: u64) -> String {
    match nanos {
        0 => "0s".into(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}\u{b5}s", decimal(nanos, 1_000)),
        1_000_000..SECOND => format!("{}ms", decimal(nanos, 1_000_000)),
        _ => {
            let (hours, minutes) = (nanos / SECOND / 3600, nanos / SECOND / 60 % 60);
            let seconds = decimal(nanos % (60 * SECOND), SECOND);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, _) => format!("{minutes}m{seconds}s"),
                _ => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Writes `nanos` in a unit, with as many digits after the point as needed.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::canonical;

    /// The expected texts are those that Go 1.26 prints.
    #[test]
    fn durations_are_written_as_by_go() {
        for (given, want) in [
            ("0", "0s"),
            ("-0", "0s"),
            ("0s", "0s"),
            ("90s", "1m30s"),
            ("60s", "1m0s"),
            ("1h", "1h0m0s"),
            ("1h30s", "1h0m30s"),
            ("1.5h", "1h30m0s"),
            ("36h", "36h0m0s"),
            ("1500ms", "1.5s"),
            ("1.5ms", "1.5ms"),
            ("100us", "100\u{b5}s"),
            ("1\u{3bc}s5ns", "1.005\u{b5}s"),
            ("12ns", "12ns"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("-2m0.25s", "-2m0.25s"),
            ("+3s", "3s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ] {
            assert_eq!(canonical(given).unwrap(), want, "{given}");
        }
    }

    #[test]
    fn an_invalid_duration_is_refused_with_the_error_of_go() {
        for (given, want) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("1.2.3s", "time: missing unit in duration \"1.2.3s\""),
            ("3", "time: missing unit in duration \"3\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("9999999999h", "time: invalid duration \"9999999999h\""),
        ] {
            assert_eq!(canonical(given).unwrap_err(), want);
        }
    }
}
