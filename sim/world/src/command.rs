//! What can be asked of a world: by clients through a face, by tests, and by the admin port.
//!
//! The serialized form is the control plane's: `{"vm.powerOff": {"machine": "node-0001"}}`.

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

/// Something that happens in the world.
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
        /// Which vCenter.
        vcenter: String,
        /// What it asks.
        request: VcRequest,
    },

    /// Creates a machine where the topology would put the next one.
    #[serde(rename = "vm.create")]
    CreateMachine {
        /// Which vCenter; the only one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Settings; the name is required.
        spec: MachineSpec,
        /// Cluster to put it in, by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<String>,
        /// Whether to power it on.
        #[serde(default)]
        power_on: bool,
        /// Whether a kubelet runs on it once it is up.
        #[serde(default)]
        kubelet: bool,
    },
    /// Destroys a machine, powered on or not.
    #[serde(rename = "vm.delete")]
    DeleteMachine(Named),
    /// Powers a machine on; its guest boots.
    #[serde(rename = "vm.powerOn")]
    PowerOn(Named),
    /// Pulls the plug.
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
        /// Which.
        machine: Named,
        /// The new name.
        to: String,
    },
    /// Moves a running machine to another host, by name.
    #[serde(rename = "vm.vmotion")]
    VMotion {
        /// Which.
        machine: Named,
        /// The host's name.
        host: String,
    },
    /// Moves a machine into a vApp of its cluster, which is made if there is none of that name; `null` takes it out again.
    #[serde(rename = "vm.vapp")]
    SetVApp {
        /// Which.
        machine: Named,
        /// The vApp's name.
        vapp: Option<String>,
    },
    /// Its storage is lost: no configuration, absent from the search index.
    #[serde(rename = "vm.inaccessible")]
    Inaccessible(Named),
    /// Unregistered on its host behind vCenter's back.
    #[serde(rename = "vm.orphan")]
    Orphan(Named),
    /// Back to normal after `vm.inaccessible` or `vm.orphan`.
    #[serde(rename = "vm.connect")]
    Connect(Named),
    /// Unregistered and registered again: a new id, the same UUIDs. Refused while its storage is lost.
    #[serde(rename = "vm.reregister")]
    Reregister(Named),
    /// Machines of one vCenter get each other's ids: each that of the next, the last that of the first. This is what a vCenter
    /// shows that was restored from a backup and has given its ids out again. Tags stay behind. Refused while a machine boots or
    /// a task works on it, while its storage is lost, and for machines that a Supervisor has made.
    #[serde(rename = "vm.reassignIds")]
    ReassignIds {
        /// At least two, each once.
        machines: Vec<Named>,
    },
    /// Destroyed and rebuilt under the same name with another UUID.
    #[serde(rename = "vm.replace")]
    Replace {
        /// Which.
        machine: Named,
        /// The new BIOS UUID.
        uuid: Uuid,
    },
    /// Sets the BIOS UUID; `null` is the moment when vCenter has not loaded it.
    #[serde(rename = "vm.uuid")]
    SetUuid {
        /// Which.
        machine: Named,
        /// The UUID.
        uuid: Option<Uuid>,
    },
    /// Changes settings, as `ReconfigVM_Task` does.
    #[serde(rename = "vm.reconfigure")]
    Reconfigure {
        /// Which.
        machine: Named,
        /// The settings.
        spec: MachineSpec,
    },

    /// The guest's addresses change now, per network card.
    #[serde(rename = "guest.ip.set")]
    SetAddresses {
        /// Which machine.
        machine: Named,
        /// Addresses per card, in card order.
        addresses: Vec<Vec<IpAddr>>,
    },
    /// The guest reports no addresses for now, though it runs.
    #[serde(rename = "guest.ip.clear")]
    ClearAddresses(Named),
    /// The guest reports the same interfaces and addresses in another order.
    #[serde(rename = "guest.ip.reorder")]
    ReorderAddresses(Named),
    /// An interface without a virtual card appears: docker0, cni0.
    #[serde(rename = "guest.ip.addInternal")]
    AddInternalInterface {
        /// Which machine.
        machine: Named,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// The network names of the interfaces change, as after a vCenter restart (govmomi#2552).
    #[serde(rename = "guest.networkName")]
    SetNetworkName {
        /// Which machine.
        machine: Named,
        /// The name shown; `null` for none.
        name: Option<String>,
    },
    /// The guest reports another host name.
    #[serde(rename = "guest.hostname")]
    SetHostName {
        /// Which machine.
        machine: Named,
        /// The host name.
        host_name: Option<String>,
    },
    /// VMware Tools stops: its last data goes stale.
    #[serde(rename = "guest.tools.stop")]
    StopTools(Named),
    /// VMware Tools runs again.
    #[serde(rename = "guest.tools.start")]
    StartTools(Named),

    /// A host stops answering; its machines are disconnected and keep running.
    #[serde(rename = "host.disconnect")]
    DisconnectHost(Named),
    /// A host answers again.
    #[serde(rename = "host.reconnect")]
    ReconnectHost(Named),
    /// A host dies; HA restarts its machines on others of the cluster.
    #[serde(rename = "host.fail")]
    FailHost(Named),

    /// A user no longer sees an object and what lies below it. By inventory name.
    #[serde(rename = "privilege.revoke")]
    RevokePrivilege(Grant),
    /// A user sees it again.
    #[serde(rename = "privilege.grant")]
    GrantPrivilege(Grant),
    /// Replaces a user's password; live sessions stay.
    #[serde(rename = "credentials.rotate")]
    RotatePassword {
        /// Which vCenter.
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
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Which process; both if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        family: Option<Family>,
    },
    /// Changes idle timeout, caps and lock-out.
    #[serde(rename = "session.rules")]
    SetLoginRules {
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The rules; those left out take their defaults.
        rules: LoginRules,
    },
    /// Replaces the machine certificate; open connections keep the old one.
    #[serde(rename = "certificate.swap")]
    SwapCertificate {
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Stops a vCenter: sessions are gone, connections refused.
    #[serde(rename = "vcenter.stop")]
    StopVCenter {
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Starts a vCenter; it answers 503 for a while first.
    #[serde(rename = "vcenter.start")]
    StartVCenter {
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// The address answers as another vCenter: same objects, other instance UUID.
    #[serde(rename = "vcenter.instanceUuid")]
    SetInstanceUuid {
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The UUID it shows.
        uuid: Uuid,
    },
    /// A stopped vCenter gets another release. It keeps its instance UUID, its objects and its certificate. What clients
    /// see of the release: `about`, and the versions in `vimServiceVersions.xml`.
    #[serde(rename = "vcenter.upgrade")]
    UpgradeVCenter {
        /// Which vCenter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Three numbers, such as `9.0.0`.
        version: String,
        /// A number, such as `24755230`.
        build: String,
    },
    /// Attaches a tag of a category to an object, all by name; what is missing is created.
    #[serde(rename = "tag.attach")]
    AttachTag(TagName),
    /// Detaches a tag, by name.
    #[serde(rename = "tag.detach")]
    DetachTag(TagName),

    /// VM Operator goes away, comes back, or tells what it knows in another way.
    #[serde(rename = "vmoperator.set")]
    SetVmOperator(OperatorChange),
    /// How many objects of a kind a namespace of the Supervisor may have; one without limits is lifted.
    #[serde(rename = "supervisor.quota")]
    SetQuota(Quota),

    /// The API server forgets all but the last so many changes of every resource, as after a compaction
    /// of etcd: watches and pages of an older state answer 410.
    #[serde(rename = "cluster.compact")]
    CompactCluster {
        /// Whose; the workload cluster's if left out.
        #[serde(default)]
        plane: ControlPlane,
        /// Changes to remember per resource.
        #[serde(default)]
        keep: usize,
    },
    /// Every watch of an API server ends, as when it restarts or a balancer in front of it closes what
    /// lasts too long. The next one may begin where it ended.
    #[serde(rename = "cluster.endWatches")]
    EndWatches {
        /// Whose; the workload cluster's if left out.
        #[serde(default)]
        plane: ControlPlane,
    },

    /// Keeps the objects of the workload cluster as they are now, for `cluster.restore`. A later backup replaces it.
    #[serde(rename = "cluster.backUp")]
    BackUpCluster,
    /// Restores the workload cluster from its backup, as `etcdctl snapshot restore` does: objects and resource versions are
    /// those of the backup, every watch ends, and no watch can go on from an older version. A watch from a version that the
    /// store has not reached again stays silent until then. Refused without a backup.
    #[serde(rename = "cluster.restore")]
    RestoreCluster,

    /// A kubelet starts on a machine at once: its Node registers or becomes Ready.
    #[serde(rename = "node.start")]
    StartKubelet(Named),
    /// A kubelet stops: no heartbeats, NotReady after the grace period.
    #[serde(rename = "node.heartbeatStop")]
    StopKubelet(Named),
    /// How often kubelets write lease and status; `null` stops heartbeats without any effect on Ready.
    #[serde(rename = "node.heartbeats")]
    SetHeartbeats {
        /// Interval of lease renewals; status follows every 30th.
        #[serde(with = "crate::duration::option")]
        every: Option<Duration>,
    },

    /// Sets when a step ends from now on.
    #[serde(rename = "timing.set")]
    SetTiming {
        /// The step.
        step: Step,
        /// When it ends.
        completion: Completion,
    },
    /// Lets held steps happen now.
    #[serde(rename = "tell")]
    Tell {
        /// Only this step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Step>,
        /// Only this machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<String>,
    },
}
