//! Decoding of request bodies, with checks of kind, apiVersion and the types of fields.

use serde_json::Value;

use super::Request;
use crate::object::meta;
use crate::schema::{Decoded, GoDecoder, Types, decode, is_canonical, reordered};
use crate::values::text::{go_map, json_type, sorted};
use crate::{FieldErrors, FieldValidation, Key, PatchKind, ResourceDef, Status};

/// A body as Go's decoder returns it, and the warnings for the client.
pub(super) struct Body {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// Reads the body of a create or an update.
///
/// # Errors
/// 400 with the text of the real decoder; 422 if the kind of a custom object is not the expected
/// one.
pub(super) fn read(request: &Request<'_>, body: Value) -> Result<Body, Status> {
    let Request { def, version, .. } = request;
    let kind = def.kind.as_ref();
    if !body.is_object() {
        let found = json_type(&body);
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({body:.30})"
        )));
    }
    let expected = def.api_version(version);
    let (given_kind, given_version) =
        (text_field(&body, "kind")?, text_field(&body, "apiVersion")?);
    if def.custom.is_some() && given_kind.is_none() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{body}' ({body:.30})"
        )));
    }
    let unsaid = if def.custom.is_some() { "" } else { &expected };
    let (given_kind, given_version) = (given_kind.unwrap_or(kind), given_version.unwrap_or(unsaid));
    let cannot = |why: String| {
        let version = given_version.rsplit('/').next().unwrap_or_default();
        Status::bad_request(format!(
            "{given_kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    };
    if def.custom.is_none() && (given_kind != kind || given_version != expected) {
        return Err(cannot(another_kind(def, given_version, given_kind)));
    }
    if given_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )));
    }
    if given_kind != kind {
        let mut errors = FieldErrors::default();
        errors.invalid("kind", &given_kind.into(), &format!("must be {kind}"));
        let name = meta::text(&body, "name");
        return Err(Status::invalid(&def.id.group, given_kind, name, errors));
    }
    if is_plain(request, &body) {
        return Ok(Body { object: body, warnings: Vec::new() });
    }
    let Decoded { object, unknown } = typed(request, &body, GoDecoder::Json).map_err(cannot)?;
    let complaints = if def.custom.is_some() {
        duplicates(request, &unknown).into_iter().chain(unknown).collect()
    } else {
        let mut all = duplicates(request, &unknown);
        all.extend(unknown);
        all.sort_by_cached_key(|complaint| position(complaint, &body));
        all
    };
    let warnings = apply_validation(request.validation, complaints).map_err(cannot)?;
    Ok(Body { object, warnings })
}

