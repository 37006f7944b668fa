//! Search for the first error in a JSON text, with the messages of Go's decoder.
//!
//! Clients print these messages, and `serde_json` has other messages. The states of the scanner are
//! those of Go's `encoding/json`. Most callers search only in a text that `serde_json` has refused.

use std::fmt::Write as _;

/// Maximum nesting of objects and arrays that the real decoder accepts.
const MAX_DEPTH: usize = 10_000;

const END: &str = "unexpected end of JSON input";

/// Returns the first error in a JSON text, with Go's message; `None` if the text is valid.
pub fn json_problem(text: &[u8]) -> Option<String> {
    Scanner { text, at: 0, open: Vec::new() }.scan().err()
}

/// The token that the scanner expects next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// A value, or the end of an empty array.
    First,
    Key,
    /// A key, or the end of an empty object.
    FirstKey,
    Colon,
    /// A comma or a closing bracket; after the outermost value, the end of the text.
    Rest,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The open brackets, outermost first.
    open: Vec<u8>,
}

impl Scanner<'_> {
    fn scan(&mut self) -> Result<(), String> {
        let mut next = Next::Value;
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
                self.at += 1;
            }
            let Some(byte) = self.peek() else {
                let is_whole = next == Next::Rest && self.open.is_empty();
                return if is_whole { Ok(()) } else { Err(END.into()) };
            };
            next = match next {
                Next::First if byte == b']' => self.close(),
                Next::FirstKey if byte == b'}' => self.close(),
                Next::Value | Next::First => self.value(byte)?,
                Next::Key | Next::FirstKey if byte == b'"' => {
                    self.string()?;
                    Next::Colon
                }
                Next::Key | Next::FirstKey => {
                    return Err(invalid(byte, "looking for beginning of object key string"));
                }
                Next::Colon if byte == b':' => {
                    self.at += 1;
                    Next::Value
                }
                Next::Colon => return Err(invalid(byte, "after object key")),
                Next::Rest => self.rest(byte)?,
            };
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn close(&mut self) -> Next {
        self.open.pop();
        self.at += 1;
        Next::Rest
    }

    fn rest(&mut self, byte: u8) -> Result<Next, String> {
        match (self.open.last(), byte) {
            (Some(b'{'), b'}') | (Some(b'['), b']') => return Ok(self.close()),
            (Some(b'{'), b',') => {
                self.at += 1;
                return Ok(Next::Key);
            }
            (Some(b'['), b',') => {
                self.at += 1;
                return Ok(Next::Value);
            }
            _ => {}
        }
        Err(match self.open.last() {
            Some(b'{') => invalid(byte, "after object key:value pair"),
            Some(_) => invalid(byte, "after array element"),
            None => invalid(byte, "after top-level value"),
        })
    }

    fn value(&mut self, byte: u8) -> Result<Next, String> {
        match byte {
            b'{' | b'[' => {
                self.open.push(byte);
                self.at += 1;
                if self.open.len() > MAX_DEPTH {
                    return Err(invalid(byte, "exceeded max depth"));
                }
                return Ok(if byte == b'{' { Next::FirstKey } else { Next::First });
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            _ => return Err(invalid(byte, "looking for beginning of value")),
        }
        Ok(Next::Rest)
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let byte = self.peek().ok_or(END)?;
            if byte != expected {
                let why = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(invalid(byte, &why));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Reads a string; bytes that are not UTF-8 pass, as they do in Go.
    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            let byte = self.peek().ok_or(END)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let byte = self.peek().ok_or(END)?;
        self.at += 1;
        match byte {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    let byte = self.peek().ok_or(END)?;
                    if !byte.is_ascii_hexdigit() {
                        return Err(invalid(byte, "in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
                Ok(())
            }
            other => Err(invalid(other, "in string escape code")),
        }
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        if first == b'-' {
            self.at += 1;
            self.digit("in numeric literal")?;
        }
        // No digit may follow a leading zero.
        if self.peek() == Some(b'0') {
            self.at += 1
        } else {
            self.digits()
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// Checks that the next byte is a digit, and does not consume it. The error names `place`.
    fn digit(&self, place: &str) -> Result<(), String> {
        let byte = self.peek().ok_or(END)?;
        if byte.is_ascii_digit() { Ok(()) } else { Err(invalid(byte, place)) }
    }
}

fn invalid(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

/// Quotes a byte as Go does: as the character with that code point.
fn quoted(byte: u8) -> String {
    let shown = match byte {
        b'\'' => "\\'".into(),
        b'\\' => "\\\\".into(),
        0x07 => "\\a".into(),
        0x08 => "\\b".into(),
        0x0b => "\\v".into(),
        0x0c => "\\f".into(),
        b'\n' => "\\n".into(),
        b'\r' => "\\r".into(),
        b'\t' => "\\t".into(),
        0..0x20 | 0x7f => {
            let mut hex = String::from("\\x");
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        }
        0x80..=0xa0 | 0xad => {
            let mut hex = String::from("\\u");
            let _ = write!(hex, "{byte:04x}");
            hex
        }
        _ => char::from(byte).to_string(),
    };
    format!("'{shown}'")
}

#[cfg(test)]
mod tests {
    use super::json_problem;

    /// The messages are answers of the real server (1.36.3), except for texts that end too early.
    #[test]
    fn json_errors_have_the_wording_of_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("[1", "unexpected end of JSON input"),
            (r#"{"a":"b"#, "unexpected end of JSON input"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[01]", "invalid character '1' after array element"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12g""#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
            ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
            ("1.&", "invalid character '&' after decimal point in numeric literal"),
            ("1e&", "invalid character '&' in exponent of numeric literal"),
            ("-&", "invalid character '&' in numeric literal"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{1:2}", "invalid character '1' looking for beginning of object key string"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
            ("+1", "invalid character '+' looking for beginning of value"),
            (r#""a" "b""#, "invalid character '\"' after top-level value"),
            (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
            ("\u{9e}", "invalid character 'Â' looking for beginning of value"),
        ] {
            assert_eq!(json_problem(text.as_bytes()).as_deref(), Some(want), "{text}");
        }
        let want = "invalid character '\\u009e' looking for beginning of value";
        assert_eq!(json_problem(&[0x9e]).as_deref(), Some(want));
        let want = "invalid character '[' exceeded max depth";
        assert_eq!(json_problem("[".repeat(10_001).as_bytes()).as_deref(), Some(want));
        assert_eq!(json_problem(br#" {"a": [1, -0.5e+3, "\u00e9", null], "b": {}} "#), None);
    }
}
