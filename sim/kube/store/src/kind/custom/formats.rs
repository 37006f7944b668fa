//! Checks of the string formats that a schema can require.
//!
//! Follows `kube-openapi: pkg/validation/strfmt`. Unlike the real server, this module allows any
//! text for `uri`, `email`, `isbn*` and `creditcard`. Like the real server, it allows any text for
//! unknown formats.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use crate::NameRule;
use crate::object::names;
use crate::schema::duration_nanos;
use crate::values::{addresses, patterns};

const BASE64: &str =
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
/// Pattern of the part of a lower-case `date-time` after `t`. Any one character may stand before
/// the fraction.
const TIME: &str = r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d{2}:\d{2})$";

const DURATION: &str = r"(\d+)\s*([A-Za-zµ]+)";
const HOST_NAME: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
const HEX_COLOR: &str = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
const RGB_COLOR: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
const SOCIAL: &str = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID_3: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID_4: &str =
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const UUID_5: &str =
    "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const MAC: &str = "^([0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}((:[0-9a-fA-F]{2}){2}|(:[0-9a-fA-F]{2}){14})?|[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}((-[0-9a-fA-F]{2}){2}|(-[0-9a-fA-F]{2}){14})?|[0-9a-fA-F]{4}(\\.[0-9a-fA-F]{4}){2}(\\.[0-9a-fA-F]{4}|(\\.[0-9a-fA-F]{4}){7})?)$";

/// The string formats that the real server knows, without dashes.
const OF_TEXTS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Patterns by format, and two patterns for parts of a text: `time of day` and
/// `pieces of a duration`.
static PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let all = [
        ("byte", BASE64),
        ("time of day", TIME),
        ("hostname", HOST_NAME),
        ("hexcolor", HEX_COLOR),
        ("rgbcolor", RGB_COLOR),
        ("ssn", SOCIAL),
        ("uuid", UUID),
        ("uuid3", UUID_3),
        ("uuid4", UUID_4),
        ("uuid5", UUID_5),
        ("mac", MAC),
        ("bsonobjectid", "^[0-9a-fA-F]{24}$"),
        ("pieces of a duration", DURATION),
    ];
    all.into_iter().filter_map(|(name, it)| Some((name, patterns::compile(it).ok()?))).collect()
});

/// True if the real server knows the format for values of type `kind`; an empty type counts as
/// `string`.
pub(crate) fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => OF_TEXTS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// True if a text has the format; unknown formats allow any text.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => is_time(text),
        "date" => is_date(text),
        "ipv4" => text.contains('.') && addresses::is_ip(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => addresses::is_cidr(text),
        "duration" => parse_duration(text).is_some(),
        "k8sshortname" => names::name_problems(NameRule::Label, text).is_empty(),
        "k8slongname" => names::name_problems(NameRule::Subdomain, text).is_empty(),
        "hostname" => {
            text.split('.').all(|label| label.len() <= 63)
                && text.len() <= 255
                && matches("hostname", text)
        }
        "ssn" => text.len() == 11 && matches("ssn", text),
        format => pattern(format).is_none_or(|pattern| pattern.is_match(text)),
    }
}

fn pattern(name: &str) -> Option<&'static Regex> {
    PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| pattern)
}

fn matches(name: &str, text: &str) -> bool {
    pattern(name).is_some_and(|pattern| pattern.is_match(text))
}

/// True for a date, `t` and a time of day, in upper or lower case. Ignores a second `t` and the
/// text after it.
fn is_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    parts.next().is_some_and(is_date) && parts.next().is_some_and(|it| matches("time of day", it))
}

/// True for a valid date in the form `2006-01-02`.
fn is_date(text: &str) -> bool {
    let is_formed = text.len() == 10
        && text.bytes().enumerate().all(|(at, c)| match at {
            4 | 7 => c == b'-',
            _ => c.is_ascii_digit(),
        });
    is_formed && text.parse::<jiff::civil::Date>().is_ok()
}

