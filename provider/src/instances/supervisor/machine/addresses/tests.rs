use super::*;

fn machine(primary4: &str, primary6: &str, rest: &[&str]) -> MachineObject {
    MachineObject {
        name: "n".into(),
        primary4: Some(primary4.to_owned()).filter(|it| !it.is_empty()),
        primary6: Some(primary6.to_owned()).filter(|it| !it.is_empty()),
        interface_addresses: rest.iter().map(|it| (*it).to_owned()).collect(),
        ..MachineObject::default()
    }
}

/// Returns the published list as texts: addresses, and `-` for the empty host name.
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

const P4: &str = "10.244.0.34";
const P6: &str = "2001:db8::34";

#[test]
fn a_machine_without_addresses_reports_nothing() {
    for family in [ClusterFamily::V4, ClusterFamily::V6, ClusterFamily::V4V6, ClusterFamily::V6V4] {
        assert_eq!(listed(&machine("", "", &[]), of(family)), Vec::<String>::new(), "{family}");
    }
}

#[test]
fn an_ipv4_machine_reports_its_address() {
    assert_eq!(listed(&machine(P4, "", &[]), of(ClusterFamily::V4)), [P4, "-"]);
}

#[test]
fn an_ipv6_machine_reports_its_address() {
    assert_eq!(listed(&machine("", P6, &[]), of(ClusterFamily::V6)), [P6, "-"]);
}

#[test]
fn in_the_family_ipv4_only_ipv4_is_reported() {
    assert_eq!(listed(&machine(P4, P6, &[]), of(ClusterFamily::V4)), [P4, "-"]);
}

#[test]
fn in_the_family_ipv6_only_ipv6_is_reported() {
    assert_eq!(listed(&machine(P4, P6, &[]), of(ClusterFamily::V6)), [P6, "-"]);
}

#[test]
fn in_the_family_ipv4ipv6_ipv4_comes_first() {
    assert_eq!(listed(&machine(P4, P6, &[]), of(ClusterFamily::V4V6)), [P4, P6, "-"]);
}

#[test]
fn in_the_family_ipv6ipv4_ipv6_comes_first() {
    assert_eq!(listed(&machine(P4, P6, &[]), of(ClusterFamily::V6V4)), [P6, P4, "-"]);
}

#[test]
fn secondary_addresses_follow_in_the_order_of_the_interfaces() {
    let rest = machine(P4, P6, &["2001:db8::9", "10.0.0.9", "10.0.0.8"]);
    let want = [P6, P4, "2001:db8::9", "10.0.0.9", "10.0.0.8", "-"];
    assert_eq!(listed(&rest, of(ClusterFamily::V6V4)), want);
    let bare = machine("", "", &["10.0.0.9", "2001:db8::9"]);
    assert_eq!(listed(&bare, of(ClusterFamily::V4V6)), ["10.0.0.9", "2001:db8::9", "-"]);
}

#[test]
fn an_address_in_other_spellings_is_reported_once() {
    let again = machine(P4, P6, &[P4, P6]);
    assert_eq!(listed(&again, of(ClusterFamily::V4V6)), [P4, P6, "-"]);
    let spelt = machine("", P6, &["2001:DB8:0::34", "2001:db8:0:0::5", "2001:db8::5"]);
    assert_eq!(listed(&spelt, of(ClusterFamily::V6)), [P6, "2001:db8:0:0::5", "-"]);
}

#[test]
fn ipv4_written_as_ipv6_is_ipv4() {
    let mapped = machine(P4, "", &["::ffff:10.244.0.34", "::ffff:10.0.0.1"]);
    assert_eq!(listed(&mapped, of(ClusterFamily::V4)), [P4, "::ffff:10.0.0.1", "-"]);
    let mapped = machine("", P6, &["::ffff:10.0.0.1"]);
    assert_eq!(listed(&mapped, of(ClusterFamily::V6)), [P6, "-"]);
}

#[test]
fn link_local_ipv4_is_left_out() {
    let local = machine(P4, "", &["169.254.1.1", "::ffff:169.254.0.1"]);
    assert_eq!(listed(&local, of(ClusterFamily::V4)), [P4, "-"]);
}

#[test]
fn link_local_ipv6_is_left_out() {
    let local = machine("", P6, &["fe80::1", "FEBF::1", "fec0::1"]);
    assert_eq!(listed(&local, of(ClusterFamily::V6)), [P6, "fec0::1", "-"]);
}

#[test]
fn link_local_is_what_go_calls_link_local_unicast() {
    for (text, want) in [
        ("169.254.0.0", true),
        ("169.254.255.255", true),
        ("169.253.255.255", false),
        ("169.255.0.0", false),
        ("fe80::", true),
        ("febf:ffff::1", true),
        ("fe7f::1", false),
        ("fec0::", false),
        ("ff02::1", false),
        ("224.0.0.1", false),
        ("::1", false),
    ] {
        assert_eq!(is_link_local(text.parse().unwrap()), want, "{text}");
    }
}

#[test]
fn primary_addresses_are_taken_as_they_are() {
    let odd = machine("169.254.0.7", "not an address", &["169.254.0.7"]);
    assert_eq!(listed(&odd, of(ClusterFamily::V4V6)), ["169.254.0.7", "not an address", "-"]);
    // The family of a primary address is not checked.
    let other = machine("2001:db8::1", "", &["2001:db8::1"]);
    assert_eq!(listed(&other, of(ClusterFamily::V4)), ["2001:db8::1", "-"]);
}

#[test]
fn invalid_addresses_are_left_out_and_loopback_addresses_are_reported() {
    let odd = machine(P4, "", &["", "host", "10.0.0", "010.0.0.1", "fe80::1%eth0", " 10.0.0.2"]);
    assert_eq!(listed(&odd, of(ClusterFamily::V4)), [P4, "-"]);
    let odd = machine(P4, "", &["127.0.0.1", "224.0.0.1", "0.0.0.0"]);
    let want = [P4, "127.0.0.1", "224.0.0.1", "0.0.0.0", "-"];
    assert_eq!(listed(&odd, of(ClusterFamily::V4)), want);
}

#[test]
fn a_single_family_cluster_leaves_out_addresses_of_the_other_family() {
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
