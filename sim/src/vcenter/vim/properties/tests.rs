//! Comparison of the recorded answers with the schema of vim25.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::call::vim25::{self, Declared, Version};
use crate::vcenter::soap::parse;
use crate::vcenter::vim::data::Node;

/// Mandatory properties of managed objects that the sim does not hold.
const UNSET: [&str; 14] = [
    "AuthorizationManager.description",
    "ClusterComputeResource.configuration",
    "ClusterComputeResource.summaryEx",
    "ComputeResource.configurationEx",
    "Datastore.capability",
    "EventManager.description",
    "EventManager.maxCollector",
    "HostSystem.configManager",
    "HostSystem.datastoreBrowser",
    "HostSystem.licensableResource",
    "ServiceInstance.capability",
    "TaskManager.description",
    "VirtualMachine.capability",
    "VirtualMachine.environmentBrowser",
];

/// Problems of recorded answers.
#[derive(Default)]
struct Problems {
    /// Values that the schema does not permit.
    wrong: BTreeSet<String>,
    /// Mandatory fields and properties without a value.
    missing: BTreeSet<String>,
}

impl Problems {
    fn object(&mut self, content: &Node) {
        let kind = content.child("obj").and_then(|it| it.ref_type.clone()).expect("a type");
        let kind = vim25::managed(&kind).expect("a managed type");
        let set: Vec<&Node> = content.all("propSet").collect();
        let names: BTreeSet<&str> = set.iter().filter_map(|it| it.text_of("name")).collect();
        for owner in kind.chain() {
            let mandatory = owner.own_fields().filter(|it| !it.declared.is_optional);
            for field in mandatory.filter(|it| !names.contains(it.name)) {
                self.missing.insert(format!("{}.{}", owner.name, field.name));
            }
        }
        for property in set {
            let name = property.text_of("name").expect("a name");
            let value = property.child("val").expect("a value");
            match vim25::property(kind.name, name, Version::LATEST) {
                Some(declared) => self.property(value, &declared, &format!("{}.{name}", kind.name)),
                None => drop(self.wrong.insert(format!("{} has no {name}", kind.name))),
            }
        }
    }

    fn property(&mut self, value: &Node, declared: &Declared, place: &str) {
        let stated = value.xsi_type.as_deref().unwrap_or_default();
        if stated.starts_with("ArrayOf") != declared.is_list {
            self.wrong.insert(format!("{place} is {stated}"));
        }
        if declared.is_list {
            value.children.iter().for_each(|item| self.value(item, declared, place));
        } else {
            self.value(value, declared, place);
        }
    }

    fn value(&mut self, value: &Node, declared: &Declared, place: &str) {
        if declared.is_reference || declared.is_simple() {
            return;
        }
        let kind = value.xsi_type.as_deref().unwrap_or(declared.name);
        let found = vim25::find(kind).filter(|it| vim25::is_a(it.name, declared.name));
        let Some(found) = found else {
            self.wrong.insert(format!("{place} is a {kind}"));
            return;
        };
        if found.kind == vim25::Kind::Enum {
            if !found.values().any(|it| it == value.text) {
                self.wrong.insert(format!("{place} is {}", value.text));
            }
            return;
        }
        let mut last = 0;
        let fields: Vec<_> = found.fields().collect();
        for child in &value.children {
            let Some(at) = fields.iter().position(|it| it.name == child.name) else {
                self.wrong.insert(format!("{kind} has no {}", child.name));
                continue;
            };
            if at < last {
                self.wrong
                    .insert(format!("{kind}.{} is not in the order of the schema", child.name));
            }
            last = at;
            self.value(child, &fields[at].declared, &format!("{kind}.{}", child.name));
        }
        for field in fields.iter().filter(|it| !it.declared.is_optional && !it.declared.is_list) {
            if value.child(field.name).is_none() {
                self.missing.insert(format!("{kind}.{}", field.name));
            }
        }
    }
}

#[test]
fn recorded_properties_are_those_of_the_schema() {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let mut problems = Problems::default();
    let mut n_objects = 0;
    for entry in fs::read_dir(snapshots).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains("all_of_") {
            let text = fs::read_to_string(path).unwrap();
            let answer = parse(&text[text.find("<?xml").unwrap()..]);
            let answer = &answer.child("Body").unwrap().children[0];
            for content in answer.child("returnval").unwrap().all("objects") {
                n_objects += 1;
                problems.object(content);
            }
        }
    }
    assert!(n_objects > 20, "{n_objects} objects");
    assert_eq!(problems.wrong, BTreeSet::new());
    let unset: BTreeSet<String> = UNSET.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(problems.missing, unset, "mandatory fields without a value");
}

#[test]
fn the_documentation_lists_the_mandatory_properties_without_a_value() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    if package.join("Cargo.toml.orig").exists() {
        return; // An unpacked package: it contains no documents.
    }
    let page = fs::read_to_string(package.join("../docs/ignored-fields.md")).unwrap();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("- `")).collect();
    assert_eq!(listed, UNSET.map(|it| format!("- `{it}`")));
}
