//! Parser of documents that users write in YAML or JSON: worlds, fault rules and commands.
//!
//! An error names the key, its value and a remedy as far as they are known, and suggests the right
//! spelling of a misspelt key. The parser first reads a document as plain data and then converts it
//! to its type. Errors of the first step name no key, except for a key that occurs twice in JSON.

pub(crate) mod file;

use serde::de::DeserializeOwned;
use serde_json::Value;

use kube_sim_store::duplicate_fields;

/// An error in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// Path of the key, such as `spec.machines`; empty for an error that concerns no single key.
    pub key: String,
    /// Value of the key: as JSON, cut after 60 characters, or an unknown word as it is. Empty if it
    /// does not help the user.
    pub value: String,
    /// Description of the problem, such as `unknown key`.
    pub problem: String,
    /// Change of the document that solves the problem.
    pub remedy: String,
}

impl DocumentError {
    /// Returns an error that concerns no single key.
    pub fn document(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (key, value) = (String::new(), String::new());
        Self { key, value, problem: problem.into(), remedy: remedy.into() }
    }

    /// Returns an error in the value of a key.
    pub fn at_key(key: &str, value: &Value, problem: &str, remedy: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            value: short(value),
            problem: problem.to_owned(),
            remedy: remedy.into(),
        }
    }

    /// Returns key, value and problem in one line, such as `spec.zones: "x": invalid value`. Omits
    /// an empty key or value.
    pub fn summary(&self) -> String {
        let Self { key, value, problem, .. } = self;
        match (key.as_str(), value.as_str()) {
            ("", "") => problem.clone(),
            ("", value) => format!("{value}: {problem}"),
            (key, "") => format!("{key}: {problem}"),
            (key, value) => format!("{key}: {value}: {problem}"),
        }
    }

    /// Sets `remedy` as the remedy unless the error already has one.
    pub fn or_remedy(mut self, remedy: &str) -> Self {
        if self.remedy.is_empty() {
            remedy.clone_into(&mut self.remedy);
        }
        self
    }

    /// Prefixes the path of the key with `key`: `zones` below `spec` becomes `spec.zones`.
    pub fn prefix_key(mut self, key: &str) -> Self {
        self.key = match (self.key.as_str(), self.key.starts_with('[')) {
            ("", _) => key.to_owned(),
            (inner, true) => format!("{key}{inner}"),
            (inner, false) => format!("{key}.{inner}"),
        };
        self
    }
}

/// Parses a JSON document. A key that occurs twice in an object is an error, because either choice
/// would be a guess.
pub(crate) fn json(text: &[u8]) -> Result<Value, DocumentError> {
    let value = serde_json::from_slice(text).map_err(|error| {
        DocumentError::document(format!("not JSON: {error}"), "correct the syntax at this position")
    })?;
    match duplicate_fields(text).into_iter().next() {
        None => Ok(value),
        Some(key) => Err(DocumentError {
            key,
            ..DocumentError::document("the key occurs twice", "remove one of the two")
        }),
    }
}

/// Parses a YAML document; JSON is YAML.
///
/// # Errors
/// Input that is not UTF-8 text or neither YAML nor JSON, or in which a key occurs twice.
pub fn yaml(text: &[u8]) -> Result<Value, DocumentError> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok() {
        return json(text);
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        DocumentError::document(format!("not UTF-8 text: {error}"), "save the file as UTF-8")
    })?;
    serde_saphyr::from_str(text).map_err(|error| {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        DocumentError::document(
            format!("neither YAML nor JSON: {first}"),
            "correct the syntax at this position",
        )
    })
}

/// Converts plain data to a type.
///
/// # Errors
/// The first key that is unknown, is missing, or has a value that does not fit the type.
pub fn typed<T: DeserializeOwned>(value: Value) -> Result<T, DocumentError> {
    serde_path_to_error::deserialize(value.clone()).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        // serde_path_to_error writes `?` for the name of an unknown key.
        let path = path.trim_end_matches('?').trim_end_matches('.');
        from_serde(&value, path, &message)
    })
}

