//! Worlds to begin with: how many vCenters, zones, hosts and machines, and which of them are nodes.
//!
//! Everything follows from the topology and the seed: names, ids, UUIDs, addresses, passwords.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::act::booted_guest;
use crate::command::{Command, Named, TagName};
use crate::completion::Timing;
use crate::vcenter::{
    Change, Config, Connection, Data, Entity, FolderKind, Guest, GuestPlan, HostConnection, Kind,
    Machine, MoRef, NetworkCard, Password, Power, User, VCenter, VcEvent,
};
use crate::{Ids, Time, World};

/// Category whose tags name regions.
pub const REGION_CATEGORY: &str = "k8s-region";
/// Category whose tags name zones.
pub const ZONE_CATEGORY: &str = "k8s-zone";
/// The administrator's account.
pub const ADMINISTRATOR: &str = "administrator@vsphere.local";
/// The account that a cloud provider uses.
pub const PROVIDER_USER: &str = "ccm@vsphere.local";

/// How many machines run a kubelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Nodes {
    /// Every generated machine.
    #[default]
    All,
    /// The first so many of each vCenter.
    Count(u32),
}

/// What a world begins with.
///
/// `Topology::zones(3).machines(100)` has one vCenter with a datacenter `DC0`, a cluster and zone
/// tag per zone, three hosts in each, and `node-0001`… spread over them, booted and running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Topology {
    /// vCenters, `vc0`, `vc1`, …
    pub vcenters: u32,
    /// Clusters per vCenter, each tagged as a zone of its own; 0 means one untagged cluster.
    pub zones: u32,
    /// Hosts per cluster.
    pub hosts: u32,
    /// Machines per vCenter, besides the four of the standard inventory.
    pub machines: u32,
    /// Which of them run a kubelet.
    pub nodes: Nodes,
    /// Whether the kubelets have registered their (uninitialized) Nodes when the world begins.
    pub registered: bool,
    /// Whether the standard inventory of simulators is there too: a standalone host and four
    /// machines `DC0_H0_VM0`, `DC0_H0_VM1`, `DC0_C0_RP0_VM0`, `DC0_C0_RP0_VM1`.
    pub standard_machines: bool,
    /// Whether guests show their BIOS UUID byte-swapped to their kubelets.
    pub swapped_uuids: bool,
    /// Whether guests have an IPv6 address too.
    pub dual_stack: bool,
    /// When steps end.
    pub timing: Timing,
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            vcenters: 1,
            zones: 0,
            hosts: 3,
            machines: 0,
            nodes: Nodes::All,
            registered: true,
            standard_machines: false,
            swapped_uuids: true,
            dual_stack: false,
            timing: Timing::default(),
        }
    }
}

impl Topology {
    /// One vCenter with so many zones.
    pub fn zones(zones: u32) -> Self {
        Self { zones, ..Self::default() }
    }

    /// The default inventory of simulators: no zones, four machines, no nodes.
    pub fn standard() -> Self {
        Self { standard_machines: true, ..Self::default() }
    }

    /// With so many machines per vCenter.
    #[must_use]
    pub fn machines(self, machines: u32) -> Self {
        Self { machines, ..self }
    }

    /// With so many vCenters.
    #[must_use]
    pub fn vcenters(self, vcenters: u32) -> Self {
        Self { vcenters, ..self }
    }

    /// With kubelets on these machines.
    #[must_use]
    pub fn nodes(self, nodes: Nodes) -> Self {
        Self { nodes, ..self }
    }

    /// The name of machine `n` (from 1) of vCenter `vc` (from 0): `node-0001`; `node-1-0001` for the second vCenter.
    pub fn machine_name(&self, vc: u32, n: u32) -> String {
        if vc == 0 { format!("node-{n:04}") } else { format!("node-{vc}-{n:04}") }
    }

