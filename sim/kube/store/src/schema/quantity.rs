//! Quantities: numbers with a suffix, and the canonical form in which Go writes them.
//!
//! Follows `apimachinery: pkg/api/resource/quantity.go`. If Go rewrites a quantity whose value in
//! billionths needs more than 128 bits, this module refuses the quantity; the real server computes
//! with numbers of any size.

use serde_json::Value;

const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const UNKNOWN_SUFFIX: &str = "unable to parse quantity's suffix";

/// Number of digits kept after the point: the smallest unit is a billionth.
const N_FRACTION: u32 = 9;
const NANO: i128 = 1_000_000_000;

/// Maximum in billionths of quantities with a binary suffix, which are limited to 64 bits.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

/// Binary suffixes with their powers of two, largest first.
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

/// Returns a quantity as Go writes it: `1024Mi` is `1Gi`, `0.5` is `500m`.
///
/// # Errors
/// Go's error text for an invalid quantity.
pub(super) fn canonical(value: &Value) -> Result<String, String> {
    write_in(value, 1)
}

/// Returns an amount of a resource as Go writes it, rounded away from zero to thousandths.
///
/// # Errors
/// Go's error text for an invalid quantity.
pub(super) fn amount(value: &Value) -> Result<String, String> {
    const MILLI: i128 = NANO / 1000;
    write_in(value, MILLI)
}

/// Returns a quantity as Go writes it, rounded away from zero to a multiple of `unit` billionths.
/// Fails with Go's error text for an invalid quantity.
fn write_in(value: &Value, unit: i128) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Err(MALFORMED.into()),
    };
    if let Some(finest) = place_value_if_kept(&text)
        && finest >= unit
    {
        return Ok(text);
    }
    let (nanos, format) = parse(&text)?;
    Ok(write((nanos + nanos.signum() * (unit - 1)) / unit * unit, format))
}

/// Returns a quantity in billionths: `1500m` is 1,500,000,000. `None` if the text is not a valid
/// quantity or needs more than 128 bits.
pub fn quantity_nanos(text: &str) -> Option<i128> {
    parse(text).ok().map(|(nanos, _)| nanos)
}

/// Returns a quantity in billionths; `None` if it needs more than 128 bits.
///
/// # Errors
/// Go's error text for an invalid quantity.
pub(crate) fn nanos(text: &str) -> Result<Option<i128>, String> {
    match parse(text) {
        Ok((nanos, _)) => Ok(Some(nanos)),
        Err(why) if why == too_big() => Ok(None),
        Err(why) => Err(why),
    }
}

/// True if a quantity is a whole number, or if it cannot be parsed, for example because it is too
/// large.
pub(crate) fn is_whole(text: &str) -> bool {
    parse(text).map_or(true, |(nanos, _)| nanos % NANO == 0)
}

