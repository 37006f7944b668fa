//! Properties of clusters, hosts and resource pools.

use sim_world::vcenter::{Data, HostConnection, MoRef};

use super::entity::visible;
use super::{Prop, Subject, leaf, node};
use crate::vcenter::vim::data::{Object, Value};

/// Number of cores of a simulated host: 2 packages of 16.
const CORES: i16 = 32;
/// Clock rate of a core in MHz.
const MHZ: i32 = 2400;
/// Memory of a simulated host in bytes: 256 GiB.
const MEMORY: i64 = 256 << 30;

pub(super) const COMPUTE_RESOURCE: &[Prop] = &[
    leaf("resourcePool", |_, it| compute(it).map(|it| it.pool.into())),
    leaf("host", |reader, it| compute(it).map(|it| visible(reader, it.hosts))),
    leaf("datastore", |reader, it| compute(it).map(|it| visible(reader, it.datastores))),
    leaf("network", |reader, it| compute(it).map(|it| visible(reader, it.networks))),
    leaf("summary", |_, it| {
        let n_hosts = i32::try_from(compute(it)?.hosts.len()).unwrap_or(i32::MAX);
        let kind = match it.kind() {
            "ClusterComputeResource" => "ClusterComputeResourceSummary",
            _ => "ComputeResourceSummary",
        };
        let mhz = n_hosts.saturating_mul(i32::from(CORES) * MHZ);
        let summary = Object::new(kind)
            .with("totalCpu", mhz)
            .with("totalMemory", i64::from(n_hosts) * MEMORY)
            .with("numCpuCores", i16::try_from(n_hosts).unwrap_or(i16::MAX).saturating_mul(CORES))
            .with("numCpuThreads", i16::try_from(n_hosts).unwrap_or(i16::MAX).saturating_mul(CORES))
            .with("effectiveCpu", mhz)
            .with("effectiveMemory", i64::from(n_hosts) * (MEMORY >> 20))
            .with("numHosts", n_hosts)
            .with("numEffectiveHosts", n_hosts)
            .with("overallStatus", Value::Enum("ManagedEntityStatus", "green"));
        let summary = match kind {
            "ClusterComputeResourceSummary" => {
                summary.with("currentFailoverLevel", -1).with("numVmotions", 0)
            }
            _ => summary,
        };
        Some(summary.into())
    }),
];

pub(super) const HOST: &[Prop] = &[
    node(
        "summary",
        "HostListSummary",
        &[
            leaf("host", |_, it| Some(it.entity()?.0.into())),
            leaf("hardware", |_, it| {
                let Data::Host { uuid, .. } = it.data()? else { return None };
                let hardware = Object::new("HostHardwareSummary")
                    .with("vendor", "VMware, Inc.")
                    .with("model", "VMware Virtual Platform")
                    .with("uuid", uuid.to_string())
                    .with("memorySize", MEMORY)
                    .with("cpuModel", "Simulated CPU @ 2.40GHz")
                    .with("cpuMhz", MHZ)
                    .with("numCpuPkgs", 2_i16)
                    .with("numCpuCores", CORES)
                    .with("numCpuThreads", CORES)
                    .with("numNics", 1)
                    .with("numHBAs", 1);
                Some(hardware.into())
            }),
            node("runtime", "HostRuntimeInfo", RUNTIME),
            node(
                "config",
                "HostConfigSummary",
                &[
                    leaf("name", |_, it| Some(it.entity()?.1.name.as_str().into())),
                    leaf("port", |_, _| Some(902.into())),
                    leaf("product", |_, _| {
                        let product = Object::new("AboutInfo")
                            .with("name", "VMware ESXi")
                            .with("fullName", "VMware ESXi 8.0.3 build-24022510")
                            .with("vendor", "VMware, Inc.")
                            .with("version", "8.0.3")
                            .with("build", "24022510")
                            .with("osType", "vmnix-x86")
                            .with("productLineId", "embeddedEsx")
                            .with("apiType", "HostAgent")
                            .with("apiVersion", "8.0.3.0");
                        Some(product.into())
                    }),
                    leaf("vmotionEnabled", |_, _| Some(true.into())),
                    leaf("faultToleranceEnabled", |_, _| Some(false.into())),
                ],
            ),
            node(
                "quickStats",
                "HostListSummaryQuickStats",
                &[
                    leaf("overallCpuUsage", |_, _| Some(100.into())),
                    leaf("overallMemoryUsage", |_, _| Some(4096.into())),
                    leaf("uptime", |_, _| Some(86_400.into())),
                ],
            ),
            leaf("overallStatus", |_, it| status(it)),
            leaf("rebootRequired", |_, _| Some(false.into())),
        ],
    ),
    leaf("hardware", |_, it| {
        let Data::Host { uuid, .. } = it.data()? else { return None };
        let system = Object::new("HostSystemInfo")
            .with("vendor", "VMware, Inc.")
            .with("model", "VMware Virtual Platform")
            .with("uuid", uuid.to_string());
        let cpu = Object::new("HostCpuInfo")
            .with("numCpuPackages", 2_i16)
            .with("numCpuCores", CORES)
            .with("numCpuThreads", CORES)
            .with("hz", i64::from(MHZ) * 1_000_000);
        let info = Object::new("HostHardwareInfo")
            .with("systemInfo", system)
            .with("cpuInfo", cpu)
            .with("memorySize", MEMORY)
            .with("smcPresent", false);
        Some(info.into())
    }),
    node("runtime", "HostRuntimeInfo", RUNTIME),
    leaf("vm", |reader, it| match it.data()? {
        Data::Host { machines, .. } => Some(visible(reader, machines)),
        _ => None,
    }),
    leaf("datastore", |reader, it| {
        let up = reader.vc.inventory.get(it.entity()?.1.parent?)?;
        let Data::Compute { datastores, .. } = &up.data else { return None };
        Some(visible(reader, datastores))
    }),
    leaf("network", |reader, it| {
        let up = reader.vc.inventory.get(it.entity()?.1.parent?)?;
        let Data::Compute { networks, .. } = &up.data else { return None };
        Some(visible(reader, networks))
    }),
];