/// Converts an error message of serde to key, value, problem and remedy.
fn from_serde(document: &Value, path: &str, message: &str) -> DocumentError {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    if let ([found, expected @ ..], true) = (quoted.as_slice(), unknown) {
        let is_key = message.starts_with("unknown field");
        let key = match (is_key, path) {
            (true, "") => (*found).to_owned(),
            (true, path) if path == *found || path.ends_with(&format!(".{found}")) => path.into(),
            (true, path) => format!("{path}.{found}"),
            (false, path) => path.to_owned(),
        };
        let problem = match (is_key, key.is_empty()) {
            (true, _) => "unknown key".to_owned(),
            (false, true) => format!("`{found}` is not known"),
            (false, false) => "is not known".to_owned(),
        };
        let value = if is_key { String::new() } else { (*found).to_owned() };
        return DocumentError { key, value, problem, remedy: suggestion(found, expected) };
    }
    if let Some(missing) = message.strip_prefix("missing field `") {
        let missing = missing.trim_end_matches('`');
        let key = if path.is_empty() { missing.to_owned() } else { format!("{path}.{missing}") };
        let problem = "is missing".to_owned();
        return DocumentError {
            key,
            value: String::new(),
            problem,
            remedy: "add this key".to_owned(),
        };
    }
    let value = lookup(document, path).map(short).unwrap_or_default();
    let misfit = message.starts_with("invalid type") || message.starts_with("invalid value");
    let (problem, remedy) = match message.split_once("expected ") {
        Some((_, "map with a single key")) => ("one key is expected".to_owned(), String::new()),
        Some((_, expected)) if misfit && !value.is_empty() => {
            ("invalid value".to_owned(), format!("write {}", type_in_words(expected)))
        }
        Some((said, expected)) => {
            let is_ours = expected.starts_with("struct ");
            let said = if is_ours { said.trim_end_matches([',', ' ']) } else { message };
            (said.to_owned(), format!("write {}", type_in_words(expected)))
        }
        // Error messages of our own types end with a remedy.
        None => match message.split_once("; ") {
            Some((problem, remedy)) => (problem.to_owned(), remedy.to_owned()),
            None => (message.to_owned(), String::new()),
        },
    };
    DocumentError { key: path.to_owned(), value, problem, remedy }
}

/// Translates a type name in serde's messages into words that users understand.
fn type_in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or greater",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "keys and values",
        "string or map" => "a word, or one key with its value",
        // Users do not know the names of this crate's types.
        other if other.starts_with("struct ") => "keys and values",
        other => other,
    }
}

/// Returns the known word that is most similar to `found`, regardless of case; `None` if no word is
/// similar. A similar word differs in at most 1 + a quarter of the letters of `found`, or only in
/// the dashes and underscores of `found`.
pub fn closest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = |word: &&&str| {
        let (a, b) = (found.to_lowercase(), word.to_lowercase());
        distance(&a, &b) <= 1 + found.len() / 4 || a.replace(['-', '_'], "") == b
    };
    let to_found = |word: &&&str| distance(&found.to_lowercase(), &word.to_lowercase());
    known.iter().filter(near).min_by_key(to_found).copied()
}

/// Returns a remedy for an unexpected word: suggests the most similar expected word, else lists
/// all expected words, else says to remove the word.
fn suggestion(found: &str, expected: &[&str]) -> String {
    match (closest(found, expected), expected) {
        (Some(best), _) => format!("did you mean `{best}`?"),
        (None, []) => "remove this key".to_owned(),
        (None, expected) => format!("expected one of {}", expected.join(", ")),
    }
}

/// Returns the Levenshtein distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Returns the value at a path such as `spec.steps[2].name`, if the document has one.
fn lookup<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer: String = path
        .split(['.', '[', ']'])
        .filter(|part| !part.is_empty())
        .map(|part| format!("/{part}"))
        .collect();
    document.pointer(&pointer)
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_two_words_counts_single_letter_edits() {
        for (a, b, want) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 2)] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }
}
