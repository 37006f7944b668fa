//! Texts of a certain form, as far as schemas ask for it.
//!
//! Follows `kube-openapi: pkg/validation/strfmt`. `uri`, `email`, `isbn*` and `creditcard` are taken as
//! they come; what the real server does not know is not checked there either.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::objects::{NameRule, names};

const DURATION: &str = r"(\d+)\s*([A-Za-zµ]+)";
const GO_DURATION: &str = r"^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$";
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

/// The formats that a pattern describes.
static PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let patterns = [
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
        ("duration", GO_DURATION),
        ("pieces of a duration", DURATION),
    ];
    patterns.into_iter().filter_map(|(name, it)| Some((name, Regex::new(it).ok()?))).collect()
});

/// Whether a text has the form.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == "2006-01-02".len() && text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => names::is_cidr(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "duration" => is_duration(text),
        "k8sshortname" => names::name_problems(NameRule::Label, text).is_empty(),
        "k8slongname" => names::name_problems(NameRule::Subdomain, text).is_empty(),
        format => pattern(format).is_none_or(|pattern| pattern.is_match(text)),
    }
}

fn pattern(name: &str) -> Option<&'static Regex> {
    PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| pattern)
}

/// A duration of Go, or numbers with units of Scala somewhere in the text: `3 hours`.
fn is_duration(text: &str) -> bool {
    if pattern("duration").is_some_and(|go| go.is_match(text)) {
        return true;
    }
    let pieces = pattern("pieces of a duration").into_iter().flat_map(|it| it.captures_iter(text));
    let mut is_any = false;
    for piece in pieces {
        if piece[1].parse::<i64>().is_err() {
            return false;
        }
        is_any |= is_unit(&piece[2].to_lowercase());
    }
    is_any
}

/// The last name of a unit may go on: `min`, `minutes`.
fn is_unit(unit: &str) -> bool {
    const EXACT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const BEGIN: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    EXACT.contains(&unit) || BEGIN.iter().any(|begin| unit.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn forms_are_those_of_the_real_server() {
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
            ("date-time", "2020-01-02T03:04:05Z", "2020-01-02"),
            ("byte", "aGk=", "%"),
        ] {
            assert!(fits(format, good), "{format}: {good}");
            assert!(!fits(format, bad), "{format}: {bad}");
        }
        assert!(fits("anything", "at all"), "what nobody knows nobody checks");
    }
}
