//! Response body that a fault rule corrupts (`Spoil`) while the server sends it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::Body;
use crate::faults::Spoil;

/// Nesting depth of [`Spoil::Deep`].
const DEPTH: usize = 20_000;
const MIB: usize = 1 << 20;
/// Size of a piece of the padding: one byte less than 1 MiB. The number of bytes that a client has
/// received then jumps from below to above a limit of whole MiB, as on a real connection, instead
/// of reaching it exactly.
const PIECE: usize = MIB - 1;
/// Bytes that are not valid UTF-8, which [`Spoil::InvalidUtf8`] inserts.
const NO_UTF8: [u8; 4] = [0xff, 0xfe, 0xc0, 0x80];
/// Unknown member of an unknown class that [`Spoil::UnknownMembers`] adds to XML elements.
const UNKNOWN: &str = r#"<unheardOf xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="UnheardOf"><of>1</of></unheardOf>"#;
/// Name of the unknown member that [`Spoil::UnknownMembers`] adds to JSON objects.
const UNHEARD_OF: &str = "unheardOf";
/// JSON fields that are maps or contain maps. An unknown member in a map would be an invalid value
/// instead of an unknown field.
const MAPS: [&str; 4] = ["labels", "annotations", "matchLabels", "managedFields"];

/// Returns a body with the bytes of `body`, corrupted as `how` says.
pub(super) fn spoiled(body: Body, how: Spoil) -> Body {
    let padding = match how {
        Spoil::Padded(mib) => mib as usize * MIB,
        _ => 0,
    };
    Spoiled { inner: body, how, padding }.boxed_unsync()
}

struct Spoiled {
    inner: Body,
    how: Spoil,
    /// Number of spaces that remain to be sent before the body.
    padding: usize,
}

impl HttpBody for Spoiled {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.padding > 0 {
            static BLANKS: [u8; PIECE] = [b' '; PIECE];
            let n = self.padding.min(PIECE);
            self.padding -= n;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&BLANKS[..n])))));
        }
        let how = self.how;
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        frame.map_ok(|frame| frame.map_data(|data| spoil(&data, how)))
    }
}

/// Corrupts one piece of a body: a whole answer, or one or more events of a watch.
fn spoil(data: &Bytes, how: Spoil) -> Bytes {
    if data.is_empty() || matches!(how, Spoil::Padded(_)) {
        return data.clone();
    }
    if let Spoil::CutShort(percent) = how {
        let left = data.len() * usize::from(percent) / 100;
        return data.slice(..left);
    }
    match std::str::from_utf8(data) {
        Ok(text) if text.trim_start().starts_with('<') => xml(text, how),
        Ok(text) if text.trim_start().starts_with(['{', '[', '"']) => json(text, how),
        _ if how == Spoil::Respelled => data.clone(),
        _ => in_the_middle(data),
    }
}

fn in_the_middle(data: &[u8]) -> Bytes {
    let (before, behind) = data.split_at(data.len() / 2);
    let mut out = BytesMut::with_capacity(data.len() + NO_UTF8.len());
    out.put(before);
    out.put(&NO_UTF8[..]);
    out.put(behind);
    out.freeze()
}

fn xml(text: &str, how: Spoil) -> Bytes {
    match how {
        Spoil::UnknownMembers => {
            // A closing tag right after another tag closes an element without text.
            text.replace("></", &format!(">{UNKNOWN}</")).into()
        }
        Spoil::UnknownTypes => text.replace("type=\"", "type=\"UnheardOf").into(),
        Spoil::InvalidUtf8 => in_the_middle(text.as_bytes()),
        Spoil::Deep => {
            let at = text.find("></").map_or(text.len(), |at| at + 1);
            let deep = [" <d>".repeat(DEPTH), "</d>".repeat(DEPTH)].concat();
            [&text[..at], &deep, &text[at..]].concat().into()
        }
        Spoil::Entities => {
            let mut declared = String::from("<!DOCTYPE spoiled [<!ENTITY e0 \"0123456789\">");
            for n in 1..=9 {
                let of = format!("&e{};", n - 1).repeat(10);
                declared.push_str(&format!("<!ENTITY e{n} \"{of}\">"));
            }
            declared.push_str("]>");
            let begin = text.find("?>").map_or(0, |at| at + 2);
            let at = text.find("></").map_or(text.len(), |at| at + 1).max(begin);
            [&text[..begin], &declared, &text[begin..at], "&e9;", &text[at..]].concat().into()
        }
        Spoil::Respelled => respelled_xml(text).into(),
        // The caller applies these to the bytes.
        _ => text.to_owned().into(),
    }
}

/// Writes the quotation marks, the apostrophes and each `e` outside tags as references, which have
/// the same meaning.
fn respelled_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut is_tag, mut is_reference) = (false, false);
    for c in text.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            '&' => is_reference = true,
            ';' => is_reference = false,
            _ => {}
        }
        match c {
            '\'' if !is_tag => out.push_str("&apos;"),
            '"' if !is_tag => out.push_str("&quot;"),
            'e' if !is_tag && !is_reference => out.push_str("&#x65;"),
            _ => out.push(c),
        }
    }
    out
}

