//! Builds the inventory of one vCenter from a topology.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ADMINISTRATOR, PROVIDER_USER, Topology};
use crate::act::booted_guest;
use crate::vcenter::identity::{bios_uuid, card, spare_address};
use crate::vcenter::{
    Change, Config, Connection, Data, Entity, FolderKind, Guest, HostConnection, Kind, Machine,
    MoRef, NextGuestReport, Password, Power, User, VCenter, VcEvent,
};
use crate::{Ids, Time};

/// Builder of one vCenter: adds the inventory objects that a topology describes.
pub(super) struct Builder<'a> {
    topology: &'a Topology,
    ids: Ids,
    index: u32,
    name: &'a str,
    vcenter: VCenter,
}

/// The root resource pool and the hosts of a cluster or of a standalone host.
struct Compute {
    pool: MoRef,
    hosts: Vec<MoRef>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(topology: &'a Topology, ids: Ids, index: u32, name: &'a str) -> Self {
        let vcenter = VCenter::new(ids.uuid("vcenter", name));
        Self { topology, ids, index, name, vcenter }
    }

    pub(super) fn build(mut self) -> VCenter {
        let root = self.add(
            Kind::Folder(FolderKind::Datacenters),
            "Datacenters",
            None,
            Data::Folder { children: Default::default() },
        );
        let datacenter = self.next(Kind::Datacenter);
        let folder = |n| datacenter.number + n;
        let machines = MoRef::new(Kind::Folder(FolderKind::Machines), folder(1));
        let hosts = MoRef::new(Kind::Folder(FolderKind::Hosts), folder(2));
        let datastores = MoRef::new(Kind::Folder(FolderKind::Datastores), folder(3));
        let networks = MoRef::new(Kind::Folder(FolderKind::Networks), folder(4));
        let data = Data::Datacenter { machines, hosts, datastores, networks };
        self.put(datacenter, "DC0", Some(root), data);
        for (id, name) in
            [(machines, "vm"), (hosts, "host"), (datastores, "datastore"), (networks, "network")]
        {
            let data = Data::Folder { children: Default::default() };
            self.put(id, name, Some(datacenter), data);
        }
        let datastore = self.add(
            Kind::Datastore,
            "LocalDS_0",
            Some(datastores),
            Data::Datastore { machines: Default::default(), hosts: Default::default() },
        );
        let network = self.add(
            Kind::Network,
            "VM Network",
            Some(networks),
            Data::Network { machines: Default::default(), hosts: Default::default() },
        );
        let mut places = Places { machines, hosts, datastore, network, clusters: Vec::new() };
        for zone in 0..self.topology.zones.max(1) {
            let name = format!("DC0_C{zone}");
            let compute = self.compute(Kind::Cluster, &name, self.topology.hosts, &places);
            places.clusters.push(compute);
        }
        if self.topology.standard_machines {
            self.standard_machines(&places);
        }
        for n in 1..=self.topology.machines {
            let name = self.topology.machine_name(self.index, n);
            let zone = (n as usize - 1) % places.clusters.len();
            let place = (n as usize - 1) / places.clusters.len();
            self.machine(&name, &places, &places.clusters[zone], place, self.planned(n));
        }
        self.accounts();
        self.vcenter
    }

    fn accounts(&mut self) {
        for name in [ADMINISTRATOR, PROVIDER_USER] {
            let password = self.ids.token("password", &format!("{}/{name}", self.name));
            let user = User {
                password: Password::new(password),
                denied: Vec::new(),
                denied_libraries: Default::default(),
                failures: 0,
                first_failure: None,
                locked_until: None,
            };
            self.vcenter.logins.users.insert(name.to_owned(), user);
        }
    }

    fn standard_machines(&mut self, places: &Places) {
        let standalone = self.compute(Kind::Standalone, "DC0_H0", 1, places);
        for n in 0..2 {
            let spare = spare_address(self.name, self.vcenter.last_number + 1);
            self.machine(&format!("DC0_H0_VM{n}"), places, &standalone, 0, vec![spare]);
        }
        for n in 0..2 {
            let spare = spare_address(self.name, self.vcenter.last_number + 1);
            self.machine(&format!("DC0_C0_RP0_VM{n}"), places, &places.clusters[0], n, vec![spare]);
        }
    }

