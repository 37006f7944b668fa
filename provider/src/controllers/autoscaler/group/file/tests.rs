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
fn a_token_is_refused_where_the_server_cannot_create_it_or_its_life_is_wrong() {
    let errors = |token: &str, has_tokens| {
        let text = GOOD
            .replace("secretName: workers-bootstrap", &format!("secretName: b, token: {token}"));
        let machines = MachineKind::virtual_machines("ns").with_tokens(has_tokens);
        let parsed = parse("groups.yaml", &text, &machines).unwrap();
        let ttl = parsed.groups.first().map(|it| match &it.shape {
            Shape::VirtualMachine(shape) => shape.bootstrap.token.as_ref().unwrap().ttl,
            _ => panic!("{it:?}"),
        });
        (ttl, parsed.refused.iter().map(InputError::to_string).collect::<Vec<_>>())
    };
    for (token, ttl) in [("{}", 3600), ("{ttl: 5m}", 300), ("{ttl: 24h}", 86_400)] {
        assert_eq!(errors(token, true), (Some(Duration::from_secs(ttl)), vec![]), "{token}");
    }
    for (token, has_tokens, want) in [
        (
            "{}",
            false,
            "group workers: machine: bootstrap: token: the server knows no workload cluster for the tokens; give --workload-kubeconfig FILE",
        ),
        (
            "{ttl: 4m59s}",
            true,
            "machine: bootstrap: token: ttl: a token cannot live for 299s; write 5m to 24h",
        ),
        ("{ttl: 25h}", true, "token: ttl: a token cannot live for 90000s; write 5m to 24h"),
        ("{ttl: 90}", true, "machine.bootstrap.token.ttl: "),
        ("{ttl: long}", true, "token.ttl: \"long\" is not a duration; write numbers with units"),
        ("{expires: 1h}", true, "token.expires: unknown field `expires`, expected `ttl`"),
    ] {
        let refused = errors(token, has_tokens).1;
        assert!(refused.len() == 1 && refused[0].contains(want), "{token}: {refused:?}");
    }
    let clone = |token: &str, has_tokens| {
        let text = format!(
            "groups: [{{name: g, max: 1, clone: {{datacenter: d, template: t, folder: f, \
             resourcePool: p, bootstrap: {{file: f, token: {token}}}}}}}]"
        );
        let machines = MachineKind::clones().with_tokens(has_tokens);
        let parsed = parse("groups.yaml", &text, &machines).unwrap();
        parsed.refused.iter().map(InputError::to_string).collect::<Vec<_>>()
    };
    assert_eq!(clone("{ttl: 1h}", true), [""; 0]);
    let place = "groups.yaml: group g: clone: bootstrap: token: ";
    let unknown =
        "the server knows no workload cluster for the tokens; give --workload-kubeconfig FILE";
    assert_eq!(clone("{}", false), [format!("{place}{unknown}")]);
    let short = "ttl: a token cannot live for 60s; write 5m to 24h";
    assert_eq!(clone("{ttl: 1m}", true), [format!("{place}{short}")]);
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
    let node = node(&parsed.groups[0], capacity, "best-effort-large", "gpu.example/type", now);
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

const CLONES: &str = "
groups:
- name: workers
  max: 5
  clone:
    datacenter: DC0
    template: ubuntu
    folder: nodes
    resourcePool: C0/Resources
    datastore: ds
    networks: [lan]
    numCPUs: 4
    memoryMiB: 8192
    diskGiB: 40
    cloneMode: full
    tag: nodes/autoscaled
    zone: zone-1
    bootstrap: {file: user-data, format: cloud-init}
";

#[test]
fn a_group_of_clones_has_an_id_and_the_hardware_of_the_rules() {
    let parsed = parse("groups.yaml", CLONES, &MachineKind::clones()).unwrap();
    assert_eq!(parsed.refused, []);
    let group = &parsed.groups[0];
    assert_eq!((group.id.as_str(), group.zone()), ("vcenter/workers", Some("zone-1")));
    let shape =
        |text: &str| match parse("f", text, &MachineKind::clones()).unwrap().groups.remove(0).shape
        {
            Shape::Clone(shape) => shape,
            other => panic!("{other:?}"),
        };
    let (good, least) = (shape(CLONES), CLONES.replace("numCPUs: 4", "numCPUs: 1"));
    assert_eq!((good.cpus(), good.memory_mib()), (Some(4), Some(8192)));
    assert_eq!((good.tag(), good.clone_mode), (Some(("nodes", "autoscaled")), CloneMode::Full));
    let least = shape(&least.replace("memoryMiB: 8192", "memoryMiB: 0"));
    assert_eq!((least.cpus(), least.memory_mib()), (Some(2), Some(2048)));
    let lines = CLONES.lines().filter(|it| {
        !["numCPUs", "memoryMiB", "diskGiB", "cloneMode"].iter().any(|key| it.contains(key))
    });
    let plain = shape(&lines.collect::<Vec<_>>().join("\n"));
    assert_eq!(
        (plain.cpus(), plain.memory_mib(), plain.clone_mode),
        (None, None, CloneMode::Linked)
    );
}

#[test]
fn a_group_of_clones_names_a_template_or_a_library_item() {
    let original = |text: &str| {
        let text = CLONES.replace("template: ubuntu", text);
        let parsed = parse("groups.yaml", &text, &MachineKind::clones()).unwrap();
        assert_eq!(parsed.refused, []);
        match &parsed.groups[0].shape {
            Shape::Clone(shape) => (shape.original().unwrap(), parsed.groups[0].summary()),
            other => panic!("{other:?}"),
        }
    };
    let item = |library: &str, item: &str| Original::LibraryItem {
        library: library.to_owned(),
        item: item.to_owned(),
    };
    for (text, want, summary) in [
        (
            "template: images/ubuntu",
            Original::Template("images/ubuntu".to_owned()),
            "vcenter/workers (template images/ubuntu)",
        ),
        (
            "libraryItem: images/ubuntu 24.04",
            item("images", "ubuntu 24.04"),
            "vcenter/workers (library item images/ubuntu 24.04)",
        ),
        (
            "libraryItem: a%2fb/c%2Fd",
            item("a/b", "c/d"),
            "vcenter/workers (library item a%2fb/c%2Fd)",
        ),
    ] {
        assert_eq!(original(text), (want, summary.to_owned()));
    }
}

#[test]
fn each_wrong_value_of_a_group_of_clones_is_refused_with_its_key() {
    const AT: &str = "groups.yaml: group workers: ";
    for (old, new, want) in [
        ("clone:", "clones:", "clones: unknown field `clones`"),
        ("datacenter: DC0", "datacenter: ''", "clone: datacenter: is empty; name the object"),
        ("template: ubuntu", "template: /", "clone: template: is empty; name the object"),
        (
            "    template: ubuntu\n",
            "",
            "clone: names neither a template nor a library item; add template or libraryItem",
        ),
        (
            "template: ubuntu",
            "template: ubuntu\n    libraryItem: images/ubuntu",
            "clone: libraryItem: cannot be combined with template; write either template or \
             libraryItem",
        ),
        (
            "template: ubuntu",
            "libraryItem: ubuntu",
            "clone: libraryItem: \"ubuntu\" does not name a library item; write LIBRARY/ITEM",
        ),
        (
            "template: ubuntu",
            "libraryItem: images/",
            "clone: libraryItem: \"images/\" does not name a library item; write LIBRARY/ITEM",
        ),
        (
            "template: ubuntu",
            "libraryItem: a/b/c",
            "clone: libraryItem: \"a/b/c\" does not name a library item; write LIBRARY/ITEM",
        ),
        ("template: ubuntu", "libraryItem: [images]", "clone.libraryItem: invalid type"),
        ("folder: nodes", "folder: ' '", "clone: folder: is empty; name the object"),
        ("    folder: nodes\n", "", "clone: missing field `folder`"),
        ("C0/Resources", "''", "clone: resourcePool: is empty; name the object"),
        ("datastore: ds", "datastore: ''", "clone: datastore: is empty; name the object"),
        ("networks: [lan]", "networks: ['']", "clone: networks: is empty; name the object"),
        ("networks: [lan]", "networks: lan", "clone.networks: invalid type"),
        (
            "networks: [lan]",
            "networks: [a, b, c, d, e, f, g, h, i, j, k]",
            "clone: networks: 11 networks are too many; name at most 10",
        ),
        ("numCPUs: 4", "numCPUs: -1", "clone.numCPUs: invalid value"),
        (
            "numCPUs: 4",
            "numCPUs: 769",
            "clone: numCPUs: \"769\" is not a valid size; write at most 768",
        ),
        ("8192", "8191", "clone: memoryMiB: \"8191\" is not a valid size; write a multiple of 4"),
        (
            "diskGiB: 40",
            "diskGiB: 0",
            "clone: diskGiB: \"0\" is not a valid size; write 1 to 65535",
        ),
        (
            "cloneMode: full",
            "cloneMode: linked",
            "clone: diskGiB: the disk of a linked clone cannot grow; write cloneMode: full, or leave \
             diskGiB out",
        ),
        ("cloneMode: full", "cloneMode: half", "clone.cloneMode: unknown variant `half`"),
        (
            "nodes/autoscaled",
            "autoscaled",
            "clone: tag: \"autoscaled\" does not name a tag; write CATEGORY/NAME",
        ),
        (
            "nodes/autoscaled",
            "/autoscaled",
            "clone: tag: \"/autoscaled\" does not name a tag; write CATEGORY/NAME",
        ),
        ("zone: zone-1", "zone: ''", "clone: zone: is empty; name the object"),
        (
            "file: user-data",
            "file: ''",
            "clone: bootstrap: file: is empty; name the file with the user-data",
        ),
        (
            "format: cloud-init",
            "format: sysprep",
            "clone.bootstrap.format: unknown variant `sysprep`",
        ),
        (
            "    bootstrap: {file: user-data, format: cloud-init}\n",
            "",
            "clone: missing field `bootstrap`",
        ),
    ] {
        assert!(CLONES.contains(old), "{old}");
        let text = CLONES.replacen(old, new, 1);
        let parsed = parse("groups.yaml", &text, &MachineKind::clones()).unwrap();
        let errors: Vec<String> = parsed.refused.iter().map(InputError::to_string).collect();
        let wanted = format!("{AT}{want}");
        assert!(errors.len() == 1 && errors[0].starts_with(&wanted), "{errors:?}\nlacks {wanted}");
    }
}

#[test]
fn a_group_of_another_backend_is_refused_with_the_key_of_this_one() {
    for (text, machines, want) in [
        (
            GOOD,
            MachineKind::clones(),
            "machine: the key belongs to another --backend; write clone instead",
        ),
        (
            CLONES,
            MachineKind::virtual_machines("ns"),
            "clone: the key belongs to another --backend; write machine instead",
        ),
    ] {
        let parsed = parse("groups.yaml", text, &machines).unwrap();
        let errors: Vec<String> = parsed.refused.iter().map(InputError::to_string).collect();
        assert_eq!(errors, [format!("groups.yaml: group workers: {want}")]);
    }
}
