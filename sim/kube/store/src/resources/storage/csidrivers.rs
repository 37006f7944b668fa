//! `csidrivers.storage.k8s.io`: properties of drivers of volumes.

use serde_json::{Value, json};

use crate::object::{fields, meta};
use crate::resources::checks;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        namespaced: false,
        returns_deleted: true,
        strategy: Strategy {
            unconditional_update: false,
            default: Some(default),
            carry_over: |old, new| {
                // A new driver has no generation; the first change of the spec makes it 1.
                if new["spec"] != old["spec"] {
                    meta::bump_generation(new);
                }
            },
            validate,
            validate_update: |new, old, errors| {
                let (new, old) = (&new["spec"], &old["spec"]);
                for (field, path) in [
                    // The real server names the field so.
                    ("attachRequired", "spec.attachedRequired"),
                    ("volumeLifecycleModes", "spec.volumeLifecycleModes"),
                ] {
                    checks::immutable(&new[field], &old[field], path, errors);
                }
            },
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("storage.k8s.io", "csidrivers", "CSIDriver")
    }
}

/// Follows `kubernetes: pkg/apis/storage/v1/defaults.go`, `SetDefaults_CSIDriver`.
fn default(driver: &mut Value) {
    let spec = fields::map_mut(driver, "spec");
    fields::default_to(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fields::default_to(spec, field, false);
    }
    fields::default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("volumeLifecycleModes".into(), json!(["Persistent"]));
    }
}

/// Follows `kubernetes: pkg/apis/storage/validation/validation.go`, `validateCSIDriverSpec`.
fn validate(driver: &Value, errors: &mut FieldErrors) {
    const GROUPS: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
    let spec = &driver["spec"];
    let policy = fields::text(spec, "/fsGroupPolicy");
    if !GROUPS.contains(&policy) {
        errors.not_supported("spec.fsGroupPolicy", policy, &GROUPS);
    }
    validate_tokens(spec, errors);
    for mode in fields::list(spec, "/volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !MODES.contains(&mode) {
            errors.not_supported("spec.volumeLifecycleModes", mode, &MODES);
        }
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|it| it < 10) {
        let why = "must be greater than or equal to 10 seconds";
        errors.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why);
    }
    let secrets = &spec["serviceAccountTokenInSecrets"];
    if secrets.is_boolean() && fields::list(spec, "/tokenRequests").is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid("spec.serviceAccountTokenInSecrets", secrets, why);
    }
}

fn validate_tokens(spec: &Value, errors: &mut FieldErrors) {
    const SHORTEST: i64 = 600;
    const LONGEST: i64 = 1 << 32;
    let requests = fields::list(spec, "/tokenRequests");
    for (at, request) in requests.iter().enumerate() {
        let path = format!("spec.tokenRequests[{at}]");
        let audience = fields::text(request, "/audience");
        if requests[..at].iter().any(|it| fields::text(it, "/audience") == audience) {
            errors.duplicate(format!("{path}.audience"), &audience.into(), "");
            continue;
        }
        let (seconds, path) = (&request["expirationSeconds"], format!("{path}.expirationSeconds"));
        match seconds.as_i64() {
            Some(it) if it < SHORTEST => {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(path, seconds, why);
            }
            Some(it) if it > LONGEST => {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(path, seconds, why);
            }
            _ => {}
        }
    }
}