/// Writes each `e` in a string as the escape `\u0065`, which has the same meaning.
fn respelled_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut is_text = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            'e' if is_text => out.push_str("\\u0065"),
            '\\' => {
                out.push(c);
                let escaped = chars.next();
                out.extend(escaped);
                let n_digits = if escaped == Some('u') { 4 } else { 0 };
                out.extend(chars.by_ref().take(n_digits));
            }
            _ => {
                is_text ^= c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn json(text: &str, how: Spoil) -> Bytes {
    match how {
        Spoil::InvalidUtf8 => in_the_middle(text.as_bytes()),
        Spoil::Deep => {
            let member = ["\"d\":", &"[".repeat(DEPTH), &"]".repeat(DEPTH), ","].concat();
            let begins = |line: &str| line.starts_with('{') && line.trim_end() != "{}";
            let lines = text.split_inclusive('\n');
            let lines = lines.map(|line| match line.split_at_checked(1) {
                Some((brace, rest)) if begins(line) => [brace, &member, rest].concat(),
                _ => line.to_owned(),
            });
            lines.collect::<String>().into()
        }
        Spoil::UnknownMembers | Spoil::UnknownTypes => {
            let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            let Ok(values) = values.collect::<Result<Vec<_>, _>>() else {
                return in_the_middle(text.as_bytes());
            };
            let spoiled = values.into_iter().map(|mut value| {
                match how {
                    Spoil::UnknownMembers => add_members(&mut value),
                    _ => rename_kinds(&mut value),
                }
                format!("{value}\n")
            });
            spoiled.collect::<String>().into()
        }
        Spoil::Respelled => respelled_json(text).into(),
        // JSON has no entities. The caller applies the others to the bytes.
        _ => text.to_owned().into(),
    }
}

fn add_members(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(add_members),
        Value::Object(members) => {
            let below = members.iter_mut().filter(|(key, _)| !MAPS.contains(&key.as_str()));
            below.for_each(|(_, member)| add_members(member));
            members
                .insert(UNHEARD_OF.to_owned(), serde_json::json!({"of": [1, null, {"a": true}]}));
        }
        _ => {}
    }
}

fn rename_kinds(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(rename_kinds),
        Value::Object(members) => {
            let is_event = members.contains_key("object");
            for (key, member) in members {
                match member {
                    Value::String(text) if key == "kind" || (is_event && key == "type") => {
                        text.insert_str(0, "UnheardOf");
                    }
                    member if !MAPS.contains(&key.as_str()) => rename_kinds(member),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0"?><a><b xsi:type="xsd:string">1</b></a>"#;
    const JSON: &str = r#"{"kind":"Node","metadata":{"labels":{"a":"b"}}}"#;

    fn text(of: &str, how: Spoil) -> String {
        String::from_utf8_lossy(&spoil(&Bytes::copy_from_slice(of.as_bytes()), how)).into_owned()
    }

    #[test]
    fn spoiled_xml_has_unknown_members_or_types() {
        let members = text(XML, Spoil::UnknownMembers);
        assert!(members.ends_with(&format!("</b>{UNKNOWN}</a>")), "{members}");
        let types = text(XML, Spoil::UnknownTypes);
        assert!(types.contains(r#"xsi:type="UnheardOfxsd:string""#), "{types}");
    }

    #[test]
    fn spoiled_json_has_unknown_members_or_kinds_and_keeps_its_labels() {
        let members: Value = serde_json::from_str(&text(JSON, Spoil::UnknownMembers)).unwrap();
        assert!(members["metadata"][UNHEARD_OF].is_object() && members[UNHEARD_OF].is_object());
        assert_eq!(members["metadata"]["labels"], serde_json::json!({"a": "b"}));
        let kinds: Value = serde_json::from_str(&text(JSON, Spoil::UnknownTypes)).unwrap();
        assert_eq!(kinds["kind"], "UnheardOfNode");
    }

    #[test]
    fn deep_bodies_are_well_formed_and_spoiled_bytes_are_not_utf8() {
        assert_eq!(text(XML, Spoil::Deep).matches("<d>").count(), DEPTH);
        let events = format!("{JSON}\n{JSON}\n");
        let deep = text(&events, Spoil::Deep);
        assert_eq!(deep.matches('[').count(), deep.matches(']').count());
        assert_eq!(deep.lines().count(), 2);
        let declared = text(XML, Spoil::Entities);
        assert!(declared.contains("<!DOCTYPE") && declared.contains("&e9;</a>"), "{declared}");
        for of in [XML, JSON, "k8s"] {
            let bytes = spoil(&Bytes::copy_from_slice(of.as_bytes()), Spoil::InvalidUtf8);
            assert!(std::str::from_utf8(&bytes).is_err(), "{of}");
        }
    }

    #[test]
    fn a_respelled_body_has_other_bytes_and_the_same_meaning() {
        let xml = r#"<?xml version="1.0"?><e type="he">it's &lt;the&gt; "end"</e>"#;
        let want = r#"<?xml version="1.0"?><e type="he">it&apos;s &lt;th&#x65;&gt; &quot;&#x65;nd&quot;</e>"#;
        assert_eq!(text(xml, Spoil::Respelled), want);
        let json = r#"{"he":"\"e\\e\u00e9","n":1e3}"#;
        let other = text(json, Spoil::Respelled);
        assert_ne!(other, json);
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&other), value(json));
        assert_eq!(text("k8s e", Spoil::Respelled), "k8s e");
    }

    #[test]
    fn an_answer_is_cut_short_to_the_given_percentage() {
        assert_eq!(text("0123456789", Spoil::CutShort(30)), "012");
    }

    #[tokio::test]
    async fn padding_comes_before_the_body() {
        let body = spoiled(crate::call::full(JSON), Spoil::Padded(2));
        let bytes = body.collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len(), 2 * MIB + JSON.len());
        assert!(bytes.ends_with(JSON.as_bytes()));
    }
}
