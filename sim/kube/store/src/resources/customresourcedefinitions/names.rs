//! Checks of the names that a definition gives its kind: their form, and conflicts with other
//! kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{fields, names};
use crate::{FieldErrors, NameRule, ResourceDef};

/// Checks that the definition sets all required names.
pub(super) fn required(names: &Value, errors: &mut FieldErrors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if names[field].as_str().unwrap_or_default().is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        }
    }
}

/// Checks the form of names; `path` is the path of `names` for errors.
pub(super) fn validate(names: &Value, path: &str, errors: &mut FieldErrors) {
    let problems = |text: &str| names::name_problems(NameRule::Label1035, text).join(",");
    let texts = |field: &str| fields::list(names, &format!("/{field}")).to_vec();
    let mut check = |field: &str, text: &str, shown: &str, prefix: &str| {
        let why = problems(text);
        if !why.is_empty() {
            errors.invalid(format!("{path}.{field}"), &shown.into(), &format!("{prefix}{why}"));
        }
    };
    for field in ["plural", "singular"] {
        let text = names[field].as_str().unwrap_or_default();
        if !text.is_empty() {
            check(field, text, text, "");
        }
    }
    for field in ["kind", "listKind"] {
        let text = names[field].as_str().unwrap_or_default();
        if !text.is_empty() {
            let prefix = "may have mixed case, but should otherwise match: ";
            check(field, &text.to_lowercase(), text, prefix);
        }
    }
    for (at, text) in texts("shortNames").iter().enumerate() {
        let text = text.as_str().unwrap_or_default();
        check(&format!("shortNames[{at}]"), text, text, "");
    }
    let kind = names["kind"].as_str().unwrap_or_default();
    if !kind.is_empty() && names["listKind"] == kind {
        let why = "kind and listKind may not be the same";
        errors.invalid(format!("{path}.listKind"), &kind.into(), why);
    }
    for (at, text) in texts("categories").iter().enumerate() {
        let text = text.as_str().unwrap_or_default();
        let why = problems(text);
        if !why.is_empty() {
            errors.invalid(format!("{path}.categories[{at}]"), &text.into(), &why);
        }
    }
}

/// Returns the definition with the result of the check of its names in its status; `None` if the
/// definition does not change. `resources` are the registered resources.
///
/// Follows `apiextensions-apiserver: pkg/controller/status/naming_controller.go`.
pub(crate) fn accepted<'a>(
    resources: impl Iterator<Item = &'a ResourceDef>,
    definition: &Value,
    now: Timestamp,
) -> Option<Value> {
    let wanted = &definition["spec"]["names"];
    let id = super::defined(definition);
    let clash = resources
        .filter(|def| def.id.group == id.group && def.id != id)
        .find_map(|def| conflict(def, wanted));
    let was_established = super::is_established(definition);
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        let old = fields::list(definition, "/status/conditions");
        let old = old.iter().find(|it| it["type"] == kind && it["status"] == status);
        let since = old.map_or_else(|| now.as_str().into(), |it| it["lastTransitionTime"].clone());
        json!({
            "type": kind, "status": status, "lastTransitionTime": since, "reason": reason,
            "message": message,
        })
    };
    let mut object = definition.clone();
    let status = fields::map_mut(&mut object, "status");
    let conditions = match &clash {
        None => {
            status.insert("acceptedNames".into(), wanted.clone());
            json!([
                condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
                condition(
                    "Established",
                    true,
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                ),
            ])
        }
        Some((reason, name)) => {
            let message = format!("{name:?} is already in use");
            let names = condition("NamesAccepted", false, reason, &message);
            let established = if was_established {
                let message = "the initial names have been accepted";
                condition("Established", true, "InitialNamesAccepted", message)
            } else {
                condition("Established", false, "NotAccepted", "not all names are accepted")
            };
            json!([names, established])
        }
    };
    status.insert("conditions".into(), conditions);
    (object != *definition).then_some(object)
}

/// Returns the reason of the conflict and the first conflicting name, if the resource `def` of the
/// same group already has one of the names.
fn conflict(def: &ResourceDef, wanted: &Value) -> Option<(&'static str, String)> {
    let text = |field: &str| wanted[field].as_str().unwrap_or_default().to_owned();
    let taken: Vec<&str> =
        [&*def.id.resource, &*def.singular].into_iter().chain(def.all_short_names()).collect();
    let list_kind = format!("{}List", def.kind);
    if taken.contains(&text("plural").as_str()) {
        return Some(("PluralConflict", text("plural")));
    }
    if taken.contains(&text("singular").as_str()) {
        return Some(("SingularConflict", text("singular")));
    }
    let short = wanted["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = short.into_iter().find(|name| taken.contains(name)) {
        return Some(("ShortNamesConflict", name.to_owned()));
    }
    if text("kind") == def.kind || text("kind") == list_kind {
        return Some(("KindConflict", text("kind")));
    }
    (text("listKind") == list_kind || text("listKind") == def.kind)
        .then(|| ("ListKindConflict", text("listKind")))
}
