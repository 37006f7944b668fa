use super::*;

fn machine(primary4: &str, primary6: &str, rest: &[&str]) -> MachineObject {
    MachineObject {
        name: "n".to_owned(),
        primary4: primary4.to_owned(),
        primary6: primary6.to_owned(),
        interface_addresses: rest.iter().map(|it| (*it).to_owned()).collect(),
        ..MachineObject::default()
    }
}

/// The list as text: addresses, and `-` for the empty host name.
fn listed(machine: &MachineObject, policy: AddressPolicy) -> Vec<String> {
    let text = |address: &Address| match (address.kind, address.address.as_str()) {
        (AddressKind::InternalIp, text) => text.to_owned(),
        (AddressKind::Hostname, "") => "-".to_owned(),
        other => panic!("{other:?}"),
    };
    node_addresses(machine, policy).iter().map(text).collect()
}

fn of(family: ClusterFamily) -> AddressPolicy {
    AddressPolicy { family, ..AddressPolicy::default() }
}

#[test]
fn addresses_are_chosen_as_upstream_chooses_them() {
    use ClusterFamily::{V4, V4V6, V6, V6V4};
    let (p4, p6) = ("10.244.0.34", "2001:db8::34");
    for (name, machine, family, want) in [
        ("no address", machine("", "", &[]), V4, vec![]),
        ("IPv4", machine(p4, "", &[]), V4, vec![p4, "-"]),
        ("IPv6", machine("", p6, &[]), V6, vec![p6, "-"]),
        ("both, ipv4", machine(p4, p6, &[]), V4, vec![p4, "-"]),
        ("both, ipv6", machine(p4, p6, &[]), V6, vec![p6, "-"]),
        ("both, ipv4ipv6", machine(p4, p6, &[]), V4V6, vec![p4, p6, "-"]),
        ("both, ipv6ipv4", machine(p4, p6, &[]), V6V4, vec![p6, p4, "-"]),
        (
            "the rest in the order of the interfaces",
            machine(p4, p6, &["2001:db8::9", "10.0.0.9", "10.0.0.8"]),
            V6V4,
            vec![p6, p4, "2001:db8::9", "10.0.0.9", "10.0.0.8", "-"],
        ),
        (
            "without primaries",
            machine("", "", &["10.0.0.9", "2001:db8::9"]),
            V4V6,
            vec!["10.0.0.9", "2001:db8::9", "-"],
        ),
        ("primaries again", machine(p4, p6, &[p4, p6]), V4V6, vec![p4, p6, "-"]),
        (
            "other spellings of the same",
            machine("", p6, &["2001:DB8:0::34", "2001:db8:0:0::5", "2001:db8::5"]),
            V6,
            vec![p6, "2001:db8:0:0::5", "-"],
        ),
        (
            "IPv4 in IPv6 is IPv4",
            machine(p4, "", &["::ffff:10.244.0.34", "::ffff:10.0.0.1"]),
            V4,
            vec![p4, "::ffff:10.0.0.1", "-"],
        ),
        ("and not IPv6", machine("", p6, &["::ffff:10.0.0.1"]), V6, vec![p6, "-"]),
        (
            "link-local",
            machine(
                p4,
                p6,
                &["169.254.1.1", "fe80::1", "FEBF::1", "::ffff:169.254.0.1", "fec0::1"],
            ),
            V4V6,
            vec![p4, p6, "fec0::1", "-"],
        ),
        (
            "primaries are taken as they are",
            machine("169.254.0.7", "not an address", &["169.254.0.7"]),
            V4V6,
            vec!["169.254.0.7", "not an address", "-"],
        ),
        (
            "a primary of the other family is not looked at",
            machine("2001:db8::1", "", &["2001:db8::1"]),
            V4,
            vec!["2001:db8::1", "-"],
        ),
        (
            "not addresses",
            machine(p4, "", &["", "host", "10.0.0", "010.0.0.1", "fe80::1%eth0", " 10.0.0.2"]),
            V4,
            vec![p4, "-"],
        ),
        (
            "loopback and the like stay",
            machine(p4, "", &["127.0.0.1", "224.0.0.1", "0.0.0.0"]),
            V4,
            vec![p4, "127.0.0.1", "224.0.0.1", "0.0.0.0", "-"],
        ),
    ] {
        assert_eq!(listed(&machine, of(family)), want, "{name}");
    }
}

#[test]
fn one_family_suppresses_the_other() {
    for (family, want) in [
        (ClusterFamily::V4, vec!["10.0.0.1", "10.0.0.2", "-"]),
        (ClusterFamily::V6, vec!["2001:db8::1", "2001:db8::2", "-"]),
    ] {
        let machine = machine("10.0.0.1", "2001:db8::1", &["2001:db8::2", "10.0.0.2"]);
        assert_eq!(listed(&machine, of(family)), want, "{family}");
    }
}

#[test]
fn a_node_without_a_wanted_address_keeps_what_it_has() {
    for (name, machine) in [
        ("the other family", machine("", "2001:db8::1", &[])),
        ("the other family on an interface", machine("", "", &["2001:db8::1"])),
        ("link-local alone", machine("", "", &["169.254.0.1"])),
        ("nothing readable", machine("", "", &["host"])),
    ] {
        let policy = of(ClusterFamily::V4);
        assert_eq!(listed(&machine, policy), Vec::<String>::new(), "{name}");
        let upstream = AddressPolicy { none_wanted: NoneWanted::HostnameEntry, ..policy };
        assert_eq!(listed(&machine, upstream), ["-"], "{name}");
        let both = AddressPolicy { hostname: HostnameEntry::Omitted, ..upstream };
        assert_eq!(listed(&machine, both), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_empty_host_name_can_be_left_out() {
    let policy = AddressPolicy { hostname: HostnameEntry::Omitted, ..AddressPolicy::default() };
    assert_eq!(listed(&machine("10.0.0.1", "", &[]), policy), ["10.0.0.1"]);
    assert_eq!(listed(&machine("", "", &[]), policy), Vec::<String>::new());
}
