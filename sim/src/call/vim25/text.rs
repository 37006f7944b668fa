//! Lookups in the text of `vim25.txt`. The head of `generate.py` explains its lines.

use std::sync::LazyLock;

use super::Version;
use super::types::{Declared, Field, Kind, Type};

const TEXT: &str = include_str!("vim25.txt");

/// Types in the order of their names.
static TYPES: LazyLock<Vec<Type>> = LazyLock::new(|| split(TEXT));

/// Types with a base type, in the order of the names of their base types.
static BY_BASE: LazyLock<Vec<&'static Type>> = LazyLock::new(|| {
    let mut types: Vec<_> = all().iter().filter(|it| it.base.is_some()).collect();
    types.sort_by_key(|it| it.base);
    types
});

/// Returns all types, in the order of their names.
pub(crate) fn all() -> &'static [Type] {
    &TYPES
}

/// Returns the type of this name; `None` if vim25 has no such type.
pub(crate) fn find(name: &str) -> Option<&'static Type> {
    let types: &'static [Type] = &TYPES;
    types.binary_search_by(|it| it.name.cmp(name)).ok().map(|at| &types[at])
}

/// Returns the names of all releases, the oldest first.
pub(crate) fn releases() -> impl DoubleEndedIterator<Item = &'static str> {
    let line = TEXT.lines().find_map(|line| line.strip_prefix("releases "));
    line.unwrap_or_default().split(' ')
}

/// Returns the types whose direct base type has this name.
pub(crate) fn derived(base: &str) -> &'static [&'static Type] {
    let types: &'static [&'static Type] = &BY_BASE;
    let start = types.partition_point(|it| it.base < Some(base));
    let end = types.partition_point(|it| it.base <= Some(base));
    &types[start..end]
}

fn split(text: &'static str) -> Vec<Type> {
    let mut types = Vec::with_capacity(text.len() / 128);
    let mut rest = text;
    while let Some((line, below)) = rest.split_once('\n') {
        let end = end_of_members(below);
        if let Some(head) = head(line, &below[..end]) {
            types.push(head);
        }
        rest = &below[end..];
    }
    types
}

/// Returns the length of the lines that begin with a blank.
fn end_of_members(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while bytes.get(end) == Some(&b' ') {
        end = text[end..].find('\n').map_or(text.len(), |line| end + line + 1);
    }
    end
}

fn head(line: &'static str, members: &'static str) -> Option<Type> {
    let mut words = line.split(' ');
    let kind = match words.next()? {
        "managed" => Kind::Managed,
        "data" => Kind::Data,
        "fault" => Kind::Fault,
        "enum" => Kind::Enum,
        _ => return None,
    };
    let name = words.next()?;
    let base = if kind == Kind::Enum { None } else { words.next().filter(|it| *it != "-") };
    Some(Type { kind, name, base, since: words.next()?, members })
}

/// Reads the line of a field; `None` for a line of another kind or with another indent.
pub(super) fn field(line: &'static str, indent: &str, since: &'static str) -> Option<Field> {
    let line = line.strip_prefix(indent).filter(|it| !it.starts_with(' '))?;
    let mut words = line.split(' ');
    let name = words.next().filter(|it| !it.ends_with("()") && *it != "throws")?;
    let declared = declared(words.next()?);
    let mut since = since;
    let mut secret = false;
    for word in words {
        match word {
            "secret" => secret = true,
            release => since = release,
        }
    }
    Some(Field { name, declared, since: Version::parse(since), secret })
}

fn declared(text: &'static str) -> Declared {
    let (text, is_optional) = text.strip_suffix('?').map_or((text, false), |it| (it, true));
    let (text, is_list) = text.strip_suffix("[]").map_or((text, false), |it| (it, true));
    let (name, is_reference) = text.strip_prefix('&').map_or((text, false), |it| (it, true));
    Declared { name, is_reference, is_list, is_optional }
}