/// Reads the body of a request to a subresource whose body is an object of another kind, which the
/// store does not keep. `versions` are the versions that the real server reads, the usual one first.
///
/// # Errors
/// 400 with the text of the real decoder.
pub(super) fn read_part(
    request: &Request<'_>,
    body: Value,
    versions: &[&str],
    kind: &str,
) -> Result<Body, Status> {
    let expected = versions.first().copied().unwrap_or_default();
    let group = expected.split_once('/').map_or("", |(group, _)| group);
    let given_kind = text_field(&body, "kind")?.unwrap_or(kind);
    let given_version = text_field(&body, "apiVersion")?.unwrap_or(expected);
    let cannot = |why: String| {
        let version = given_version.rsplit('/').next().unwrap_or_default();
        Status::bad_request(format!(
            "{given_kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    };
    if given_kind != kind || !versions.contains(&given_version) {
        let wanted = if group.is_empty() { "core" } else { group };
        return Err(cannot(another_type(wanted, kind, given_version, given_kind)));
    }
    let Some(root) = Types::builtin().kind(group, kind) else {
        return Ok(Body { object: body, warnings: Vec::new() });
    };
    let Decoded { object, unknown } = decode(root, &body, GoDecoder::Json).map_err(cannot)?;
    let mut complaints = duplicates(request, &unknown);
    complaints.extend(unknown);
    complaints.sort_by_cached_key(|complaint| position(complaint, &body));
    let warnings = apply_validation(request.validation, complaints).map_err(cannot)?;
    Ok(Body { object, warnings })
}

/// Reads the document that results from a patch. `strange` contains the complaints about the patch
/// itself.
///
/// # Errors
/// 422 with the text of the real decoder; 500 if a custom object has no apiVersion.
pub(super) fn read_patched(
    request: &Request<'_>,
    document: Value,
    kind: PatchKind,
    patch: &Value,
    strange: Vec<String>,
) -> Result<Body, Status> {
    let invalid = |why: String| {
        let mut errors = FieldErrors::default();
        let shown = if request.def.hides_content_in_errors {
            "<omitted>".into()
        } else {
            match (kind, patch) {
                (PatchKind::StrategicMerge, Value::Object(patch)) => go_map(patch),
                // Go writes the result of a merge from a map, with sorted keys.
                (PatchKind::Merge, _) => sorted(document.clone()).to_string(),
                _ => document.to_string(),
            }
        };
        errors.invalid("patch", &shown.into(), &why);
        Status::invalid("", "", "", errors)
    };
    if request.def.custom.is_some() {
        has_kind(&document, &invalid)?;
    } else if kind != PatchKind::StrategicMerge {
        same_kind(request, &document).map_err(invalid)?;
    }
    if strange.is_empty() && is_plain(request, &document) {
        return Ok(Body { object: document, warnings: Vec::new() });
    }
    let words =
        if kind == PatchKind::StrategicMerge { GoDecoder::Converter } else { GoDecoder::Json };
    let Decoded { object, mut unknown } = typed(request, &document, words).map_err(invalid)?;
    // The real server sorts the fields of a patched document before it decodes the document.
    unknown.sort();
    let prefix = if kind == PatchKind::Json { "json patch " } else { "" };
    let twice = |path: &String| format!("{prefix}{}", twice(path));
    let mut complaints: Vec<String> = request.duplicates.iter().map(twice).collect();
    complaints.extend(strange);
    complaints.extend(unknown);
    let warnings = apply_validation(request.validation, complaints).map_err(invalid)?;
    Ok(Body { object, warnings })
}

/// Checks that a custom object has a kind and an apiVersion. [`OtherType::find`] compares them with
/// the expected values later.
///
/// # Errors
/// The failure that `invalid` makes if kind or apiVersion is not a string, kind is missing, or
/// apiVersion has more than one slash; 500 if apiVersion is missing.
fn has_kind(document: &Value, invalid: &impl Fn(String) -> Status) -> Result<(), Status> {
    for field in ["kind", "apiVersion"] {
        if !document[field].is_null() && !document[field].is_string() {
            return Err(invalid(no_type(field, &document[field])));
        }
    }
    let is_unsaid = |field: &str| document[field].as_str().is_none_or(str::is_empty);
    if is_unsaid("kind") {
        let shown = sorted(document.clone());
        return Err(invalid(format!("Object 'Kind' is missing in '{shown}'")));
    }
    let api_version = document["apiVersion"].as_str().unwrap_or_default();
    if api_version.matches('/').count() > 1 {
        return Err(invalid(format!("unexpected GroupVersion string: {api_version}")));
    }
    if matches!(api_version, "" | "/") {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::internal(why));
    }
    Ok(())
}

/// Group and kind of a patched custom object whose kind or apiVersion is not the expected one, and
/// the errors about these two fields.
pub(super) struct OtherType {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) problems: FieldErrors,
}

impl OtherType {
    /// Compares kind and apiVersion with the expected values. Returns `None` if they are equal or
    /// if the kind is built in.
    pub(super) fn find(request: &Request<'_>, object: &Value) -> Option<Self> {
        let Request { def, version, .. } = request;
        def.custom.as_ref()?;
        let mut problems = FieldErrors::default();
        let expected = def.api_version(version);
        for (field, wanted) in [("kind", &*def.kind), ("apiVersion", &expected)] {
            if object[field] != wanted {
                problems.invalid(field, &object[field], &format!("must be {wanted}"));
            }
        }
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group).to_owned();
        (!problems.is_empty()).then(|| Self { group, kind: text("kind"), problems })
    }
}

/// Refuses a patch that changes the kind or apiVersion of a built-in object. If the new kind is
/// built in too and the document cannot be decoded as that kind, the refusal is the decoder's
/// error.
fn same_kind(request: &Request<'_>, document: &Value) -> Result<(), String> {
    let Request { def, version, .. } = request;
    let expected = def.api_version(version);
    let text = |field: &str| document[field].as_str().filter(|it| !it.is_empty());
    let (api_version, kind) =
        (text("apiVersion").unwrap_or(&expected), text("kind").unwrap_or(&def.kind));
    if api_version == expected && kind == def.kind {
        return Ok(());
    }
    let (group, of_version) = api_version.split_once('/').unwrap_or(("", api_version));
    if of_version == "v1"
        && let Some(other) = Types::builtin().kind(group, kind)
    {
        decode(other, document, GoDecoder::Json)?;
    }
    Err(another_kind(def, api_version, kind))
}

/// Returns the error text for an object of another kind: the server does not know the kind, or has
/// no conversion from it.
fn another_kind(def: &ResourceDef, api_version: &str, kind: &str) -> String {
    let of_group = def.id.group.split('.').next().unwrap_or_default();
    let wanted = if of_group.is_empty() { "core" } else { of_group };
    another_type(wanted, &def.kind, api_version, kind)
}

