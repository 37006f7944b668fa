//! Error about input of a person: a flag, an environment variable, or a file and its keys.

use std::fmt;

use sim::document::DocumentError;

/// Reason why the program refuses a flag, a file, or a value in one of them; nothing has started.
///
/// The text of the error is put together only when it is shown. The text consists of `what`, key,
/// value, problem and remedy, without the parts that are not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InputError {
    /// The flag, file, environment variable or manifest; `None` if the value says enough.
    what: Option<Box<str>>,
    /// Path of the key in the file, or its line.
    key: Option<Box<str>>,
    value: Option<Box<str>>,
    problem: Problem,
    remedy: Option<Remedy>,
}

/// The problem, worded for its place beside the value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    /// The remedy alone tells the problem: `--jobs 0: write 1 or more`.
    Implied,
    /// Follows the value: `the lab "x" exists already`.
    Predicate(Box<str>),
    /// Precedes the value: `no check is called "x"`.
    Noun(Box<str>),
    /// Follows the value and a colon: `"x": unknown key`.
    Sentence(Box<str>),
}

/// The remedy, worded for its place behind the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    /// Follows a semicolon: `write 1 or more`.
    Action(Box<str>),
    /// Follows a colon: `expected one of a, b`.
    Condition(Box<str>),
    /// Follows in parentheses: `--list-lives prints all lives`.
    Note(Box<str>),
    /// Has a line of its own, because the problem may be long.
    Line(Box<str>),
}

impl InputError {
    /// An error without a value, or whose problem names the value.
    pub fn new(problem: impl Into<Box<str>>) -> Self {
        Self::with_problem(Problem::Sentence(problem.into()))
    }

    /// An error in the value of a flag; `flag` has its dashes.
    pub fn in_flag(flag: &str, value: impl fmt::Display, problem: impl Into<Box<str>>) -> Self {
        Self::new(problem).value(value).in_source(flag)
    }

    /// An error in the value of a flag whose remedy alone tells the problem.
    pub fn wrong_flag(flag: &str, value: impl fmt::Display) -> Self {
        Self::with_problem(Problem::Implied).value(value).in_source(flag)
    }

    /// An error about something that is missing; the remedy tells what.
    pub fn missing() -> Self {
        Self::with_problem(Problem::Implied)
    }

    /// An error whose text begins with the value and continues with `predicate`.
    pub fn invalid(value: impl fmt::Display, predicate: impl Into<Box<str>>) -> Self {
        Self::with_problem(Problem::Predicate(predicate.into())).value(value)
    }

    /// An error whose text begins with `noun` and continues with the value in quotes.
    pub fn unknown(noun: impl Into<Box<str>>, value: &str) -> Self {
        Self::with_problem(Problem::Noun(noun.into())).value(format!("{value:?}"))
    }

    /// An error in the document of a file or manifest.
    pub fn in_document(origin: impl Into<Box<str>>, error: DocumentError) -> Self {
        let DocumentError { key, value, problem, remedy } = error;
        let given = |text: String| (!text.is_empty()).then(|| text.into_boxed_str());
        Self {
            what: Some(origin.into()),
            key: given(key),
            value: given(value),
            problem: Problem::Sentence(problem.into()),
            remedy: given(remedy).map(Remedy::Line),
        }
    }

    const fn with_problem(problem: Problem) -> Self {
        Self { what: None, key: None, value: None, problem, remedy: None }
    }

    fn value(self, value: impl fmt::Display) -> Self {
        Self { value: Some(value.to_string().into()), ..self }
    }

    /// Sets the flag, file, environment variable or manifest.
    #[must_use]
    pub fn in_source(self, what: impl Into<Box<str>>) -> Self {
        Self { what: Some(what.into()), ..self }
    }

    /// Sets the path of the key, or the line, in the source.
    #[must_use]
    pub fn at_key(self, key: impl Into<Box<str>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the action that solves the problem.
    #[must_use]
    pub fn remedy(self, action: impl Into<Box<str>>) -> Self {
        Self { remedy: Some(Remedy::Action(action.into())), ..self }
    }

    /// Sets the condition that the value must meet.
    #[must_use]
    pub fn condition(self, condition: impl Into<Box<str>>) -> Self {
        Self { remedy: Some(Remedy::Condition(condition.into())), ..self }
    }

    /// Sets a note in parentheses about where the valid values are.
    #[must_use]
    pub fn note(self, note: impl Into<Box<str>>) -> Self {
        Self { remedy: Some(Remedy::Note(note.into())), ..self }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, key, value, problem, remedy } = self;
        let what = what.as_deref().unwrap_or_default();
        // A flag and its value read as on the command line; elsewhere each part ends with a colon.
        let gap =
            if what.starts_with("--") && key.is_none() && value.is_some() { " " } else { ": " };
        if !what.is_empty() {
            write!(f, "{what}{gap}")?;
        }
        if let Some(key) = key {
            write!(f, "{key}: ")?;
        }
        match (value, problem) {
            (Some(value), Problem::Implied) => f.write_str(value)?,
            (Some(value), Problem::Predicate(text)) => write!(f, "{value} {text}")?,
            (Some(value), Problem::Noun(text)) => write!(f, "{text} {value}")?,
            (Some(value), Problem::Sentence(text)) => write!(f, "{value}: {text}")?,
            (None, Problem::Implied) => {}
            (None, Problem::Predicate(text) | Problem::Noun(text) | Problem::Sentence(text)) => {
                f.write_str(text)?;
            }
        }
        let is_alone = value.is_none() && *problem == Problem::Implied;
        match remedy {
            Some(Remedy::Action(remedy)) if is_alone => f.write_str(remedy),
            Some(Remedy::Action(remedy)) if *problem == Problem::Implied => write!(f, ": {remedy}"),
            Some(Remedy::Action(remedy)) => write!(f, "; {remedy}"),
            Some(Remedy::Condition(remedy)) => write!(f, ": {remedy}"),
            Some(Remedy::Note(note)) => write!(f, " ({note})"),
            Some(Remedy::Line(remedy)) => write!(f, "\nremedy: {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_source_key_value_problem_and_remedy() {
        let zero = InputError::wrong_flag("--jobs", 0).remedy("write 1 or more");
        assert_eq!(zero.to_string(), "--jobs 0: write 1 or more");
        let path =
            InputError::in_flag("--binary", "/x", "no file has this path").remedy("build it");
        assert_eq!(path.to_string(), "--binary /x: no file has this path; build it");
        let line =
            InputError::new("EOF").in_source("--ledger x").at_key("line 2").remedy("mend it");
        assert_eq!(line.to_string(), "--ledger x: line 2: EOF; mend it");
        let missing = InputError::missing().in_source("mine").remedy("add --binary PATH");
        assert_eq!(missing.to_string(), "mine: add --binary PATH");
        let id = InputError::unknown("no check is called", "x").remedy("did you mean y?");
        assert_eq!(id.to_string(), "no check is called \"x\"; did you mean y?");
        let lab = InputError::invalid("the lab `x`", "exists already").condition("expected none");
        assert_eq!(lab.to_string(), "the lab `x` exists already: expected none");
        let wrong = DocumentError::at_key("spec.a", &5.into(), "is odd", "write 4");
        let wrong = InputError::in_document("mine.yaml", wrong);
        assert_eq!(wrong.to_string(), "mine.yaml: spec.a: 5: is odd\nremedy: write 4");
    }
}
