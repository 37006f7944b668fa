//! Summaries of arguments and answers for readers of the ledger. They never contain a secret.

use std::fmt::Write;

use crate::call::operations::soap::Detail;
use crate::vcenter::vim::data::{Node, Value};

/// Returns the part of `arguments` that `detail` selects, as text for the ledger; empty for
/// [`Detail::Nothing`].
pub(crate) fn argument_summary(detail: Detail, arguments: &Node) -> String {
    let argument = |name: &str| arguments.text_of(name).unwrap_or_default();
    match detail {
        Detail::Nothing => String::new(),
        Detail::User => format!("user {}", argument("userName")),
        Detail::Specs => arguments.all("specSet").map(spec).collect::<Vec<_>>().join("; "),
        Detail::Spec => arguments.child("spec").map(spec).unwrap_or_default(),
        Detail::Version => match argument("version") {
            "" => "from the beginning".to_owned(),
            version => format!("after {}", version.rsplit('-').next().unwrap_or_default()),
        },
        Detail::Argument(name) => argument(name).to_owned(),
        Detail::Changes => {
            format!("+{} -{}", arguments.all("add").count(), arguments.all("remove").count())
        }
        Detail::Objects => format!("{} objects", arguments.all("obj").count()),
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
/// Any other data object and a reference count as one. A plain value counts as none, and so does
/// the result of `Fetch`, which is declared as anyType.
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
