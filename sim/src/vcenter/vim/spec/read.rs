//! Values of a request, by their declared types, as settings that a machine keeps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sim_world::vcenter::{MoRef, Setting, Structure};

use super::fields::{Treatment, treatment};
use super::values::values;
use crate::call::vim25::{self, Declared, Field, Kind, Type};
use crate::vcenter::vim::data::{Node, VimFault};

/// Reads the elements of a field of the type `owner`: a list of them, or the first one. `path` names
/// the field in faults.
///
/// # Errors
/// `NotSupported` for a refused field, `InvalidArgument` for a value that is not of its type.
pub(super) fn setting(
    given: &[&Node],
    owner: &str,
    field: &Field,
    path: &str,
) -> Result<Setting, VimFault> {
    let declared = &field.declared;
    let invalid = || VimFault::invalid_argument(path);
    if let Some(values) = values(owner, field.name) {
        let is_value = |node: &&Node| values.values().any(|it| it == node.text);
        if !given.iter().all(is_value) {
            return Err(invalid());
        }
    }
    if declared.is_list {
        let items = given.iter().map(|node| element(node, declared, path));
        return items.collect::<Result<_, _>>().map(Setting::List);
    }
    element(given.first().ok_or_else(invalid)?, declared, path)
}

fn element(node: &Node, declared: &Declared, path: &str) -> Result<Setting, VimFault> {
    let kind = vim25::find(declared.name).filter(|_| !declared.is_reference);
    match kind {
        Some(kind) if kind.kind != Kind::Enum => {
            structure(node, declared.name, path).map(Setting::Object)
        }
        _ if is_valid(&node.text, declared, kind) => Ok(Setting::Text(text(node, declared))),
        _ => Err(VimFault::invalid_argument(path)),
    }
}

/// Reads a data object of the stated type, or of the declared one. Leaves ignored fields out.
///
/// # Errors
/// `NotSupported` for a refused field, `InvalidArgument` for a value that is not of its type.
pub(super) fn structure(node: &Node, declared: &str, path: &str) -> Result<Structure, VimFault> {
    let kind = node.xsi_type.as_deref().unwrap_or(declared);
    let mut fields = BTreeMap::new();
    let types = vim25::find(kind).into_iter().flat_map(Type::chain);
    for (owner, field) in types.flat_map(|it| it.own_fields().map(|field| (it.name, field))) {
        let given: Vec<&Node> = node.all(field.name).collect();
        if given.is_empty() || is_dropped(owner, &field, &given)? {
            continue;
        }
        let value = setting(&given, owner, &field, &format!("{path}.{}", field.name))?;
        fields.insert(field.name.to_owned(), value);
    }
    Ok(Structure { kind: kind.to_owned(), fields })
}

/// Returns true if the field is ignored, or has the value that a refused field may have.
///
/// # Errors
/// `NotSupported` for a refused field with any other value.
pub(super) fn is_dropped(owner: &str, field: &Field, given: &[&Node]) -> Result<bool, VimFault> {
    match treatment(owner, field.name) {
        Some(Treatment::Refused) => {
            let is_false = field.declared.name == "boolean"
                && given.iter().all(|it| matches!(it.text.as_str(), "false" | "0"));
            if is_false { Ok(true) } else { Err(refused(owner, field.name)) }
        }
        Some(Treatment::Ignored(_)) => Ok(true),
        _ => Ok(false),
    }
}

fn refused(owner: &str, field: &str) -> VimFault {
    VimFault::new("NotSupported", format!("The field {owner}.{field} is not supported."))
}

/// Returns the text of a simple value in its usual form.
fn text(node: &Node, declared: &Declared) -> String {
    match (declared.name, node.text.as_str()) {
        ("boolean", "1") => "true".to_owned(),
        ("boolean", "0") => "false".to_owned(),
        (_, text) => text.to_owned(),
    }
}

fn is_valid(text: &str, declared: &Declared, kind: Option<&'static Type>) -> bool {
    if declared.is_reference {
        let kind = MoRef::parse(text).map(|id| id.kind.type_name());
        return kind.is_some_and(|kind| vim25::is_a(kind, declared.name));
    }
    if let Some(kind) = kind {
        return kind.values().any(|value| value == text);
    }
    match declared.name {
        "boolean" => matches!(text, "true" | "false" | "1" | "0"),
        "byte" => text.parse::<i8>().is_ok(),
        "short" => text.parse::<i16>().is_ok(),
        "int" => text.parse::<i32>().is_ok(),
        "long" => text.parse::<i64>().is_ok(),
        "float" | "double" => text.parse::<f64>().is_ok(),
        "dateTime" => text.parse::<Timestamp>().is_ok(),
        _ => true,
    }
}
