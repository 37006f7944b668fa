//! Property paths, such as `config.hardware.device[4000].deviceInfo.label`.

use super::Version;
use super::text::{derived, find};
use super::types::{Declared, Field, Kind};

/// Splits a path: `config.hardware.device[4000].key` → `config`, `hardware`, `device[4000]`, `key`.
///
/// A dot inside brackets belongs to the key.
pub(crate) fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_u32);
    for (at, c) in path.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => {
                parts.push(&path[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&path[start..]);
    parts
}

/// Splits a part into name and key: `device[4000]` → `device`, `4000`. The key is `None` if the
/// part has no bracket. Returns `None` if the key is empty or its bracket is not closed.
pub(crate) fn keyed(part: &str) -> Option<(&str, Option<&str>)> {
    match part.split_once('[') {
        None => Some((part, None)),
        Some((name, rest)) => {
            let key = rest.strip_suffix(']')?;
            (!key.is_empty()).then_some((name, Some(key)))
        }
    }
}

/// Returns the declared type of the property `path` of objects of the managed type `kind`; `None` if
/// they do not have the property in this release.
///
/// The first part is a property of the type or of a base type. A further part is a field of the data
/// object before it, or of a type derived from its declared type. A key selects an element of a list
/// of data objects with a field `key`: integers are bare, texts are quoted. A path may lead into a
/// list only through a key. Below a value of any type every path exists.
pub(crate) fn property(kind: &str, path: &str, release: Version) -> Option<Declared> {
    let parts = parts(path);
    let (first, rest) = parts.split_first()?;
    let of_object = |name: &str| find(kind).filter(|it| it.kind == Kind::Managed)?.field(name);
    let mut at = part(first, release, of_object)?;
    for next in rest {
        let Declared { name, is_reference, is_list, .. } = at.declared;
        if name == "anyType" && !is_list {
            break;
        }
        if is_list || is_reference || at.declared.is_simple() {
            return None;
        }
        at = part(next, release, |field| data_field(name, field, release))?;
    }
    Some(at.declared)
}

/// Returns the field that a part of a path names: with a key the element of the list. `None` if the
/// field does not exist in the release, or the key does not fit.
fn part(text: &str, release: Version, find: impl Fn(&str) -> Option<Field>) -> Option<Field> {
    let (name, key) = keyed(text)?;
    let mut field = find(name).filter(|it| it.since <= release)?;
    if let Some(key) = key {
        let element = field.declared;
        let selects = element.is_list && !element.is_reference && !element.is_simple();
        let of_key = data_field(element.name, "key", release).filter(|_| selects)?;
        let is_quoted = key.len() > 1 && key.starts_with('"') && key.ends_with('"');
        let fits = match of_key.declared.name {
            "int" | "long" | "short" | "byte" => key.parse::<i64>().is_ok(),
            _ => is_quoted,
        };
        if !fits {
            return None;
        }
        field.declared.is_list = false;
    }
    Some(field)
}

/// Returns a field that a data object type, one of its base types or, if none of them has it, a
/// derived type has in the release.
fn data_field(kind: &str, name: &str, release: Version) -> Option<Field> {
    let own = find(kind)?.chain().filter_map(|it| it.own_field(name));
    let mut own = own.filter(|it| it.since <= release);
    own.next().or_else(|| derived_field(kind, name, release))
}

/// Returns a field that a type below `kind` declares, in the release.
fn derived_field(kind: &str, name: &str, release: Version) -> Option<Field> {
    derived(kind).iter().find_map(|it| {
        let own = it.own_field(name).filter(|field| field.since <= release);
        own.or_else(|| derived_field(it.name, name, release))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_against_the_declared_type() {
        for (kind, path, want) in [
            ("VirtualMachine", "summary.runtime.powerState", true),
            ("VirtualMachine", "summary", true),
            ("VirtualMachine", "config.hardware.device", true),
            ("VirtualMachine", "config.hardware.device[4000].deviceInfo.label", true),
            ("VirtualMachine", "config.hardware.device[4000].macAddress", true),
            ("VirtualMachine", "config.hardware.device[4000].nosuch", false),
            ("VirtualMachine", "config.hardware.device[x]", false),
            ("VirtualMachine", "config.hardware.device.key", false),
            ("VirtualMachine", r#"config.extraConfig["guestinfo.metadata"].value"#, true),
            ("VirtualMachine", "config.extraConfig[1]", false),
            ("VirtualMachine", "config.nosuch", false),
            ("VirtualMachine", "name.more", false),
            ("VirtualMachine", "name[0]", false),
            ("VirtualMachine", "network[0]", false),
            ("VirtualMachine", "runtime.host.name", false),
            ("VirtualMachine", "", false),
            ("VirtualMachine", "config.hardware.device[", false),
            ("VirtualMachine", "config.tdxEnabled", false),
            ("ManagedEntity", "parent", true),
            ("ManagedEntity", "config", false),
            ("ClusterComputeResource", "host", true),
            ("ClusterComputeResource", "configurationEx.drsConfig.enabled", true),
            ("SessionManager", "currentSession", true),
            ("PerformanceManager", "perfCounter", true),
            ("LicenseManager", "licenseAssignmentManager", true),
            ("Task", "info.error.fault", true),
            ("Task", "info.result.anything", true),
            ("VirtualMachineConfigInfo", "name", false),
            ("Toaster", "name", false),
        ] {
            let release = Version::parse("8.0.3.0");
            assert_eq!(property(kind, path, release).is_some(), want, "{kind} {path}");
        }
        let release = Version::parse("9.0.0.0");
        assert!(property("VirtualMachine", "config.tdxEnabled", release).is_some());
    }

    #[test]
    fn a_field_of_several_derived_types_exists_from_the_oldest_release_on() {
        let of = |kind: &str| find(kind).and_then(|it| it.own_field("source")).map(|it| it.since);
        let [newer, older] = ["AlarmAcknowledgedEvent", "AlarmActionTriggeredEvent"].map(of);
        assert!(older < newer && older.is_some());
        let release = Version::parse("2.0.0.0");
        assert_eq!(data_field("AlarmEvent", "source", release).map(|it| it.since), older);
        assert!(data_field("AlarmAcknowledgedEvent", "source", release).is_none());
    }

    #[test]
    fn a_dot_in_a_key_belongs_to_the_key() {
        assert_eq!(parts(r#"a["b.c"].d"#), [r#"a["b.c"]"#, "d"]);
    }
}
