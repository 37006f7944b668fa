//! Commands to a world: requests of clients through a face, and commands of tests and of the admin
//! port.
//!
//! The serialized form is that of the admin port: `{"vm.powerOff": "node-0001"}`.

mod named;
mod request;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::control_plane::ControlPlane;
use crate::objects::{self, Quota};
use crate::reactions::{Completion, Step};
use crate::supervisor::OperatorChange;
use crate::vcenter::{LoginRules, MachineSpec, SessionService, TEMPLATE_ITEM};
pub use named::{Grant, ItemName, Named, TagName};
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
        /// Name of the vCenter that gets the request.
        vcenter: String,
        /// Operation of the client, with its arguments.
        request: VcRequest,
    },

    /// Creates a machine in the folder of machines of its datacenter, and in the root pool of its
    /// cluster.
    #[serde(rename = "vm.create")]
    CreateMachine {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Settings; the name is required.
        spec: MachineSpec,
        /// Name or id of its cluster or standalone host; if left out, the first cluster, or the
        /// first standalone host of a vCenter without clusters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<String>,
        /// True if the world powers the new machine on.
        #[serde(default)]
        power_on: bool,
        /// True if a kubelet runs on the machine once its guest has booted.
        #[serde(default)]
        kubelet: bool,
    },
    /// Destroys a machine in any power state.
    #[serde(rename = "vm.delete")]
    DeleteMachine(Named),
    /// Powers a machine on that is off or suspended; its guest boots.
    #[serde(rename = "vm.powerOn")]
    PowerOn(Named),
    /// Powers a machine off at once, without a shutdown of its guest.
    #[serde(rename = "vm.powerOff")]
    PowerOff(Named),
    /// Suspends a powered-on machine.
    #[serde(rename = "vm.suspend")]
    Suspend(Named),
    /// Restarts a powered-on machine at once, without a shutdown of its guest.
    #[serde(rename = "vm.reset")]
    Reset(Named),
    /// Renames a machine in the inventory; the guest keeps its host name.
    #[serde(rename = "vm.rename")]
    Rename {
        /// Machine to rename.
        machine: Named,
        /// New inventory name; must not be empty.
        to: String,
    },
    /// Moves a machine to another host.
    #[serde(rename = "vm.vmotion")]
    VMotion {
        /// Machine to move.
        machine: Named,
        /// Inventory name of the new host, in the vCenter of the machine.
        host: String,
    },
    /// Moves a machine into a vApp of its resource pool, and creates the vApp if it does not exist.
    /// `null` moves the machine out of its vApp, if it is in one.
    #[serde(rename = "vm.vapp")]
    SetVApp {
        /// Machine to move.
        machine: Named,
        /// Name of the vApp; `null` for none.
        vapp: Option<String>,
    },
    /// Simulates the loss of a machine's storage: its configuration is unreadable, and searches by
    /// BIOS or instance UUID do not find it.
    #[serde(rename = "vm.inaccessible")]
    Inaccessible(Named),
    /// Orphans a machine, as if its host had unregistered the machine without vCenter.
    #[serde(rename = "vm.orphan")]
    Orphan(Named),
    /// Sets the connection state of a machine to `connected`, for example after `vm.inaccessible`
    /// or `vm.orphan`.
    #[serde(rename = "vm.connect")]
    Connect(Named),
    /// Unregisters a machine and registers it again, with a new id and the same UUIDs. The machine
    /// loses its tags. The world refuses the command while the machine's storage is lost.
    #[serde(rename = "vm.reregister")]
    Reregister(Named),
    /// Exchanges the ids of machines of one vCenter: each gets the id of the next one in the list,
    /// and the last gets the id of the first. This simulates a vCenter that was restored from a
    /// backup and has assigned ids anew. The machines lose their tags. The world refuses the
    /// command if one of the machines boots, carries out a power request to VMware Tools, has a
    /// running task, has lost its storage, or has a VirtualMachine in the Supervisor.
    #[serde(rename = "vm.reassignIds")]
    ReassignIds {
        /// At least two different machines.
        machines: Vec<Named>,
    },
    /// Destroys a machine and rebuilds it under the same name, with another id, instance UUID and
    /// BIOS UUID. The new machine boots and has no tags.
    #[serde(rename = "vm.replace")]
    Replace {
        /// Machine to destroy and rebuild.
        machine: Named,
        /// BIOS UUID of the rebuilt machine.
        uuid: Uuid,
    },
    /// Sets the BIOS UUID of a machine. `null` simulates the moments in which vCenter has not yet
    /// loaded the UUID.
    #[serde(rename = "vm.uuid")]
    SetUuid {
        /// Machine that gets the UUID.
        machine: Named,
        /// New BIOS UUID; `null` for one that vCenter has not loaded yet.
        uuid: Option<Uuid>,
    },
    /// Changes settings of a machine, as `ReconfigVM_Task` does.
    #[serde(rename = "vm.reconfigure")]
    Reconfigure {
        /// Machine to change.
        machine: Named,
        /// New settings; a setting that is left out keeps its value.
        spec: MachineSpec,
    },

    /// Sets the addresses that a guest reports per network card: at once while VMware Tools runs,
    /// otherwise with the guest's next report.
    #[serde(rename = "guest.ip.set")]
    SetAddresses {
        /// Machine in which the guest runs.
        machine: Named,
        /// Addresses per network card, in the order of the cards.
        addresses: Vec<Vec<IpAddr>>,
    },
    /// Removes all interfaces and addresses from the report of a guest, until the guest reports
    /// them again.
    #[serde(rename = "guest.ip.clear")]
    ClearAddresses(Named),
    /// Reverses the order of the interfaces in the report of a guest, and of the addresses of each
    /// interface.
    #[serde(rename = "guest.ip.reorder")]
    ReorderAddresses(Named),
    /// Adds an interface without a virtual card, such as docker0 or cni0, to the report of a guest.
    #[serde(rename = "guest.ip.addInternal")]
    AddInternalInterface {
        /// Machine in which the guest runs.
        machine: Named,
        /// Addresses of the interface.
        addresses: Vec<IpAddr>,
    },
    /// Changes the network name of every reported interface that has a virtual card, as a vCenter
    /// restart does (govmomi#2552).
    #[serde(rename = "guest.networkName")]
    SetNetworkName {
        /// Machine in which the guest runs.
        machine: Named,
        /// New network name; `null` removes the name.
        name: Option<String>,
    },
    /// Changes the host name in the report of a guest, until the guest boots or `guest.tools.start`
    /// comes.
    #[serde(rename = "guest.hostname")]
    SetHostName {
        /// Machine in which the guest runs.
        machine: Named,
        /// New host name; `null` removes the name.
        host_name: Option<String>,
    },
    /// Stops VMware Tools in a guest; vCenter keeps the last report, which goes stale.
    #[serde(rename = "guest.tools.stop")]
    StopTools(Named),
    /// Starts VMware Tools in the guest of a powered-on machine. The guest then reports as after a
    /// boot.
    #[serde(rename = "guest.tools.start")]
    StartTools(Named),

    /// Simulates a host that does not answer. vCenter shows its connected machines as disconnected,
    /// although they keep running.
    #[serde(rename = "host.disconnect")]
    DisconnectHost(Named),
    /// Connects a host and its disconnected machines again.
    #[serde(rename = "host.reconnect")]
    ReconnectHost(Named),
    /// Simulates the failure of a host. When the step `haRestart` ends, HA moves its machines to
    /// another connected host of the cluster and boots those that were powered on.
    #[serde(rename = "host.fail")]
    FailHost(Named),

    /// Revokes a user's privileges on an object: the user sees neither the object nor anything
    /// below it.
    #[serde(rename = "privilege.revoke")]
    RevokePrivilege(Grant),
    /// Restores the privileges that `privilege.revoke` has revoked on an object.
    #[serde(rename = "privilege.grant")]
    GrantPrivilege(Grant),
    /// Replaces a user's password; open sessions stay logged in.
    #[serde(rename = "credentials.rotate")]
    RotatePassword {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Account that gets the new password, such as `ccm@vsphere.local`.
        user: String,
        /// New password of the account.
        password: crate::vcenter::Password,
    },
    /// Ends every session of a vCenter, or every session of one of its two processes (SOAP, vAPI).
    #[serde(rename = "session.expireAll")]
    ExpireSessions {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The process; both if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        family: Option<SessionService>,
    },
    /// Sets the idle timeout, the maximum numbers of sessions and the lock-out of a vCenter.
    #[serde(rename = "session.rules")]
    SetLoginRules {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// The new rules; a rule that is left out gets its default.
        rules: LoginRules,
    },
    /// Replaces the TLS certificate of a vCenter; open connections keep the old one.
    #[serde(rename = "certificate.swap")]
    SwapCertificate {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Stops a vCenter: its sessions end, and it refuses connections.
    #[serde(rename = "vcenter.stop")]
    StopVCenter {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Starts a stopped vCenter; it answers 503 until the step `serviceStart` ends.
    #[serde(rename = "vcenter.start")]
    StartVCenter {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
    },
    /// Sets the instance UUID of a vCenter, as if another vCenter with the same objects answered at
    /// the address. All sessions end.
    #[serde(rename = "vcenter.instanceUuid")]
    SetInstanceUuid {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// New instance UUID of the vCenter.
        uuid: Uuid,
    },
    /// Changes the release of a stopped vCenter. The vCenter keeps its instance UUID, its objects
    /// and its certificate. Clients see the release in `about` and in the versions of
    /// `vimServiceVersions.xml`.
    #[serde(rename = "vcenter.upgrade")]
    UpgradeVCenter {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Three numbers, such as `9.0.0`.
        version: String,
        /// A number, such as `24755230`.
        build: String,
    },
    /// Attaches the tag of this category and name to an object. Creates the category and the tag if
    /// they do not exist.
    #[serde(rename = "tag.attach")]
    AttachTag(TagName),
    /// Detaches the tag of this category and name from an object.
    #[serde(rename = "tag.detach")]
    DetachTag(TagName),

    /// Creates an empty content library. Its items are stored on the first datastore.
    #[serde(rename = "library.create")]
    CreateLibrary {
        /// Name of the vCenter; the first one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcenter: Option<String>,
        /// Name of the library. Several libraries may have the same name.
        name: String,
    },
    /// Adds an item to a content library.
    #[serde(rename = "library.addItem")]
    AddLibraryItem {
        /// Library and name of the item. Several items may have the same name.
        item: ItemName,
        /// Type of the item, such as `ovf` or `iso`; `vm-template` if left out.
        #[serde(default = "template_item", rename = "type")]
        kind: String,
        /// Name of a machine that is off. It becomes the template of the item. The item has no
        /// template if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<String>,
    },
    /// Gives an item of the type `vm-template` another template, as the check-in of a new version
    /// does. `null` leaves the item without template.
    #[serde(rename = "library.setTemplate")]
    SetLibraryTemplate {
        /// Library and name of the item.
        item: ItemName,
        /// Name of a machine that is off. It becomes the template.
        template: Option<String>,
    },

    /// Changes the settings of VM Operator: whether it reconciles, whether its webhooks answer, and
    /// the form of the status that it writes.
    #[serde(rename = "vmoperator.set")]
    SetVmOperator(OperatorChange),
    /// Sets a quota: the maximum numbers of objects in a namespace of the Supervisor, by resource.
    /// A quota without limits removes the quota of the same name.
    #[serde(rename = "supervisor.quota")]
    SetQuota(Quota),

    /// Drops all but the last `keep` changes of every resource from an API server's history, as a
    /// compaction of etcd does. A watch or a further page of a list gets status 410 if its version
    /// is before a dropped change.
    #[serde(rename = "cluster.compact")]
    CompactCluster {
        /// The API server; that of the workload cluster if left out.
        #[serde(default)]
        plane: ControlPlane,
        /// Number of changes to keep per resource; 0 if left out.
        #[serde(default)]
        keep: usize,
    },
    /// Ends every watch of an API server, as when the server restarts or a balancer in front of it
    /// closes long connections. A client may resume its watch from the last resource version.
    #[serde(rename = "cluster.endWatches")]
    EndWatches {
        /// The API server; that of the workload cluster if left out.
        #[serde(default)]
        plane: ControlPlane,
    },

    /// Backs up the objects of the workload cluster for `cluster.restore`. A later backup replaces
    /// an earlier one.
    #[serde(rename = "cluster.backUp")]
    BackUpCluster,
    /// Restores the workload cluster from its backup, as `etcdctl snapshot restore` does. Objects
    /// and resource versions are those of the backup, every watch ends, and no watch can resume
    /// from a version before that of the backup. A watch from a version after that of the backup
    /// gets no events until the store exceeds this version again. The world refuses the command if
    /// no backup exists.
    #[serde(rename = "cluster.restore")]
    RestoreCluster,

    /// Starts the kubelet of a running machine at once: the kubelet registers its Node or makes it
    /// Ready. Adds a kubelet if the machine has none.
    #[serde(rename = "node.start")]
    StartKubelet(Named),
    /// Stops a kubelet: it sends no heartbeats, and after the grace period of 50 s the control
    /// plane sets the conditions of its Node to Unknown and taints the Node as unreachable.
    #[serde(rename = "node.heartbeatStop")]
    StopKubelet(Named),
    /// Sets the interval at which kubelets renew their leases. `null` stops the heartbeats of all
    /// kubelets, and their Nodes stay Ready.
    #[serde(rename = "node.heartbeats")]
    SetHeartbeats {
        /// Interval of lease renewals; every 30th renewal comes with a status report. `null` stops
        /// the heartbeats.
        #[serde(with = "crate::duration::option")]
        every: Option<Duration>,
    },

    /// Switches the scheduler, the controllers of workloads and the pods of the workload cluster on
    /// or off. Switched off, pods stay as they are.
    #[serde(rename = "cluster.workloads")]
    SetWorkloads {
        /// True if they run.
        run: bool,
    },

    /// Sets when a step ends, for steps that begin from now on.
    #[serde(rename = "timing.set")]
    SetTiming {
        /// Step whose end the command sets.
        step: Step,
        /// Time at which the step ends.
        completion: Completion,
    },
    /// Ends held steps now, that is, steps whose completion is `whenTold`.
    #[serde(rename = "tell")]
    Tell {
        /// The step; every held step if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Step>,
        /// Name of the machine, or of the other object that the step works on; any object if left
        /// out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<String>,
    },
}

fn template_item() -> String {
    TEMPLATE_ITEM.to_owned()
}
