//! Values for fields, made by the schema.

use super::super::fields::treatment;
use super::super::values::values;
use crate::call::vim25::{self, Declared, Field, Kind, Type};
use crate::vcenter::soap::parse;
use crate::vcenter::vim::data::Node;

/// Returns the element of a field with a value of its declared type. Adds the names of the fields in
/// it to `set`.
pub(super) fn field(owner: &str, field: &Field, set: &mut Vec<&'static str>) -> String {
    set.push(field.name);
    let declared = field.declared;
    let found = vim25::find(declared.name).filter(|_| !declared.is_reference);
    match found {
        Some(kind) if kind.kind != Kind::Enum => object(field.name, concrete(kind.name), set),
        _ => simple(owner, field.name, &declared),
    }
}

/// Returns an object with all fields that a machine keeps: those that have no treatment of their own,
/// except backings.
pub(super) fn object(name: &str, kind: &str, set: &mut Vec<&'static str>) -> String {
    let fields = vim25::find(kind).unwrap_or_else(|| panic!("{kind}")).chain();
    let mut chain: Vec<&Type> = fields.collect();
    chain.reverse();
    let mut body = String::new();
    for owner in chain {
        for it in owner.own_fields() {
            let is_out = treatment(owner.name, it.name).is_some();
            if !is_out && it.name != "backing" {
                body.push_str(&field(owner.name, &it, set));
            }
        }
    }
    format!("<{name} xsi:type=\"{kind}\">{body}</{name}>")
}

/// Returns an element that contains only the mandatory fields of its type, and `inner`.
pub(super) fn around(name: &str, kind: &str, inner: &str, except: &str) -> String {
    let mut body = String::new();
    let chain = vim25::find(kind).unwrap_or_else(|| panic!("{kind}")).chain();
    for owner in chain {
        for it in owner.own_fields() {
            if !it.declared.is_optional && it.name != except {
                body.push_str(&mandatory(owner.name, &it));
            }
        }
    }
    format!("<{name} xsi:type=\"{kind}\">{body}{inner}</{name}>")
}

/// Returns the smallest element of a field.
pub(super) fn mandatory(owner: &str, field: &Field) -> String {
    let declared = field.declared;
    match vim25::find(declared.name).filter(|_| !declared.is_reference) {
        Some(kind) if kind.kind != Kind::Enum => around(field.name, concrete(kind.name), "", ""),
        _ => simple(owner, field.name, &declared),
    }
}

/// Returns a type of which a client can send objects.
fn concrete(kind: &'static str) -> &'static str {
    match kind {
        "VirtualDevice" => "VirtualCdrom",
        "VirtualDeviceBackingInfo" => "VirtualCdromIsoBackingInfo",
        "VirtualDeviceBusSlotInfo" => "VirtualDevicePciBusSlotInfo",
        "VirtualMachineBootOptionsBootableDevice" => "VirtualMachineBootOptionsBootableDiskDevice",
        kind => kind,
    }
}

fn simple(owner: &str, name: &str, declared: &Declared) -> String {
    let listed = values(owner, name).and_then(|it| it.values().next());
    let text = match (name, declared.name) {
        _ if listed.is_some() => listed.unwrap_or_default(),
        ("controllerKey", _) => "200",
        ("unitNumber", _) => "1",
        ("capacityInBytes", _) => "1048576",
        ("capacityInKB", _) => "1024",
        ("macAddress", _) => "00:50:56:aa:bb:cc",
        ("version", _) => "vmx-20",
        ("uuid", _) => "42000000-0000-4000-8000-000000000001",
        ("fileName", _) => "[LocalDS_0] a/b.vmdk",
        ("deviceName", _) => "VM Network",
        ("template" | "powerOn", _) => "false",
        (_, "boolean") => "true",
        (_, "byte" | "short" | "int" | "long" | "float" | "double") => "3",
        (_, "dateTime") => "2026-01-01T00:00:00.000000Z",
        (_, "Datastore") => "datastore-1",
        (_, "Network") => return String::new(),
        (_, "Folder") => "group-v3",
        (_, "ResourcePool") => "resgroup-1",
        _ if declared.is_reference => "vm-1",
        (_, kind) => match vim25::find(kind).filter(|it| it.kind == Kind::Enum) {
            Some(found) => found.values().next().expect("an enumeration has values"),
            None => "text",
        },
    };
    match declared {
        Declared { is_reference: true, name: kind, .. } => {
            format!("<{name} type=\"{kind}\">{text}</{name}>")
        }
        _ => format!("<{name}>{text}</{name}>"),
    }
}

/// Parses the element that a test sends.
pub(super) fn sent(xml: &str) -> Node {
    let instance = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";
    let soap = "xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"";
    parse(&format!("<s:Envelope {soap} {instance}>{xml}</s:Envelope>")).children.remove(0)
}

/// Asserts that everything in the element that was sent is in the element that is shown.
pub(super) fn assert_shown(value: &str, shown: &Node, what: &str) {
    assert_same(&sent(value), shown, what);
}

fn assert_same(sent: &Node, shown: &Node, what: &str) {
    if sent.children.is_empty() {
        assert_eq!(sent.text, shown.text, "{what}");
    }
    // An array in a property has its elements below one element.
    let is_array = shown.xsi_type.as_deref().is_some_and(|it| it.starts_with("ArrayOf"));
    let shown = if is_array { &shown.children[0] } else { shown };
    for child in &sent.children {
        let same = shown.child(&child.name);
        let same = same.unwrap_or_else(|| panic!("{what}: {} is not in {shown:#?}", child.name));
        assert_same(child, same, &format!("{what}.{}", child.name));
    }
}

/// Asserts that the list of devices has the device that was sent, but with a key of its own.
pub(super) fn assert_device(device: &str, shown: &Node, kind: &str) {
    let mut sent = sent(device);
    sent.children.retain(|it| it.name != "key");
    let found = newest(shown, kind);
    assert_same(&sent, found, kind);
}

/// Returns the device of this type with the highest key.
pub(super) fn newest<'a>(shown: &'a Node, kind: &str) -> &'a Node {
    let of_kind = shown.children.iter().filter(|it| it.xsi_type.as_deref() == Some(kind));
    let key = |it: &&Node| it.text_of("key").and_then(|key| key.parse::<i32>().ok());
    of_kind.max_by_key(key).unwrap_or_else(|| panic!("no {kind} in {shown:#?}"))
}
