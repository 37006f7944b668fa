//! Tests of the preview.

use super::*;

const TEMPLATE_FILE: &str = "
apiVersion: vmware.infrastructure.cluster.x-k8s.io/v1beta2
kind: VSphereMachineTemplate
metadata: {name: workers, namespace: team}
spec: {template: {spec: {className: small, imageName: vmi-1}}}
status: {capacity: {cpu: '4'}}
";
const CLASS_FILE: &str = "
apiVersion: vmoperator.vmware.com/v1alpha5
kind: VirtualMachineClass
metadata: {name: small, namespace: team}
spec: {hardware: {cpus: 4, memory: 8Gi}}
";
const IMAGE_FILE: &str = "
apiVersion: vmoperator.vmware.com/v1alpha5
kind: ClusterVirtualMachineImage
metadata: {name: vmi-1}
status:
  vmwareSystemProperties:
  - {key: vmware-system.tkr.os-arch, value: amd64}
  - {key: vmware-system.tkr.os-type, value: linux}
";
const GOVMOMI_FILE: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineTemplate
metadata: {name: workers, namespace: team}
spec: {template: {spec: {numCPUs: 4, memoryMiB: 8192}}}
";

fn previewed(
    template: &str,
    class: Option<&str>,
    image: Option<&str>,
    settings: &CapacitySettings,
) -> String {
    let file = |name: &str, text: &str| NamedText { name: name.to_owned(), text: text.to_owned() };
    let files = CapacityFiles {
        template: file("--template t.yaml", template),
        class: class.map(|text| file("--class c.yaml", text)),
        image: image.map(|text| file("--image i.yaml", text)),
    };
    preview(&files, settings).unwrap_or_else(|err| format!("error: {err}"))
}

fn default(template: &str, class: Option<&str>, image: Option<&str>) -> String {
    previewed(template, class, image, &CapacitySettings::default())
}

