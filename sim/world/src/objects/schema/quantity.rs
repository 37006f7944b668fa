//! Quantities: numbers with a suffix, and the one way in which Go writes each.
//!
//! Follows `apimachinery: pkg/api/resource/quantity.go`. The integer part is bound to 128 bits here;
//! beyond that the real server goes on with numbers of any size.

use serde_json::Value;

const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const UNKNOWN_SUFFIX: &str = "unable to parse quantity's suffix";

/// Digits after the point that are kept: the smallest unit is a billionth.
const N_FRACTION: u32 = 9;
const NANO: i128 = 1_000_000_000;

/// Largest first.
const BINARY: [(&str, u32); 6] =
    [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
const DECIMAL: [(&str, i32); 10] = [
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
    ("", 0),
    ("m", -3),
    ("u", -6),
    ("n", -9),
];

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// A quantity as Go writes it: `1024Mi` is `1Gi`, `0.5` is `500m`.
///
/// # Errors
/// What Go says about something that is no quantity.
pub(super) fn canonical(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Err(MALFORMED.into()),
    };
    let (nanos, format) = parse(&text)?;
    Ok(write(nanos, format))
}

fn parse(text: &str) -> Result<(i128, Format), String> {
    let (is_negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(MALFORMED.into());
    }
    let (factor, exponent, format) = suffix_of(suffix)?;
    let digits = format!("{whole}{fraction}");
    let digits: i128 = if digits.is_empty() {
        0
    } else {
        digits.trim_start_matches('0').parse().or_else(|why: std::num::ParseIntError| {
            if matches!(why.kind(), std::num::IntErrorKind::Empty) { Ok(0) } else { Err(too_big()) }
        })?
    };
    let n_fraction = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let shift = exponent.saturating_sub(n_fraction).saturating_add(N_FRACTION.cast_signed());
    let scaled = digits.checked_mul(factor).ok_or_else(too_big)?;
    let nanos = if shift >= 0 {
        let power = 10_i128.checked_pow(shift.unsigned_abs()).ok_or_else(too_big)?;
        scaled.checked_mul(power).ok_or_else(too_big)?
    } else {
        // Rounded away from zero, as there is no smaller unit.
        match 10_i128.checked_pow(shift.unsigned_abs()) {
            Some(power) => scaled / power + i128::from(scaled % power != 0),
            None => i128::from(scaled != 0),
        }
    };
    Ok((if is_negative { -nanos } else { nanos }, format))
}

/// A factor, a power of ten, and how such a quantity is written.
fn suffix_of(suffix: &str) -> Result<(i128, i32, Format), String> {
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((1 << bits, 0, Format::Binary));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((1, *exponent, Format::Decimal));
    }
    let is_known = |c: char| "eEinumkKMGTP+-".contains(c) || c.is_ascii_digit();
    if !suffix.chars().all(is_known) {
        return Err(MALFORMED.into());
    }
    match suffix.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
        Some(Ok(exponent)) => Ok((1, exponent, Format::Exponent)),
        _ => Err(UNKNOWN_SUFFIX.into()),
    }
}

fn too_big() -> String {
    "this simulated API server does not implement quantities of more than 128 bits".into()
}

fn write(nanos: i128, format: Format) -> String {
    if nanos == 0 {
        return "0".into();
    }
    // What is no whole number, or small, is written in tens even if it came in powers of two.
    let format = match format {
        Format::Binary if nanos.abs() < 1024 * NANO || nanos % NANO != 0 => Format::Decimal,
        other => other,
    };
    if format == Format::Binary {
        let whole = nanos / NANO;
        for (suffix, bits) in BINARY {
            if whole % (1 << bits) == 0 {
                return format!("{}{suffix}", whole / (1 << bits));
            }
        }
        return whole.to_string();
    }
    for (suffix, exponent) in DECIMAL {
        let unit = 10_i128.pow((exponent + N_FRACTION.cast_signed()).unsigned_abs());
        if nanos % unit == 0 {
            let n = nanos / unit;
            return match (format, exponent) {
                (Format::Exponent, 0) | (Format::Decimal, _) => format!("{n}{suffix}"),
                _ => format!("{n}e{exponent}"),
            };
        }
    }
    nanos.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::canonical;

    /// Asked from the real server, as the capacity of a node.
    #[test]
    fn quantities_are_written_as_the_real_server_writes_them() {
        for (given, want) in [
            (json!("1000m"), "1"),
            (json!("1024Mi"), "1Gi"),
            (json!("1e3"), "1e3"),
            (json!("0.5Gi"), "512Mi"),
            (json!(4), "4"),
            (json!("1500"), "1500"),
            (json!("0"), "0"),
            (json!("100m"), "100m"),
            (json!("0.5"), "500m"),
            (json!("1000"), "1k"),
            (json!("1000Ki"), "1000Ki"),
            (json!("-1.5Gi"), "-1536Mi"),
        ] {
            assert_eq!(canonical(&given).unwrap(), want, "{given}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for given in [json!("x"), json!(true), json!(""), json!("1.2.3"), json!("1 Gi")] {
            assert!(canonical(&given).unwrap_err().starts_with("quantities must"), "{given}");
        }
    }
}
