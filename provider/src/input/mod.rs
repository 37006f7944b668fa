//! Input of a person: the error about a flag, an environment variable, or a file and its keys, and
//! parsers of durations and certificates.

mod duration;
mod pem;

use std::{borrow::Cow, fmt};

pub use duration::parse_duration;
pub(crate) use pem::certified_key;

/// Reason why the provider refuses a flag, a file, or a value in one of them.
///
/// Its text is `WHAT: KEY: VALUE PROBLEM; REMEDY`, without the parts that are not set. A problem
/// that begins with a noun precedes the value (`unknown suite "x"`), and a condition follows a
/// colon (`: expected text or json`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Flag, file or environment variable that the error is about; `None` if the text does not name
    /// it.
    what: Option<Box<str>>,
    /// Path of the key in the file: sections, then the key.
    key: Vec<String>,
    value: Option<Box<str>>,
    problem: Problem,
    remedy: Option<Remedy>,
}

/// The problem, worded for its place beside the value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    /// Follows the value: `"x" is not a port`.
    Predicate(Cow<'static, str>),
    /// Precedes the value: `unknown suite "x"`.
    Noun(&'static str),
    /// Follows the value and a colon: `["x"]: expected a single value`.
    Sentence(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    /// Follows a semicolon: `write 1 to 65535`.
    Action(Cow<'static, str>),
    /// Follows a colon: `expected text or json`.
    Condition(Cow<'static, str>),
}

impl InputError {
    /// An error that shows no value, because none is given or because it may be a secret.
    pub fn new(problem: impl Into<Cow<'static, str>>) -> Self {
        let problem = Problem::Predicate(problem.into());
        Self { what: None, key: Vec::new(), value: None, problem, remedy: None }
    }

    /// An error whose text begins with the value in quotes and continues with `predicate`.
    pub fn invalid(value: &str, predicate: &'static str) -> Self {
        Self { value: Some(format!("{value:?}").into()), ..Self::new(predicate) }
    }

    /// An error whose text begins with `noun` and continues with the value in quotes.
    pub fn unknown(noun: &'static str, value: &str) -> Self {
        Self { problem: Problem::Noun(noun), ..Self::invalid(value, "") }
    }

    /// An error about a list in the place of a single value. Its text begins with the list and
    /// continues with a colon and `sentence`.
    pub fn list(items: &[String], sentence: &'static str) -> Self {
        let problem = Problem::Sentence(sentence);
        Self { value: Some(format!("{items:?}").into()), problem, ..Self::new("") }
    }

    /// Sets the remedy, an instruction such as `write 1 to 65535`. It replaces a condition.
    #[must_use]
    pub fn remedy(self, action: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: Some(Remedy::Action(action.into())), ..self }
    }

    /// Sets the condition that the value must meet. It replaces a remedy.
    #[must_use]
    pub fn condition(self, condition: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: Some(Remedy::Condition(condition.into())), ..self }
    }

    /// Sets the flag, by its name without dashes.
    #[must_use]
    pub fn in_flag(self, flag: &str) -> Self {
        self.in_source(format!("--{flag}"))
    }

    /// Sets the file, environment variable or flag with its value.
    #[must_use]
    pub fn in_source(self, what: impl Into<Box<str>>) -> Self {
        Self { what: Some(what.into()), ..self }
    }

    /// Sets the key or the line in the source, or adds the section around the key.
    #[must_use]
    pub fn at_key(mut self, key: impl Into<String>) -> Self {
        self.key.insert(0, key.into());
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.what.as_deref().into_iter().chain(self.key.iter().map(String::as_str)) {
            write!(f, "{place}: ")?;
        }
        match (&self.value, &self.problem) {
            (Some(value), Problem::Predicate(problem)) => write!(f, "{value} {problem}")?,
            (Some(value), Problem::Noun(problem)) => write!(f, "{problem} {value}")?,
            (Some(value), Problem::Sentence(problem)) => write!(f, "{value}: {problem}")?,
            (None, Problem::Predicate(problem)) => f.write_str(problem)?,
            (None, Problem::Noun(problem) | Problem::Sentence(problem)) => f.write_str(problem)?,
        }
        match &self.remedy {
            Some(Remedy::Action(remedy)) => write!(f, "; {remedy}"),
            Some(Remedy::Condition(remedy)) => write!(f, ": {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for InputError {}

/// Checks that a text is a DNS label of Kubernetes with at most `longest` characters.
pub(crate) fn check_dns_label(text: &str, longest: usize) -> Result<(), InputError> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends_well = |byte: Option<&u8>| byte.is_some_and(|byte| is_inner(*byte));
    let is_valid = bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
        && ends_well(bytes.first())
        && ends_well(bytes.last())
        && bytes.len() <= longest;
    if is_valid {
        return Ok(());
    }
    let err = InputError::invalid(text, "is not a valid name");
    Err(err.remedy(format!(
        "write at most {longest} lower-case letters, digits and dashes, with a letter or digit at both ends"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_source_key_value_problem_and_remedy() {
        let port = InputError::invalid("x", "is not a port number");
        let port = port.remedy("write 1 to 65535").at_key("port").at_key("global");
        let port = port.in_source("a.conf");
        let text = "a.conf: global: port: \"x\" is not a port number; write 1 to 65535";
        assert_eq!(port.to_string(), text);
        let mode = InputError::unknown("invalid mode", "x").condition("expected a or b");
        assert_eq!(mode.in_flag("mode").to_string(), "--mode: invalid mode \"x\": expected a or b");
        let items = InputError::list(&["s".to_owned()], "expected a single value");
        assert_eq!(items.to_string(), "[\"s\"]: expected a single value");
        assert_eq!(InputError::new("is required").to_string(), "is required");
    }
}
