//! The INI dialect: gcfg, as `cloud-provider-vsphere` reads it.
//!
//! Written by hand, because no crate reads INI as gcfg does: section and key names ignore case,
//! subsections stand in quotes, `#` and `;` begin comments outside quotes, a backslash begins an
//! escape inside quotes, and a key without a value is `true`.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    Raw, Value, Warning,
    keys::{Fate, KEYS, NOT_YET, Section, closest, unknown},
};
use crate::InputError;

struct Header {
    /// Name of the section as written, without the subsection.
    name: String,
    section: Option<Section>,
    subsection: Option<String>,
    text: String,
}

/// Line numbers of the sections and keys read so far. They serve warnings about repetitions: gcfg
/// merges a repeated section with the earlier one and takes the last value of a repeated key, but
/// most repetitions are mistakes.
#[derive(Default)]
struct FirstLines(BTreeMap<(Section, Option<String>, Option<&'static str>), usize>);

impl FirstLines {
    fn section(&mut self, header: &Header, line: usize) -> Option<Warning> {
        let first = self.first(header, None, line)?;
        let text = &header.text;
        Some(Warning(format!(
            "line {line}: {text} repeats the section of line {first}; the provider merges both"
        )))
    }

    fn key(&mut self, header: &Header, name: &str, line: usize) -> Option<Warning> {
        let mut of_section = KEYS.iter().filter(|key| Some(key.section) == header.section);
        let key = of_section.find(|key| key.ini.eq_ignore_ascii_case(name))?;
        let first = self.first(header, Some(key.ini), line)?;
        let text = &header.text;
        Some(Warning(format!(
            "line {line}: {text} {name} repeats the key of line {first}; the last value counts"
        )))
    }

    fn first(&mut self, header: &Header, key: Option<&'static str>, line: usize) -> Option<usize> {
        let place = (header.section?, header.subsection.clone(), key);
        match self.0.entry(place) {
            Entry::Occupied(first) => Some(*first.get()),
            Entry::Vacant(place) => {
                place.insert(line);
                None
            }
        }
    }
}

/// Parses a whole file; `file` is its name in messages.
pub(super) fn read(file: &str, text: &str) -> Result<Raw, InputError> {
    let mut raw = Raw::default();
    let mut header: Option<Header> = None;
    let mut seen = FirstLines::default();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let in_line = |err: InputError| err.at_key(format!("line {}", index + 1)).in_source(file);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        if let Some(inner) = line.strip_prefix('[') {
            let read = read_header(inner).map_err(in_line)?;
            take_section(file, &read, &mut raw)?;
            raw.warnings.extend(seen.section(&read, index + 1));
            header = Some(read);
            continue;
        }
        let (name, rest) = match line.find(['=', '#', ';']) {
            Some(at) if line.as_bytes()[at] == b'=' => (&line[..at], Some(&line[at + 1..])),
            Some(at) => (&line[..at], None),
            None => (line, None),
        };
        let name = name.trim();
        let is_name = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !is_name {
            let err = InputError::new("the line is neither `key = value` nor `[section]`");
            return Err(in_line(err.remedy("write one of them")));
        }
        let mut value = match rest {
            None => Some("true".to_owned()),
            Some(_) => None,
        };
        if let Some(rest) = rest {
            let mut text = rest.to_owned();
            // A backslash at the end of a line continues the value on the next line.
            while text.ends_with('\\') && !text.ends_with("\\\\") {
                text.pop();
                match lines.next() {
                    Some((_, next)) => text.push_str(next),
                    None => break,
                }
            }
            value = Some(read_value(&text).map_err(in_line)?);
        }
        let Some(header) = &header else {
            let err = InputError::new("a key stands before the first section");
            return Err(in_line(err.remedy("begin with [Global] or [VirtualCenter \"ADDRESS\"]")));
        };
        raw.warnings.extend(seen.key(header, name, index + 1));
        take(header, name, value.unwrap_or_default(), &mut raw);
    }
    Ok(raw)
}

/// Sections of the INI dialect.
const SECTIONS: [(&str, Section); 4] = [
    ("Global", Section::Global),
    ("VirtualCenter", Section::VirtualCenter),
    ("Labels", Section::Labels),
    ("Nodes", Section::Nodes),
];

/// Parses the header of a section after its `[`.
fn read_header(inner: &str) -> Result<Header, InputError> {
    let unclosed = || {
        let err = InputError::new("the section header has no closing `]`");
        err.remedy("write [SECTION] or [SECTION \"NAME\"]")
    };
    let name_end = inner.find([']', '"', ' ', '\t']).ok_or_else(unclosed)?;
    let name = inner[..name_end].trim();
    let rest = inner[name_end..].trim_start();
    let (subsection, rest) = match rest.strip_prefix('"') {
        Some(quoted) => {
            let end = quoted.find('"').ok_or_else(|| {
                InputError::new("a quotation mark is not closed")
                    .remedy("add the closing mark before `]`")
            })?;
            (Some(quoted[..end].to_owned()), quoted[end + 1..].trim_start())
        }
        None => (None, rest),
    };
    let tail = rest.strip_prefix(']').ok_or_else(unclosed)?.trim();
    if !(tail.is_empty() || tail.starts_with('#') || tail.starts_with(';')) {
        let err = InputError::new("text follows the section header in the same line");
        return Err(err.remedy("move the text to the next line"));
    }
    let text = match &subsection {
        Some(sub) => format!("[{name} \"{sub}\"]"),
        None => format!("[{name}]"),
    };
    let section = SECTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let section = section.map(|(_, section)| *section);
    Ok(Header { name: name.to_owned(), section, subsection, text })
}

/// Notes the name of a vCenter's section in `raw`, or adds a warning about an unknown section to
/// `raw`. Fails for a section that upstream reads and this provider does not.
fn take_section(file: &str, header: &Header, raw: &mut Raw) -> Result<(), InputError> {
    if header.section.is_none() {
        if NOT_YET.iter().any(|known| known.eq_ignore_ascii_case(&header.name)) {
            return Err(not_yet(file, &header.text));
        }
        let hint = closest(&header.name, SECTIONS.iter().map(|(known, _)| *known));
        raw.warnings.push(unknown(&header.text, hint.map(|h| format!("[{h}]"))));
    }
    if header.section == Some(Section::VirtualCenter) {
        raw.vcenters.insert(header.subsection.clone().unwrap_or_default());
    }
    Ok(())
}

/// Returns the error for a section that upstream reads and this provider does not; `path` names the
/// section.
pub(super) fn not_yet(file: &str, path: &str) -> InputError {
    InputError::new("this provider does not support load balancers and routes through NSX-T yet")
        .remedy("remove this section, or use another provider for them")
        .at_key(path)
        .in_source(file)
}

fn take(header: &Header, name: &str, value: String, raw: &mut Raw) {
    // The warning about an unknown section covers the keys below it.
    let Some(section) = header.section else { return };
    let path = format!("{} {name}", header.text);
    let of_section = || KEYS.iter().filter(|key| key.section == section);
    let Some(key) = of_section().find(|key| key.ini.eq_ignore_ascii_case(name)) else {
        let hint = closest(name, of_section().map(|key| key.ini));
        raw.warnings.push(unknown(&path, hint.map(str::to_owned)));
        return;
    };
    if key.fate == Fate::NoEffect {
        raw.warnings.push(Warning(format!("{path} has no effect")));
    }
    raw.entries.push(super::Entry {
        section,
        subsection: header.subsection.clone(),
        key: key.ini,
        path,
        value: Value::Text(value),
    });
}

fn unknown_escape() -> InputError {
    let err = InputError::new("unknown escape after a backslash inside quotation marks");
    err.remedy("write two backslashes to get one")
}

/// Parses the text after `=`: resolves quotes and the escapes in them, and removes the comment and
/// the blanks around the value.
fn read_value(text: &str) -> Result<String, InputError> {
    let mut out = String::new();
    // Length of the part of the value that must not be trimmed.
    let mut kept = 0;
    let mut chars = text.trim_start().chars();
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        match (is_quoted, c) {
            (_, '"') => {
                is_quoted = !is_quoted;
                kept = out.len();
            }
            (true, '\\') => {
                out.push(match chars.next() {
                    Some('"') => '"',
                    Some('\\') => '\\',
                    Some('n') => '\n',
                    Some('t') => '\t',
                    _ => return Err(unknown_escape()),
                });
                kept = out.len();
            }
            (false, '#' | ';') => break,
            (_, c) => {
                out.push(c);
                if is_quoted {
                    kept = out.len();
                }
            }
        }
    }
    if is_quoted {
        let err = InputError::new("a quotation mark is not closed");
        return Err(err.remedy("add the closing mark in the same line"));
    }
    let trimmed = out.trim_end().len().max(kept);
    out.truncate(trimmed);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_gcfg_reads_them() {
        for (name, text, want) in [
            ("plain", " a b ", Ok("a b")),
            ("comment", "p;x", Ok("p")),
            ("hash", "p # x", Ok("p")),
            ("quoted", "\"p;x\"", Ok("p;x")),
            ("escapes", r#""a\"b\\c""#, Ok("a\"b\\c")),
            ("spaces inside quotes stay", "\" a \"", Ok(" a ")),
            ("part quoted", "a\"; b\"c", Ok("a; bc")),
            ("empty", "", Ok("")),
            (
                "open quote",
                "\"a",
                Err("a quotation mark is not closed; add the closing mark in the same line"),
            ),
        ] {
            let got = read_value(text).map_err(|err| err.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{name}");
        }
    }
}
