//! Descriptions of initial worlds: the numbers of vCenters, zones, hosts and machines, and the
//! machines that run a kubelet.
//!
//! Names, ids, UUIDs, addresses and passwords depend only on the topology and the seed.

mod inventory;
mod supervisor;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::command::{Command, Named, TagName};
use crate::reactions::Timing;
use crate::state::DEFAULT_EVENT_TTL;
use crate::supervisor::SupervisorTopology;
use crate::{Time, World};
use inventory::Builder;

/// Name of the tag category whose tags name regions.
pub const REGION_CATEGORY: &str = "k8s-region";
/// Name of the tag category whose tags name zones.
pub const ZONE_CATEGORY: &str = "k8s-zone";
/// User name of the administrator in every vCenter.
pub const ADMINISTRATOR: &str = "administrator@vsphere.local";
/// User name with which a cloud provider logs in to every vCenter.
pub const PROVIDER_USER: &str = "ccm@vsphere.local";

/// The machines that run a kubelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Nodes {
    /// Every generated machine.
    #[default]
    All,
    /// The first generated machines of each vCenter, up to this number.
    Count(u32),
}

/// The description of an initial world.
///
/// `Topology::zones(3).machines(100)` has one vCenter with the datacenter `DC0`. Each zone has a
/// cluster with a zone tag and three hosts. The machines `node-0001` … `node-0100` are spread over
/// the clusters, and their guests have booted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Topology {
    /// Number of vCenters: `vc0`, `vc1`, …; 1 by default.
    pub vcenters: u32,
    /// Number of clusters per vCenter, each tagged as its own zone; 0 means one untagged cluster.
    pub zones: u32,
    /// Number of hosts per cluster, 3 by default; at least 1 if the world has machines.
    pub hosts: u32,
    /// Number of machines per vCenter, besides the four of the standard inventory; 0 by default.
    pub machines: u32,
    /// The machines that run a kubelet, if `registered` is true.
    pub nodes: Nodes,
    /// True (the default) if kubelets run and have registered their (uninitialized) Nodes when the
    /// world begins. Otherwise the world begins without kubelets.
    pub registered: bool,
    /// True if each vCenter also has the standard inventory of govmomi's vcsim: a standalone host
    /// and four machines `DC0_H0_VM0`, `DC0_H0_VM1`, `DC0_C0_RP0_VM0`, `DC0_C0_RP0_VM1`.
    pub standard_machines: bool,
    /// True (the default) if kubelets read the BIOS UUID of their machine with the first three
    /// groups byte-swapped.
    pub swapped_uuids: bool,
    /// True if the guests of generated machines have an IPv6 address in addition to the IPv4
    /// address.
    pub dual_stack: bool,
    /// The Supervisor of the first vCenter, with a VirtualMachine for each generated machine;
    /// `None` for a world without a Supervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<SupervisorTopology>,
    /// True if the scheduler, the controllers of workloads and the pods of the workload cluster
    /// run; false by default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub workloads: bool,
    /// The times at which steps end.
    pub timing: Timing,
    /// Minimum time for which the API servers keep a Kubernetes Event after its last write, as
    /// `--event-ttl` of kube-apiserver: whole seconds, at least one; default 1 h.
    #[serde(with = "crate::duration")]
    pub event_ttl: Duration,
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
            supervisor: None,
            workloads: false,
            timing: Timing::default(),
            event_ttl: DEFAULT_EVENT_TTL,
        }
    }
}

impl Topology {
    /// Creates a topology of one vCenter with this number of zones and no machines.
    pub fn zones(zones: u32) -> Self {
        Self { zones, ..Self::default() }
    }

    /// Creates a topology of one vCenter with the standard inventory of govmomi's vcsim: no zones,
    /// four machines, no Nodes.
    pub fn standard() -> Self {
        Self { standard_machines: true, ..Self::default() }
    }

    /// Sets the number of machines per vCenter.
    #[must_use]
    pub fn machines(self, machines: u32) -> Self {
        Self { machines, ..self }
    }

    /// Sets the number of vCenters.
    #[must_use]
    pub fn vcenters(self, vcenters: u32) -> Self {
        Self { vcenters, ..self }
    }

    /// Adds a Supervisor with a VirtualMachine for each generated machine of the first vCenter.
    #[must_use]
    pub fn supervisor(self) -> Self {
        Self { supervisor: Some(SupervisorTopology::default()), ..self }
    }

    /// Lets the scheduler, the controllers of workloads and the pods of the workload cluster run.
    #[must_use]
    pub fn workloads(self) -> Self {
        Self { workloads: true, ..self }
    }

    /// Sets the machines that run a kubelet.
    #[must_use]
    pub fn nodes(self, nodes: Nodes) -> Self {
        Self { nodes, ..self }
    }

    /// The name of machine `n` (from 1) of vCenter `vc` (from 0): `node-0001`; `node-1-0001` for
    /// the second vCenter.
    pub fn machine_name(&self, vc: u32, n: u32) -> String {
        if vc == 0 { format!("node-{n:04}") } else { format!("node-{vc}-{n:04}") }
    }

    /// Builds the world. `epoch` is the timestamp of world time zero; `seed` determines ids, UUIDs
    /// and passwords. Panics if the world has machines and [`hosts`](Self::hosts) is 0.
    pub fn build(&self, epoch: Timestamp, seed: u64) -> World {
        let mut world = World::new(epoch, seed);
        world.set_timing(self.timing.clone());
        world.set_event_ttl(self.event_ttl);
        for vc in 0..self.vcenters {
            let name = format!("vc{vc}");
            let vcenter = Builder::new(self, world.ids(), vc, &name).build();
            world.add_vcenter(&name, vcenter);
        }
        if let Some(supervisor) = &self.supervisor {
            supervisor::create_supervisor(&mut world, self, supervisor);
        }
        for vc in 0..self.vcenters {
            self.tag(&mut world, vc);
            self.start_kubelets(&mut world, vc);
        }
        if self.workloads {
            world
                .apply(Time::ZERO, Command::SetWorkloads { run: true })
                .expect("a world can always switch its workloads on");
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

/// Converts a number to letters: 0 to `a`, 1 to `b`, … 25 to `z`, 26 to `aa`, …
fn letter(n: u32) -> String {
    let tail = char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    if n < 26 { tail.to_string() } else { format!("{}{tail}", letter(n / 26 - 1)) }
}
