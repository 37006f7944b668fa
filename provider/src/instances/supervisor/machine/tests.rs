use serde_json::json;

use super::*;

/// Returns a machine object as the API returns it in this version. The versions differ only in
/// fields that the provider does not read.
fn object(version: &str) -> Value {
    let host = if version == "v1alpha2" { "host" } else { "nodeName" };
    let mut value = json!({
        "apiVersion": format!("vmoperator.vmware.com/{version}"), "kind": "VirtualMachine",
        "metadata": {
            "name": "tkc1-md-0-abcde", "namespace": "dev", "uid": "u1", "resourceVersion": "81234",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"capv.vmware.com/cluster.name": "tkc1", "topology.kubernetes.io/zone": "zone-a"},
            "annotations": {"vmoperator.vmware.com/conversion": "{}"},
        },
        "spec": {"className": "guaranteed-medium", "powerState": "PoweredOn"},
        "status": {
            "powerState": "PoweredOn", "uniqueID": "vm-1042", "zone": "zone-a",
            "biosUUID": "4215F0de-1b2c-4d3e-9f00-0a0b0c0d0e0f",
            "network": {
                "primaryIP4": "10.244.0.34", "primaryIP6": "2001:db8:10::34",
                "interfaces": [
                    {"name": "eth0", "deviceKey": 4000, "ip": {"macAddr": "04:50:56:00:10:22", "addresses": [
                        {"address": "10.244.0.34/28", "state": "preferred"},
                        {"address": "fe80::250:56ff:fe00:1022/64"},
                    ]}},
                    {"name": "eth1"},
                    {"name": "eth2", "ip": null},
                    {"name": "eth3", "ip": {"addresses": null}},
                    {"name": "eth4", "ip": {"addresses": [{"address": "10.1.0.1"}, {"address": "10.2.0.1/8/9"}]}},
                ],
            },
        },
    });
    value["status"][host] = "esx-7.example".into();
    value
}

#[test]
fn a_machine_reads_the_same_from_all_three_api_versions() {
    let want = MachineObject {
        name: "tkc1-md-0-abcde".into(),
        uid: "u1".to_owned(),
        resource_version: "81234".to_owned(),
        created: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        deleting: false,
        zone: Some("zone-a".to_owned()),
        bios_uuid: Some("4215F0de-1b2c-4d3e-9f00-0a0b0c0d0e0f".to_owned()),
        wanted_uuid: None,
        power: PowerState::On,
        primary4: Some("10.244.0.34".to_owned()),
        primary6: Some("2001:db8:10::34".to_owned()),
        interface_addresses: ["10.244.0.34", "fe80::250:56ff:fe00:1022", "10.1.0.1", "10.2.0.1"]
            .map(str::to_owned)
            .to_vec(),
        unreadable: BTreeSet::new(),
    };
    for version in ["v1alpha2", "v1alpha5", "v1alpha6"] {
        assert_eq!(MachineObject::from_json(&object(version)), Ok(want.clone()), "{version}");
    }
    let mut newer = object("v1alpha6");
    newer["spec"]["biosUUID"] = "abc".into();
    assert_eq!(MachineObject::from_json(&newer).unwrap().wanted_uuid.as_deref(), Some("abc"));
}

#[test]
fn missing_fields_of_a_machine_are_read_as_empty() {
    for (name, value) in [
        ("nothing but a name", json!({"metadata": {"name": "n"}})),
        (
            "nulls",
            json!({"metadata": {"name": "n", "labels": null, "deletionTimestamp": null},
                         "spec": null, "status": null}),
        ),
        ("no network", json!({"metadata": {"name": "n"}, "spec": {}, "status": {"network": null}})),
        (
            "no interfaces",
            json!({"metadata": {"name": "n"},
                                 "status": {"biosUUID": null, "network": {"interfaces": null}}}),
        ),
    ] {
        let machine = MachineObject::from_json(&value).unwrap();
        let want = MachineObject { name: "n".into(), ..MachineObject::default() };
        assert_eq!(machine, want, "{name}");
        assert_eq!(machine.uuid_key(), None, "{name}");
    }
    for value in [json!({}), json!(null), json!([1]), json!({"metadata": {"name": 7}})] {
        assert_eq!(MachineObject::from_json(&value), Err(MissingName), "{value}");
    }
}

#[test]
fn a_machine_without_a_network_has_no_addresses() {
    for network in [json!(null), json!({}), json!({"interfaces": []})] {
        let mut value = object("v1alpha2");
        value["status"]["network"] = network;
        let machine = MachineObject::from_json(&value).unwrap();
        let addresses = (machine.primary4, machine.primary6, machine.interface_addresses);
        assert_eq!(addresses, (None, None, Vec::new()));
        assert!(machine.unreadable.is_empty());
    }
}

