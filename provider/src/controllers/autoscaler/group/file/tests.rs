//! Tests of the file with groups and of the Node of a new machine.

use externalgrpc::kubernetes::Quantity as Text;
use jiff::Timestamp;

use super::{super::*, *};

const GOOD: &str = "
groups:
- name: workers
  max: 5
  region: region-1
  labels: {tier: batch}
  taints: [{key: batch, effect: NoSchedule}]
  reserved: {cpu: 100m, memory: 924Mi, ephemeralStorage: 1Gi}
  options: {scaleDownUnneededTime: 5m, scaleDownUtilizationThreshold: 0.3}
  ephemeralStorage: 20Gi
  gpu: {resource: nvidia.com/gpu, type: a100, count: 2}
  machine:
    className: best-effort-large
    imageName: vmi-0001
    storageClass: gold
    zone: zone-1
    bootstrap: {secretName: workers-bootstrap}
";

/// Returns the errors for `GOOD` with `old` replaced by `new`.
fn errors(old: &str, new: &str) -> Vec<String> {
    assert!(GOOD.contains(old), "{old}");
    let text = GOOD.replacen(old, new, 1);
    match parse("groups.yaml", &text, &MachineKind::virtual_machines("ns")) {
        Ok(parsed) => parsed.refused.iter().map(InputError::to_string).collect(),
        Err(err) => vec![err.to_string()],
    }
}

#[test]
fn a_group_of_the_file_becomes_a_group_with_an_id_and_defaults() {
    let parsed = parse("groups.yaml", GOOD, &MachineKind::virtual_machines("ns")).unwrap();
    assert_eq!(parsed.refused, []);
    let [group] = &parsed.groups[..] else { panic!("{parsed:?}") };
    assert_eq!(group.id.as_str(), "VirtualMachine/ns/workers");
    assert_eq!((group.min, group.max, group.node.max_pods), (0, 5, 110));
    let Shape::VirtualMachine(shape) = &group.shape else { panic!("{:?}", group.shape) };
    assert_eq!(shape.bootstrap.key, "user-data");
    assert_eq!(shape.power_off_mode, PowerOffMode::TrySoft);
    assert_eq!(group.options.scale_down_unneeded_time, Some(Duration::from_secs(300)));
}

#[test]
fn a_mistake_in_the_file_is_refused_with_group_key_and_remedy() {
    for (old, new, want) in [
        ("groups:", "groupz:", "groups.yaml: unknown key \"groupz\": expected groups"),
        ("groups:\n-", "groups: {}\nx:\n-", "groups.yaml: unknown key \"x\": expected groups"),
        (
            "name: workers",
            "name: Workers",
            "groups.yaml: group Workers: name: \"Workers\" is not a valid name; write at most 57 \
             lower-case letters, digits and dashes, with a letter or digit at both ends",
        ),
        ("name: workers", "names: workers", "groups.yaml: groups[0]: names: unknown field `names`"),
        ("max: 5", "max: 0", "group workers: max: \"0\" allows no machine; write 1 or more"),
        ("max: 5", "max: -1", "group workers: max: \"-1\" is not a valid size; write 0 to 20000"),
        ("max: 5", "max: 30000", "group workers: max: \"30000\" is not a valid size"),
        ("max: 5", "max: 5\n  min: 6", "group workers: max: 5 is less than min, which is 6"),
        ("max: 5", "max: five", "group workers: max: invalid type: string \"five\", expected i64"),
        ("max: 5", "maximum: 5", "group workers: maximum: unknown field `maximum`"),
        ("max: 5", "max: 5\n  maxPods: 0", "group workers: maxPods: \"0\" leaves no room"),
        ("cpu: 100m", "cpu: -1", "group workers: reserved: cpu: \"-1\" is not a quantity"),
        ("cpu: 100m", "cpu: [1]", "group workers: reserved.cpu: expected a text or a number"),
        ("NoSchedule", "Never", "group workers: taints[0].effect: unknown variant `Never`"),
        ("scaleDownUnneededTime: 5m", "scaleDownUnneededTime: 5", "\"5\" is not a duration"),
        ("Threshold: 0.3", "Threshold: 30", "options: scaleDownUtilizationThreshold: 30 is not"),
        ("scaleDownUnneededTime: 5m", "maxNodeProvisionTime: 0s", "maxNodeProvisionTime: \"0s\""),
        ("count: 2", "count: 0", "group workers: gpu: resource, type and a count above zero"),
        ("imageName: vmi-0001", "imageName: ''", "group workers: machine: imageName: is empty"),
        ("secretName: workers-b", "secretName: B_b", "machine: bootstrap: secretName: \"B_b"),
        ("    storageClass: gold\n", "", "group workers: machine: missing field `storageClass`"),
    ] {
        let errors = errors(old, new);
        assert!(errors.len() == 1 && errors[0].contains(want), "{new}: {errors:#?}");
    }
}

