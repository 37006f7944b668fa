//! Reads JSON as Go does, with errors in Go's words.
//!
//! Go reads invalid UTF-8 and the escape of a lone surrogate as U+FFFD; serde refuses both.

use kube_sim_store::json_problem;
use serde_json::Value;

/// Reads a JSON document.
///
/// # Errors
/// Go's error message if this module can derive it, else serde's.
pub(crate) fn read(body: &[u8]) -> Result<Value, String> {
    // Only a body that serde refuses is read twice.
    serde_json::from_slice(body).or_else(|_| {
        let mended = mended(body);
        serde_json::from_slice(&mended)
            .map_err(|error| json_problem(body).unwrap_or_else(|| complaint(&mended, &error)))
    })
}

/// The document with U+FFFD for invalid UTF-8 and lone surrogates, as Go reads it.
fn mended(body: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        // Go replaces every invalid byte, so a broken character becomes several.
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

/// The surrogate that the escape at offset `at` stands for; `None` if no surrogate is escaped
/// there.
fn surrogate(text: &[u8], at: usize) -> Option<u32> {
    let hex = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let hex = std::str::from_utf8(hex).ok().filter(|hex| !hex.starts_with('+'))?;
    u32::from_str_radix(hex, 16).ok().filter(|code| (0xd800..0xe000).contains(code))
}

/// Message for a problem that serde finds and Go's scanner does not: Go's words if the document is
/// nested too deeply, else serde's.
fn complaint(body: &[u8], error: &serde_json::Error) -> String {
    let said = error.to_string();
    if !said.starts_with("recursion limit") {
        return said;
    }
    // Lines and columns count from 1, columns in bytes.
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let byte = body.get(before + error.column().saturating_sub(1)).unwrap_or(&b'[');
    format!("invalid character '{}' exceeded max depth", char::from(*byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn invalid_utf8_and_lone_surrogates_become_replacement_characters() {
        for (name, body, want) in [
            ("bytes", &b"{\"a\":\"x\xff\xfey\"}"[..], json!({"a": "x\u{fffd}\u{fffd}y"})),
            ("half of three bytes", b"[\"\xe2\x82\"]", json!(["\u{fffd}\u{fffd}"])),
            ("a lone high surrogate", br#"["\ud800"]"#, json!(["\u{fffd}"])),
            ("a lone low surrogate", br#"["\uDC00x"]"#, json!(["\u{fffd}x"])),
            ("two high surrogates", br#"["\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}\u{1f600}"])),
            ("an escaped backslash", b"[\"\\\\ud800\xff\"]", json!(["\\ud800\u{fffd}"])),
        ] {
            assert_eq!(read(body), Ok(want), "{name}");
        }
    }

    #[test]
    fn a_number_stays_the_same_when_it_is_written_and_read_again() {
        for text in
            ["111111111111111111111110", "1.1111111111111113e23", "0.1", "2.2250738585072014e-308"]
        {
            let number = read(text.as_bytes()).unwrap();
            assert_eq!(read(number.to_string().as_bytes()), Ok(number), "{text}");
        }
    }

    #[test]
    fn json_errors_have_the_wording_of_go() {
        for (body, want) in [
            (&b"nonsense"[..], "invalid character 'o' in literal null (expecting 'u')"),
            (b"{\"a\":\"\xff\" 1}", "invalid character '1' after object key:value pair"),
            (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
        ] {
            assert_eq!(read(body), Err(want.to_owned()), "{:?}", String::from_utf8_lossy(body));
        }
        for (open, close, at) in [("[", "]", '['), ("{\"a\":\n", "}", '{')] {
            let body = format!("{}1{}", open.repeat(1000), close.repeat(1000));
            let want = format!("invalid character '{at}' exceeded max depth");
            assert_eq!(read(body.as_bytes()), Err(want));
        }
    }
}
