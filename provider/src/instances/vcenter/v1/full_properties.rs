//! Converts the whole properties `config`, `summary` and `guest` of a machine. Upstream reads
//! these, although a few of their leaves would suffice.

use provider_vcenter::{ObjectContent, PropertyChange, xml::Element};

use crate::instances::vcenter::state::machine::{Machine, PATHS};

/// Properties that the first read of a found machine requests.
pub(super) const FOUND: &[&str] = &["config", "summary", "guest"];
/// Properties that the second read of a found machine requests: those of [`FOUND`] in upstream's
/// order.
pub(super) const DESCRIBED: &[&str] = &["guest", "summary", "config"];

/// Builds a machine from whole properties as if the provider had read their leaves.
pub(super) fn machine(object: &ObjectContent) -> Machine {
    let is_read = |path: &&&str| {
        let root = path.split(['.', '[']).next().unwrap_or_default();
        object.properties.contains_key(root)
    };
    let changes: Vec<PropertyChange> = PATHS
        .iter()
        .filter(is_read)
        .filter_map(|path| {
            let value = Some(leaf(object, path)?);
            Some(PropertyChange { name: (*path).to_owned(), value })
        })
        .collect();
    let mut machine = Machine::entering(&changes, &object.missing, None);
    let runtime = object.properties.get("summary").and_then(|it| it.child("runtime"));
    if let Some(power) = runtime.and_then(|it| it.child("powerState")) {
        let power =
            PropertyChange { name: "runtime.powerState".to_owned(), value: Some(power.clone()) };
        machine.apply(std::slice::from_ref(&power), &[]);
    }
    machine
}

/// Returns the value of the leaf at this path inside whole properties; `None` if it is not set.
fn leaf(object: &ObjectContent, path: &str) -> Option<Element> {
    match path {
        // As in upstream, the UUID comes from `summary`.
        "config.uuid" => element_at(object, "summary.config.uuid").cloned(),
        "guest.net" => {
            let guest = object.properties.get("guest")?;
            let children = guest.all("net").cloned().collect();
            Some(Element { children, ..Element::default() })
        }
        _ => match path.strip_prefix("config.extraConfig[\"").and_then(|it| it.strip_suffix("\"]"))
        {
            Some(key) => {
                let config = object.properties.get("config")?;
                let mut options = config.all("extraConfig");
                options.find(|option| option.text_of("key") == Some(key)).cloned()
            }
            None => element_at(object, path).cloned(),
        },
    }
}

/// Returns the element at a path of names separated by dots; `None` if the path does not exist.
fn element_at<'a>(object: &'a ObjectContent, path: &str) -> Option<&'a Element> {
    let mut names = path.split('.');
    let root = object.properties.get(names.next()?)?;
    names.try_fold(root, |element, name| element.child(name))
}

#[cfg(test)]
mod tests {
    use provider_vcenter::{MoRef, xml};

    use super::*;
    use crate::instances::vcenter::state::machine::Power;

    fn object(properties: &[(&str, &str)]) -> ObjectContent {
        let read = |(name, text): &(&str, &str)| ((*name).to_owned(), xml::parse(text).unwrap());
        ObjectContent {
            object: MoRef::new("VirtualMachine", "vm-1"),
            properties: properties.iter().map(read).collect(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_machine_is_read_from_whole_config_summary_and_guest_properties() {
        let config = "<val><uuid>42301ab2-c3d4-e5f6-0000-000000000009</uuid>\
            <extraConfig><key>other</key><value>no</value></extraConfig>\
            <extraConfig><key>guestinfo.metadata</key><value>data</value></extraConfig></val>";
        let summary = "<val><runtime><powerState>suspended</powerState></runtime><config>\
            <uuid>42301AB2-C3D4-E5F6-0000-000000000001</uuid><guestId>ubuntu64Guest</guestId>\
            <numCpu>2</numCpu><memorySizeMB>4096</memorySizeMB></config></val>";
        let guest = "<val><toolsRunningStatus>guestToolsRunning</toolsRunningStatus>\
            <hostName>n1</hostName><net><network>lan</network><ipAddress>10.0.0.5</ipAddress>\
            <macAddress>00:50</macAddress><deviceConfigId>4000</deviceConfigId></net></val>";
        let object = object(&[("config", config), ("summary", summary), ("guest", guest)]);
        let machine = machine(&object);
        assert!(machine.present && !machine.tools_stopped && machine.unread.is_empty());
        let uuid = machine.uuid.map(|uuid| uuid.to_string());
        assert_eq!(uuid.as_deref(), Some("42301ab2-c3d4-e5f6-0000-000000000001"));
        assert_eq!((machine.n_cpus, machine.memory_mib), (Some(2), Some(4096)));
        assert_eq!(machine.guest_id.as_deref(), Some("ubuntu64Guest"));
        assert_eq!(machine.power, Some(Power::Suspended));
        assert_eq!(machine.guest.host_name.as_deref(), Some("n1"));
        assert_eq!(machine.guest.nics.len(), 1);
        assert_eq!(machine.guest.nics[0].addresses, ["10.0.0.5"]);
        assert_eq!(machine.guest.cloud_init.as_deref(), Some("data"));
        assert_eq!(machine.guest.cloud_init_encoding, None);
    }

    #[test]
    fn an_unreadable_property_is_recorded_as_unread() {
        let mut object = object(&[("summary", "<val/>")]);
        let fault = provider_vcenter::Fault {
            kind: provider_vcenter::FaultKind::SystemError,
            message: String::new(),
        };
        object.missing = vec![("guest".to_owned(), fault)];
        let machine = machine(&object);
        assert_eq!(machine.unread_of(&["guest."]).map(|(path, _)| path), Some("guest.hostName"));
        assert_eq!((machine.uuid, machine.power), (None, None));
    }
}