/// Returns the place value of the last digit of a quantity that Go does not rewrite, in billionths
/// and at most that of the units digit. Returns `None` if Go rewrites the text. Go keeps signs and
/// leading zeros.
fn place_value_if_kept(text: &str) -> Option<i128> {
    /// Maximum number of digits of a decimal number that Go may keep.
    const N_DIGITS: usize = 18;
    let number = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches('0');
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (number, suffix) = number.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (factor, exponent, format) = suffix_of(suffix).ok()?;
    let digits = format!("{whole}{fraction}");
    let value: i64 = digits.parse().ok().filter(|_| !whole.is_empty())?;
    if format == Format::Binary {
        // Approximate number of digits that the suffix stands for.
        let n_suffix = usize::try_from(factor.ilog2() * 3 / 10).ok()?;
        let is_short = fraction.is_empty() && whole.len() + n_suffix < 15;
        let fits = i128::from(value) * factor <= i128::from(i64::MAX);
        return (is_short && fits && value & 7 != 0).then_some(NANO);
    }
    let scale = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let is_kept =
        digits.len() <= N_DIGITS && scale >= -9 && scale % 3 == 0 && !digits.ends_with("000");
    // A last digit before the point is coarse enough for every caller, so it counts as the units
    // digit.
    is_kept.then(|| 10_i128.pow((scale.min(0) + N_FRACTION.cast_signed()).unsigned_abs()))
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
    // A text without a digit, such as `-`, is zero, but the empty text is malformed.
    if text.is_empty() || fraction.contains('.') {
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
    let scaled = match format {
        Format::Binary => digits.saturating_mul(factor),
        _ => digits.checked_mul(factor).ok_or_else(too_big)?,
    };
    let nanos = if shift >= 0 {
        let power = 10_i128.checked_pow(shift.unsigned_abs()).ok_or_else(too_big)?;
        match format {
            Format::Binary => scaled.saturating_mul(power),
            _ => scaled.checked_mul(power).ok_or_else(too_big)?,
        }
    } else {
        // Rounds away from zero to the smallest unit.
        match 10_i128.checked_pow(shift.unsigned_abs()) {
            Some(power) => scaled / power + i128::from(scaled % power != 0),
            None => i128::from(scaled != 0),
        }
    };
    let nanos = if format == Format::Binary { nanos.min(MAX_BINARY) } else { nanos };
    Ok((if is_negative { -nanos } else { nanos }, format))
}

/// Returns factor, power of ten and format of a suffix. Fails with Go's error text for an unknown
/// suffix.
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
    // Go writes fractions and numbers below 1024 with a decimal suffix even if the given suffix is
    // binary.
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

    use super::{amount, canonical, is_whole};

    /// The expected texts are answers of the real server for the capacity of a Node.
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

    /// The expected texts are answers of the real server for the capacity of a Node.
    #[test]
    fn amounts_are_rounded_to_thousandths_or_kept_as_written() {
        for (given, want) in [
            ("1u", "1m"),
            ("0.1n", "1m"),
            ("0.000000001", "1m"),
            ("1500u", "2m"),
            ("1000n", "1m"),
            ("999999u", "1"),
            ("-1500u", "-2m"),
            ("10Ei", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("-10Ei", "-9223372036854775807"),
            ("10E", "10E"),
            ("9223372036854775808", "9223372036854775808"),
            ("1e30", "1e30"),
            ("1e19", "10e18"),
            ("+1", "+1"),
            ("01", "01"),
            ("1.", "1."),
            (".5", "500m"),
            ("00.5", "500m"),
            ("+1Gi", "+1Gi"),
            ("01Gi", "01Gi"),
            ("1E3", "1E3"),
            ("1e+3", "1e+3"),
            ("1e03", "1e03"),
            ("1000E3", "1e6"),
            ("12e2", "1200"),
            ("10e2", "1e3"),
            ("1500e0", "1500e0"),
            ("1.5e3", "1500"),
            ("1e-3", "1e-3"),
            ("1e-4", "1e-3"),
            ("1e-10", "1e-3"),
            ("100e-3", "100e-3"),
            ("1.0", "1"),
            ("1.50", "1500m"),
            ("1.234", "1.234"),
            ("001.234", "001.234"),
            ("1.234567k", "1.234567k"),
            ("12.345678", "12346m"),
            ("1.2345", "1235m"),
            ("0.001", "1m"),
            ("0.001k", "1"),
            ("1.u", "1m"),
            ("00", "0"),
            ("-0", "0"),
            ("0e3", "0"),
            ("-", "0"),
            (".", "0"),
            ("e3", "0"),
            ("1.e3", "1.e3"),
            ("9223372036854775807Ki", "9223372036854775807"),
            ("6Ei", "6Ei"),
            ("1000m", "1"),
            ("1000k", "1M"),
            ("1024Ki", "1Mi"),
            ("0.1Ki", "102400m"),
            ("0.0001Ki", "103m"),
            ("123456789012345678", "123456789012345678"),
            ("100000000000000000000", "100E"),
            ("99999999999999999999m", "99999999999999999999m"),
            ("123456789.123456789", "123456789124m"),
            ("9.5E", "9500P"),
            (" 1", "1"),
        ] {
            let written = amount(&given.into()).unwrap();
            assert_eq!(written, want, "{given}");
            assert_eq!(amount(&want.into()).unwrap(), want, "{given}, once more");
        }
    }

    #[test]
    fn a_quantity_without_a_fraction_is_whole() {
        for (text, want) in [
            ("1", true),
            ("1.234k", true),
            ("1e30", true),
            ("1e40", true),
            ("500m", false),
            ("1.234", false),
            ("1e-3", false),
        ] {
            assert_eq!(is_whole(text), want, "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_refused() {
        for given in [json!("x"), json!(true), json!(""), json!("1.2.3"), json!("1 Gi")] {
            assert!(canonical(&given).unwrap_err().starts_with("quantities must"), "{given}");
        }
    }
}