    /// The world that begins this way.
    pub fn build(&self, epoch: Timestamp, seed: u64) -> World {
        let mut world = World::new(epoch, seed);
        world.set_timing(self.timing.clone());
        for vc in 0..self.vcenters {
            let name = format!("vc{vc}");
            let vcenter = Builder::new(self, world.ids(), vc, &name).build();
            world.add_vcenter(&name, vcenter);
        }
        for vc in 0..self.vcenters {
            self.tag(&mut world, vc);
            self.start_kubelets(&mut world, vc);
        }
        world
    }

    fn tag(&self, world: &mut World, vc: u32) {
        let vcenter = Some(format!("vc{vc}"));
        let mut attach = |category: &str, tag: String, object: String| {
            let name =
                TagName { vcenter: vcenter.clone(), category: category.to_owned(), tag, object };
            world
                .apply(Time::ZERO, Command::AttachTag(name))
                .expect("the objects of a fresh topology can be tagged");
        };
        if self.zones > 0 {
            attach(REGION_CATEGORY, format!("region-{}", letter(vc)), "DC0".to_owned());
        }
        for zone in 0..self.zones {
            attach(ZONE_CATEGORY, format!("zone-{}", letter(zone)), format!("DC0_C{zone}"));
        }
    }

    fn start_kubelets(&self, world: &mut World, vc: u32) {
        let nodes = match self.nodes {
            Nodes::All => self.machines,
            Nodes::Count(count) => count.min(self.machines),
        };
        if !self.registered {
            return;
        }
        for n in 1..=nodes {
            let machine =
                Named { vcenter: Some(format!("vc{vc}")), name: self.machine_name(vc, n) };
            world
                .apply(Time::ZERO, Command::StartKubelet(machine))
                .expect("the machines of a fresh topology can run kubelets");
        }
    }
}

/// `a`, `b`, … `z`, `aa`, …
fn letter(n: u32) -> String {
    let tail = char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    if n < 26 { tail.to_string() } else { format!("{}{tail}", letter(n / 26 - 1)) }
}

/// A machine's BIOS UUID, in the range that VMware hardware uses.
pub(crate) fn bios_uuid(ids: Ids, path: &str) -> Uuid {
    let mut bytes = *ids.uuid("bios", path).as_bytes();
    bytes[0] = 0x42;
    Uuid::from_bytes(bytes)
}

/// The `n`-th network card of a machine.
pub(crate) fn card(n: u32, machine: MoRef, network: MoRef) -> NetworkCard {
    let [_, high, mid, low] = (machine.number * 4 + n).to_be_bytes();
    NetworkCard {
        key: 4000 + i32::try_from(n).unwrap_or(0),
        mac: format!("00:50:56:{high:02x}:{mid:02x}:{low:02x}"),
        network,
    }
}

/// An address for a machine that the topology did not plan, from `10.192.0.0/10`.
pub(crate) fn spare_address(vcenter: &str, number: u32) -> IpAddr {
    let vc = vcenter.bytes().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(byte)));
    let [_, high, mid, low] = number.to_be_bytes();
    let second = 192 + u8::try_from((vc + u32::from(high)) % 64).unwrap_or(0);
    IpAddr::V4(Ipv4Addr::new(10, second, mid, low))
}

/// Builds one vCenter.
struct Builder<'a> {
    topology: &'a Topology,
    ids: Ids,
    index: u32,
    name: &'a str,
    vcenter: VCenter,
}

/// A cluster or standalone host and what new machines in it need.
struct Compute {
    pool: MoRef,
    hosts: Vec<MoRef>,
}

impl<'a> Builder<'a> {
    fn new(topology: &'a Topology, ids: Ids, index: u32, name: &'a str) -> Self {
        let vcenter = VCenter::new(ids.uuid("vcenter", name));
        Self { topology, ids, index, name, vcenter }
    }

    fn build(mut self) -> VCenter {
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

    /// The addresses of machine `n`: `10.<64 × vCenter + …>`, never `.0` or `.255`.
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
        let data =
            Data::Pool { owner: id, pools: Default::default(), machines: Default::default() };
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
            plan: GuestPlan {
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

/// Where things go in a datacenter.
struct Places {
    machines: MoRef,
    hosts: MoRef,
    datastore: MoRef,
    network: MoRef,
    clusters: Vec<Compute>,
}
