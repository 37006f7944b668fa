//! Objects of vSphere for checks that judge more than the samples of any kind.

use serde_json::{Value, json};

use super::trial::Trial;
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{Expected, ObjectRef};

const OPERATOR: &str = "vmoperator.vmware.com/v1alpha6";

/// Capacity of the class `small` of the first sample.
pub(super) const SMALL: [(&str, &str); 2] = [("cpu", "4"), ("memory", "8Gi")];
/// Annotation of an object that controllers leave alone.
pub(super) const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Returns a VirtualMachineClass.
pub(super) fn class(name: &str, hardware: Value) -> Value {
    json!({
        "apiVersion": OPERATOR, "kind": "VirtualMachineClass", "metadata": {"name": name},
        "spec": {"hardware": hardware},
    })
}

/// Returns a ClusterVirtualMachineImage that tells this architecture and system.
pub(super) fn image(name: &str, architecture: &str, system: &str) -> Value {
    let properties = json!([
        {"key": "vmware-system.tkr.os-arch", "value": architecture},
        {"key": "vmware-system.tkr.os-type", "value": system},
    ]);
    json!({
        "apiVersion": OPERATOR, "kind": "ClusterVirtualMachineImage",
        "metadata": {"name": name}, "spec": {}, "status": {"vmwareSystemProperties": properties},
    })
}

/// Returns the `spec` of a template with this class and image.
pub(super) fn spec(class: &str, image: &str) -> Value {
    json!({"template": {"spec": {"className": class, "imageName": image}}})
}

/// Returns the patch that sets an annotation, or removes it.
pub(super) fn annotate(key: &str, value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {key: value.into()}}})
}

/// Returns the status of a template of the class `small` whose image tells this.
pub(super) fn small(node_info: &[(&str, &str)]) -> Expected {
    Expected::new(&SMALL, node_info)
}

impl Trial<'_> {
    /// Creates an image, and a template of its name with the class of the first sample.
    pub(super) async fn template_of_image(
        &self,
        name: &str,
        architecture: &str,
        system: &str,
    ) -> Result<ObjectRef, Verdict> {
        self.create(&image(name, architecture, system)).await?;
        self.create_template(name, &spec("small", name)).await
    }
}
