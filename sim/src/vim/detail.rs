//! Summaries of arguments and answers for readers of the ledger. They never contain a secret.

use std::fmt::Write;

use super::node::Node;
use super::value::Value;

/// Returns the summary of a request: user of a login, types and paths of a retrieval or filter,
/// version of a wait, key of a search other than `FindChild`, number of objects for a list view.
/// Empty for other operations.
pub(crate) fn detail(operation: &str, arguments: &Node) -> String {
    let text = |name: &str| arguments.text_of(name).unwrap_or_default();
    match operation {
        "Login" => format!("user {}", text("userName")),
        "RetrievePropertiesEx" | "RetrieveProperties" => {
            arguments.all("specSet").map(spec).collect::<Vec<_>>().join("; ")
        }
        "CreateFilter" => arguments.child("spec").map(spec).unwrap_or_default(),
        "WaitForUpdatesEx" | "WaitForUpdates" => match text("version") {
            "" => "from the beginning".to_owned(),
            version => format!("after {}", version.rsplit('-').next().unwrap_or_default()),
        },
        "FindByUuid" | "FindAllByUuid" => text("uuid").to_owned(),
        "FindByDnsName" | "FindAllByDnsName" => text("dnsName").to_owned(),
        "FindByIp" | "FindAllByIp" => text("ip").to_owned(),
        "FindByInventoryPath" => text("inventoryPath").to_owned(),
        "ModifyListView" => {
            format!("+{} -{}", arguments.all("add").count(), arguments.all("remove").count())
        }
        "CreateListView" | "ResetListView" => format!("{} objects", arguments.all("obj").count()),
        _ => String::new(),
    }
}

/// Formats a spec as `VirtualMachine{name,guest.net} of vm-17`, or `… of 3 objects`.
fn spec(spec: &Node) -> String {
    let mut out = String::new();
    for set in spec.all("propSet") {
        let paths: Vec<&str> = set.all("pathSet").map(|path| path.text.as_str()).collect();
        let paths =
            if set.text_of("all") == Some("true") { "*".to_owned() } else { paths.join(",") };
        let _ = write!(out, "{}{{{paths}}} ", set.text_of("type").unwrap_or_default());
    }
    let starts: Vec<&str> = spec.all("objectSet").filter_map(|it| it.text_of("obj")).collect();
    match starts.as_slice() {
        [one] => out.push_str(&format!("of {one}")),
        many => out.push_str(&format!("of {} objects", many.len())),
    }
    out
}

/// Returns the number of objects in an answer: object contents, object updates, or list elements.
/// Any other data object and a reference count as one, a plain value as none.
pub(crate) fn count_objects(result: &Value) -> usize {
    match result {
        Value::List(_, items) => items.len(),
        Value::Ref(_) => 1,
        Value::Object(object) => match object.kind {
            "RetrieveResult" => object.get("objects").map_or(0, count_objects),
            "UpdateSet" => match object.get("filterSet") {
                Some(Value::List(_, filters)) => filters.iter().map(updates).sum(),
                _ => 0,
            },
            _ => 1,
        },
        _ => 0,
    }
}

fn updates(filter: &Value) -> usize {
    match filter {
        Value::Object(update) => update.get("objectSet").map_or(0, count_objects),
        _ => 0,
    }
}
