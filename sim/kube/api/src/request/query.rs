//! Query strings, read as Kubernetes' API machinery reads them.

use std::num::{IntErrorKind, ParseIntError};

use kube_sim_store::{Status, parse_uint};

/// Decoded parameters in the order of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string. Skips empty parts, because kube-rs begins its queries with `&`.
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name, true), decode(value, true))
        };
        Self(text.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// The first value of a parameter; empty if the parameter is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    /// Every value of a parameter.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// True if the query has the parameter, even without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }

    /// A whole number as `strconv.ParseInt` reads it; `None` if the parameter is absent.
    ///
    /// # Errors
    /// Go's message for a value that is not a number or needs more than 64 bits.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, String> {
        if !self.has(name) {
            return Ok(None);
        }
        let text = self.get(name);
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            format!("strconv.ParseInt: parsing {text:?}: {why}")
        })
    }

    /// The requested `resourceVersion`; 0 if absent.
    ///
    /// # Errors
    /// 500, as in the real server, if the value is not an unsigned 64-bit number.
    pub(crate) fn version(&self) -> Result<u64, Status> {
        match self.get("resourceVersion") {
            "" => Ok(0),
            text => parse_uint(text).map_err(|why| {
                Status::new(500, "", format!("resourceVersion: Invalid value: {text:?}: {why}"))
            }),
        }
    }

    /// True if the query has the parameter and its first value is neither `0` nor `false` (in upper
    /// or lower case), as in the conversion of query strings in the API machinery. An empty value
    /// is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let is_false = |value: &str| matches!(value.to_ascii_lowercase().as_str(), "false" | "0");
        self.0.iter().find(|(given, _)| given == name).is_some_and(|(_, value)| !is_false(value))
    }
}

/// True if a path begins with a slash or is `*`, and every `%` is followed by two hexadecimal
/// digits.
pub(crate) fn is_well_formed(path: &str) -> bool {
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    (path.starts_with('/') || path == "*") && path.split('%').skip(1).all(is_escape)
}

/// Undoes percent encoding, and reads `+` as a space if `plus_is_space`. Invalid UTF-8 becomes
/// replacement characters; a `%` without two hexadecimal digits stays.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).and_then(|hex| {
            let hex = std::str::from_utf8(hex).ok().filter(|hex| !hex.starts_with('+'))?;
            u8::from_str_radix(hex, 16).ok()
        });
        match (byte, escaped) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) if plus_is_space => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}
