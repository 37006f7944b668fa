//! Reads the file with the definitions of groups.
//!
//! A group that is wrong is refused by its name and the others stay, so that one mistake does not
//! stop the scaling of the whole cluster.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::{
    CloneShape, Gpu, Group, GroupId, MachineKind, MachineShape, NodeShape, OptionOverrides,
    Platform, Reserved, Shape, Taint, TokenShape,
};
use crate::{
    InputError,
    controllers::quantity::Quantity,
    input::{check_dns_label, parse_duration},
};

/// Longest name of a group: with a dash and five characters it is the name of a machine, which is
/// at most 63 characters long.
const LONGEST_NAME: usize = 57;
/// Most instances of a group. The autoscaler reads at most 4 MiB per answer, so about 20,000
/// instances with an error text each.
const MOST_INSTANCES: u32 = 20_000;

/// Bounds of the time for which a token lives. A renewal comes after half of it, and a machine needs
/// minutes to boot.
const SHORTEST_TTL: Duration = Duration::from_secs(300);
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// Content of a file with groups.
#[derive(Debug, Default)]
pub(crate) struct ParsedGroups {
    /// The valid groups, in the order of the file.
    pub(crate) groups: Vec<Group>,
    /// Errors about the other groups.
    pub(crate) refused: Vec<InputError>,
}

/// A group in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GroupInFile {
    name: String,
    #[serde(default)]
    min: i64,
    max: i64,
    #[serde(default)]
    adopt: bool,
    region: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    reserved: ReservedInFile,
    max_pods: Option<u32>,
    #[serde(default, deserialize_with = "text")]
    ephemeral_storage: Option<String>,
    #[serde(default)]
    platform: Platform,
    gpu: Option<Gpu>,
    #[serde(default)]
    options: OptionsInFile,
    machine: Option<MachineShape>,
    clone: Option<CloneShape>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct ReservedInFile {
    #[serde(deserialize_with = "text")]
    cpu: Option<String>,
    #[serde(deserialize_with = "text")]
    memory: Option<String>,
    #[serde(deserialize_with = "text")]
    ephemeral_storage: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct OptionsInFile {
    scale_down_utilization_threshold: Option<f64>,
    scale_down_gpu_utilization_threshold: Option<f64>,
    #[serde(deserialize_with = "text")]
    scale_down_unneeded_time: Option<String>,
    #[serde(deserialize_with = "text")]
    scale_down_unready_time: Option<String>,
    #[serde(deserialize_with = "text")]
    max_node_provision_time: Option<String>,
    ignore_daemon_sets_utilization: Option<bool>,
}

/// Reads a text, or a number as the text that stands in the file.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(D::Error::custom("expected a text or a number")),
    }
}

/// Parses a file of groups of this kind of machines. `file` is its name in errors.
///
/// # Errors
///
/// If the file is not a YAML mapping with a list `groups`. Errors within one group are in
/// [`ParsedGroups::refused`].
pub(crate) fn parse(
    file: &str,
    text: &str,
    machines: &MachineKind,
) -> Result<ParsedGroups, InputError> {
    let document: Value = serde_saphyr::from_str(text).map_err(|err| {
        let text = err.to_string();
        let first = text.lines().next().unwrap_or_default();
        let err = InputError::new(format!("the file is not valid YAML: {first}"));
        err.remedy("correct the syntax at this position").in_source(file)
    })?;
    let unknown = document.as_object().into_iter().flatten().find(|(key, _)| *key != "groups");
    if let Some((key, _)) = unknown {
        let err = InputError::unknown("unknown key", key);
        return Err(err.condition("expected groups").in_source(file));
    }
    let Some(listed) = document["groups"].as_array() else {
        let err = InputError::new("the file has no list `groups`");
        return Err(err.remedy("begin with `groups:` and a list below it").in_source(file));
    };
    let mut parsed = ParsedGroups::default();
    for (n, value) in listed.iter().enumerate() {
        let name = value["name"].as_str().map(str::to_owned);
        let place = name.map_or_else(|| format!("groups[{n}]"), |name| format!("group {name}"));
        let is_new = |group: &Group| {
            if parsed.groups.iter().all(|it| it.name != group.name) {
                return Ok(());
            }
            let err = InputError::new("the file has two groups of this name");
            Err(err.remedy("rename one"))
        };
        let group = read(value, machines).and_then(|group| is_new(&group).map(|()| group));
        match group {
            Ok(group) => parsed.groups.push(group),
            Err(err) => parsed.refused.push(err.at_key(place).in_source(file)),
        }
    }
    Ok(parsed)
}

