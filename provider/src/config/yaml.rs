//! The YAML dialect of `vsphere.conf`. Keys are case-sensitive, as in upstream.

use serde_json::{Map, Value as Json};

use super::{
    Entry, Raw, Value, Warning,
    ini::not_yet,
    keys::{Fate, KEYS, NOT_YET, Section, closest, is_secret, unknown},
};
use crate::InputError;

const SECTIONS: [(&str, Section); 4] = [
    ("global", Section::Global),
    ("vcenter", Section::VirtualCenter),
    ("labels", Section::Labels),
    ("nodes", Section::Nodes),
];

/// Checks that the text is a YAML mapping, whatever its content.
pub(super) fn check_syntax(file: &str, text: &str) -> Result<(), InputError> {
    mapping(file, text).map(drop)
}

fn mapping(file: &str, text: &str) -> Result<Map<String, Json>, InputError> {
    let document: Json = serde_saphyr::from_str(text).map_err(|err| {
        // The first line has no text of the file. Further lines quote the text around the error,
        // which may contain a password.
        let text = err.to_string();
        let first = text.lines().next().unwrap_or_default();
        let err = InputError::new(format!("the file is not valid YAML: {first}"));
        err.remedy("correct the syntax at this position").in_source(file)
    })?;
    let Json::Object(document) = document else {
        let err = InputError::new("expected a YAML mapping");
        return Err(err.remedy("begin with `global:` or `vcenter:`").in_source(file));
    };
    Ok(document)
}

/// Parses a whole file; `file` is its name in messages.
pub(super) fn read(file: &str, text: &str) -> Result<Raw, InputError> {
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
) -> Result<&'a Map<String, Json>, InputError> {
    value.as_object().ok_or_else(|| {
        let err = InputError::new(format!("expected a mapping, not {}", kind(value)));
        err.remedy("write its keys below it").at_key(path).in_source(file)
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
) -> Result<(), InputError> {
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
        let value =
            read_value(key.ini, value).map_err(|err| err.at_key(path.as_str()).in_source(file))?;
        let subsection = subsection.cloned();
        raw.entries.push(Entry { section, subsection, key: key.ini, path, value });
    }
    Ok(())
}

fn read_value(key: &str, value: &Json) -> Result<Value, InputError> {
    match value {
        Json::String(text) => Ok(Value::Text(text.clone())),
        Json::Bool(flag) => Ok(Value::Text(flag.to_string())),
        Json::Number(number) if number.is_i64() || number.is_u64() => {
            Ok(Value::Text(number.to_string()))
        }
        // One YAML parser reads `012` as 12 and another as 10, but the password is the text.
        Json::Number(_) if is_secret(key) => {
            Err(InputError::new("the value is not a plain integer").remedy("put it in quotes"))
        }
        Json::Number(number) => {
            let err = InputError::new(format!("{number} is not a plain integer"));
            Err(err.remedy("put the value that you mean in quotes"))
        }
        Json::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts.map(Value::List).ok_or_else(|| {
                InputError::new("expected a list of strings").remedy("put every item in quotes")
            })
        }
        Json::Null | Json::Object(_) => {
            let err = InputError::new(format!("expected a value, not {}", kind(value)));
            Err(err.remedy("write one value"))
        }
    }
}