    /// The addresses of machine `n` (from 1): an IPv4 address and, with [`Topology::dual_stack`],
    /// an IPv6 address. The IPv4 address is `10.a.b.c`, where `c` is 1 to 250, and `a` and `b`
    /// count the blocks of 250 machines. The first block of vCenter `i` has `a` = 32 × `i` modulo
    /// 256, so the ninth vCenter has the addresses of the first.
    fn planned(&self, n: u32) -> Vec<IpAddr> {
        let (block, low) = ((n - 1) / 250, (n - 1) % 250 + 1);
        let byte = |value: u32| u8::try_from(value % 256).unwrap_or(0);
        let second = byte(self.index * 32 + block / 256);
        let v4 = Ipv4Addr::new(10, second, byte(block), byte(low));
        let mut addresses = vec![IpAddr::V4(v4)];
        if self.topology.dual_stack {
            let (vc, n) = (u16::try_from(self.index).unwrap_or(0), n.to_be_bytes());
            let [a, b, c, d] = n;
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            addresses.push(IpAddr::V6(Ipv6Addr::new(0xfd00, vc, 0, 0, 0, 0, high, low)));
        }
        addresses
    }

    fn compute(&mut self, kind: Kind, name: &str, n_hosts: u32, places: &Places) -> Compute {
        let id = self.next(kind);
        let pool = MoRef::new(Kind::Pool, id.number + 1);
        let data = Data::Compute {
            hosts: Default::default(),
            pool,
            datastores: [places.datastore].into(),
            networks: [places.network].into(),
        };
        self.put(id, name, Some(places.hosts), data);
        let data = Data::Pool {
            owner: id,
            pools: Default::default(),
            machines: Default::default(),
            folder: None,
        };
        self.put(pool, "Resources", Some(id), data);
        let hosts = (0..n_hosts)
            .map(|n| {
                let name =
                    if kind == Kind::Cluster { format!("{name}_H{n}") } else { name.to_owned() };
                let data = Data::Host {
                    uuid: self.ids.uuid("host", &format!("{}/{name}", self.name)),
                    connection: HostConnection::Connected,
                    maintenance: false,
                    machines: Default::default(),
                };
                self.add(Kind::Host, &name, Some(id), data)
            })
            .collect();
        Compute { pool, hosts }
    }

    fn machine(
        &mut self,
        name: &str,
        places: &Places,
        compute: &Compute,
        place: usize,
        addresses: Vec<IpAddr>,
    ) {
        let id = self.next(Kind::Machine);
        let path = format!("{}/{name}", self.name);
        let mut machine = Machine {
            config: Config {
                uuid: Some(bios_uuid(self.ids, &path)),
                instance_uuid: self.ids.uuid("instance", &path),
                guest_id: "ubuntu64Guest".to_owned(),
                cpus: 4,
                memory_mib: 8192,
                annotation: String::new(),
                extra: Default::default(),
                cards: vec![card(0, id, places.network)],
                devices: None,
                settings: Default::default(),
                template: false,
                change_version: 1,
                created: Time::ZERO,
            },
            power: Power::PoweredOn,
            connection: Connection::Connected,
            host: compute.hosts[place % compute.hosts.len().max(1)],
            pool: Some(compute.pool),
            datastore: places.datastore,
            booted: Some(Time::ZERO),
            guest: Guest::silent(),
            plan: NextGuestReport {
                host_name: name.to_lowercase().replace('_', "-"),
                addresses: vec![addresses],
                swapped_uuid: self.topology.swapped_uuids,
            },
            boot: 1,
        };
        machine.guest = booted_guest(&self.vcenter, &machine);
        self.put(id, name, Some(places.machines), Data::Machine(Box::new(machine)));
    }

    fn next(&self, kind: Kind) -> MoRef {
        MoRef::new(kind, self.vcenter.last_number + 1)
    }

    fn add(&mut self, kind: Kind, name: &str, parent: Option<MoRef>, data: Data) -> MoRef {
        let id = self.next(kind);
        self.put(id, name, parent, data);
        id
    }

    fn put(&mut self, id: MoRef, name: &str, parent: Option<MoRef>, data: Data) {
        let entity = Entity { name: name.to_owned(), parent, data };
        let change = Change::Created(Box::new(entity));
        self.vcenter.fold(&VcEvent::Object { id, change });
    }
}

/// The folders of machines and hosts, the datastore, the network and the clusters of a datacenter.
struct Places {
    machines: MoRef,
    hosts: MoRef,
    datastore: MoRef,
    network: MoRef,
    clusters: Vec<Compute>,
}