/// Reads a group whose keys are those of a group in a file, except `name`, which the caller knows.
///
/// # Errors
///
/// As those in [`ParsedGroups::refused`]; also if the keys contain `name`.
pub(crate) fn read_spec(
    name: &str,
    spec: &Value,
    machines: &MachineKind,
) -> Result<Group, InputError> {
    let Some(keys) = spec.as_object() else {
        let err = InputError::new("is not a map of keys");
        return Err(err.remedy("docs/autoscaler.md, Groups, describes every key"));
    };
    let mut keys = keys.clone();
    if keys.insert("name".to_owned(), name.into()).is_some() {
        let err = InputError::new("the name of the object is that of the group");
        return Err(err.remedy("remove the key").at_key("name"));
    }
    read(&Value::Object(keys), machines)
}

fn read(value: &Value, machines: &MachineKind) -> Result<Group, InputError> {
    let it: GroupInFile = serde_path_to_error::deserialize(value).map_err(|err| {
        let place = err.path().to_string();
        let problem = InputError::new(err.into_inner().to_string());
        let problem = problem.remedy("docs/autoscaler.md, Groups, describes every key");
        if place == "." { problem } else { problem.at_key(place) }
    })?;
    let at = |key: &'static str| move |err: InputError| err.at_key(key);
    check_dns_label(&it.name, LONGEST_NAME).map_err(at("name"))?;
    let (min, max) = bounds(it.min, it.max)?;
    let quantity = |text: Option<String>, default: Quantity| {
        text.map_or(Ok(default), |text| text.parse::<Quantity>())
    };
    let in_reserved = |key: &'static str| move |err: InputError| err.at_key(key).at_key("reserved");
    let reserved = Reserved {
        cpu: quantity(it.reserved.cpu, Quantity::default()).map_err(in_reserved("cpu"))?,
        memory: quantity(it.reserved.memory, Quantity::default()).map_err(in_reserved("memory"))?,
        ephemeral_storage: quantity(it.reserved.ephemeral_storage, Quantity::default())
            .map_err(in_reserved("ephemeralStorage"))?,
    };
    let ephemeral_storage = it.ephemeral_storage.map(|text| text.parse()).transpose();
    let ephemeral_storage = ephemeral_storage.map_err(at("ephemeralStorage"))?;
    let max_pods = it.max_pods.unwrap_or(110);
    if max_pods == 0 {
        let err = InputError::invalid("0", "leaves no room for a Pod");
        return Err(err.remedy("write the kubelet's maxPods").at_key("maxPods"));
    }
    if let Some(gpu) = &it.gpu
        && (gpu.count == 0 || gpu.resource.is_empty() || gpu.kind.is_empty())
    {
        let err = InputError::new("resource, type and a count above zero are required");
        return Err(err.remedy("complete it, or leave gpu out").at_key("gpu"));
    }
    let (id, shape) = shape(&it.name, it.machine, it.clone, machines)?;
    let options = options(it.options).map_err(at("options"))?;
    Ok(Group {
        id,
        name: it.name,
        min,
        max,
        adopt: it.adopt,
        node: NodeShape {
            region: it.region,
            labels: it.labels,
            taints: it.taints,
            reserved,
            max_pods,
            ephemeral_storage,
            platform: it.platform,
            gpu: it.gpu,
            more: BTreeMap::new(),
        },
        options,
        shape,
    })
}

/// Returns the ID of a group, and the shape of its machines.
///
/// # Errors
///
/// If the group lacks the shape of this kind of machines, has that of another kind, or has a wrong
/// value in it.
fn shape(
    name: &str,
    machine: Option<MachineShape>,
    clone: Option<CloneShape>,
    machines: &MachineKind,
) -> Result<(GroupId, Shape), InputError> {
    match (machines, machine, clone) {
        (MachineKind::VirtualMachine { namespace, has_tokens }, Some(machine), None) => {
            check_machine(&machine, *has_tokens).map_err(|err| err.at_key("machine"))?;
            let id = GroupId::of_virtual_machines(namespace, name);
            Ok((id, Shape::VirtualMachine(machine)))
        }
        (MachineKind::Clone { has_tokens }, None, Some(clone)) => {
            let token = clone.bootstrap.token.as_ref();
            clone
                .check()
                .and_then(|()| check_token(token, *has_tokens))
                .map_err(|err| err.at_key("clone"))?;
            Ok((GroupId::of_clones(name), Shape::Clone(clone)))
        }
        (MachineKind::VirtualMachine { .. }, _, clone) => {
            Err(other_shape("machine", clone.map(|_| "clone")))
        }
        (MachineKind::Clone { .. }, machine, _) => {
            Err(other_shape("clone", machine.map(|_| "machine")))
        }
    }
}

