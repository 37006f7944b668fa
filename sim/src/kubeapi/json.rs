//! JSON as Go reads it, and its complaints as Go words them.
//!
//! Go takes what is no UTF-8, and the escape of half a character, for U+FFFD; serde refuses both.

use serde_json::{Map, Value};

/// Reads a document.
///
/// # Errors
/// Go's complaint, as far as it can be told.
pub(super) fn read(body: &[u8]) -> Result<Value, String> {
    // Only a body that serde refuses is looked at twice.
    serde_json::from_slice(body).or_else(|_| {
        let mended = mended(body);
        serde_json::from_slice(&mended).map_err(|error| complaint(&mended, &error))
    })
}

/// Reads an object; null is one without fields.
///
/// # Errors
/// As [`read`].
pub(super) fn object(body: &[u8]) -> Result<Value, String> {
    match read(body)? {
        Value::Null => Ok(Value::Object(Map::new())),
        other => Ok(other),
    }
}

/// The document with U+FFFD where Go puts it.
fn mended(body: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        // One for every byte.
        chunk.invalid().iter().for_each(|_| text.push('\u{fffd}'));
    }
    let mut out = text.into_bytes();
    let mut at = 0;
    while let Some(offset) = out[at..].iter().position(|byte| *byte == b'\\') {
        at += offset;
        match (surrogate(&out, at), surrogate(&out, at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => at += 12,
            (Some(_), _) => {
                out[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            (None, _) => at = (at + 2).min(out.len()),
        }
    }
    out
}

/// The half of a character that is escaped at `at`.
fn surrogate(text: &[u8], at: usize) -> Option<u32> {
    let hex = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let hex = std::str::from_utf8(hex).ok().filter(|hex| !hex.starts_with('+'))?;
    u32::from_str_radix(hex, 16).ok().filter(|code| (0xd800..0xe000).contains(code))
}

fn complaint(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    // Lines and columns count from 1, columns in bytes.
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let at = before + error.column().saturating_sub(1);
    let Some(byte) = body.get(at) else { return "invalid JSON".into() };
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let place = match said {
        "recursion limit exceeded" => "exceeded max depth".into(),
        "trailing characters" => "after top-level value".into(),
        "key must be a string" => "looking for beginning of object key string".into(),
        "trailing comma" if *byte == b'}' => "looking for beginning of object key string".into(),
        "expected `:`" => "after object key".into(),
        "expected `,` or `}`" => "after object key:value pair".into(),
        "expected `,` or `]`" => "after array element".into(),
        "invalid escape" => "in string escape code".into(),
        "invalid number" => "in numeric literal".into(),
        "expected ident" => literal(body, at),
        said if said.starts_with("control character") => "in string literal".into(),
        _ => "looking for beginning of value".to_owned(),
    };
    format!("invalid character {} {place}", quoted(*byte))
}

/// Where a word breaks off that began like `null`, `true` or `false`.
fn literal(body: &[u8], at: usize) -> String {
    for word in ["null", "true", "false"] {
        for (n, expected) in word.char_indices().skip(1) {
            let begun = at.checked_sub(n).and_then(|from| body.get(from..at));
            if begun == word.as_bytes().get(..n) {
                return format!("in literal {word} (expecting '{expected}')");
            }
        }
    }
    "looking for beginning of value".into()
}

/// A byte as Go's decoder quotes it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'\\' => r"'\\'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{object, read};

    #[test]
    fn what_is_no_text_becomes_replacement_characters() {
        for (name, body, want) in [
            ("bytes", &b"{\"a\":\"x\xff\xfey\"}"[..], json!({"a": "x\u{fffd}\u{fffd}y"})),
            ("half of three bytes", b"[\"\xe2\x82\"]", json!(["\u{fffd}\u{fffd}"])),
            ("half a character", br#"["\ud800"]"#, json!(["\u{fffd}"])),
            ("the other half", br#"["\uDC00x"]"#, json!(["\u{fffd}x"])),
            ("two first halves", br#"["\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}\u{1f600}"])),
            ("an escaped backslash", b"[\"\\\\ud800\xff\"]", json!(["\\ud800\u{fffd}"])),
        ] {
            assert_eq!(read(body), Ok(want), "{name}");
        }
        assert_eq!(object(b"null"), Ok(json!({})));
    }

    #[test]
    fn complaints_are_gos() {
        for (body, want) in [
            (&b"nonsense"[..], "invalid character 'o' in literal null (expecting 'u')"),
            (b"x", "invalid character 'x' looking for beginning of value"),
            (b"{\"a\":1}x", "invalid character 'x' after top-level value"),
            (b"{a", "invalid character 'a' looking for beginning of object key string"),
            (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            (b"[1,]", "invalid character ']' looking for beginning of value"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"{\"a\" 2}", "invalid character '2' after object key"),
            (b"{\"a\":\n 2 3}", "invalid character '3' after object key:value pair"),
            (b"\x1f\x8b", r"invalid character '\x1f' looking for beginning of value"),
            (b"[tru]", "invalid character ']' in literal true (expecting 'e')"),
            (b"{", "unexpected end of JSON input"),
            (b"", "unexpected end of JSON input"),
        ] {
            assert_eq!(read(body), Err(want.to_owned()), "{:?}", String::from_utf8_lossy(body));
        }
        let deep = "[".repeat(1000);
        let want = "invalid character '[' exceeded max depth";
        assert_eq!(read(deep.as_bytes()), Err(want.to_owned()));
    }
}
