//! Checks of `spec.conversion`, and of the versions in which objects are stored.

use serde_json::Value;

use crate::object::{fields, names};
use crate::{FieldErrors, NameRule};

/// Checks `spec.conversion`.
pub(super) fn validate(conversion: &Value, errors: &mut FieldErrors) {
    const CONFIG: &str = "spec.conversion.webhookClientConfig";
    const VERSIONS: &str = "spec.conversion.conversionReviewVersions";
    let versions = fields::list(conversion, "/webhook/conversionReviewVersions");
    let config = &conversion["webhook"]["clientConfig"];
    match fields::text(conversion, "/strategy") {
        "" => errors.required("spec.conversion.strategy", ""),
        "None" | "Webhook" => {}
        other => errors.not_supported("spec.conversion.strategy", other, &["None", "Webhook"]),
    }
    if conversion["strategy"] == "Webhook" {
        if !config.is_object() {
            errors.required(CONFIG, "required when strategy is set to Webhook");
        } else if config["url"].is_string() == config["service"].is_object() {
            errors.required(CONFIG, "exactly one of url or service is required");
        }
        return review_versions(versions, VERSIONS, errors);
    }
    let why = "should not be set when strategy is not set to Webhook";
    if config.is_object() {
        errors.forbidden(CONFIG, why);
    }
    if !versions.is_empty() {
        errors.forbidden(VERSIONS, why);
    }
}

fn review_versions(versions: &[Value], path: &str, errors: &mut FieldErrors) {
    if versions.is_empty() {
        return errors.required(path, "");
    }
    for (at, version) in versions.iter().enumerate() {
        let field = format!("{path}[{at}]");
        if versions[..at].contains(version) {
            errors.invalid(field, version, "duplicate version");
            continue;
        }
        let name = version.as_str().unwrap_or_default();
        for why in names::name_problems(NameRule::Label1035, name) {
            errors.invalid(field.as_str(), version, &why);
        }
    }
    if !versions.iter().any(|it| it == "v1" || it == "v1beta1") {
        errors.invalid(path, &versions.into(), "must include at least one of v1, v1beta1");
    }
}

/// Checks that `status.storedVersions` contains the version in which the store writes objects, and
/// that the definition still has every version in this list.
pub(super) fn validate_stored(definition: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "status.storedVersions";
    let kept = fields::list(definition, "/status/storedVersions");
    if kept.is_empty() {
        return errors.invalid(FIELD, &Value::Null, "must have at least one stored version");
    }
    let versions = fields::list(definition, "/spec/versions");
    for version in versions.iter().filter(|it| it["storage"] == true) {
        if !kept.contains(&version["name"]) {
            let why = format!("must have the storage version {}", fields::text(version, "/name"));
            errors.invalid(FIELD, &kept.into(), &why);
        }
    }
    for (at, name) in kept.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let it = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {it} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {it} and removes {it} from status.storedVersions"
            );
            errors.invalid(format!("{FIELD}[{at}]"), name, &why);
        }
    }
}
