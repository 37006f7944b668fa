//! Preview of the writes for a template, from files and without a cluster.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    keys::{GOVMOMI, MAX_SIZE, SUPERVISOR, TEMPLATE, VM_OPERATOR},
    plan::{
        Plan, Referent, StatusForm, Subject, check_class, group_annotations, plan_status, text,
    },
    settings::CapacitySettings,
};
use crate::InputError;

/// Content of a file, and its name in errors.
#[derive(Clone, Debug)]
pub struct NamedText {
    /// Name in errors, such as `--class small.yaml`.
    pub name: String,
    /// Content, in YAML or JSON.
    pub text: String,
}

/// The files of a preview, each with one object.
#[derive(Clone, Debug)]
pub struct CapacityFiles {
    /// VSphereMachineTemplate of either API group.
    pub template: NamedText,
    /// VirtualMachineClass that the template names.
    pub class: Option<NamedText>,
    /// ClusterVirtualMachineImage or VirtualMachineImage that the template names.
    pub image: Option<NamedText>,
}

/// Returns the status or the annotations that the controller would write, as YAML with a comment.
///
/// # Errors
///
/// If a file is not the object that it must be, if a value in it is wrong, or if a file is missing
/// or of no use.
pub fn preview(files: &CapacityFiles, settings: &CapacitySettings) -> Result<String, InputError> {
    let name = files.template.name.as_str();
    let template = document(&files.template)?;
    let version = text(&template["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match group {
        _ if template["kind"] != TEMPLATE => {
            let err = InputError::invalid(text(&template["kind"]), "is the wrong kind");
            let err = err.remedy(format!("give a {TEMPLATE}"));
            Err(err.at_key("kind").in_source(name))
        }
        SUPERVISOR => of_supervisor(files, &template, settings),
        GOVMOMI => of_govmomi(files, &template, settings),
        _ => {
            let err = InputError::invalid(version, "is the wrong API version");
            let err = err.remedy(format!("give a {TEMPLATE} of {SUPERVISOR} or {GOVMOMI}"));
            Err(err.at_key("apiVersion").in_source(name))
        }
    }
}

fn of_supervisor(
    files: &CapacityFiles,
    template: &Value,
    settings: &CapacitySettings,
) -> Result<String, InputError> {
    let spec = &template["spec"]["template"]["spec"];
    let class = object(files, template, &CLASS, files.class.as_ref())?;
    if let (Some(class), Some(file)) = (&class, &files.class) {
        check_class(class).map_err(|err| err.in_source(file.name.as_str()))?;
    }
    let image = object(files, template, &IMAGE, files.image.as_ref())?;
    let has_image = image.is_some();
    let referent = |object: Option<Value>| match object {
        Some(object) => Referent::Object(Arc::new(object)),
        None => Referent::Missing,
    };
    // The preview shows all values, not only the changes.
    let mut bare = template.clone();
    bare["status"] = Value::Null;
    bare["metadata"]["resourceVersion"] = Value::Null;
    let form = match text(&template["apiVersion"]).ends_with("/v1beta1") {
        true => StatusForm::Capacity,
        false => StatusForm::CapacityAndNodeInfo,
    };
    let (class, image) = (referent(class), referent(image));
    let subject = Subject { template: &bare, form, class: &class, image: &image };
    let Plan { patch, .. } = plan_status(&subject, settings);
    let Some(patch) = patch else {
        return Ok("# Nothing: the template and its objects name no capacity.\n".to_owned());
    };
    let image_name = text(&spec["imageName"]);
    let without = match (form, image_name) {
        (StatusForm::Capacity, _) => "# v1beta1 has no status.nodeInfo.\n".to_owned(),
        (_, name) if !name.is_empty() && !has_image => {
            format!(
                "# Without the image {name} (--image FILE), nothing is known of the platform.\n"
            )
        }
        _ => String::new(),
    };
    Ok(format!("# Merge patch of the status of the template.\n{without}{}", yaml(&patch)?))
}

fn of_govmomi(
    files: &CapacityFiles,
    template: &Value,
    settings: &CapacitySettings,
) -> Result<String, InputError> {
    for (flag, file) in [("--class", &files.class), ("--image", &files.image)] {
        if file.is_some() {
            let err = InputError::new(format!(
                "the template has the API group {GOVMOMI}, whose machines have no such object"
            ));
            return Err(err.remedy("leave this flag out").in_source(flag));
        }
    }
    if settings.assume_node_info {
        let err = InputError::new(
            "has no effect with this template: its machines always have a platform",
        );
        return Err(err.remedy("leave this flag out").in_source("--assume-node-info"));
    }
    let (annotations, problem) = group_annotations(template, settings)
        .map_err(|err| err.in_source(files.template.name.as_str()))?;
    let problem = problem.map(|it| format!("# The template {it}.\n")).unwrap_or_default();
    let patch = yaml(&json!({"metadata": {"annotations": annotations}}))?;
    Ok(format!(
        "# Merge patch of each MachineDeployment, or MachineSet without one, that names the template and has\n\
         # the annotation {MAX_SIZE}.\n{problem}{patch}"
    ))
}

/// An object that a template names.
struct Named {
    /// Key of its name in the template.
    key: &'static str,
    kinds: &'static [&'static str],
    flag: &'static str,
    is_required: bool,
}

