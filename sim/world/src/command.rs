//! Commands to a world: requests of clients through a face, and commands of tests and of the admin port.
//!
//! The serialized form is that of the admin port: `{"vm.powerOff": {"machine": "node-0001"}}`.

mod named;
mod request;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::completion::{Completion, Step};
use crate::event::ControlPlane;
use crate::objects::{self, Quota};
use crate::supervisor::OperatorChange;
use crate::vcenter::{Family, LoginRules, MachineSpec};
pub use named::{Grant, Named, TagName};
pub use request::VcRequest;

/// A command to a world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// A request to the workload cluster's object store.
    #[serde(rename = "cluster")]
    Cluster(objects::Command),
    /// A request to the Supervisor's object store.
    #[serde(rename = "supervisor")]
    Supervisor(objects::Command),
    /// A client's request to a vCenter.
    #[serde(rename = "vcenter.request")]
    Request {
        /// Name of the vCenter.
        vcenter: String,
        /// The request.
        request: VcRequest,
    },

    /// Creates a machine in the folder of machines of its datacenter, and in the root pool of its cluster.
    #[serde(rename = "vm.create")]
    CreateMachine {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Settings; the name is required.
        spec: MachineSpec,
        /// Name or id of its cluster; the first cluster or standalone host if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<String>,
        /// True if the machine is powered on.
        #[serde(default)]
        power_on: bool,
        /// True if a kubelet runs on the machine once its guest has booted.
        #[serde(default)]
        kubelet: bool,
    },
    /// Destroys a machine, whether it is on or off.
    #[serde(rename = "vm.delete")]
    DeleteMachine(Named),
    /// Powers a machine on; its guest boots.
    #[serde(rename = "vm.powerOn")]
    PowerOn(Named),
    /// Powers a machine off at once, without a shutdown of its guest.
    #[serde(rename = "vm.powerOff")]
    PowerOff(Named),
    /// Suspends a machine.
    #[serde(rename = "vm.suspend")]
    Suspend(Named),
    /// Restarts a machine.
    #[serde(rename = "vm.reset")]
    Reset(Named),
    /// Renames a machine in the inventory; the guest keeps its host name.
    #[serde(rename = "vm.rename")]
    Rename {
        /// The machine.
        machine: Named,
        /// The new name.
        to: String,
    },
    /// Moves a machine to another host.
    #[serde(rename = "vm.vmotion")]
    VMotion {
        /// The machine.
        machine: Named,
        /// The host's name.
        host: String,
    },
    /// Moves a machine into a vApp of its resource pool, and creates the vApp if it does not exist. `null` moves the machine
    /// out of its vApp.
    #[serde(rename = "vm.vapp")]
    SetVApp {
        /// The machine.
        machine: Named,
        /// The vApp's name.
        vapp: Option<String>,
    },
    /// Loses the storage of a machine: its configuration is unreadable, and the search index does not contain it.
    #[serde(rename = "vm.inaccessible")]
    Inaccessible(Named),
    /// Orphans a machine: its host has unregistered it without vCenter.
    #[serde(rename = "vm.orphan")]
    Orphan(Named),
    /// Connects a machine again after `vm.inaccessible` or `vm.orphan`.
    #[serde(rename = "vm.connect")]
    Connect(Named),
    /// Unregisters a machine and registers it again, with a new id and the same UUIDs. Refused while its storage is lost.
    #[serde(rename = "vm.reregister")]
    Reregister(Named),
    /// Exchanges the ids of machines of one vCenter: each gets the id of the next, the last gets the id of the first. A vCenter
    /// that was restored from a backup and has assigned its ids again shows the same. The machines lose their tags. Refused
    /// while a machine boots or a task works on it, while its storage is lost, and for machines that a Supervisor has made.
    #[serde(rename = "vm.reassignIds")]
    ReassignIds {
        /// At least two machines, each of them once.
        machines: Vec<Named>,
    },
    /// Destroys a machine and rebuilds it under the same name, with another BIOS UUID.
    #[serde(rename = "vm.replace")]
    Replace {
        /// The machine.
        machine: Named,
        /// The new BIOS UUID.
        uuid: Uuid,
    },
    /// Sets the BIOS UUID of a machine. `null` simulates the moments in which vCenter has not loaded it.
    #[serde(rename = "vm.uuid")]
    SetUuid {
        /// The machine.
        machine: Named,
        /// The UUID.
        uuid: Option<Uuid>,
    },
    /// Changes settings of a machine, as `ReconfigVM_Task` does.
    #[serde(rename = "vm.reconfigure")]
    Reconfigure {
        /// The machine.
        machine: Named,
        /// The settings.
        spec: MachineSpec,
    },

    /// Changes the addresses of a guest per network card: at once while VMware Tools runs, otherwise in its next report.
    #[serde(rename = "guest.ip.set")]
    SetAddresses {
        /// The machine.
        machine: Named,
        /// Addresses per card, in card order.
        addresses: Vec<Vec<IpAddr>>,
    },
    /// Removes all interfaces and addresses from the report of a running guest.
    #[serde(rename = "guest.ip.clear")]
    ClearAddresses(Named),
    /// Reverses the order in which the guest reports interfaces and addresses.
    #[serde(rename = "guest.ip.reorder")]
    ReorderAddresses(Named),
    /// Adds a guest interface without a virtual card, such as docker0 or cni0.
    #[serde(rename = "guest.ip.addInternal")]
    AddInternalInterface {
        /// The machine.
        machine: Named,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// Changes the network names of the interfaces, as a vCenter restart does (govmomi#2552).
    #[serde(rename = "guest.networkName")]
    SetNetworkName {
        /// The machine.
        machine: Named,
        /// The network name; `null` removes it.
        name: Option<String>,
    },
    /// Changes the host name that the guest reports.
    #[serde(rename = "guest.hostname")]
    SetHostName {
        /// The machine.
        machine: Named,
        /// The host name.
        host_name: Option<String>,
    },
    /// Stops VMware Tools; vCenter keeps its last data, which goes stale.
    #[serde(rename = "guest.tools.stop")]
    StopTools(Named),
    /// Starts VMware Tools again.
    #[serde(rename = "guest.tools.start")]
    StartTools(Named),

    /// Disconnects a host: vCenter shows its machines as disconnected, and they keep running.
    #[serde(rename = "host.disconnect")]
    DisconnectHost(Named),
    /// Connects a host and its machines again.
    #[serde(rename = "host.reconnect")]
    ReconnectHost(Named),
    /// Fails a host; HA restarts its machines on another host of the cluster.
    #[serde(rename = "host.fail")]
    FailHost(Named),

    /// Hides an object, and everything below it, from a user.
    #[serde(rename = "privilege.revoke")]
    RevokePrivilege(Grant),
    /// Undoes `privilege.revoke` for an object.
    #[serde(rename = "privilege.grant")]
    GrantPrivilege(Grant),
    /// Replaces a user's password; live sessions stay.
    #[serde(rename = "credentials.rotate")]
    RotatePassword {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The account.
        user: String,
        /// The new password.
        password: crate::vcenter::Password,
    },
    /// Ends every session of a vCenter, or of one of its two processes.
    #[serde(rename = "session.expireAll")]
    ExpireSessions {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The process; both if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        family: Option<Family>,
    },
    /// Sets idle timeout, session caps and lock-out.
    #[serde(rename = "session.rules")]
    SetLoginRules {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The new rules; a rule that is left out gets its default.
        rules: LoginRules,
    },
    /// Replaces the machine certificate; open connections keep the old one.
    #[serde(rename = "certificate.swap")]
    SwapCertificate {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Stops a vCenter: its sessions end, and it refuses connections.
    #[serde(rename = "vcenter.stop")]
    StopVCenter {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Starts a vCenter; it answers 503 until the step `serviceStart` ends.
    #[serde(rename = "vcenter.start")]
    StartVCenter {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Sets the instance UUID, as if another vCenter with the same objects answered at the address; sessions end.
    #[serde(rename = "vcenter.instanceUuid")]
    SetInstanceUuid {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The new instance UUID.
        uuid: Uuid,
    },
    /// Upgrades a stopped vCenter to another release. It keeps its instance UUID, its objects and its certificate. Clients see
    /// the release in `about` and in the versions of `vimServiceVersions.xml`.
    #[serde(rename = "vcenter.upgrade")]
    UpgradeVCenter {
        /// Name of the vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Three numbers, such as `9.0.0`.
        version: String,
        /// A number, such as `24755230`.
        build: String,
    },
    /// Attaches a tag to an object by name, and creates the category and the tag if they do not exist.
    #[serde(rename = "tag.attach")]
    AttachTag(TagName),
    /// Detaches a tag from an object, by name.
    #[serde(rename = "tag.detach")]
    DetachTag(TagName),

    /// Stops or starts VM Operator, or changes the form of the status that it writes.
    #[serde(rename = "vmoperator.set")]
    SetVmOperator(OperatorChange),
    /// Sets the maximum number of objects in a namespace of the Supervisor; a quota without limits is removed.
    #[serde(rename = "supervisor.quota")]
    SetQuota(Quota),

    /// Makes an API server forget all but the last `keep` changes of every resource, as a compaction of
    /// etcd does: watches and pages from an older state get the answer 410.
    #[serde(rename = "cluster.compact")]
    CompactCluster {
        /// The API server; that of the workload cluster if left out.
        #[serde(default)]
        plane: ControlPlane,
        /// Number of changes to keep per resource.
        #[serde(default)]
        keep: usize,
    },
    /// Ends every watch of an API server, as when the server restarts or a balancer in front of it closes
    /// long connections. A client may resume its watch from the last resource version.
    #[serde(rename = "cluster.endWatches")]
    EndWatches {
        /// The API server; that of the workload cluster if left out.
        #[serde(default)]
        plane: ControlPlane,
    },

    /// Backs up the objects of the workload cluster for `cluster.restore`. A later backup replaces an earlier one.
    #[serde(rename = "cluster.backUp")]
    BackUpCluster,
    /// Restores the workload cluster from its backup, as `etcdctl snapshot restore` does. Objects and resource versions are
    /// those of the backup, every watch ends, and no watch can resume from an older version. A watch from a version that the
    /// store has not reached again gets no events until then. Refused without a backup.
    #[serde(rename = "cluster.restore")]
    RestoreCluster,

    /// Starts the kubelet of a machine at once: it registers its Node or makes it Ready.
    #[serde(rename = "node.start")]
    StartKubelet(Named),
    /// Stops a kubelet: it sends no heartbeats, and its Node becomes NotReady after the grace period.
    #[serde(rename = "node.heartbeatStop")]
    StopKubelet(Named),
    /// Sets the interval at which kubelets renew their leases; `null` stops heartbeats without any effect on Ready.
    #[serde(rename = "node.heartbeats")]
    SetHeartbeats {
        /// Interval of lease renewals; every 30th renewal comes with a status report.
        #[serde(with = "crate::duration::option")]
        every: Option<Duration>,
    },

    /// Sets when a step ends from now on.
    #[serde(rename = "timing.set")]
    SetTiming {
        /// The step.
        step: Step,
        /// The time at which it ends.
        completion: Completion,
    },
    /// Ends held steps now.
    #[serde(rename = "tell")]
    Tell {
        /// The step; every held step if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Step>,
        /// Name of the machine; every machine if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<String>,
    },
}
