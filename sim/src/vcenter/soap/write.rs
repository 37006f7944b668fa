//! Writer of SOAP answers: the envelope, values with their `xsi:type`, and faults.
//!
//! The envelope declares exactly the prefixes `soapenv`, `xsd` and `xsi`, because some clients look
//! for the literal text `xsi:type`.

use std::fmt::Write;

use jiff::Timestamp;

use crate::vcenter::vim::{Field, Object, Reference, Value, VimFault};

const HEAD: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    "\n",
    r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" "#,
    r#"xmlns:xsd="http://www.w3.org/2001/XMLSchema" "#,
    r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>"#,
);
const TAIL: &str = "</soapenv:Body></soapenv:Envelope>";

/// Returns the answer of `operation`. A list becomes repeated elements, and `None` becomes no
/// element.
pub(crate) fn response(operation: &str, result: Option<&Value>) -> String {
    let mut out = String::with_capacity(512);
    out.push_str(HEAD);
    let _ = write!(out, r#"<{operation}Response xmlns="urn:vim25">"#);
    if let Some(result) = result {
        element(&mut out, "returnval", result, Slot::Declared);
    }
    let _ = write!(out, "</{operation}Response>");
    out.push_str(TAIL);
    out
}

/// Returns the answer with a fault. The caller must send it with status 500.
pub(crate) fn fault(fault: &VimFault) -> String {
    let mut out = String::with_capacity(512);
    let class = fault.class();
    out.push_str(HEAD);
    out.push_str("<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>");
    escape(&mut out, &fault.message);
    out.push_str("</faultstring><detail>");
    let _ = write!(out, r#"<{class}Fault xmlns="urn:vim25" xsi:type="{class}">"#);
    fields(&mut out, &fault.object.fields);
    let _ = write!(out, "</{class}Fault></detail></soapenv:Fault>");
    out.push_str(TAIL);
    out
}

/// Relation of a value's type to the type that the schema declares for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The declared type is the type of the value, so the element has no `xsi:type`.
    Declared,
    /// The declared type is anyType or a base class, so the element needs an `xsi:type`.
    Wider,
}

fn fields(out: &mut String, fields: &[Field]) {
    for field in fields {
        let slot = if field.typed { Slot::Wider } else { Slot::Declared };
        element(out, field.name, &field.value, slot);
    }
}

fn element(out: &mut String, name: &str, value: &Value, slot: Slot) {
    match value {
        Value::Any(value) => element(out, name, value, Slot::Wider),
        Value::List(item, items) if slot == Slot::Declared => {
            for value in items {
                element(out, name, value, item_slot(item, value));
            }
        }
        Value::List(item, items) => {
            let _ = write!(out, r#"<{name} xsi:type="ArrayOf{}">"#, capitalized(item));
            for value in items {
                element(out, item, value, item_slot(item, value));
            }
            let _ = write!(out, "</{name}>");
        }
        Value::Ref(Reference { kind, id }) => {
            let xsi =
                if slot == Slot::Wider { r#" xsi:type="ManagedObjectReference""# } else { "" };
            let _ = write!(out, r#"<{name} type="{kind}"{xsi}>"#);
            escape(out, id);
            let _ = write!(out, "</{name}>");
        }
        _ => {
            let _ = write!(out, "<{name}");
            if slot == Slot::Wider {
                let _ = write!(out, r#" xsi:type="{}""#, xsi_type(value));
            }
            out.push('>');
            content(out, value);
            let _ = write!(out, "</{name}>");
        }
    }
}

/// Returns the slot of a list element: an object of a derived class needs an `xsi:type`.
fn item_slot(item: &str, value: &Value) -> Slot {
    match value {
        Value::Object(Object { kind, .. }) if *kind != item => Slot::Wider,
        _ => Slot::Declared,
    }
}

fn content(out: &mut String, value: &Value) {
    match value {
        Value::Bool(it) => out.push_str(if *it { "true" } else { "false" }),
        Value::Byte(it) => drop(write!(out, "{it}")),
        Value::Short(it) => drop(write!(out, "{it}")),
        Value::Int(it) => drop(write!(out, "{it}")),
        Value::Long(it) => drop(write!(out, "{it}")),
        Value::Float(it) => drop(write!(out, "{it}")),
        Value::Text(it) => escape(out, it),
        Value::Time(it) => time(out, *it),
        Value::Enum(_, it) => out.push_str(it),
        Value::Object(it) => fields(out, &it.fields),
        // `element` writes these.
        Value::Ref(_) | Value::List(..) | Value::Any(_) => {}
    }
}

fn xsi_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "xsd:boolean",
        Value::Byte(_) => "xsd:byte",
        Value::Short(_) => "xsd:short",
        Value::Int(_) => "xsd:int",
        Value::Long(_) => "xsd:long",
        Value::Float(_) => "xsd:float",
        Value::Text(_) => "xsd:string",
        Value::Time(_) => "xsd:dateTime",
        Value::Enum(kind, _) => kind,
        Value::Object(it) => it.kind,
        Value::Ref(_) => "ManagedObjectReference",
        Value::List(..) | Value::Any(_) => "xsd:anyType",
    }
}

/// Returns the name with a capital first letter: `string` → `String`, as in `ArrayOfString`.
fn capitalized(item: &str) -> String {
    let mut chars = item.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Writes a time in RFC 3339, in UTC with six digits of fraction.
fn time(out: &mut String, at: Timestamp) {
    let _ = write!(out, "{at:.6}");
}

/// Writes text with escapes for the characters that XML reserves. Replaces characters that XML 1.0
/// cannot represent by U+FFFD.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#xD;"),
            '\t' | '\n' => out.push(c),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: Value) -> String {
        let text =
            response("Fetch", Some(&Value::Object(Object::new("Slot").with_typed("val", value))));
        text[HEAD.len()..].replace(TAIL, "")
    }

    #[test]
    fn a_value_declared_as_any_type_has_an_xsi_type() {
        for (name, value, want) in [
            ("text", Value::text("a<b&c"), r#"<val xsi:type="xsd:string">a&lt;b&amp;c</val>"#),
            ("int", Value::Int(-1), r#"<val xsi:type="xsd:int">-1</val>"#),
            ("flag", Value::Bool(true), r#"<val xsi:type="xsd:boolean">true</val>"#),
            (
                "enumeration",
                Value::Enum("VirtualMachinePowerState", "poweredOn"),
                r#"<val xsi:type="VirtualMachinePowerState">poweredOn</val>"#,
            ),
            (
                "reference",
                Value::Ref(Reference::new("VirtualMachine", "vm-17")),
                r#"<val type="VirtualMachine" xsi:type="ManagedObjectReference">vm-17</val>"#,
            ),
            (
                "texts",
                Value::texts(["a", "b"]),
                r#"<val xsi:type="ArrayOfString"><string>a</string><string>b</string></val>"#,
            ),
            (
                "no references",
                Value::refs(Vec::<Reference>::new()),
                r#"<val xsi:type="ArrayOfManagedObjectReference"></val>"#,
            ),
            (
                "derived elements",
                Value::List(
                    "VirtualDevice",
                    vec![Value::Object(Object::new("VirtualVmxnet3").with("key", 4000))],
                ),
                concat!(
                    r#"<val xsi:type="ArrayOfVirtualDevice"><VirtualDevice xsi:type="VirtualVmxnet3">"#,
                    "<key>4000</key></VirtualDevice></val>",
                ),
            ),
        ] {
            let got = body(value);
            assert!(got.contains(want), "{name}: {got}");
        }
    }

    #[test]
    fn a_time_is_written_with_six_digits_of_fraction_and_z() {
        let mut out = String::new();
        time(&mut out, "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(out, "2026-01-01T00:00:00.000000Z");
    }
}
