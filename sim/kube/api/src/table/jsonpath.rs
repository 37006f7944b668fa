//! The part of Kubernetes' JSONPath that printer columns use: fields, indexes, `[*]`, and filters
//! that compare one field with a text, number or boolean by `==` or `!=`.

use serde_json::Value;

/// A parsed JSONPath: its steps in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where { field: Path, is: String, negated: bool },
}

impl Path {
    /// Reads a path; `None` if it uses unsupported syntax.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = end_of_bracket(inner)?;
                steps.push(bracket(inner.get(..end)?.trim())?);
                rest = inner.get(end + 1..)?;
            } else {
                let (field, after) = field(rest.strip_prefix('.').unwrap_or(rest));
                match field.as_str() {
                    "" => return None,
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Field(field)),
                }
                rest = after;
            }
        }
        Some(Self(steps))
    }

    /// The first value in `value` that the path selects; `None` if it selects none.
    pub(super) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.take(value)).collect();
        }
        found.into_iter().next()
    }
}

impl Step {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(at) => {
                let n_items = i64::try_from(items().len()).unwrap_or(i64::MAX);
                let at = if *at < 0 { at + n_items } else { *at };
                usize::try_from(at).ok().and_then(|at| items().get(at)).into_iter().collect()
            }
            Self::All => match value {
                Value::Object(map) => map.values().collect(),
                _ => items().iter().collect(),
            },
            Self::Where { field, is, negated } => {
                let matches = |item: &&Value| {
                    let found = field.first(item).map(|found| match found {
                        Value::String(text) => text == is,
                        Value::Bool(found) => is.parse() == Ok(*found),
                        Value::Number(found) => {
                            is.parse::<serde_json::Number>().is_ok_and(|is| is == *found)
                        }
                        _ => false,
                    });
                    found.is_some_and(|it| it != *negated)
                };
                items().iter().filter(matches).collect()
            }
        }
    }
}

/// Reads a field name up to the next step; a backslash escapes the next character. Returns the name
/// and the rest of the text.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            _ => name.push(character),
        }
    }
    (name, "")
}

/// Offset of the `]` that closes the bracket before `text`; `None` if it stays open. Skips quoted
/// text and inner brackets.
fn end_of_bracket(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquoted(text) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|it| it.strip_suffix(')')) {
        let (negated, (left, right)) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some(sides), _) => (false, sides),
            (None, Some(sides)) => (true, sides),
            (None, None) => return None,
        };
        let field = Path::parse(left.trim().strip_prefix('@')?)?;
        let right = right.trim();
        let is = unquoted(right).unwrap_or(right).to_owned();
        return Some(Step::Where { field, is, negated });
    }
    text.parse().ok().map(Step::Index)
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_selects_the_first_value_that_it_matches() {
        let object = json!({
            "spec": {"size": 3, "tags": ["a", "b"]},
            "metadata": {"labels": {"a.b/c": "1"}},
            "status": {"conditions": [{"type": "Old", "status": "x"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, want) in [
            (".spec.size", Some(json!(3))),
            ("spec.size", Some(json!(3))),
            (".spec.tags", Some(json!(["a", "b"]))),
            (".spec.tags[1]", Some(json!("b"))),
            (".spec.tags[-1]", Some(json!("b"))),
            (".spec.tags[*]", Some(json!("a"))),
            (".spec.tags[7]", None),
            (r".metadata.labels.a\.b/c", Some(json!("1"))),
            (".metadata.labels['a.b/c']", Some(json!("1"))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (r#".status.conditions[?(@.type!="Ready")].status"#, Some(json!("x"))),
            (r#".status.conditions[?(@.type == 'Gone')].status"#, None),
            (".spec.nothing.more", None),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!(path.first(&object).cloned(), want, "{path:?}");
        }
        for unknown in ["[", "..", ".a[?(@.b)]", ".a[x]"] {
            assert_eq!(Path::parse(unknown), None, "{unknown}");
        }
    }
}
