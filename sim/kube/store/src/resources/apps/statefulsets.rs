//! `statefulsets.apps`: pods with lasting names.
//!
//! The store keeps StatefulSets; nothing makes pods of them. It does not check the claim templates.

use serde_json::{Value, json};

use crate::object::{fields, names};
use crate::resources::checks;
use crate::resources::core::pods::template;
use crate::selector::validate_label_selector;
use crate::{Check, FieldErrors, LabelSelector, NameRule, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["sts"],
        categories: &["all"],
        status: true,
        scales: true,
        strategy: Strategy {
            generation: true,
            default: Some(default),
            begin: |set| {
                checks::reset_status(set, json!({"replicas": 0, "availableReplicas": 0}));
            },
            validate,
            validate_update,
            validate_status: |new, old, errors| {
                const COUNTS: [&str; 7] = [
                    "status.replicas",
                    "status.readyReplicas",
                    "status.currentReplicas",
                    "status.updatedReplicas",
                    "status.availableReplicas",
                    "status.observedGeneration",
                    "status.collisionCount",
                ];
                checks::nonnegative(new, &COUNTS, errors);
                let counts =
                    ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
                checks::status_counts(new, &counts, "status.readyReplicas", errors);
                checks::collisions(new, old, errors);
            },
            warn: |set| {
                let limit = set["spec"]["revisionHistoryLimit"].as_i64();
                let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
                limit.filter(|it| *it < 0).map(|_| warning.to_owned()).into_iter().collect()
            },
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            names: NameRule::Label,
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("apps", "statefulsets", "StatefulSet")
    }
}

/// Follows `kubernetes: pkg/apis/apps/v1/defaults.go`, `SetDefaults_StatefulSet`.
fn default(set: &mut Value) {
    let spec = fields::map_mut(set, "spec");
    fields::default_if_empty(spec, "podManagementPolicy", "OrderedReady");
    fields::default_to(spec, "replicas", 1);
    fields::default_to(spec, "revisionHistoryLimit", 10);
    let strategy = fields::as_map(spec.entry("updateStrategy").or_insert(Value::Null));
    if strategy.get("type").is_none_or(|it| it == "" || it.is_null()) {
        strategy.insert("type".into(), "RollingUpdate".into());
        fields::default_to(strategy, "rollingUpdate", json!({}));
    }
    if strategy.get("type") == Some(&"RollingUpdate".into())
        && let Some(rolling) = strategy.get_mut("rollingUpdate").filter(|it| it.is_object())
    {
        fields::default_to(fields::as_map(rolling), "partition", 0);
    }
    let retention = "persistentVolumeClaimRetentionPolicy";
    let retention = fields::as_map(spec.entry(retention).or_insert(Value::Null));
    fields::default_if_empty(retention, "whenDeleted", "Retain");
    fields::default_if_empty(retention, "whenScaled", "Retain");
    for claim in fields::list_mut(&mut set["spec"], "volumeClaimTemplates") {
        fields::default_to(fields::map_mut(claim, "spec"), "volumeMode", "Filesystem");
        fields::default_if_empty(fields::map_mut(claim, "status"), "phase", "Pending");
        let claim = fields::as_map(claim);
        fields::default_if_empty(claim, "kind", "PersistentVolumeClaim");
        fields::default_if_empty(claim, "apiVersion", "v1");
    }
    template::default(&mut set["spec"], "template");
}

/// Follows `kubernetes: pkg/apis/apps/validation/validation.go`, `ValidateStatefulSetSpec`.
fn validate(set: &Value, errors: &mut FieldErrors) {
    let spec = &set["spec"];
    let policy = fields::text(spec, "/podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.invalid("spec.podManagementPolicy", &policy.into(), why);
    }
    validate_strategy(&spec["updateStrategy"], errors);
    for field in ["whenDeleted", "whenScaled"] {
        let policy =
            fields::text(&spec["persistentVolumeClaimRetentionPolicy"], &format!("/{field}"));
        if !["Retain", "Delete"].contains(&policy) {
            let path = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            errors.not_supported(path, policy, &["Retain", "Delete"]);
        }
    }
    let paths = ["spec.replicas", "spec.minReadySeconds", "spec.ordinals.start"];
    checks::nonnegative(set, &paths, errors);
    let service = fields::text(spec, "/serviceName");
    if !service.is_empty() {
        for why in names::name_problems(NameRule::Label, service) {
            errors.invalid("spec.serviceName", &service.into(), &why);
        }
    }
    validate_selector(spec, errors);
    template::validate_endless(&spec["template"], "spec.template", "StatefulSet", errors);
}

fn validate_selector(spec: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.selector";
    let given = &spec["selector"];
    if given.is_null() {
        errors.required(FIELD, "");
    } else {
        validate_label_selector(given, FIELD, errors);
        if checks::is_empty(given) {
            errors.invalid(FIELD, given, "empty selector is invalid for statefulset");
        }
    }
    let mut template = spec["template"].clone();
    for field in ["hostname", "subdomain"] {
        fields::map_mut(&mut template, "spec").shift_remove(field);
    }
    // The controller mounts the claims under the names of their templates.
    for claim in fields::list(spec, "/volumeClaimTemplates") {
        let volumes = fields::as_list(fields::map_mut(&mut template, "spec"), "volumes");
        let name = &claim["metadata"]["name"];
        volumes.retain(|it| it["name"] != *name);
        volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    }
    match LabelSelector::from_object(given) {
        Some(selector) if selector.is_empty() => {}
        Some(selector) => template::validate_labels(&template, &selector, "spec.template", errors),
        None if given.is_null() => template::refuse_labels(&template, "spec.template", errors),
        None => return errors.invalid(FIELD, given, ""),
    }
    template::validate(&template, "spec.template", errors);
}

fn validate_strategy(strategy: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.updateStrategy.rollingUpdate";
    let rolling = &strategy["rollingUpdate"];
    match fields::text(strategy, "/type") {
        "OnDelete" => {
            if !rolling.is_null() {
                // The real server prints the names of its internal fields.
                let shown = json!({
                    "Partition": rolling["partition"].as_i64().unwrap_or_default(),
                    "MaxUnavailable": rolling["maxUnavailable"],
                });
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                errors.invalid(FIELD, &shown, why);
            }
        }
        "RollingUpdate" => {
            if rolling["partition"].as_i64().is_some_and(|it| it < 0) {
                let why = "must be greater than or equal to 0";
                errors.invalid(format!("{FIELD}.partition"), &rolling["partition"], why);
            }
        }
        other => {
            let shown = json!({"Type": other, "RollingUpdate": rolling});
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid("spec.updateStrategy", &shown, why);
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let fixed = |set: &Value| {
        let mut spec = set["spec"].clone();
        MUTABLE.iter().for_each(|field| {
            fields::as_map(&mut spec).shift_remove(*field);
        });
        spec
    };
    if fixed(new) != fixed(old) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden("spec", why);
    }
}
