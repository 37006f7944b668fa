//! Parser that finds the beginning and the end of heads and bodies of HTTP/1 requests.
//!
//! hyper reads ahead and does not say how far: half a head may wait behind a complete request.
//! This parser reads the same bytes to find out if a head has begun. It reports no errors, because
//! hyper answers malformed requests.

/// Number of bytes of a line that the parser examines. The relevant headers are shorter.
const MAX_LINE: usize = 256;

/// First line of an HTTP/2 connection.
const HTTP2: &str = "PRI * HTTP/2.0";

/// Parser for the bytes that a client sends.
#[derive(Debug, Default)]
pub(super) struct Framing {
    part: Part,
    /// The beginning of the current line.
    line: Vec<u8>,
    /// Number of heads that have begun.
    n_begun: u64,
}

/// The part of a message that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The first line of a head; empty lines before it do not count.
    #[default]
    Start,
    /// More lines of the head, with the framing of the body as known so far.
    Headers(Body),
    /// This many more lines of the preface of an HTTP/2 connection.
    Preface(u8),
    /// This many more bytes of a body.
    Bytes(u64),
    /// The line with the size of a chunk.
    Size,
    /// This many more bytes of a chunk.
    Chunk(u64),
    /// The end of the line after a chunk.
    ChunkEnd,
    /// Lines after the last chunk.
    Trailers,
    /// HTTP/2, or bytes that the parser cannot follow.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Bytes(u64),
    Chunks,
}

impl Framing {
    /// Number of the incomplete head, from 1; `None` if no head is incomplete.
    pub(super) fn begun(&self) -> Option<u64> {
        match self.part {
            Part::Start => (!self.line.is_empty()).then_some(self.n_begun + 1),
            Part::Headers(_) | Part::Preface(_) => Some(self.n_begun),
            _ => None,
        }
    }

    /// Parses the next bytes that the client sends.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.part {
                Part::Other => return,
                Part::Bytes(left) => self.skip(bytes, left, Part::Bytes, Part::Start),
                Part::Chunk(left) => self.skip(bytes, left, Part::Chunk, Part::ChunkEnd),
                _ => self.read_line(bytes),
            };
        }
    }

    /// Skips bytes of a body, of which `left` bytes are still to come. Returns the bytes after
    /// them. The following part is `then`. If `bytes` are too few, it is `now` with the number of
    /// missing bytes.
    fn skip<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        now: fn(u64) -> Part,
        then: Part,
    ) -> &'a [u8] {
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - n as u64;
        self.part = if left == 0 { then } else { now(left) };
        &bytes[n..]
    }

    fn read_line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        let room = MAX_LINE.saturating_sub(self.line.len());
        // An empty line before a head does not begin one.
        let is_blank = self.part == Part::Start && self.line.is_empty() && line == b"\r";
        if !is_blank {
            self.line.extend_from_slice(&line[..line.len().min(room)]);
        }
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            self.part = self.after(&String::from_utf8_lossy(line));
        }
        rest.get(1..).unwrap_or_default()
    }

    /// Returns the part that follows a complete line. Counts the head that the line begins, if any.
    fn after(&mut self, line: &str) -> Part {
        match (self.part, line) {
            (Part::Start, "") => Part::Start,
            (Part::Start, _) => {
                self.n_begun += 1;
                // The preface continues with an empty line, `SM`, and another empty line.
                if line == HTTP2 { Part::Preface(3) } else { Part::Headers(Body::Bytes(0)) }
            }
            (Part::Headers(Body::Bytes(0)), "") => Part::Start,
            (Part::Headers(Body::Bytes(n)), "") => Part::Bytes(n),
            (Part::Headers(Body::Chunks), "") => Part::Size,
            (Part::Headers(body), _) => Part::Headers(body.or(line)),
            (Part::Preface(1), _) => Part::Other,
            (Part::Preface(n), _) => Part::Preface(n - 1),
            (Part::Size, _) => {
                let digits = line.split(';').next().unwrap_or_default().trim();
                match u64::from_str_radix(digits, 16) {
                    Ok(0) => Part::Trailers,
                    Ok(n) => Part::Chunk(n),
                    Err(_) => Part::Other,
                }
            }
            (Part::ChunkEnd, _) => Part::Size,
            (Part::Trailers, "") => Part::Start,
            (part, _) => part,
        }
    }
}

impl Body {
    /// Returns the framing of the body as known after `line`, one more header line.
    fn or(self, line: &str) -> Self {
        let Some((name, value)) = line.split_once(':') else { return self };
        match (name.to_ascii_lowercase().as_str(), self) {
            ("transfer-encoding", _) => Self::Chunks,
            ("content-length", Self::Bytes(_)) => {
                Self::Bytes(value.trim().parse().unwrap_or_default())
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_head_is_found_whatever_the_size_of_the_reads() {
        let posted = "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nGET ";
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
            5;a=b\r\nab\r\nc\r\n0\r\nTrailer: x\r\n\r\n";
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(1000));
        let http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        for (bytes, begun) in [
            (String::new(), None),
            ("\r\n\r\n".to_owned(), None),
            ("\r\nG".to_owned(), Some(1)),
            ("GET / HTTP/1.1\r\n".to_owned(), Some(1)),
            ("GET / HTTP/1.1\nA: b\n\n".to_owned(), None),
            (posted.to_owned(), None),
            (posted[..posted.len() - 1].to_owned(), None),
            (format!("{posted}G"), Some(2)),
            (chunked.to_owned(), None),
            (chunked[..chunked.len() - 2].to_owned(), None),
            (format!("{chunked}{posted}{long}\r\nG"), Some(4)),
            (http2.to_owned(), None),
            (http2[..http2.len() - 1].to_owned(), Some(1)),
            (format!("{http2}GET / HTTP/1.1\r\n"), None),
        ] {
            for n in 1..=bytes.len().max(1) {
                let mut framing = Framing::default();
                bytes.as_bytes().chunks(n).for_each(|piece| framing.read(piece));
                assert_eq!(framing.begun(), begun, "{bytes:?} in pieces of {n}");
            }
        }
    }
}
