//! Capacity annotations of a group of machines that Cluster API clones in vCenter.
//!
//! The kind of their templates has no status, so the capacity goes where the autoscaler also reads
//! it: to the MachineDeployment, or to the MachineSet without one. One more annotation lists what
//! this provider has written. Everything else belongs to people and stays.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    super::{
        keys::{
            AMD64, ARCH_LABEL, CAPACITY, CPU, EPHEMERAL_DISK, GOVMOMI, GPU_COUNT, GPU_TYPE, LABELS,
            MANAGED, MAX_SIZE, MEMORY, OS_LABEL, TEMPLATE,
        },
        settings::CapacitySettings,
    },
    Plan, Referent,
    difference::{is_same_quantity, is_same_text},
    hardware::{gpu_counts, of_template, operating_system},
    is_paused, is_selected, text,
};
use crate::InputError;

/// Annotations that this provider writes, without their prefix.
const KEYS: [&str; 6] = [CPU, MEMORY, EPHEMERAL_DISK, GPU_COUNT, GPU_TYPE, LABELS];

/// Values by key without prefix.
type Values = BTreeMap<String, String>;

/// Returns the name of the template of a group; `None` if its machines come from another kind.
pub(crate) fn template_name(group: &Value) -> Option<&str> {
    let reference = &group["spec"]["template"]["spec"]["infrastructureRef"];
    let version = text(&reference["apiVersion"]);
    let of_version = version.split_once('/').map_or("", |(group, _)| group);
    let api_group =
        reference["apiGroup"].as_str().filter(|it| !it.is_empty()).unwrap_or(of_version);
    let is_ours = api_group == GOVMOMI && reference["kind"] == TEMPLATE;
    reference["name"].as_str().filter(|name| is_ours && !name.is_empty())
}