/// Returns the nanoseconds of a Go duration, or of all numbers in a text that have a unit of Scala's
/// durations, such as `3 hours`; the sum wraps as in Go. `None` if the text is not a Go duration and
/// has, before a word, a number that does not fit an `i64`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    if let Ok(nanos) = duration_nanos(text) {
        return Some(nanos);
    }
    let pieces = pattern("pieces of a duration").into_iter().flat_map(|it| it.captures_iter(text));
    let mut sum = None;
    for piece in pieces {
        let number = piece[1].parse::<i64>().ok()?;
        if let Some(unit) = unit_nanos(&piece[2].to_lowercase()) {
            sum = Some(sum.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(unit)));
        }
    }
    sum
}

/// Returns the nanoseconds of a unit of time. A long name is known by its beginning: `min` and
/// `minutes` are units.
fn unit_nanos(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", SECOND),
        (&["m"], "min", 60 * SECOND),
        (&["h", "hr"], "hour", 3_600 * SECOND),
        (&["d"], "day", 24 * 3_600 * SECOND),
        (&["w", "wk"], "week", 7 * 24 * 3_600 * SECOND),
    ];
    let is_unit = |(exact, begin, _): &&(&[&str], &str, i64)| {
        exact.contains(&unit) || unit.starts_with(begin)
    };
    UNITS.iter().find(is_unit).map(|(_, _, nanos)| *nanos)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn string_formats_accept_the_same_values_as_the_real_server() {
        for (format, good, bad) in [
            ("duration", "1h30m", "1x"),
            ("duration", "3 hours", "hours"),
            ("duration", "-.5s", ""),
            ("duration", "0", "3"),
            ("mac", "00:1a:2b:3c:4d:5e", "00:1a:2b:3c:4d"),
            ("uuid", "0123456789abcdef0123456789ABCDEF", "0123"),
            (
                "uuid4",
                "01234567-89ab-4def-8123-456789abcdef",
                "01234567-89ab-3def-8123-456789abcdef",
            ),
            ("hostname", "a.example.com", "-a"),
            ("hexcolor", "#fff", "#ffff"),
            ("k8s-short-name", "a-b", "A"),
            ("k8s-long-name", "a.b", "a..b"),
            ("duration", "-3 hours", "3\u{a0}h"),
            ("duration", "3h", "٣h"),
            ("duration", "1d", "99999999999999999999h"),
            ("hostname", "a.bc", &"a".repeat(64)),
            ("ssn", "123-45-6789", "١٢٣-٤٥-٦٧٨٩"),
            ("ssn", "123 45 6789", "123456789"),
            ("date", "0000-02-29", "2020-02-30"),
            ("date", "9999-12-31", "2020-1-02"),
            ("date-time", "2020-01-02T03:04:05Z", "2020-01-02"),
            ("date-time", "2020-01-02t03:04:05z", "2020-01-02 03:04:05Z"),
            ("date-time", "9999-12-31T23:59:59Z", "2020-01-02T08:00Z"),
            ("date-time", "2020-01-02T03:04:05.1234567890123Z", "2020-01-02T03:04:05+0100"),
            ("date-time", "2020-01-02T03:04:05x5Z", "2020-01-02T03:04:60Z"),
            ("date-time", "2020-01-02T03:04:05+99:99", "2020-01-02T24:00:00Z"),
            ("date-time", "2020-01-02T03:04:05Zt", "2020-01-02T03:04:05+01:00[Europe/Paris]"),
            ("date-time", "0000-01-01T00:00:00Z", "2020-02-30T00:00:00Z"),
            ("byte", "aGk=", "%"),
            ("byte", "YR==", ""),
            ("byte", "YWI=", "YQ==\n"),
            ("ipv4", "01.2.3.4", "1.2.3.256"),
            ("ipv4", "::ffff:01.2.3.4", "1::"),
            ("ipv4", "00000000000.1.2.3", "1.2.3"),
            ("ipv6", "::ffff:1.2.3.4", "::ffff:01.2.3.4"),
            ("ipv6", "1:2:3:4:5:6:7::", "fe80::1%eth0"),
            ("cidr", "010.0.0.0/8", "10.0.0.0/+8"),
            ("cidr", "10.0.0.0/08", "10.0.0.0/33"),
            ("cidr", "::ffff:1.2.3.4/128", "::1/129"),
        ] {
            assert!(fits(format, good), "{format}: {good}");
            assert!(!fits(format, bad), "{format}: {bad}");
        }
        assert!(fits("anything", "at all"), "an unknown format must allow any text");
    }
}
