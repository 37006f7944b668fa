//! Options of writes. They come from the query; those of a deletion may come from the body instead.
//!
//! Checks follow `apimachinery: pkg/apis/meta/v1/validation`.

use kube_sim_store::{DeleteOptions, FieldErrors, FieldValidation, Status, json_type};
use serde_json::{Map, Value};

use crate::query::Query;
use crate::request::Request;
use crate::request::route::Verb;

const GROUP: &str = "meta.k8s.io";
const MAX_MANAGER: usize = 128;

/// Options of a create, an update or a patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
}

impl WriteOptions {
    /// Reads and checks the options of a write.
    ///
    /// # Errors
    /// 422 for invalid options.
    pub(crate) fn read(query: &Query, verb: Verb) -> Result<Self, Status> {
        let kind = match verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            _ => "PatchOptions",
        };
        let mut errors = FieldErrors::default();
        // Server-side apply, the only patch that may be forced, is refused earlier.
        if verb == Verb::Patch && query.has("force") {
            errors.forbidden("force", "may not be specified for non-apply patch");
        }
        if query.get("fieldManager").len() > MAX_MANAGER {
            errors.too_long("fieldManager", MAX_MANAGER);
        }
        let asked: Vec<&str> = query.all("dryRun").filter(|it| !it.is_empty()).collect();
        let dry_run = dry_run(&asked, &mut errors);
        let validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.not_supported("fieldValidation", other, &known);
                FieldValidation::Warn
            }
        };
        checked(Self { dry_run, validation }, kind, errors)
    }
}

/// Reads and checks the options of a deletion: those in the body, or those in the query if the body
/// is empty.
///
/// This server has no garbage collector: an object deleted in the foreground, or with its
/// dependents orphaned, stays until a client removes the finalizer.
///
/// # Errors
/// 400, 413 or 415 for unreadable options, 422 for invalid ones.
pub(crate) fn delete_options(request: &Request) -> Result<DeleteOptions, Status> {
    let body = request.delete_options()?;
    if body.is_null() {
        return DeleteOptions::read(&in_query(&request.query)?);
    }
    check_kind(&body)?;
    check_types(&body)?;
    DeleteOptions::read(&body)
}

/// Returns the `DeleteOptions` that a query spells out.
///
/// # Errors
/// 400 if the grace period is not a number.
fn in_query(query: &Query) -> Result<Value, Status> {
    let mut options = Map::new();
    if let Some(grace) = query.integer("gracePeriodSeconds").map_err(Status::bad_request)? {
        options.insert("gracePeriodSeconds".into(), grace.into());
    }
    let policy = query.get("propagationPolicy");
    if !policy.is_empty() {
        options.insert("propagationPolicy".into(), policy.into());
    }
    if query.has("orphanDependents") {
        options.insert("orphanDependents".into(), query.flag("orphanDependents").into());
    }
    let dry_runs: Vec<&str> = query.all("dryRun").filter(|it| !it.is_empty()).collect();
    options.insert("dryRun".into(), dry_runs.into());
    Ok(options.into())
}

fn check_kind(body: &Value) -> Result<(), Status> {
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "" | "DeleteOptions") => Ok(()),
        ("", kind) => unknown_kind(kind, "meta.k8s.io/v1"),
        (version, kind) => unknown_kind(kind, version),
    }
}

fn unknown_kind(kind: &str, version: &str) -> Result<(), Status> {
    Err(Status::bad_request(format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )))
}

fn check_types(body: &Value) -> Result<(), Status> {
    let wrong = |what: &str, field: &str, kind: &str| {
        Err(Status::bad_request(format!(
            "json: cannot unmarshal {what} into Go struct field DeleteOptions.{field} of type {kind}"
        )))
    };
    for (field, kind) in
        [("gracePeriodSeconds", "int64"), ("propagationPolicy", "v1.DeletionPropagation")]
    {
        let value = &body[field];
        let fits = value.is_null()
            || (kind == "int64" && value.is_i64())
            || (kind != "int64" && value.is_string());
        if !fits {
            return wrong(json_type(value), field, kind);
        }
    }
    Ok(())
}

/// True if the request sets `dryRun`, whose values are `asked`. If one of them is not `All`,
/// reports them in `errors`.
fn dry_run(asked: &[&str], errors: &mut FieldErrors) -> bool {
    if asked.iter().any(|it| *it != "All") {
        errors.none_supported("dryRun", asked, &["All"]);
    }
    !asked.is_empty()
}

fn checked<T>(options: T, kind: &str, errors: FieldErrors) -> Result<T, Status> {
    if errors.is_empty() { Ok(options) } else { Err(Status::invalid(GROUP, kind, "", errors)) }
}

/// Checks the parameter `timeout` of a request that is not a watch. The server does not enforce the
/// timeout, because it answers at once.
///
/// # Errors
/// 400 if the value is not a valid Go duration.
pub(crate) fn check_timeout(query: &Query) -> Result<(), Status> {
    let text = query.get("timeout");
    if text.is_empty() || is_duration(text) {
        return Ok(());
    }
    let message =
        format!("invalid timeout specified in the request URL - time: invalid duration {text:?}");
    Err(Status::bad_request(message))
}

/// True if `time.ParseDuration` accepts the text, such as `1h2.5m30s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        if number.parse::<f64>().is_err() {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|it| unit.strip_prefix(it)) else { return false };
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_duration_if_go_parses_it_as_one() {
        for good in ["0", "10s", "1h2.5m30s", "100ms", "-5s", ".5s", "7m0s"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["foo", "10", "s", "10x", "1h2", "-", "--5s", "+-5s", " ", "5s "] {
            assert!(!is_duration(bad), "{bad}");
        }
    }

    /// The messages are those of the real server (1.36.3).
    #[test]
    fn invalid_write_options_are_refused_in_the_real_servers_words() {
        let read = |verb, query| {
            WriteOptions::read(&Query::parse(query), verb).map_err(|status| status.message)
        };
        let validation = r#"fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn""#;
        for (verb, query, want) in [
            (Verb::Create, "fieldValidation=Foo", format!(r#"CreateOptions.meta.k8s.io "" is invalid: {validation}"#)),
            (
                Verb::Update,
                "fieldValidation=Foo&dryRun=Bar",
                format!(r#"UpdateOptions.meta.k8s.io "" is invalid: [dryRun: Unsupported value: ["Bar"]: supported values: "All", {validation}]"#),
            ),
            (
                Verb::Patch,
                "force=true",
                r#"PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch"#.into(),
            ),
        ] {
            assert_eq!(read(verb, query), Err(want));
        }
        let long = format!("fieldManager={}", "x".repeat(200));
        assert_eq!(
            read(Verb::Create, &long),
            Err(r#"CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes"#.into())
        );
        let strict = WriteOptions { dry_run: true, validation: FieldValidation::Strict };
        assert_eq!(read(Verb::Patch, "dryRun=All&fieldValidation=Strict"), Ok(strict));
    }
}
