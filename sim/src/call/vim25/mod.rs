//! Types of vim25: properties, methods, parameters and declared faults, each with its first release.
//!
//! The facts are in `vim25.txt`, which `generate.py` makes from the type tables of pyVmomi. The first
//! lookup finds the types in this text (about 1 ms); a lookup of a member reads the lines of one
//! type.

mod path;
mod text;
mod types;
mod version;

pub(crate) use path::{keyed, parts, property};
pub(crate) use text::{all, find, releases};
pub(crate) use types::{Declared, Field, Kind, Method, Type};
pub(crate) use version::Version;

/// True if the type `kind` is `base` or has it among its base types; false for an unknown type.
pub(crate) fn is_a(kind: &str, base: &str) -> bool {
    kind == base || find(kind).is_some_and(|it| it.chain().any(|up| up.name == base))
}

/// Returns the managed object type of this name; `None` for any other name.
pub(crate) fn managed(name: &str) -> Option<&'static Type> {
    find(name).filter(|it| it.kind == Kind::Managed)
}

/// True if another type is derived from the type, so that a value of it may have either type.
pub(crate) fn has_derived(name: &str) -> bool {
    !text::derived(name).is_empty()
}

/// Returns the name of a managed object type, and `ManagedObject` for any other name.
pub(crate) fn reference_type(name: &str) -> &'static str {
    managed(name).map_or("ManagedObject", |it| it.name)
}

/// True if some managed object type has a method of this name on the wire.
pub(crate) fn is_method(name: &str) -> bool {
    all().iter().any(|it| it.own_method(name).is_some())
}

/// True if a call of this operation may end with a fault of this class: one that a method of this
/// name declares, one derived from it, or a `RuntimeFault`, with which every method may end. Also
/// true for an operation that vim25 does not have.
pub(crate) fn may_throw(operation: &str, fault: &str) -> bool {
    let mut methods = all().iter().filter_map(|it| it.own_method(operation)).peekable();
    methods.peek().is_none()
        || is_a(fault, "RuntimeFault")
        || methods.any(|it| it.faults().any(|declared| is_a(fault, declared)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_name_and_has_a_known_base() {
        for it in all() {
            assert_eq!(find(it.name).map(|it| it.name), Some(it.name));
            if let Some(base) = it.base {
                assert!(find(base).is_some(), "{} is derived from {base}", it.name);
            }
        }
        assert!(find("Toaster").is_none() && find("").is_none());
    }

    #[test]
    fn every_member_has_a_known_type() {
        let known = |declared: &Declared| {
            let name = declared.name;
            assert!(declared.is_simple() || find(name).is_some(), "{name} is unknown");
            let is_managed = find(name).is_some_and(|it| it.kind == Kind::Managed);
            assert_eq!(is_managed, declared.is_reference, "{name}");
        };
        let mut n_fields = 0;
        let mut n_methods = 0;
        for it in all() {
            for field in it.own_fields() {
                n_fields += 1;
                known(&field.declared);
            }
            for method in it.own_methods() {
                n_methods += 1;
                assert!(it.own_method(method.name).is_some());
                method.parameters().for_each(|it| known(&it.declared));
                for fault in method.faults() {
                    assert!(is_a(fault, "MethodFault"), "{} throws {fault}", method.name);
                }
            }
        }
        assert!(n_fields > 7000 && n_methods > 900, "{n_fields} fields, {n_methods} methods");
    }

    #[test]
    fn an_operation_may_throw_declared_faults_derived_faults_and_runtime_faults() {
        for (operation, fault, want) in [
            ("Login", "InvalidLogin", true),
            ("Login", "PasswordExpired", true),
            ("Login", "InvalidPowerState", false),
            ("PowerOnVM_Task", "InvalidPowerState", true),
            ("ReconfigVM_Task", "ConcurrentAccess", true),
            ("ReconfigVM_Task", "MissingController", true),
            ("ReconfigVM_Task", "InvalidPowerState", true),
            ("CreateVM_Task", "DuplicateName", true),
            ("CreateVM_Task", "InvalidDatastorePath", true),
            ("CloneVM_Task", "InvalidDatastore", true),
            ("RetrievePropertiesEx", "InvalidProperty", true),
            ("RetrievePropertiesEx", "NotAuthenticated", true),
            ("RetrievePropertiesEx", "InvalidCollectorVersion", false),
            ("Fetch", "InvalidProperty", true),
        ] {
            assert_eq!(may_throw(operation, fault), want, "{operation} {fault}");
        }
    }

    #[test]
    fn members_are_those_of_the_published_schema() {
        let machine = managed("VirtualMachine").unwrap();
        let config = machine.field("config").unwrap();
        assert_eq!(config.declared.name, "VirtualMachineConfigInfo");
        assert!(config.declared.is_optional && !config.declared.is_list);
        assert!(!machine.field("runtime").unwrap().declared.is_optional, "it is mandatory");
        let parent = machine.field("parent").unwrap();
        assert!(parent.declared.is_reference, "inherited from ManagedEntity");
        let create = managed("Folder").unwrap().method("CreateVM_Task").unwrap();
        let parameters: Vec<_> =
            create.parameters().map(|it| (it.name, it.declared.is_optional)).collect();
        assert_eq!(parameters, [("config", false), ("pool", false), ("host", true)]);
        assert!(create.faults().any(|it| it == "DuplicateName"));
        assert_eq!(create.result(), "Task<&VirtualMachine>");
        let destroy = machine.method("Destroy_Task").unwrap();
        assert_eq!(destroy.parameters().count(), 0);
        assert!(machine.method("CreateVM_Task").is_none() && is_method("CreateVM_Task"));
        assert_eq!(find("InvalidPowerState").unwrap().kind, Kind::Fault);
        assert!(find("VirtualMachinePowerState").unwrap().values().any(|it| it == "suspended"));
        let password = managed("SessionManager").unwrap().method("Login").unwrap();
        assert!(password.parameters().any(|it| it.name == "password" && it.secret));
    }

    #[test]
    fn a_member_is_of_the_release_of_its_type_unless_it_is_newer() {
        let spec = find("VirtualMachineConfigSpec").unwrap();
        assert_eq!(spec.field("name").unwrap().since, Version::parse("2.0"));
        assert_eq!(spec.field("tdxEnabled").unwrap().since, Version::parse("9.0.0.0"));
    }
}
