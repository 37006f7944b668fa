//! Resources of a new Node.

use serde_json::Value;

use super::{
    super::keys::{CPU, EPHEMERAL_DISK, EPHEMERAL_STORAGE, GPU_COUNT, GPU_TYPE, MAX_PODS, MEMORY},
    Annotations, GroupTemplate, NoTemplate, Resources,
};
use crate::{InputError, controllers::quantity::Quantity};

/// Name of the resource that counts Pods.
const PODS: &str = "pods";
/// Number of Pods of a group that names none.
const DEFAULT_PODS: u32 = 110;

/// Reads the capacity: by resource the annotation, else the status of the template. The number of
/// Pods comes from the annotation or is 110, whatever the status says.
///
/// # Errors
///
/// If an annotation is wrong, if the template could not be read and no annotation helps, or if CPU
/// or memory are not known.
pub(super) fn capacity(
    annotations: &Annotations<'_>,
    template: GroupTemplate<'_>,
) -> Result<Resources, NoTemplate> {
    let annotated = annotated(annotations)?;
    let mut capacity = match template {
        GroupTemplate::Object(template) => of_status(template),
        GroupTemplate::Unnamed => Resources::new(),
        GroupTemplate::Unread(why) if annotated.is_empty() => {
            return Err(NoTemplate::Unread(why.to_owned()));
        }
        GroupTemplate::Unread(_) => Resources::new(),
    };
    capacity.extend(annotated);
    let pods = whole(annotations, MAX_PODS)?.filter(|pods| !pods.is_zero());
    capacity.insert(PODS.to_owned(), pods.unwrap_or(Quantity::whole(DEFAULT_PODS)));
    for necessary in [CPU, MEMORY] {
        if !capacity.contains_key(necessary) {
            return Err(NoTemplate::Unknown(necessary));
        }
    }
    Ok(capacity)
}

/// Returns the capacity without the reserved amounts.
pub(super) fn allocatable(capacity: &Resources, reserved: &Resources) -> Resources {
    let reserved = |name: &String| reserved.get(name).copied().unwrap_or_default();
    let left = capacity.iter().map(|(name, amount)| (name.clone(), amount.without(reserved(name))));
    left.collect()
}

/// Returns the number of GPUs that the annotation names.
pub(super) fn gpu_count(annotations: &Annotations<'_>) -> Result<Option<Quantity>, InputError> {
    Ok(whole(annotations, GPU_COUNT)?.filter(|count| !count.is_zero()))
}

/// Returns the resources that annotations name, without the number of Pods. Zero means that the
/// annotation tells nothing.
fn annotated(annotations: &Annotations<'_>) -> Result<Resources, InputError> {
    let mut resources = Resources::new();
    for (key, name) in [(CPU, CPU), (MEMORY, MEMORY), (EPHEMERAL_DISK, EPHEMERAL_STORAGE)] {
        let amount = annotations.of_capacity(key).map(Quantity::of_object).transpose();
        let amount = amount.map_err(|err| err.at_key(key))?;
        let amount = amount.filter(|amount| !amount.is_zero());
        resources.extend(amount.map(|amount| (name.to_owned(), amount)));
    }
    if let (Some(count), Some(name)) = (gpu_count(annotations)?, annotations.of_capacity(GPU_TYPE))
    {
        resources.insert(name.to_owned(), count);
    }
    Ok(resources)
}

/// Returns the amounts in the status of a template. One value that is not a text voids all of them,
/// and a text that is not a quantity only itself.
fn of_status(template: &Value) -> Resources {
    let Some(capacity) = template["status"]["capacity"].as_object() else {
        return Resources::new();
    };
    if !capacity.values().all(Value::is_string) {
        return Resources::new();
    }
    let amount = |value: &Value| Quantity::of_object(value.as_str()?).ok();
    let amounts = capacity.iter().filter_map(|(name, value)| Some((name.clone(), amount(value)?)));
    amounts.collect()
}

/// Reads a whole number, which is not a quantity: suffixes and decimals are wrong.
fn whole(annotations: &Annotations<'_>, key: &str) -> Result<Option<Quantity>, InputError> {
    let Some(text) = annotations.of_capacity(key) else { return Ok(None) };
    let number = text.parse::<u32>().ok().map(Quantity::whole);
    number.map(Some).ok_or_else(|| {
        let err = InputError::invalid(text, "is not a whole number");
        err.remedy("write a number such as 2").at_key(key)
    })
}
