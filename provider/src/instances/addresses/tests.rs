//! Tests of the address selection: tables of guests and rules with the expected list.

use super::*;

fn nic(device: i32, network: &str, addresses: &[&str]) -> Nic {
    Nic {
        network: Some(network.to_owned()).filter(|n| !n.is_empty()),
        addresses: addresses.iter().map(|a| (*a).to_owned()).collect(),
        device,
        ..Nic::default()
    }
}

fn guest(nics: Vec<Nic>) -> Guest {
    Guest { host_name: Some("n1".into()), nics, ..Guest::default() }
}

fn text(result: Result<Vec<Address>, AddressError>) -> String {
    match result {
        Ok(list) => list
            .iter()
            .map(|a| format!("{}={}", a.kind.as_str(), a.address))
            .collect::<Vec<_>>()
            .join(" "),
        Err(err) => format!("error: {err}"),
    }
}

fn nets(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|n| n.parse().unwrap()).collect()
}

#[test]
fn addresses_are_chosen_as_upstream_chooses_them() {
    let two = || {
        guest(vec![
            nic(4000, "lan", &["10.0.0.5", "fd00::5", "fe80::1"]),
            nic(4001, "wan", &["203.0.113.7"]),
            nic(-1, "", &["172.17.0.1"]),
        ])
    };
    let none = Selection::default();
    let v4 = [Family::V4];
    for (name, guest, selection, families, want) in [
        (
            "no rules: first of each",
            two(),
            none.clone(),
            &v4[..],
            "Hostname=n1 InternalIP=10.0.0.5 ExternalIP=10.0.0.5",
        ),
        (
            "by subnet",
            two(),
            Selection {
                internal_subnets: nets(&["10.0.0.0/8"]),
                external_subnets: nets(&["203.0.113.0/24"]),
                ..none.clone()
            },
            &v4[..],
            "Hostname=n1 InternalIP=10.0.0.5 ExternalIP=203.0.113.7",
        ),
        (
            "only one rule matches: only that one",
            two(),
            Selection {
                internal_subnets: nets(&["192.168.0.0/16"]),
                external_subnets: nets(&["203.0.113.0/24"]),
                ..none.clone()
            },
            &v4[..],
            "Hostname=n1 ExternalIP=203.0.113.7",
        ),
        (
            "subnets in configured order",
            two(),
            Selection { internal_subnets: nets(&["203.0.113.0/24", "10.0.0.0/8"]), ..none.clone() },
            &v4[..],
            "Hostname=n1 InternalIP=203.0.113.7",
        ),
        (
            "by network name, any case",
            two(),
            Selection {
                internal_network: Some("WAN".into()),
                external_network: Some("lan".into()),
                ..none.clone()
            },
            &v4[..],
            "Hostname=n1 InternalIP=203.0.113.7 ExternalIP=10.0.0.5",
        ),
        (
            "neither network there",
            two(),
            Selection {
                internal_network: Some("x".into()),
                external_network: Some("y".into()),
                ..none.clone()
            },
            &v4[..],
            "error: the machine has no network card in internal-vm-network-name or external-vm-network-name; \
             correct these names in the configuration, or connect the machine to one of these networks",
        ),
        (
            "one network missing is no error",
            two(),
            Selection { internal_network: Some("x".into()), ..none.clone() },
            &v4[..],
            "Hostname=n1 InternalIP=10.0.0.5 ExternalIP=10.0.0.5",
        ),
        (
            "excluded",
            two(),
            Selection { exclude_internal: nets(&["10.0.0.0/8"]), ..none.clone() },
            &v4[..],
            "Hostname=n1 InternalIP=203.0.113.7 ExternalIP=10.0.0.5",
        ),
        (
            "both families in order of priority",
            two(),
            none.clone(),
            &[Family::V6, Family::V4][..],
            "Hostname=n1 InternalIP=fd00::5 ExternalIP=fd00::5 InternalIP=10.0.0.5 ExternalIP=10.0.0.5",
        ),
        (
            "every family must have one",
            guest(vec![nic(4000, "", &["10.0.0.5"])]),
            none.clone(),
            &[Family::V4, Family::V6][..],
            "error: the guest reports no address of IP family V6 that the configuration does not exclude",
        ),
        (
            "only local ones",
            guest(vec![nic(
                4000,
                "",
                &["127.0.0.1", "169.254.3.4", "fe80::1", "ff02::1", "::", "nonsense"],
            )]),
            none.clone(),
            &v4[..],
            "error: the guest reports no usable address: loopback and link-local addresses and \
             those of guest-internal cards do not count",
        ),
        (
            "only guest-internal cards",
            guest(vec![nic(-1, "", &["10.0.0.5"])]),
            none.clone(),
            &v4[..],
            "error: the guest reports no usable address: loopback and link-local addresses and \
             those of guest-internal cards do not count",
        ),
        (
            "tools not up",
            guest(vec![]),
            none.clone(),
            &v4[..],
            "error: VMware Tools report no network cards; check that they run in the guest",
        ),
    ] {
        assert_eq!(text(select(&guest, &selection, families)), want, "{name}");
    }
    for early in ["", "localhost", "localhost.localdomain"] {
        let guest = Guest { host_name: Some(early.into()), ..two() };
        assert_eq!(select(&guest, &none, &v4), Err(AddressError::NoHostName), "{early:?}");
    }
    let nameless = Guest { host_name: None, ..two() };
    assert_eq!(select(&nameless, &none, &v4), Err(AddressError::NoHostName));
}

#[test]
fn the_order_of_cards_and_addresses_does_not_matter() {
    let mut guest =
        guest(vec![nic(4000, "lan", &["10.0.0.9", "10.0.0.5"]), nic(4001, "lan", &["10.0.0.1"])]);
    guest.primary = Some("10.0.0.9".into());
    let first = select(&guest, &Selection::default(), &[Family::V4]).unwrap();
    guest.nics.reverse();
    guest.nics[1].addresses.reverse();
    assert_eq!(select(&guest, &Selection::default(), &[Family::V4]).unwrap(), first);
    assert_eq!(first[1].address, "10.0.0.9");
}

#[test]
fn an_address_with_a_host_route_comes_after_the_others_of_its_card() {
    let mut card = nic(4000, "lan", &["10.0.0.5", "10.0.0.9"]);
    card.prefix_lengths = [("10.0.0.5".to_owned(), 32), ("10.0.0.9".to_owned(), 24)].into();
    let chosen = select(&guest(vec![card]), &Selection::default(), &[Family::V4]).unwrap();
    assert_eq!(chosen[1].address, "10.0.0.9");
}