const CLASS: Named =
    Named { key: "className", kinds: &["VirtualMachineClass"], flag: "--class", is_required: true };
const IMAGE: Named = Named {
    key: "imageName",
    kinds: &["ClusterVirtualMachineImage", "VirtualMachineImage"],
    flag: "--image",
    is_required: false,
};

/// Reads an object that the template names, and checks that it is this object.
fn object(
    files: &CapacityFiles,
    template: &Value,
    named: &Named,
    file: Option<&NamedText>,
) -> Result<Option<Value>, InputError> {
    let name = text(&template["spec"]["template"]["spec"][named.key]);
    let in_template = |err: InputError| {
        let err = err.at_key(named.key).at_key("spec").at_key("template").at_key("spec");
        Err(err.in_source(files.template.name.as_str()))
    };
    let Some(file) = file else {
        if named.is_required && !name.is_empty() {
            let err = InputError::invalid(name, "is not given");
            return in_template(err.remedy(format!("give it: {} FILE", named.flag)));
        }
        return Ok(None);
    };
    if name.is_empty() {
        let err = InputError::new(format!("is empty, so that {} is of no use", named.flag));
        return in_template(err.remedy("name the object, or leave the flag out"));
    }
    let object = document(file)?;
    let refuse = |key: &str, err: InputError| Err(err.at_key(key).in_source(file.name.as_str()));
    let is_kind = named.kinds.iter().any(|kind| object["kind"] == *kind)
        && text(&object["apiVersion"]).starts_with(&format!("{VM_OPERATOR}/"));
    if !is_kind {
        let err = InputError::invalid(text(&object["kind"]), "is the wrong kind");
        let kinds = named.kinds.join(" or a ");
        return refuse("kind", err.remedy(format!("give a {kinds} of {VM_OPERATOR}")));
    }
    let metadata = &object["metadata"];
    if metadata["name"] != name {
        let err = InputError::invalid(text(&metadata["name"]), "is another object");
        return refuse("metadata.name", err.remedy(format!("the template names {name:?}")));
    }
    let namespaces = [text(&metadata["namespace"]), text(&template["metadata"]["namespace"])];
    if namespaces.iter().all(|it| !it.is_empty()) && namespaces[0] != namespaces[1] {
        let err = InputError::invalid(namespaces[0], "is not the namespace of the template");
        let err = err.remedy(format!("give the object of {:?}", namespaces[1]));
        return refuse("metadata.namespace", err);
    }
    Ok(Some(object))
}

/// Parses a file with one object.
fn document(file: &NamedText) -> Result<Value, InputError> {
    let refuse = |err: InputError| err.in_source(file.name.as_str());
    let document: Value = serde_saphyr::from_str(&file.text).map_err(|err| {
        let text = err.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let err = InputError::new(format!("the file is not valid YAML: {first}"));
        refuse(err.remedy("correct the syntax at this position, and give one object per file"))
    })?;
    if !document.is_object() {
        let err = InputError::new("the file has no object");
        return Err(refuse(err.remedy("give an object such as `kubectl get -o yaml` prints")));
    }
    Ok(document)
}

fn yaml(value: &Value) -> Result<String, InputError> {
    serde_saphyr::to_string(value)
        .map_err(|err| InputError::new(format!("cannot print the patch: {err}")))
}