/// True if a MachineDeployment owns the object, which then has the annotations.
pub(crate) fn is_owned(group: &Value) -> bool {
    let mut owners = group["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|it| it["kind"] == "MachineDeployment" && !text(&it["name"]).is_empty())
}

/// Decides about the annotations of a group. `template` is the object that [`template_name`] names.
pub(crate) fn plan_group(group: &Value, template: &Referent, settings: &CapacitySettings) -> Plan {
    if is_paused(group) || is_owned(group) {
        return Plan::default();
    }
    let is_scaled = group["metadata"]["annotations"].get(MAX_SIZE).is_some();
    let Some(name) = template_name(group).filter(|_| is_scaled) else {
        return Plan { patch: patch(group, &Values::new()), problem: None };
    };
    match template {
        Referent::Object(template) => plan_described(group, template, settings),
        Referent::Missing => {
            let cleared = settings.clear_unknown.then(Values::new);
            let problem = format!("the namespace of the group has no {TEMPLATE} {name}");
            Plan { patch: cleared.and_then(|it| patch(group, &it)), problem: Some(problem) }
        }
        Referent::Unread(why) => {
            Plan { patch: None, problem: Some(format!("cannot read the {TEMPLATE} {name}: {why}")) }
        }
    }
}

fn plan_described(group: &Value, template: &Value, settings: &CapacitySettings) -> Plan {
    if !is_selected(template, settings.watch_filter.as_deref()) {
        return Plan::default();
    }
    let name = text(&template["metadata"]["name"]);
    match values(template, settings) {
        Ok((values, problem)) => {
            let problem = problem.map(|problem| format!("the {TEMPLATE} {name} {problem}"));
            Plan { patch: patch(group, &values), problem }
        }
        Err(err) => {
            Plan { patch: None, problem: Some(format!("cannot read the {TEMPLATE} {name}: {err}")) }
        }
    }
}

/// Returns the annotations that a group of the template gets, and what could not be published.
///
/// # Errors
///
/// If a number of the template is not one.
pub(crate) fn group_annotations(
    template: &Value,
    settings: &CapacitySettings,
) -> Result<(Values, Option<String>), InputError> {
    let (values, problem) = values(template, settings)?;
    let managed = (MANAGED.to_owned(), json!(values).to_string());
    let annotations = values.into_iter().map(|(key, value)| (format!("{CAPACITY}{key}"), value));
    Ok((annotations.chain([managed]).collect(), problem))
}

/// Returns the values that the template gives, and what could not be published.
fn values(
    template: &Value,
    settings: &CapacitySettings,
) -> Result<(Values, Option<String>), InputError> {
    let hardware = of_template(template)?;
    let mut values = Values::new();
    for (key, amount) in [
        (CPU, hardware.cpu),
        (MEMORY, hardware.memory),
        (EPHEMERAL_DISK, hardware.ephemeral_storage),
    ] {
        values.extend(amount.map(|amount| (key.to_owned(), amount.to_string())));
    }
    if let Some(system) = operating_system(template) {
        values.insert(LABELS.to_owned(), format!("{ARCH_LABEL}={AMD64},{OS_LABEL}={system}"));
    }
    let mut counts = gpu_counts(&hardware.devices, &settings.gpus);
    counts.retain(|_, n_devices| *n_devices > 0);
    if counts.len() > 1 {
        let resources: Vec<&str> = counts.keys().map(String::as_str).collect();
        let problem = format!(
            "has devices of more than one resource ({}), and the autoscaler reads one per group; \
             publishing none of them",
            resources.join(", ")
        );
        return Ok((values, Some(problem)));
    }
    for (resource, n_devices) in counts {
        values.insert(GPU_TYPE.to_owned(), resource);
        values.insert(GPU_COUNT.to_owned(), n_devices.to_string());
    }
    Ok((values, None))
}

/// Returns the values that this provider has written, as the object lists them; empty if the list
/// cannot be read, so that everything counts as the values of a person.
fn listed(annotations: &Value) -> Values {
    serde_json::from_str(text(&annotations[MANAGED])).unwrap_or_default()
}

/// Returns the patch that makes our annotations those of `wanted`; `None` if they are. The patch
/// applies only to this version of the object, so that it never overwrites a value that a person
/// sets at the same moment.
fn patch(group: &Value, wanted: &Values) -> Option<Value> {
    let annotations = &group["metadata"]["annotations"];
    let listed = listed(annotations);
    let (mut patch, mut managed) = (Map::new(), Values::new());
    for key in KEYS {
        let current = annotations[format!("{CAPACITY}{key}")].as_str();
        let is_ours = current.is_some() && current == listed.get(key).map(String::as_str);
        let value = match (wanted.get(key), current) {
            (Some(value), None) => Some(value),
            (Some(value), Some(current)) if is_ours && !is_same(key, current, value) => Some(value),
            (Some(_), Some(current)) if is_ours => {
                managed.insert(key.to_owned(), current.to_owned());
                None
            }
            (None, Some(_)) if is_ours => {
                patch.insert(format!("{CAPACITY}{key}"), Value::Null);
                None
            }
            _ => None,
        };
        if let Some(value) = value {
            patch.insert(format!("{CAPACITY}{key}"), value.as_str().into());
            managed.insert(key.to_owned(), value.clone());
        }
    }
    if managed != listed {
        let text = (!managed.is_empty()).then(|| json!(managed).to_string());
        patch.insert(MANAGED.to_owned(), text.map_or(Value::Null, Value::String));
    }
    let version = &group["metadata"]["resourceVersion"];
    (!patch.is_empty())
        .then(|| json!({"metadata": {"annotations": patch, "resourceVersion": version}}))
}

/// True if an annotation has the wanted value already.
fn is_same(key: &str, current: &str, wanted: &str) -> bool {
    match key {
        CPU | MEMORY | EPHEMERAL_DISK => is_same_quantity(current, wanted),
        _ => is_same_text(current, wanted),
    }
}