#[test]
fn a_quantity_may_be_a_number() {
    let parsed =
        parse("f", &GOOD.replace("cpu: 100m", "cpu: 2"), &MachineKind::virtual_machines("ns"))
            .unwrap();
    assert_eq!(parsed.groups[0].node.reserved.cpu.to_string(), "2", "{:?}", parsed.refused);
}

#[test]
fn a_wrong_group_and_a_second_of_the_same_name_leave_the_others() {
    let one = |name: &str| GOOD.trim_start().replace("groups:\n", "").replace("workers\n", name);
    let text = format!("groups:\n{}{}{}", one("a\n"), one("a\n"), one("B\n"));
    let parsed = parse("f", &text, &MachineKind::virtual_machines("ns")).unwrap();
    assert_eq!(parsed.groups.len(), 1, "{parsed:?}");
    let errors: Vec<String> = parsed.refused.iter().map(InputError::to_string).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[0], "f: group a: the file has two groups of this name; rename one");
}

#[test]
fn the_template_has_the_labels_taints_and_resources_of_a_new_node() {
    let parsed = parse("groups.yaml", GOOD, &MachineKind::virtual_machines("ns")).unwrap();
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    let capacity = Capacity { cpu: quantity("4"), memory: quantity("8Gi") };
    let now = Timestamp::from_second(1_000_000).unwrap();
    let node = node(&parsed.groups[0], capacity, "gpu.example/type", now);
    let (metadata, spec, status) =
        (node.metadata.unwrap(), node.spec.unwrap(), node.status.unwrap());
    let labels: Vec<String> =
        metadata.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        labels,
        [
            "gpu.example/type=a100",
            "kubernetes.io/arch=amd64",
            "kubernetes.io/hostname=workers-template",
            "kubernetes.io/os=linux",
            "node.kubernetes.io/instance-type=best-effort-large",
            "tier=batch",
            "topology.kubernetes.io/region=region-1",
            "topology.kubernetes.io/zone=zone-1",
        ]
    );
    assert_eq!(spec.taints[0].effect.as_deref(), Some("NoSchedule"));
    assert_eq!(spec.provider_id, None);
    let amounts = |of: &BTreeMap<String, Text>| -> Vec<String> {
        let text =
            |(key, value): (&String, &Text)| format!("{key}={}", value.string.clone().unwrap());
        of.iter().map(text).collect()
    };
    assert_eq!(
        amounts(&status.capacity),
        ["cpu=4", "ephemeral-storage=20Gi", "memory=8Gi", "nvidia.com/gpu=2", "pods=110"]
    );
    // 8 GiB less 924 and 100 MiB; 20 GiB less a tenth and 1 GiB.
    assert_eq!(
        amounts(&status.allocatable),
        ["cpu=3900m", "ephemeral-storage=17Gi", "memory=7Gi", "nvidia.com/gpu=2", "pods=110"]
    );
    assert_eq!(status.conditions[0].last_transition_time.unwrap().seconds, Some(999_940));
}