#[test]
fn the_status_of_a_supervisor_template_is_shown_in_full() {
    insta::assert_snapshot!(default(TEMPLATE_FILE, Some(CLASS_FILE), Some(IMAGE_FILE)), @r#"
    # Merge patch of the status of the template.
    status:
      capacity:
        cpu: "4"
        memory: 8Gi
      nodeInfo:
        architecture: amd64
        operatingSystem: linux
    "#);
    insta::assert_snapshot!(default(TEMPLATE_FILE, Some(CLASS_FILE), None), @r#"
    # Merge patch of the status of the template.
    # Without the image vmi-1 (--image FILE), nothing is known of the platform.
    status:
      capacity:
        cpu: "4"
        memory: 8Gi
    "#);
    let assuming = CapacitySettings { assume_node_info: true, ..CapacitySettings::default() };
    let assumed = previewed(TEMPLATE_FILE, Some(CLASS_FILE), None, &assuming);
    assert!(assumed.contains("architecture: amd64"), "{assumed}");
    let older = TEMPLATE_FILE.replace("v1beta2", "v1beta1");
    insta::assert_snapshot!(default(&older, Some(CLASS_FILE), Some(IMAGE_FILE)), @r#"
    # Merge patch of the status of the template.
    # v1beta1 has no status.nodeInfo.
    status:
      capacity:
        cpu: "4"
        memory: 8Gi
    "#);
}

#[test]
fn a_template_without_class_name_publishes_nothing() {
    let bare = TEMPLATE_FILE.replace("className: small, ", "");
    assert!(default(&bare, None, None).starts_with("# Nothing: "));
}

#[test]
fn the_annotations_of_a_template_for_vcenter_are_shown() {
    insta::assert_snapshot!(default(GOVMOMI_FILE, None, None), @r#"
    # Merge patch of each MachineDeployment, or MachineSet without one, that names the template and has
    # the annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size.
    metadata:
      annotations:
        capacity.cluster-autoscaler.kubernetes.io/cpu: "4"
        capacity.cluster-autoscaler.kubernetes.io/labels: kubernetes.io/arch=amd64,kubernetes.io/os=linux
        capacity.cluster-autoscaler.kubernetes.io/memory: 8Gi
        vsphere.cloud-provider/managed-capacity: "{\"cpu\":\"4\",\"labels\":\"kubernetes.io/arch=amd64,kubernetes.io/os=linux\",\"memory\":\"8Gi\"}"
    "#);
}

#[test]
fn a_wrong_file_is_refused_with_file_key_value_and_remedy() {
    let (class, image) = (Some(CLASS_FILE), Some(IMAGE_FILE));
    let mut refusals = String::new();
    for (name, template, class, image) in [
        ("no YAML", "a: [", class, image),
        ("no object", "- a", class, image),
        ("another kind", &*CLASS_FILE.replace("v1alpha5", "v1"), class, image),
        ("another group", &*TEMPLATE_FILE.replace("vmware.infra", "other.infra"), class, image),
        ("no class", TEMPLATE_FILE, None, image),
        ("no class name", &*TEMPLATE_FILE.replace("small", "''"), class, image),
        ("another class", TEMPLATE_FILE, Some(&*CLASS_FILE.replace("small", "big")), image),
        (
            "another namespace",
            TEMPLATE_FILE,
            Some(&*CLASS_FILE.replace(": team}", ": other}")),
            image,
        ),
        ("an image as class", TEMPLATE_FILE, image, image),
        (
            "a text as number",
            TEMPLATE_FILE,
            Some(&*CLASS_FILE.replace("cpus: 4", "cpus: four")),
            image,
        ),
        ("no quantity", TEMPLATE_FILE, Some(&*CLASS_FILE.replace("8Gi", "8 GB")), image),
        ("another image", TEMPLATE_FILE, class, Some(&*IMAGE_FILE.replace("vmi-1", "vmi-2"))),
        ("a class for vCenter", GOVMOMI_FILE, class, None),
        ("a text for vCenter", &*GOVMOMI_FILE.replace("8192", "8Gi"), None, None),
    ] {
        let text = default(template, class, image);
        assert!(text.starts_with("error: "), "{name}: {text}");
        refusals.push_str(&format!("{name}: {}\n", text.trim_start_matches("error: ")));
    }
    insta::assert_snapshot!(refusals, @r#"
    no YAML: --template t.yaml: the file is not valid YAML: line 1 column 4: unclosed bracket '['; correct the syntax at this position, and give one object per file
    no object: --template t.yaml: the file has no object; give an object such as `kubectl get -o yaml` prints
    another kind: --template t.yaml: kind: "VirtualMachineClass" is the wrong kind; give a VSphereMachineTemplate
    another group: --template t.yaml: apiVersion: "other.infrastructure.cluster.x-k8s.io/v1beta2" is the wrong API version; give a VSphereMachineTemplate of vmware.infrastructure.cluster.x-k8s.io or infrastructure.cluster.x-k8s.io
    no class: --template t.yaml: spec: template: spec: className: "small" is not given; give it: --class FILE
    no class name: --template t.yaml: spec: template: spec: className: is empty, so that --class is of no use; name the object, or leave the flag out
    another class: --class c.yaml: metadata.name: "big" is another object; the template names "small"
    another namespace: --class c.yaml: metadata.namespace: "other" is not the namespace of the template; give the object of "team"
    an image as class: --class c.yaml: kind: "ClusterVirtualMachineImage" is the wrong kind; give a VirtualMachineClass of vmoperator.vmware.com
    a text as number: --class c.yaml: spec: hardware: cpus: "four" is not a whole number; write a number such as 4, without quotes
    no quantity: --class c.yaml: spec: hardware: memory: "8 GB" is not a quantity; write a number with a suffix of Kubernetes, such as 500m, 4 or 8Gi
    another image: --image i.yaml: metadata.name: "vmi-2" is another object; the template names "vmi-1"
    a class for vCenter: --class: the template has the API group infrastructure.cluster.x-k8s.io, whose machines have no such object; leave this flag out
    a text for vCenter: --template t.yaml: spec: template: spec: memoryMiB: "8Gi" is not a whole number; write a number such as 4, without quotes
    "#);
}
