//! `deployments.apps`: replicas of a pod template that a rollout replaces.
//!
//! The store keeps Deployments; the world makes ReplicaSets of them. The real server's warnings
//! about fields of the template are missing.

use serde_json::{Value, json};

use crate::object::fields;
use crate::resources::checks;
use crate::resources::core::pods::template;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

const STRATEGIES: [&str; 2] = ["Recreate", "RollingUpdate"];

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["deploy"],
        categories: &["all"],
        status: true,
        scales: true,
        strategy: Strategy {
            generation: true,
            counts_annotations: true,
            default: Some(default),
            begin: checks::no_status,
            validate,
            validate_update: |new, old, errors| {
                let (new, old) = (&new["spec"]["selector"], &old["spec"]["selector"]);
                checks::immutable(new, old, "spec.selector", errors);
            },
            validate_status,
            warn: checks::warn_about_name,
            repeats_warnings: false,
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("apps", "deployments", "Deployment")
    }
}

/// Follows `kubernetes: pkg/apis/apps/v1/defaults.go`, `SetDefaults_Deployment`.
fn default(deployment: &mut Value) {
    let spec = fields::map_mut(deployment, "spec");
    fields::default_to(spec, "replicas", 1);
    fields::default_to(spec, "revisionHistoryLimit", 10);
    fields::default_to(spec, "progressDeadlineSeconds", 600);
    let strategy = fields::as_map(spec.entry("strategy").or_insert(Value::Null));
    fields::default_if_empty(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&"RollingUpdate".into()) {
        let rolling = fields::as_map(strategy.entry("rollingUpdate").or_insert(Value::Null));
        fields::default_to(rolling, "maxUnavailable", "25%");
        fields::default_to(rolling, "maxSurge", "25%");
    }
    template::default(&mut deployment["spec"], "template");
}

/// Follows `kubernetes: pkg/apis/apps/validation/validation.go`, `ValidateDeploymentSpec`.
fn validate(deployment: &Value, errors: &mut FieldErrors) {
    checks::nonnegative(deployment, &["spec.replicas"], errors);
    checks::selector_and_template(deployment, "deployment", "ReplicaSet", errors);
    let spec = &deployment["spec"];
    validate_strategy(&spec["strategy"], errors);
    let paths =
        ["spec.minReadySeconds", "spec.revisionHistoryLimit", "spec.progressDeadlineSeconds"];
    checks::nonnegative(deployment, &paths, errors);
    let seconds = |field: &str| spec[field].as_i64();
    if seconds("progressDeadlineSeconds")
        .is_some_and(|it| it <= seconds("minReadySeconds").unwrap_or_default())
    {
        let value = &spec["progressDeadlineSeconds"];
        let why = "must be greater than minReadySeconds";
        errors.invalid("spec.progressDeadlineSeconds", value, why);
    }
}

fn validate_strategy(strategy: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.strategy.rollingUpdate";
    let rolling = &strategy["rollingUpdate"];
    match fields::text(strategy, "/type") {
        "Recreate" if !rolling.is_null() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(FIELD, why);
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let path = format!("{FIELD}.maxUnavailable");
            let n_unavailable = checks::int_or_percent(unavailable, &path, errors);
            let n_surge = checks::int_or_percent(surge, &format!("{FIELD}.maxSurge"), errors);
            if n_unavailable == 0 && n_surge == 0 {
                errors.invalid(&*path, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            checks::at_most_all(unavailable, &path, errors);
        }
        // The real server prints the strategy with the names of its internal fields.
        other => {
            let shown = json!({"Type": other, "RollingUpdate": rolling});
            errors.not_among("spec.strategy", &shown, &STRATEGIES.map(Value::from));
        }
    }
}

fn validate_status(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const COUNTS: [&str; 8] = [
        "status.observedGeneration",
        "status.replicas",
        "status.updatedReplicas",
        "status.readyReplicas",
        "status.availableReplicas",
        "status.unavailableReplicas",
        "status.terminatingReplicas",
        "status.collisionCount",
    ];
    checks::nonnegative(new, &COUNTS, errors);
    let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    checks::status_counts(new, &counts, "readyReplicas", errors);
    checks::collisions(new, old, errors);
}
