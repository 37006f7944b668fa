//! Status of a template whose machines are VirtualMachine objects.
//!
//! Behaves as Cluster API's own controller by default (`cluster-api-provider-vsphere:
//! controllers/vmware/vspheremachinetemplate_controller.go`), except that an image that cannot be
//! read does not hold the capacity back.

use serde_json::{Map, Value, json};

use super::{
    super::{
        keys::{AMD64, CPU, LINUX, MEMORY, WINDOWS},
        settings::CapacitySettings,
    },
    Plan, Referent,
    difference::{Wanted, difference, is_same_quantity, is_same_text, or_removal},
    hardware::{Hardware, gpu_counts, of_class},
    text,
};

/// Architectures that the status may name.
const ARCHITECTURES: [&str; 4] = [AMD64, "arm64", "s390x", "ppc64le"];
/// Operating systems that the status may name.
const SYSTEMS: [&str; 2] = [LINUX, WINDOWS];

/// Fields of the status that the served version of the kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusForm {
    /// Only `capacity`, as in v1beta1.
    Capacity,
    /// `capacity` and `nodeInfo`.
    CapacityAndNodeInfo,
}

/// A template and the objects that it names.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) template: &'a Value,
    pub(crate) form: StatusForm,
    pub(crate) class: &'a Referent,
    pub(crate) image: &'a Referent,
}

/// Decides about the status of a template.
pub(crate) fn plan_status(subject: &Subject<'_>, settings: &CapacitySettings) -> Plan {
    let spec = &subject.template["spec"]["template"]["spec"];
    let class_name = text(&spec["className"]);
    if class_name.is_empty() {
        return Plan::default();
    }
    let problem = match subject.class {
        Referent::Object(class) => match of_class(class) {
            Ok(hardware) => return plan_known(subject, &hardware, settings),
            Err(err) => format!("cannot read the VirtualMachineClass {class_name}: {err}"),
        },
        Referent::Unread(why) => {
            format!("cannot read the VirtualMachineClass {class_name}: {why}")
        }
        Referent::Missing => {
            format!("the namespace of the template has no VirtualMachineClass {class_name}")
        }
    };
    let is_gone = *subject.class == Referent::Missing;
    let cleared =
        (is_gone && settings.clear_unknown).then(|| capacity(&Hardware::default(), settings));
    let patch = cleared.and_then(|it| patch(subject.template, &it, &Wanted::new()));
    Plan { patch, problem: Some(problem) }
}

fn plan_known(subject: &Subject<'_>, hardware: &Hardware, settings: &CapacitySettings) -> Plan {
    let capacity = capacity(hardware, settings);
    let has_capacity = capacity.values().any(Option::is_some);
    match node_info(subject, has_capacity, settings) {
        Ok(node_info) => {
            Plan { patch: patch(subject.template, &capacity, &node_info), problem: None }
        }
        Err(problem) => {
            let patch = patch(subject.template, &capacity, &Wanted::new());
            let patch = patch.filter(|_| settings.capacity_without_image);
            Plan { patch, problem: Some(problem) }
        }
    }
}

/// Returns the wanted keys of `status.capacity`. A value that is not known keeps what was published,
/// unless the settings clear it.
fn capacity(hardware: &Hardware, settings: &CapacitySettings) -> Wanted {
    let known = [(CPU, hardware.cpu), (MEMORY, hardware.memory)];
    let known = known.map(|(key, it)| (key.to_owned(), it.map(|it| it.to_string())));
    let gpus = gpu_counts(&hardware.devices, &settings.gpus).into_iter();
    let gpus = gpus.map(|(key, n)| (key, (n > 0).then(|| n.to_string())));
    let all = known.into_iter().chain(gpus);
    all.filter(|(_, value)| value.is_some() || settings.clear_unknown).collect()
}

/// Returns the wanted keys of `status.nodeInfo`.
///
/// # Errors
///
/// If the image could not be read.
fn node_info(
    subject: &Subject<'_>,
    has_capacity: bool,
    settings: &CapacitySettings,
) -> Result<Wanted, String> {
    let name = text(&subject.template["spec"]["template"]["spec"]["imageName"]);
    let image = match subject.image {
        _ if subject.form == StatusForm::Capacity => return Ok(Wanted::new()),
        Referent::Unread(why) if !name.is_empty() => {
            return Err(format!("cannot read the image {name}: {why}"));
        }
        Referent::Object(image) if !name.is_empty() => image,
        _ => &Value::Null,
    };
    let current = &subject.template["status"]["nodeInfo"];
    let mut wanted = Wanted::new();
    for (key, property, known, default) in [
        ("architecture", "vmware-system.tkr.os-arch", &ARCHITECTURES[..], AMD64),
        ("operatingSystem", "vmware-system.tkr.os-type", &SYSTEMS[..], LINUX),
    ] {
        let told = system_property(image, property).filter(|told| known.contains(told));
        let is_assumed = settings.assume_node_info
            && has_capacity
            && (settings.clear_unknown || current.get(key).is_none());
        let value = told.or_else(|| is_assumed.then_some(default));
        if value.is_some() || settings.clear_unknown {
            wanted.insert(key.to_owned(), value.map(str::to_owned));
        }
    }
    Ok(wanted)
}

/// Returns a property that VM Operator has read from the image.
fn system_property<'a>(image: &'a Value, key: &str) -> Option<&'a str> {
    let mut properties = image["status"]["vmwareSystemProperties"].as_array()?.iter();
    properties.find(|it| it["key"] == key)?["value"].as_str()
}

/// Returns the patch of the status; `None` if the status has the wanted values.
fn patch(template: &Value, capacity: &Wanted, node_info: &Wanted) -> Option<Value> {
    let status = &template["status"];
    let mut patch = Map::new();
    let capacity = difference(&status["capacity"], capacity, is_same_quantity);
    let node_info = difference(&status["nodeInfo"], node_info, is_same_text);
    patch.extend(capacity.map(|it| ("capacity".to_owned(), it)));
    patch.extend(node_info.map(|it| ("nodeInfo".to_owned(), it)));
    if patch.is_empty() {
        return None;
    }
    let mut whole = json!({"status": or_removal(status, patch)});
    // A template that changed meanwhile is read and planned again.
    if let Some(version) = template["metadata"]["resourceVersion"].as_str() {
        whole["metadata"] = json!({"resourceVersion": version});
    }
    Some(whole)
}
