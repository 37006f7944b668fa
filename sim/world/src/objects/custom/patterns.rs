//! Patterns as Go reads them: `\d`, `\w`, `\s` and `\b` know ASCII only.

use regex::Regex;
use regex_syntax::ast::{
    self, Assertion, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetItem,
};

/// A pattern of Go; `None` if it cannot be read. Go knows no look-around either.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    let ast = ast::parse::Parser::new().parse(pattern).ok()?;
    let mut pieces = ast::visit(&ast, Pieces::default()).ok()?;
    pieces.sort_by_key(|(span, _)| span.start.offset);
    let mut plain = pattern.to_owned();
    for (span, with) in pieces.iter().rev() {
        plain.replace_range(span.start.offset..span.end.offset, with);
    }
    Regex::new(&plain).ok()
}

/// The parts of a pattern that mean more to this engine, and what Go means by them.
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

#[cfg(test)]
mod tests {
    use super::compile;

    /// As the real server answers for a property with that pattern.
    #[test]
    fn classes_know_ascii_only() {
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
            let fits = |text: &str| compiled.as_ref().is_some_and(|it| it.is_match(text));
            assert!(compiled.is_some(), "{pattern}");
            for text in fitting {
                assert!(fits(text), "{pattern}: {text:?}");
            }
            for text in others {
                assert!(!fits(text), "{pattern}: {text:?}");
            }
        }
        assert!(compile("(?=a)").is_none());
    }
}
