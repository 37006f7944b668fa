//! Searches outputs for secrets: no password, session or token may appear there, in plain text or
//! in a usual encoding.
//!
//! Credentials leak more often encoded than in plain text: as `user:password` in the base64 of an
//! Authorization header, percent-encoded in a URL, in hexadecimal in a dump. One search covers
//! every form of every secret of a run.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use sim::world::Command;

use crate::scenario::{Act, Scenario};

/// Kind of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SecretKind {
    /// A password.
    Password,
    /// The cookie of a SOAP session, or the ID of a vAPI session.
    Session,
    /// A bearer token.
    Token,
}

/// Minimum length of a secret or of one of its forms, in bytes. The search ignores shorter ones,
/// because they would match by accident.
pub(crate) const SHORTEST: usize = 6;

/// A searcher for a set of secrets in every form.
#[derive(Debug)]
pub(crate) struct Secrets {
    searcher: AhoCorasick,
    forms: Vec<(SecretKind, &'static str)>,
}

impl SecretKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Password => "a password",
            Self::Session => "a session",
            Self::Token => "a token",
        }
    }
}

impl Secrets {
    /// Builds the searcher for these secrets.
    ///
    /// # Errors
    /// Fails if the secrets are too many for one searcher.
    pub(crate) fn new<'a>(
        secrets: impl Iterator<Item = (SecretKind, &'a str)>,
    ) -> Result<Self, aho_corasick::BuildError> {
        let mut patterns: BTreeMap<String, (SecretKind, &'static str)> = BTreeMap::new();
        for (kind, secret) in secrets.filter(|(_, secret)| secret.len() >= SHORTEST) {
            for (form, text) in forms(secret) {
                patterns.entry(text).or_insert((kind, form));
            }
        }
        let searcher = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.keys())?;
        Ok(Self { searcher, forms: patterns.into_values().collect() })
    }

    /// Builds a searcher for those passwords in the steps of a scenario that contain whitespace.
    /// The lab keeps parts of a log only as a set of single words, which cannot show such a
    /// password.
    ///
    /// Returns `None` if the scenario has no such password.
    ///
    /// # Errors
    /// Fails as [`Secrets::new`] does.
    pub(crate) fn with_blanks(
        scenario: &Scenario,
    ) -> Result<Option<Self>, aho_corasick::BuildError> {
        let passwords: Vec<(SecretKind, &str)> = scenario
            .timeline
            .iter()
            .filter_map(|step| match &step.act {
                Act::Secret { password, .. } => Some(password.as_str()),
                Act::World(Command::RotatePassword { password, .. }) => Some(password.expose()),
                _ => None,
            })
            .filter(|password| password.contains(char::is_whitespace))
            .map(|password| (SecretKind::Password, password))
            .collect();
        if passwords.is_empty() { Ok(None) } else { Self::new(passwords.into_iter()).map(Some) }
    }

    /// Returns the kind and form of the first secret in this text, but never the secret itself.
    /// Returns `None` if the text contains no secret.
    pub(crate) fn find_in(&self, text: &str) -> Option<String> {
        let found = self.searcher.find(text)?;
        let (kind, form) = self.forms[found.pattern().as_usize()];
        Some(format!("{}, {form}", kind.as_str()))
    }
}

/// Returns the forms of a secret that the search covers, each with its name.
fn forms(secret: &str) -> BTreeSet<(&'static str, String)> {
    let bytes = secret.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let percent = |keep: fn(u8) -> bool, upper: bool| -> String {
        let one = |byte: &u8| match *byte {
            byte if byte.is_ascii_alphanumeric() || keep(byte) => char::from(byte).to_string(),
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        };
        bytes.iter().map(one).collect()
    };
    let json = serde_json::Value::from(secret).to_string();
    let xml = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut forms = BTreeSet::from([
        ("in plain text", secret.to_owned()),
        ("in JSON", json.trim_matches('"').to_owned()),
        ("in XML", xml.replace('"', "&quot;").replace('\'', "&apos;")),
        ("in XML", xml),
        ("in hexadecimal", hex.to_uppercase()),
        ("in hexadecimal", hex),
    ]);
    for upper in [false, true] {
        forms.insert(("in percent-encoding", percent(unreserved, upper)));
        forms.insert(("in percent-encoding", percent(|_| false, upper)));
        let form = percent(|byte| unreserved(byte) || byte == b' ', upper).replace(' ', "+");
        forms.insert(("in percent-encoding", form));
    }
    forms.extend(in_base64(bytes).into_iter().map(|text| ("in base64", text)));
    // A form that equals the plain text counts as plain.
    forms.retain(|(form, text)| *form == "in plain text" || text != secret);
    forms
}

/// True for the punctuation that URLs carry unescaped.
fn unreserved(byte: u8) -> bool {
    b"-._~".contains(&byte)
}

/// Returns the base64 characters that encode these bytes, in both alphabets, at each of the three
/// possible offsets: as the whole text or behind a prefix such as `user:`. Leaves out results
/// shorter than [`SHORTEST`].
fn in_base64(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    for alphabet in [&STANDARD, &URL_SAFE] {
        let engine = GeneralPurpose::new(alphabet, NO_PAD);
        for before in 0..3 {
            let whole = [&vec![0; before], bytes].concat();
            let text = engine.encode(&whole);
            // Drops characters that also encode bits of the bytes before or behind.
            let (from, to) = ((before * 8).div_ceil(6), whole.len() * 8 / 6);
            if to.saturating_sub(from) >= SHORTEST {
                all.push(text[from..to].to_owned());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD as PLAIN, URL_SAFE as URL};

    use super::*;

    const SECRET: &str = "pa&ss wörd/1'\"";

    fn place_of_secret(text: &str) -> Option<String> {
        let all = [(SecretKind::Password, SECRET), (SecretKind::Session, "52a1-cookie-77")];
        Secrets::new(all.into_iter()).unwrap().find_in(text)
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let hex: String = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
        for (text, form) in [
            (format!("password={SECRET}"), "in plain text"),
            (format!("Authorization: Basic {}", PLAIN.encode(format!("a:{SECRET}"))), "in base64"),
            (format!("Basic {}", PLAIN.encode(format!("admin@local:{SECRET}"))), "in base64"),
            (format!("Basic {}", URL.encode(format!("ab:{SECRET}"))), "in base64"),
            (PLAIN.encode(SECRET), "in base64"),
            ("?p=pa%26ss%20w%C3%B6rd%2F1%27%22".to_owned(), "in percent-encoding"),
            ("?p=pa%26ss+w%c3%b6rd%2f1%27%22".to_owned(), "in percent-encoding"),
            (hex, "in hexadecimal"),
            ("<password>pa&amp;ss wörd/1'\"</password>".to_owned(), "in XML"),
            (serde_json::json!({ "password": SECRET }).to_string(), "in JSON"),
        ] {
            assert_eq!(place_of_secret(&text), Some(format!("a password, {form}")), "{text}");
        }
        let cookie = "Cookie: vmware_soap_session=\"52a1-cookie-77\"";
        assert_eq!(place_of_secret(cookie).as_deref(), Some("a session, in plain text"));
    }

    #[test]
    fn text_without_a_secret_is_not_reported() {
        for text in ["password=…", "", "Basic YWRtaW46", "pa&ss word"] {
            assert_eq!(place_of_secret(text), None, "{text}");
        }
    }
}
