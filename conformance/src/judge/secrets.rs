//! Secrets: no password, session or token appears in any output, in any encoding.
//!
//! Credentials leak in encoded form more often than in plain text: as `user:password` in the base64 of an Authorization
//! header, in percent-encoding in a URL, in hexadecimal in a dump. One search covers every form of every secret of a run.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use sim::world::Command;

use crate::scenario::{Act, Scenario};

/// Kind of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A password.
    Password,
    /// The cookie of a SOAP session, or the ID of a vAPI session.
    Session,
    /// A bearer token.
    Token,
}

/// Minimum length of a secret or form; shorter ones would match by accident.
pub(crate) const SHORTEST: usize = 6;

/// A searcher for secrets in every form.
#[derive(Debug)]
pub(crate) struct Secrets {
    searcher: AhoCorasick,
    forms: Vec<(Kind, &'static str)>,
}

impl Kind {
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
    /// When the secrets are too many for a searcher.
    pub(super) fn of<'a>(
        secrets: impl Iterator<Item = (Kind, &'a str)>,
    ) -> Result<Self, aho_corasick::BuildError> {
        let mut patterns: BTreeMap<String, (Kind, &'static str)> = BTreeMap::new();
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

    /// Builds a searcher for the passwords of a scenario that contain whitespace, which a text of single words cannot
    /// show.
    ///
    /// Returns `None` if the scenario has none, so that nothing needs a search.
    ///
    /// # Errors
    /// As [`Secrets::of`].
    pub(crate) fn with_blanks(
        scenario: &Scenario,
    ) -> Result<Option<Self>, aho_corasick::BuildError> {
        let passwords: Vec<(Kind, &str)> = scenario
            .timeline
            .iter()
            .filter_map(|step| match &step.act {
                Act::Secret { password, .. } => Some(password.as_str()),
                Act::World(Command::RotatePassword { password, .. }) => Some(password.expose()),
                _ => None,
            })
            .filter(|password| password.contains(char::is_whitespace))
            .map(|password| (Kind::Password, password))
            .collect();
        if passwords.is_empty() { Ok(None) } else { Self::of(passwords.into_iter()).map(Some) }
    }

    /// Returns the kind and form of the first secret in this text; never the secret itself.
    pub(crate) fn told_by(&self, text: &str) -> Option<String> {
        let found = self.searcher.find(text)?;
        let (kind, form) = self.forms[found.pattern().as_usize()];
        Some(format!("{}, {form}", kind.as_str()))
    }
}

/// Returns every form in which a secret may be written.
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
        ("as it is", secret.to_owned()),
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
    forms.retain(|(form, text)| *form == "as it is" || text != secret);
    forms
}

/// True for the punctuation that URLs carry unescaped.
fn unreserved(byte: u8) -> bool {
    b"-._~".contains(&byte)
}

/// Returns the base64 characters that stand for these bytes at each of the three offsets: alone, or behind `user:`.
fn in_base64(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    for alphabet in [&STANDARD, &URL_SAFE] {
        let engine = GeneralPurpose::new(alphabet, NO_PAD);
        for before in 0..3 {
            let whole = [&vec![0; before], bytes].concat();
            let text = engine.encode(&whole);
            // Drops characters that also hold a bit of the bytes before or behind.
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

    fn told(text: &str) -> Option<String> {
        let all = [(Kind::Password, SECRET), (Kind::Session, "52a1-cookie-77")];
        Secrets::of(all.into_iter()).unwrap().told_by(text)
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let hex: String = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
        for (text, form) in [
            (format!("password={SECRET}"), "as it is"),
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
            assert_eq!(told(&text), Some(format!("a password, {form}")), "{text}");
        }
        let cookie = "Cookie: vmware_soap_session=\"52a1-cookie-77\"";
        assert_eq!(told(cookie).as_deref(), Some("a session, as it is"));
    }

    #[test]
    fn text_without_a_secret_is_not_reported() {
        for text in ["password=…", "", "Basic YWRtaW46", "pa&ss word"] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
