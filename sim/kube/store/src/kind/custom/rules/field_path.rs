//! Paths of fields in rules.
//!
//! Follows `ValidFieldPath` of
//! `apiextensions-apiserver: pkg/apiserver/schema/cel/validation.go`.

use serde_json::Value;

/// Returns a `fieldPath` in the form for errors: `a[b].c` for `.a['b'].c`. Returns `None` if the
/// path does not lead to a field of `schema`.
pub(crate) fn field_path(path: &str, schema: &Value) -> Option<String> {
    let mut schema = schema;
    let mut shown = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let end = quoted_end(after)?;
            name = unescaped(&after[..end])?;
            rest = after[end..].strip_prefix("']")?;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if after.is_empty() {
                return None;
            }
            // The real server takes a delimiter after a dot for a name.
            name = after[..end.max(1)].to_owned();
            rest = &after[end.max(1)..];
        }
        if schema["properties"].as_object().is_some_and(|it| !it.is_empty()) {
            schema = schema["properties"].get(&name)?;
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
        } else {
            schema = schema.get("additionalProperties").filter(|it| it.is_object())?;
            shown.push_str(&format!("[{name}]"));
        }
    }
    Some(shown)
}

/// Returns the place of the quote that ends a name.
fn quoted_end(text: &str) -> Option<usize> {
    let is_end = |at: &usize| *at == 0 || !text[..*at].ends_with('\\');
    text.match_indices('\'').map(|(at, _)| at).find(is_end)
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                c @ ('\'' | '\\') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}