/// Returns the addresses that the provider reads from this list of interfaces.
fn interfaces(list: Value) -> Vec<String> {
    let value = json!({"metadata": {"name": "n"}, "status": {"network": {"interfaces": list}}});
    let machine = MachineObject::from_json(&value).unwrap();
    assert!(machine.unreadable.is_empty());
    machine.interface_addresses
}

#[test]
fn an_interface_without_addresses_is_skipped() {
    let list = json!([{"name": "eth0"}, {"ip": null}, {"ip": {}}, {"ip": {"addresses": []}},
        {"ip": {"addresses": [{"address": "10.0.0.1"}]}}]);
    assert_eq!(interfaces(list), ["10.0.0.1"]);
}

#[test]
fn the_length_of_a_prefix_is_left_out() {
    let addresses =
        json!([{"address": "10.0.0.1/24"}, {"address": "2001:db8::1/64"}, {"address": "10.0.0.2"}]);
    assert_eq!(
        interfaces(json!([{"ip": {"addresses": addresses}}])),
        ["10.0.0.1", "2001:db8::1", "10.0.0.2"]
    );
}

#[test]
fn an_unreadable_field_makes_no_other_field_unreadable() {
    for (pointer, odd, field) in [
        ("/status/biosUUID", json!(7), Field::Uuid),
        ("/status/powerState", json!(["PoweredOn"]), Field::Power),
        ("/metadata/labels", json!("none"), Field::Labels),
        ("/metadata/labels/topology.kubernetes.io~1zone", json!(3), Field::Labels),
        ("/status/network", json!("none"), Field::Network),
        ("/status/network/primaryIP4", json!({}), Field::Network),
        ("/status/network/interfaces", json!({}), Field::Network),
        ("/status/network/interfaces/0", json!(5), Field::Network),
        ("/status/network/interfaces/0/ip", json!("10.0.0.1"), Field::Network),
        ("/status/network/interfaces/0/ip/addresses", json!("10.0.0.1"), Field::Network),
        ("/status/network/interfaces/0/ip/addresses/0", json!("10.0.0.1"), Field::Network),
        ("/status/network/interfaces/0/ip/addresses/0/address", json!(10), Field::Network),
    ] {
        let sound = MachineObject::from_json(&object("v1alpha5")).unwrap();
        let mut value = object("v1alpha5");
        *value.pointer_mut(pointer).unwrap() = odd.clone();
        let machine = MachineObject::from_json(&value).unwrap();
        let want = BTreeSet::from([field]);
        assert_eq!(machine.unreadable, want, "{pointer}: {odd}");
        // With the earlier values the machine is complete again, and the part still counts as
        // unreadable.
        let whole = machine.clone().with_unreadable_from(&sound);
        assert_eq!(
            MachineObject { unreadable: BTreeSet::new(), ..whole.clone() },
            sound,
            "{pointer}"
        );
        assert_eq!(whole.unreadable, want);
        // The values of another object with the same name are not used.
        let other = MachineObject { uid: "u2".to_owned(), ..sound };
        assert_eq!(machine.clone().with_unreadable_from(&other), machine, "{pointer}");
    }
    // If `status` is not an object, all its parts are unreadable.
    let value = json!({"metadata": {"name": "n"}, "status": "gone"});
    let odd = MachineObject::from_json(&value).unwrap().unreadable;
    assert_eq!(odd, BTreeSet::from([Field::Uuid, Field::Power, Field::Network]));
}

#[test]
fn uuids_are_compared_without_case_and_blanks() {
    let machine =
        MachineObject { bios_uuid: Some(" 4215F0DE-1b2c ".to_owned()), ..MachineObject::default() };
    assert_eq!(machine.uuid_key().as_ref().map(UuidKey::as_str), Some("4215f0de-1b2c"));
    assert_eq!(MachineObject::default().uuid_key(), None);
    let dashed = "4215f0de-aabb-ccdd-eeff-001122334455";
    let key = |text| UuidKey::of(text).unwrap();
    assert_eq!(key("4215F0DEAABBCCDDEEFF001122334455"), key(dashed));
    assert_eq!(key(dashed).as_str(), dashed);
    let orders: Vec<UuidKey> = key(dashed).byte_orders().collect();
    assert_eq!(orders, [key(dashed), key("def01542-bbaa-ddcc-eeff-001122334455")]);
    assert_eq!(key("e0001").byte_orders().collect::<Vec<_>>(), [key("e0001")]);
}
