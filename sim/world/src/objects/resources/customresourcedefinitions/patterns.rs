//! Regular expressions that are none, in the words of Go's `regexp`.

use regex_syntax::ast::{self, ErrorKind, parse::Parser};

/// Why a pattern cannot be read.
pub(super) fn problem(pattern: &str) -> Option<String> {
    if let Err(error) = Parser::new().parse(pattern) {
        return Some(format!("error parsing regexp: {}", in_go(pattern, &error)));
    }
    regex::Regex::new(pattern).err().map(|error| {
        let why = error.to_string();
        let last = why.lines().last().unwrap_or_default();
        format!("error parsing regexp: {}", last.trim_start_matches("error: "))
    })
}

/// What is wrong, and the part that Go quotes: all of it, its end, or what was found.
fn in_go(pattern: &str, error: &ast::Error) -> String {
    let span = error.span();
    let found = pattern.get(span.start.offset..span.end.offset).unwrap_or_default();
    let rest = pattern.get(span.start.offset..).unwrap_or_default();
    let (why, quoted) = match error.kind() {
        ErrorKind::ClassUnclosed => ("missing closing ]", rest),
        ErrorKind::GroupUnclosed => ("missing closing )", pattern),
        ErrorKind::GroupUnopened => ("unexpected )", pattern),
        ErrorKind::RepetitionMissing => {
            ("missing argument to repetition operator", rest.get(..1).unwrap_or(rest))
        }
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized | ErrorKind::UnsupportedBackreference => {
            ("invalid escape sequence", found)
        }
        ErrorKind::ClassRangeInvalid => ("invalid character class range", found),
        ErrorKind::RepetitionCountInvalid => ("invalid repeat count", found),
        ErrorKind::UnsupportedLookAround => ("invalid or unsupported Perl syntax", found),
        other => return format!("{other}: `{found}`"),
    };
    format!("{why}: `{quoted}`")
}

#[cfg(test)]
mod tests {
    use super::problem;

    /// As Go 1.26 answers.
    #[test]
    fn patterns_are_refused_in_the_words_of_go() {
        for (pattern, want) in [
            ("^[a-z]+$", None),
            ("[a", Some("missing closing ]: `[a`")),
            ("x(a", Some("missing closing ): `x(a`")),
            ("a)b", Some("unexpected ): `a)b`")),
            ("*a", Some("missing argument to repetition operator: `*`")),
            ("a\\", Some("trailing backslash at end of expression: ``")),
            ("\\y", Some("invalid escape sequence: `\\y`")),
            ("[z-a]", Some("invalid character class range: `z-a`")),
            ("\\1", Some("invalid escape sequence: `\\1`")),
            ("a{2,1}", Some("invalid repeat count: `{2,1}`")),
            ("(?=a)", Some("invalid or unsupported Perl syntax: `(?=`")),
        ] {
            let want = want.map(|want| format!("error parsing regexp: {want}"));
            assert_eq!(problem(pattern), want, "{pattern}");
        }
    }
}