const RUNTIME: &[Prop] = &[
    leaf("connectionState", |_, it| {
        let (connection, _) = host(it)?;
        Some(Value::Enum("HostSystemConnectionState", connection.as_str()))
    }),
    leaf("powerState", |_, it| {
        let (connection, _) = host(it)?;
        let power = match connection {
            HostConnection::Connected => "poweredOn",
            HostConnection::NotResponding | HostConnection::Disconnected => "unknown",
        };
        Some(Value::Enum("HostSystemPowerState", power))
    }),
    leaf("inMaintenanceMode", |_, it| Some(host(it)?.1.into())),
    leaf("inQuarantineMode", |_, _| Some(false.into())),
    leaf("bootTime", |reader, _| Some(reader.state.epoch().into())),
];

pub(super) const POOL: &[Prop] = &[
    leaf("owner", |_, it| match it.data()? {
        Data::Pool { owner, .. } => Some((*owner).into()),
        _ => None,
    }),
    leaf("resourcePool", |reader, it| match it.data()? {
        Data::Pool { pools, .. } => Some(visible(reader, pools)),
        _ => None,
    }),
    leaf("vm", |reader, it| match it.data()? {
        Data::Pool { machines, .. } => Some(visible(reader, machines)),
        _ => None,
    }),
    node("config", "ResourceConfigSpec", POOL_CONFIG),
    node("runtime", "ResourcePoolRuntimeInfo", POOL_RUNTIME),
    node(
        "summary",
        "ResourcePoolSummary",
        &[
            leaf("name", |_, it| Some(it.entity()?.1.name.as_str().into())),
            node("config", "ResourceConfigSpec", POOL_CONFIG),
            node("runtime", "ResourcePoolRuntimeInfo", POOL_RUNTIME),
        ],
    ),
];

const POOL_CONFIG: &[Prop] = &[
    leaf("entity", |_, it| Some(it.entity()?.0.into())),
    leaf("cpuAllocation", |_, _| Some(allocation().into())),
    leaf("memoryAllocation", |_, _| Some(allocation().into())),
];

const POOL_RUNTIME: &[Prop] = &[
    leaf("memory", |_, _| Some(usage().into())),
    leaf("cpu", |_, _| Some(usage().into())),
    leaf("overallStatus", |_, _| Some(Value::Enum("ManagedEntityStatus", "green"))),
];

struct Compute<'a> {
    hosts: &'a std::collections::BTreeSet<MoRef>,
    pool: MoRef,
    datastores: &'a std::collections::BTreeSet<MoRef>,
    networks: &'a std::collections::BTreeSet<MoRef>,
}

fn compute(it: Subject<'_>) -> Option<Compute<'_>> {
    match it.data()? {
        Data::Compute { hosts, pool, datastores, networks } => {
            Some(Compute { hosts, pool: *pool, datastores, networks })
        }
        _ => None,
    }
}

fn host(it: Subject<'_>) -> Option<(HostConnection, bool)> {
    match it.data()? {
        Data::Host { connection, maintenance, .. } => Some((*connection, *maintenance)),
        _ => None,
    }
}

fn status(it: Subject<'_>) -> Option<Value> {
    let status = match host(it)?.0 {
        HostConnection::Connected => "green",
        HostConnection::NotResponding => "red",
        HostConnection::Disconnected => "gray",
    };
    Some(Value::Enum("ManagedEntityStatus", status))
}

fn allocation() -> Object {
    let shares = Object::new("SharesInfo")
        .with("shares", 4000)
        .with("level", Value::Enum("SharesLevel", "normal"));
    Object::new("ResourceAllocationInfo")
        .with("reservation", 0_i64)
        .with("expandableReservation", true)
        .with("limit", -1_i64)
        .with("shares", shares)
}

fn usage() -> Object {
    Object::new("ResourcePoolResourceUsage")
        .with("reservationUsed", 0_i64)
        .with("reservationUsedForVm", 0_i64)
        .with("unreservedForPool", MEMORY)
        .with("unreservedForVm", MEMORY)
        .with("overallUsage", 0_i64)
        .with("maxUsage", MEMORY)
}
