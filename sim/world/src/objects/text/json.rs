//! What Go's JSON decoder says of a text that is no JSON.
//!
//! Follows the states of `encoding/json: scanner.go`.

/// The first thing wrong with `text`; `None` if it is one JSON value.
pub fn json_problem(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0, depth: 0 };
    scanner.document().err()
}

/// As deep as Go's decoder goes.
const MAX_DEPTH: usize = 10_000;

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

type Scanned = Result<(), String>;

impl Scanner<'_> {
    fn document(&mut self) -> Scanned {
        // Values are kept on a stack here rather than in calls: they may be ten thousand deep.
        let mut open: Vec<u8> = Vec::new();
        loop {
            self.space();
            match self.peek() {
                Some(b'{') => {
                    self.enter(&mut open, b'{')?;
                    self.space();
                    if self.peek() != Some(b'}') {
                        self.key("looking for beginning of object key string")?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.enter(&mut open, b'[')?;
                    self.space();
                    if self.peek() != Some(b']') {
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            if self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    /// What follows a value: the ends of what holds it, and then the next one. Whether that was all.
    fn close(&mut self, open: &mut Vec<u8>) -> Result<bool, String> {
        loop {
            self.space();
            match (open.last(), self.peek()) {
                (None, None) => return Ok(true),
                (None, Some(_)) => return Err(self.strange("after top-level value")),
                (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => {
                    self.at += 1;
                    self.depth -= 1;
                    open.pop();
                }
                (Some(b'{'), Some(b',')) => {
                    self.at += 1;
                    self.space();
                    self.key("looking for beginning of object key string")?;
                    return Ok(false);
                }
                (Some(_), Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Some(b'{'), _) => return Err(self.strange("after object key:value pair")),
                (Some(_), _) => return Err(self.strange("after array element")),
            }
        }
    }

    fn enter(&mut self, open: &mut Vec<u8>, what: u8) -> Scanned {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        open.push(what);
        Ok(())
    }

    fn key(&mut self, expected: &str) -> Scanned {
        if self.peek() != Some(b'"') {
            return Err(self.strange(expected));
        }
        self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.strange("after object key"));
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Scanned {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => Err(self.strange("looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &str) -> Scanned {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expected = char::from(expected);
                return Err(self.strange(&format!("in literal {word} (expecting '{expected}')")));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Scanned {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                        Some(b'u') => {
                            for _ in 0..4 {
                                self.at += 1;
                                if !self.peek().is_some_and(|c| c.is_ascii_hexdigit()) {
                                    return Err(self.strange("in \\u hexadecimal character escape"));
                                }
                            }
                        }
                        _ => return Err(self.strange("in string escape code")),
                    }
                    self.at += 1;
                }
                Some(c) if c >= 0x20 => self.at += 1,
                _ => return Err(self.strange("in string literal")),
            }
        }
    }

    fn number(&mut self) -> Scanned {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.strange("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.is_digit() {
                return Err(self.strange("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.is_digit() {
                return Err(self.strange("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn is_digit(&self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_digit())
    }

    fn digits(&mut self) {
        while self.is_digit() {
            self.at += 1;
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte does not fit, or there is none.
    fn strange(&self, context: &str) -> String {
        let Some(byte) = self.peek() else { return "unexpected end of JSON input".into() };
        let shown = match byte {
            b'\'' => "\\'".into(),
            b'"' => "\"".into(),
            b'\n' => "\\n".into(),
            b'\r' => "\\r".into(),
            b'\t' => "\\t".into(),
            b'\\' => "\\\\".into(),
            0x07 => "\\a".into(),
            0x08 => "\\b".into(),
            0x0b => "\\v".into(),
            0x0c => "\\f".into(),
            0x00..0x20 | 0x7f => format!("\\x{byte:02x}"),
            // Go takes a byte for the character of that number.
            0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
            other => char::from(other).to_string(),
        };
        format!("invalid character '{shown}' {context}")
    }
}

#[cfg(test)]
mod tests {
    use super::json_problem;

    #[test]
    fn problems_are_worded_as_go_words_them() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{not json", "invalid character 'n' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\": 1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} trailing", "invalid character 't' after top-level value"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("\"\\q\"", "invalid character 'q' in string escape code"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ] {
            assert_eq!(json_problem(text.as_bytes()).as_deref(), Some(want), "{text}");
        }
        assert_eq!(
            json_problem(&[0x9e]).as_deref(),
            Some("invalid character '\\u009e' looking for beginning of value")
        );
        for text in ["{}", " [1, -2.5e+3, {\"a\": [null, true, \"x\\u00e9\"]}] ", "0", "\"\""] {
            assert_eq!(json_problem(text.as_bytes()), None, "{text}");
        }
        let deep = "[".repeat(10_001);
        assert_eq!(json_problem(deep.as_bytes()).as_deref(), Some("exceeded max depth"));
    }
}
