//! Regular expressions with the meaning that they have in Go: `\d`, `\w`, `\s` and `\b` match ASCII
//! only. Common errors have the texts of Go's `regexp`.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;
use regex_syntax::ast::{
    self, Assertion, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetItem, ErrorKind,
};

/// The patterns that this process has compiled. Every new cluster compiles the patterns of the same
/// custom resource definitions, which took a sixth of the time of a run of the catalogue.
static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);

/// The largest number of patterns in [`COMPILED`]. Later patterns are compiled each time.
const MOST_COMPILED: usize = 4096;

/// Compiles a pattern in Go's syntax. Go, like the crate `regex`, has no look-around.
///
/// # Errors
/// Go's error text for a common error, a text of the regex crates for any other.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = known().get(pattern) {
        return Ok(regex.clone());
    }
    let regex = translate(pattern)?;
    let mut known = known();
    if known.len() < MOST_COMPILED {
        known.insert(pattern.to_owned(), regex.clone());
    }
    Ok(regex)
}

/// Compiles a pattern without the cache; see [`compile`].
fn translate(pattern: &str) -> Result<Regex, String> {
    let refused = |why: String| format!("error parsing regexp: {why}");
    let parsed = ast::parse::Parser::new().parse(pattern);
    let ast = parsed.map_err(|error| refused(in_go(pattern, &error)))?;
    let mut pieces = match ast::visit(&ast, Pieces::default()) {
        Ok(pieces) => pieces,
        Err(never) => match never {},
    };
    pieces.sort_by_key(|(span, _)| span.start.offset);
    let mut plain = pattern.to_owned();
    for (span, with) in pieces.iter().rev() {
        plain.replace_range(span.start.offset..span.end.offset, with);
    }
    Regex::new(&plain).map_err(|error| {
        let why = error.to_string();
        let last = why.lines().last().unwrap_or_default();
        refused(last.trim_start_matches("error: ").to_owned())
    })
}

/// The parts of a pattern that match other texts in the crate `regex` than in Go, each with a
/// replacement that matches what Go matches.
#[derive(Default)]
struct Pieces(Vec<(ast::Span, &'static str)>);

impl Pieces {
    fn class(&mut self, class: &ClassPerl) {
        let with = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r\x20]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r\x20]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.0.push((class.span, with));
    }

    fn assertion(&mut self, assertion: &Assertion) {
        match assertion.kind {
            AssertionKind::WordBoundary => self.0.push((assertion.span, r"(?-u:\b)")),
            AssertionKind::NotWordBoundary => self.0.push((assertion.span, r"(?-u:\B)")),
            _ => {}
        }
    }
}

impl ast::Visitor for Pieces {
    type Output = Vec<(ast::Span, &'static str)>;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::ClassPerl(class) => self.class(class),
            Ast::Assertion(assertion) => self.assertion(assertion),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        if let ClassSetItem::Perl(class) = item {
            self.class(class);
        }
        Ok(())
    }
}

/// Returns Go's error text, which quotes the whole pattern, the pattern from the error on, the
/// faulty part, or nothing. Errors without a known text of Go get that of the crate `regex_syntax`.
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
    use super::compile;

    /// The expected values are answers of the real server for a property with that pattern.
    #[test]
    fn character_classes_of_a_pattern_are_limited_to_ascii() {
        for (pattern, fitting, others) in [
            (r"^\d+$", &["3"][..], &["٣"][..]),
            (r"^[^\d]$", &["٣", "a"], &["3"]),
            (r"^[\D]$", &["٣"], &["3"]),
            (r"^\w+$", &["a_1"], &["é"]),
            (r"^\W$", &["é", "\u{212a}"], &["a"]),
            (r"^a\sb$", &["a b", "a\tb", "a\u{c}b"], &["a\u{a0}b", "a\u{2003}b", "a\u{b}b"]),
            (r"^\S$", &["\u{a0}", "\u{b}"], &[" "]),
            (r"^é\b", &["éa"], &["é", "é "]),
            (r"^a\Bb", &["ab"], &["éb"]),
            (r"\Bé", &["é", " é"], &["aé"]),
            (r"^a.b$", &["aéb", "a\rb"], &["a\nb"]),
        ] {
            let compiled = compile(pattern);
            let fits = |text: &str| compiled.as_ref().is_ok_and(|it| it.is_match(text));
            assert!(compiled.is_ok(), "{pattern}");
            for text in fitting {
                assert!(fits(text), "{pattern}: {text:?}");
            }
            for text in others {
                assert!(!fits(text), "{pattern}: {text:?}");
            }
        }
    }

    /// The expected texts are those of Go 1.26.
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
            assert_eq!(compile(pattern).err(), want, "{pattern}");
        }
    }
}