/// Returns the error about a group that lacks the key of the backend, or has that of another one.
fn other_shape(wanted: &'static str, given: Option<&'static str>) -> InputError {
    match given {
        None => {
            let err = InputError::new(format!("missing field `{wanted}`"));
            err.remedy("docs/autoscaler.md, Groups, describes every key")
        }
        Some(given) => {
            let err = InputError::new("the key belongs to another --backend");
            err.remedy(format!("write {wanted} instead")).at_key(given)
        }
    }
}

fn check_machine(machine: &MachineShape, has_tokens: bool) -> Result<(), InputError> {
    for (key, text) in [
        ("className", &machine.class_name),
        ("imageName", &machine.image_name),
        ("storageClass", &machine.storage_class),
    ] {
        if text.is_empty() {
            let err = InputError::new("is empty").remedy("name the object");
            return Err(err.at_key(key));
        }
    }
    let secret = &machine.bootstrap.secret_name;
    check_dns_label(secret, 253).map_err(|err| err.at_key("secretName").at_key("bootstrap"))?;
    check_token(machine.bootstrap.token.as_ref(), has_tokens)
}

/// Checks that tokens live neither too short for a boot and a renewal nor too long, and that the server
/// can create them.
fn check_token(token: Option<&TokenShape>, has_tokens: bool) -> Result<(), InputError> {
    let Some(token) = token else { return Ok(()) };
    let at_token = |err: InputError| Err(err.at_key("token").at_key("bootstrap"));
    if !(SHORTEST_TTL..=LONGEST_TTL).contains(&token.ttl) {
        let problem = format!("a token cannot live for {:?}", token.ttl);
        return at_token(InputError::new(problem).remedy("write 5m to 24h").at_key("ttl"));
    }
    if !has_tokens {
        let err = InputError::new("the server knows no workload cluster for the tokens");
        return at_token(err.remedy("give --workload-kubeconfig FILE"));
    }
    Ok(())
}

fn bounds(min: i64, max: i64) -> Result<(u32, u32), InputError> {
    let number = |key: &'static str, value: i64| {
        let parsed = u32::try_from(value).ok().filter(|value| *value <= MOST_INSTANCES);
        parsed.ok_or_else(|| {
            let err = InputError::invalid(&value.to_string(), "is not a valid size");
            err.remedy(format!("write 0 to {MOST_INSTANCES}")).at_key(key)
        })
    };
    let (min, max) = (number("min", min)?, number("max", max)?);
    if max == 0 {
        let err = InputError::invalid("0", "allows no machine");
        return Err(err.remedy("write 1 or more, or remove the group").at_key("max"));
    }
    if max < min {
        let err = InputError::new(format!("{max} is less than min, which is {min}"));
        return Err(err.remedy("write at least min").at_key("max"));
    }
    Ok((min, max))
}

fn options(of: OptionsInFile) -> Result<OptionOverrides, InputError> {
    let time = |key: &'static str, text: Option<String>| -> Result<Option<Duration>, InputError> {
        text.map(|text| parse_duration(&text)).transpose().map_err(|err| err.at_key(key))
    };
    let share = |key: &'static str, value: Option<f64>| match value {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            let err = InputError::new(format!("{value} is not a share"));
            Err(err.remedy("write a number from 0 to 1").at_key(key))
        }
        value => Ok(value),
    };
    let max_node_provision_time = time("maxNodeProvisionTime", of.max_node_provision_time)?;
    if max_node_provision_time.is_some_and(|it| it.is_zero()) {
        let err = InputError::invalid("0s", "lets the autoscaler delete each new machine at once");
        return Err(err.remedy("write a time such as 15m").at_key("maxNodeProvisionTime"));
    }
    Ok(OptionOverrides {
        scale_down_utilization_threshold: share(
            "scaleDownUtilizationThreshold",
            of.scale_down_utilization_threshold,
        )?,
        scale_down_gpu_utilization_threshold: share(
            "scaleDownGpuUtilizationThreshold",
            of.scale_down_gpu_utilization_threshold,
        )?,
        scale_down_unneeded_time: time("scaleDownUnneededTime", of.scale_down_unneeded_time)?,
        scale_down_unready_time: time("scaleDownUnreadyTime", of.scale_down_unready_time)?,
        max_node_provision_time,
        ignore_daemon_sets_utilization: of.ignore_daemon_sets_utilization,
    })
}

#[cfg(test)]
mod tests;