/// As [`another_kind`], for the expected kind `wanted` of `package`.
fn another_type(package: &str, wanted: &str, api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version == "v1" && knows_kind(group, kind) {
        return format!("converting (v1.{kind}) to ({package}.{wanted}): unknown conversion");
    }
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

fn knows_kind(group: &str, kind: &str) -> bool {
    Types::builtin().kind(group, kind).is_some()
}

/// True only if decoding would neither change the document nor complain about it. Always false for
/// custom kinds.
fn is_plain(request: &Request<'_>, document: &Value) -> bool {
    let is_settled = |root| is_canonical(root, document);
    request.duplicates.is_empty() && request.def.structure().is_some_and(is_settled)
}

fn typed(request: &Request<'_>, document: &Value, words: GoDecoder) -> Result<Decoded, String> {
    let Request { def, .. } = request;
    if let Some(custom) = &def.custom {
        return custom.read(def, document, words);
    }
    match def.structure() {
        Some(root) => decode(root, document, words),
        // Objects of a kind without a Go structure and without a definition stay unchanged.
        None => Ok(Decoded { object: document.clone(), unknown: Vec::new() }),
    }
}

fn twice(path: &str) -> String {
    format!("duplicate field \"{path}\"")
}

/// Returns a complaint about each duplicate field. For built-in kinds, leaves out fields at or
/// below an unknown field.
fn duplicates(request: &Request<'_>, unknown: &[String]) -> Vec<String> {
    let is_known = |path: &&String| {
        let is_below = |complaint: &String| {
            let above = complaint.strip_prefix("unknown field \"").unwrap_or_default();
            let above = above.strip_suffix('"').unwrap_or_default();
            path.strip_prefix(above)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        request.def.custom.is_some() || !unknown.iter().any(is_below)
    };
    request.duplicates.iter().filter(is_known).map(|path| twice(path)).collect()
}

/// Handles complaints as `validation` requires: drops them, returns them as warnings, or returns an
/// error with all of them.
fn apply_validation(
    validation: FieldValidation,
    complaints: Vec<String>,
) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(format!("strict decoding error: {}", complaints.join(", ")))
        }
        FieldValidation::Warn | FieldValidation::Strict => Ok(complaints),
    }
}

/// Returns the position in `body` of the field that a complaint names: its index on each level. The
/// real decoder reports complaints in the order of these positions.
fn position(complaint: &str, body: &Value) -> Vec<usize> {
    let mut rest = complaint.split('"').nth(1).unwrap_or_default();
    let mut value = body;
    let mut position = Vec::new();
    while !rest.is_empty() {
        let next = match value {
            Value::Object(map) => map.iter().enumerate().find_map(|(at, (name, inner))| {
                let rest = rest.strip_prefix(name.as_str())?;
                let is_whole = rest.is_empty() || rest.starts_with(['.', '[']);
                is_whole.then(|| (at, inner, rest.strip_prefix('.').unwrap_or(rest)))
            }),
            Value::Array(list) => {
                rest.strip_prefix('[').and_then(|it| it.split_once(']')).and_then(|(at, rest)| {
                    let at: usize = at.parse().ok()?;
                    Some((at, list.get(at)?, rest.strip_prefix('.').unwrap_or(rest)))
                })
            }
            _ => None,
        };
        let Some((at, inner, left)) = next else { break };
        position.push(at);
        (value, rest) = (inner, left);
    }
    position
}

/// Checks that the name in the body is the name in the URL.
///
/// # Errors
/// 400 if the body has no name or a different one.
pub(super) fn check_name(key: &Key, body: &Value) -> Result<(), Status> {
    let name = meta::text(body, "name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if name != key.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    Ok(())
}

/// Fills in the kind's defaults and puts the fields into the order in which Go writes them. Does
/// nothing for a kind without defaults.
pub(super) fn fill_in(def: &ResourceDef, object: &mut Value) {
    let Some(default) = def.strategy.default else { return };
    default(object);
    reorder(def, object);
}

/// Puts the fields of a built-in kind into the order in which Go writes them.
pub(super) fn reorder(def: &ResourceDef, object: &mut Value) {
    if let Some(root) = def.structure()
        && let Some(read) = reordered(root, object)
    {
        *object = read;
    }
}

/// Sets kind and apiVersion, drops empty and unknown fields of `metadata`, and orders the fields of
/// the top level and of `metadata` as the real server does. Orders all fields of a custom object by
/// name instead.
pub(super) fn arrange(def: &ResourceDef, version: &str, object: &mut Value) {
    meta::arrange(object, &def.api_version(version), &def.kind);
    if def.custom.is_some() {
        *object = sorted(std::mem::take(object));
    }
}

/// Checks everything but metadata: the schema of a custom kind, then the rules of the kind. `old` is
/// the object before an update. Returns warnings.
pub(super) fn validate(
    def: &ResourceDef,
    version: &str,
    object: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) -> Vec<String> {
    let custom = def.custom.as_ref().and_then(|custom| custom.version(version));
    let warnings = custom.map(|version| version.check(object, old, errors)).unwrap_or_default();
    (def.strategy.validate)(object, errors);
    warnings
}

fn text_field<'a>(body: &'a Value, field: &str) -> Result<Option<&'a str>, Status> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Status::bad_request(no_type(field, other))),
    }
}

/// Returns the error text for a kind or an apiVersion that is not a string.
fn no_type(field: &str, value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{field} of type string",
        json_type(value)
    )
}
