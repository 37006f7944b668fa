//! The YAML dialect of `vsphere.conf`. Keys are case-sensitive, as in upstream.

use serde_json::{Map, Value as Json};

use super::{
    ConfigError, Entry, Raw, Value, Warning,
    ini::not_yet,
    keys::{Fate, KEYS, NOT_YET, Section, closest, is_secret, unknown},
};

const SECTIONS: [(&str, Section); 4] = [
    ("global", Section::Global),
    ("vcenter", Section::VirtualCenter),
    ("labels", Section::Labels),
    ("nodes", Section::Nodes),
];

/// Checks that the text is a YAML mapping, whatever its content.
pub(super) fn check_syntax(file: &str, text: &str) -> Result<(), ConfigError> {
    mapping(file, text).map(drop)
}

fn mapping(file: &str, text: &str) -> Result<Map<String, Json>, ConfigError> {
    let syntax = |what: String| ConfigError::Syntax { file: file.to_owned(), what };
    let document: Json = serde_saphyr::from_str(text).map_err(|err| {
        // The first line has no text of the file. Further lines quote the text around the error,
        // which may contain a password.
        let text = err.to_string();
        syntax(format!(
            "not valid YAML: {}; check the syntax there",
            text.lines().next().unwrap_or_default()
        ))
    })?;
    let Json::Object(document) = document else {
        return Err(syntax(
            "expected a YAML mapping; begin with `global:` or `vcenter:`".to_owned(),
        ));
    };
    Ok(document)
}

/// Parses a whole file; `file` is its name in messages.
pub(super) fn read(file: &str, text: &str) -> Result<Raw, ConfigError> {
    let document = mapping(file, text)?;
    let mut raw = Raw { is_yaml: true, ..Raw::default() };
    for (name, value) in &document {
        let Some((_, section)) = SECTIONS.iter().find(|(known, _)| known == name) else {
            if NOT_YET.contains(&name.as_str()) {
                return Err(not_yet(file, name));
            }
            let hint = closest(name, SECTIONS.iter().map(|(known, _)| *known));
            raw.warnings.push(unknown(name, hint.map(str::to_owned)));
            continue;
        };
        if value.is_null() {
            continue;
        }
        let mapping = expect_mapping(file, name, value)?;
        if *section != Section::VirtualCenter {
            read_section(file, *section, None, name, mapping, &mut raw)?;
            continue;
        }
        for (vcenter, value) in mapping {
            raw.vcenters.insert(vcenter.clone());
            let path = format!("{name}.{vcenter}");
            if !value.is_null() {
                let mapping = expect_mapping(file, &path, value)?;
                read_section(file, *section, Some(vcenter), &path, mapping, &mut raw)?;
            }
        }
    }
    Ok(raw)
}

fn expect_mapping<'a>(
    file: &str,
    path: &str,
    value: &'a Json,
) -> Result<&'a Map<String, Json>, ConfigError> {
    value.as_object().ok_or_else(|| ConfigError::Key {
        file: file.to_owned(),
        key: path.to_owned(),
        what: format!("expected a mapping, not {}; write its keys below it", kind(value)),
    })
}

/// Name of a value's type for messages, which do not show the value: it may be a secret.
fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

fn read_section(
    file: &str,
    section: Section,
    subsection: Option<&String>,
    path: &str,
    mapping: &Map<String, Json>,
    raw: &mut Raw,
) -> Result<(), ConfigError> {
    let of_section = || KEYS.iter().filter(|key| key.section == section);
    for (name, value) in mapping {
        let path = format!("{path}.{name}");
        let Some(key) = of_section().find(|key| key.yaml == name) else {
            let hint = closest(name, of_section().map(|key| key.yaml));
            raw.warnings.push(unknown(&path, hint.map(str::to_owned)));
            continue;
        };
        if key.fate == Fate::NoEffect {
            raw.warnings.push(Warning(format!("{path} has no effect")));
        }
        if value.is_null() {
            continue;
        }
        let value = read_value(key.ini, value).map_err(|what| ConfigError::Key {
            file: file.to_owned(),
            key: path.clone(),
            what,
        })?;
        let subsection = subsection.cloned();
        raw.entries.push(Entry { section, subsection, key: key.ini, path, value });
    }
    Ok(())
}

fn read_value(key: &str, value: &Json) -> Result<Value, String> {
    match value {
        Json::String(text) => Ok(Value::Text(text.clone())),
        Json::Bool(flag) => Ok(Value::Text(flag.to_string())),
        Json::Number(number) if number.is_i64() || number.is_u64() => {
            Ok(Value::Text(number.to_string()))
        }
        // One YAML parser reads `012` as 12 and another as 10, but the password is the text.
        Json::Number(_) if is_secret(key) => {
            Err("the value is not a plain integer; put it in quotes".to_owned())
        }
        Json::Number(number) => {
            Err(format!("{number} is not a plain integer; put the value that you mean in quotes"))
        }
        Json::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts
                .map(Value::List)
                .ok_or_else(|| "expected a list of strings; put every item in quotes".to_owned())
        }
        Json::Null | Json::Object(_) => {
            Err(format!("expected a value, not {}; write one value", kind(value)))
        }
    }
}
