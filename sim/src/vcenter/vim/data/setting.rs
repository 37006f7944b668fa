//! Settings that the world keeps, as values of the vSphere API.

use sim_world::vcenter::{MoRef, Setting, Structure};

use super::value::{Field, Object, Value};
use crate::call::vim25::{self, Declared, Kind};

/// Returns a setting as a value of its declared type; `None` if its text is not one.
pub(crate) fn value(setting: &Setting, declared: &Declared) -> Option<Value> {
    match setting {
        Setting::Text(text) => simple(text, declared),
        Setting::Object(structure) => object(structure).map(Value::Object),
        Setting::List(items) => {
            let element = Declared { is_list: false, ..*declared };
            let items = items.iter().map(|item| value(item, &element));
            let name = if declared.is_reference { "ManagedObjectReference" } else { declared.name };
            Some(Value::List(name, items.collect::<Option<Vec<_>>>()?))
        }
    }
}

/// Returns a data object with its fields in the order of the schema; `None` if vim25 does not have
/// the type.
pub(crate) fn object(structure: &Structure) -> Option<Object> {
    let kind = vim25::find(&structure.kind)?;
    let fields = kind.fields().filter_map(|field| {
        let value = value(structure.fields.get(field.name)?, &field.declared)?;
        let typed = matches!(value, Value::Object(_)) && vim25::has_derived(field.declared.name);
        Some(Field { name: field.name, value, typed })
    });
    Some(Object { kind: kind.name, fields: fields.collect() })
}

/// Returns `base` with the fields of `newer`, in the order of the schema. Fields of objects are put
/// together in the same way.
pub(crate) fn overlay(base: Value, newer: Value) -> Value {
    let (Value::Object(base), Value::Object(newer)) = (base, &newer) else { return newer };
    let Some(kind) = vim25::find(newer.kind) else { return Value::Object(base) };
    let take = |object: &Object, name: &str| {
        object.fields.iter().find(|field| field.name == name).cloned()
    };
    let fields = kind.fields().filter_map(|field| {
        match (take(&base, field.name), take(newer, field.name)) {
            (Some(old), Some(new)) => Some(Field { value: overlay(old.value, new.value), ..new }),
            (old, new) => new.or(old),
        }
    });
    Value::Object(Object { kind: kind.name, fields: fields.collect() })
}

fn simple(text: &str, declared: &Declared) -> Option<Value> {
    if declared.is_reference {
        return MoRef::parse(text).map(Value::from);
    }
    Some(match declared.name {
        "boolean" => Value::Bool(text == "true"),
        "byte" => Value::Byte(text.parse().ok()?),
        "short" => Value::Short(text.parse().ok()?),
        "int" => Value::Int(text.parse().ok()?),
        "long" => Value::Long(text.parse().ok()?),
        "float" => Value::Float(text.parse().ok()?),
        "dateTime" => Value::Time(text.parse().ok()?),
        name => match vim25::find(name).filter(|it| it.kind == Kind::Enum) {
            Some(found) => Value::Enum(found.name, found.values().find(|it| *it == text)?),
            None => Value::text(text),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Setting {
        Setting::Text(text.to_owned())
    }

    #[test]
    fn a_setting_has_the_type_that_the_schema_declares() {
        let shares = Structure {
            kind: "SharesInfo".to_owned(),
            fields: [("shares", "4000"), ("level", "high")]
                .map(|(name, value)| (name.to_owned(), text(value)))
                .into(),
        };
        let fields = [
            ("shares".to_owned(), Setting::Object(shares)),
            ("limit".to_owned(), text("-1")),
            ("expandableReservation".to_owned(), text("true")),
        ];
        let kind = "ResourceAllocationInfo".to_owned();
        let got = object(&Structure { kind, fields: fields.into() }).unwrap();
        let shares = Object::new("SharesInfo")
            .with("shares", 4000)
            .with("level", Value::Enum("SharesLevel", "high"));
        let want = Object::new("ResourceAllocationInfo")
            .with("expandableReservation", true)
            .with("limit", -1_i64)
            .with("shares", shares);
        assert_eq!(got, want);
    }

    #[test]
    fn newer_fields_are_laid_over_older_ones_in_the_order_of_the_schema() {
        let old = Object::new("ToolsConfigInfo").with("toolsVersion", 1).with("afterResume", true);
        let new =
            Object::new("ToolsConfigInfo").with("afterPowerOn", false).with("afterResume", false);
        let want = Object::new("ToolsConfigInfo")
            .with("toolsVersion", 1)
            .with("afterPowerOn", false)
            .with("afterResume", false);
        assert_eq!(overlay(old.into(), new.into()), Value::from(want));
    }
}
