//! Calls that find one machine, make, change and destroy machines, and read the tasks of such calls.
//!
//! Each task method returns when vCenter has accepted the task. A lost answer leaves the caller
//! without its reference, so a caller finds out by the UUIDs of the machine what has happened.

use std::fmt;

use crate::{CallError, Fault, FilterSpec, MoRef, Vcenter, xml::XmlWriter};

use super::Scope;

/// A clone of a machine, as `CloneVM_Task` makes it: powered off, and with these properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneSpec {
    /// Name of the clone.
    pub name: String,
    /// Folder of the clone.
    pub folder: MoRef,
    /// Resource pool of the clone.
    pub pool: MoRef,
    /// Datastore of its files; `None` for that of the source.
    pub datastore: Option<MoRef>,
    /// Snapshot of the source on which the disks of a linked clone are based; `None` for a full
    /// clone.
    pub linked_to: Option<MoRef>,
    /// Configuration that differs from that of the source.
    pub config: MachineConfig,
}

/// Configuration of a machine. vCenter keeps what is `None` or empty here.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MachineConfig {
    /// BIOS UUID.
    pub uuid: Option<String>,
    /// Instance UUID.
    pub instance_uuid: Option<String>,
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u32>,
    /// True if the guest sees the UUIDs of its disks, and the machine loses the vApp configuration
    /// of an OVF template, which cloud-init would prefer to the guest info.
    pub is_node: bool,
    /// Keys and values of `extraConfig`.
    pub extra: Vec<(String, String)>,
    /// Changes of devices, in their order.
    pub devices: Vec<DeviceChange>,
}

/// Shows the keys of `extra` without the values, which have bootstrap data.
impl fmt::Debug for MachineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uuid, instance_uuid, cpus, memory_mib, is_node, extra, devices } = self;
        let keys: Vec<&str> = extra.iter().map(|(key, _)| key.as_str()).collect();
        f.debug_struct("MachineConfig")
            .field("uuid", uuid)
            .field("instance_uuid", instance_uuid)
            .field("cpus", cpus)
            .field("memory_mib", memory_mib)
            .field("is_node", is_node)
            .field("extra", &keys)
            .field("devices", devices)
            .finish()
    }
}

/// Change of a device of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// Removes the device of this type with this key.
    Remove {
        /// Type, such as `VirtualVmxnet3`.
        kind: String,
        /// Key.
        key: i32,
    },
    /// Adds a network card of type vmxnet3.
    AddCard {
        /// Key in this request: below zero, and different for each card.
        key: i32,
        /// Network of the card.
        network: CardNetwork,
    },
    /// Sets the capacity of a disk.
    Grow {
        /// Key of the disk.
        key: i32,
        /// Key of its controller.
        controller: i32,
        /// Unit number at its controller.
        unit: i32,
        /// File of the disk.
        file: String,
        /// Mode of the disk, such as `persistent`.
        mode: String,
        /// New capacity in KiB.
        kib: i64,
    },
}

/// Network of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardNetwork {
    /// Network of a standard switch.
    Standard {
        /// The network.
        network: MoRef,
        /// Its name.
        name: String,
    },
    /// Port group of a distributed switch.
    Distributed {
        /// Key of the port group.
        portgroup: String,
        /// UUID of the switch.
        switch: String,
    },
}

/// State of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The task waits or runs.
    Running,
    /// The task has ended with this object as its result, if it has one.
    Done(Option<MoRef>),
    /// The task has failed.
    Failed(Fault),
    /// vCenter does not know the task any more.
    Forgotten,
}

impl Vcenter {
    /// `FindAllByUuid` with instance UUIDs: returns all virtual machines with this instance UUID that
    /// the login sees. An empty result does not prove that no such machine exists.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_all_by_instance_uuid(&self, uuid: &str) -> Result<Vec<MoRef>, CallError> {
        const OPERATION: &str = "FindAllByUuid";
        let deadline = self.inner.settings.call_deadline;
        let answer = self
            .soap(OPERATION, Scope::Any, deadline, |content, out| {
                out.reference("_this", &content.search_index);
                out.text("uuid", uuid);
                out.text("vmSearch", "true");
                out.text("instanceUuid", "true");
            })
            .await?;
        let read = |it| MoRef::read(it).ok_or_else(|| self.malformed(OPERATION, "not a reference"));
        answer.all("returnval").map(read).collect()
    }

    /// `FindByInventoryPath`: returns the object with this path of names below the root folder;
    /// `None` if the login sees none.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_by_inventory_path(&self, path: &str) -> Result<Option<MoRef>, CallError> {
        let deadline = self.inner.settings.call_deadline;
        let answer = self
            .soap("FindByInventoryPath", Scope::Any, deadline, |content, out| {
                out.reference("_this", &content.search_index);
                out.text("inventoryPath", path);
            })
            .await?;
        Ok(answer.child("returnval").and_then(MoRef::read))
    }

    /// `CloneVM_Task`: begins to clone `source`, and returns the task.
    ///
    /// # Errors
    ///
    /// As every call. The task may run although the call failed without an answer.
    pub async fn clone_machine(
        &self,
        source: &MoRef,
        spec: &CloneSpec,
    ) -> Result<MoRef, CallError> {
        self.start_task("CloneVM_Task", source, |out| spec.write(out)).await
    }

    /// `ReconfigVM_Task`: begins to change a machine, and returns the task.
    ///
    /// # Errors
    ///
    /// As [`Vcenter::clone_machine`].
    pub async fn reconfigure(
        &self,
        machine: &MoRef,
        config: &MachineConfig,
    ) -> Result<MoRef, CallError> {
        self.start_task("ReconfigVM_Task", machine, |out| config.write("spec", out)).await
    }

    /// `PowerOnVM_Task`: begins to power a machine on, and returns the task.
    ///
    /// # Errors
    ///
    /// As [`Vcenter::clone_machine`].
    pub async fn power_on(&self, machine: &MoRef) -> Result<MoRef, CallError> {
        self.start_task("PowerOnVM_Task", machine, |_| {}).await
    }

    /// `PowerOffVM_Task`: begins to power a machine off, and returns the task.
    ///
    /// # Errors
    ///
    /// As [`Vcenter::clone_machine`].
    pub async fn power_off(&self, machine: &MoRef) -> Result<MoRef, CallError> {
        self.start_task("PowerOffVM_Task", machine, |_| {}).await
    }

    /// `Destroy_Task`: begins to delete a machine with all its disks, and returns the task.
    ///
    /// # Errors
    ///
    /// As [`Vcenter::clone_machine`].
    pub async fn destroy(&self, machine: &MoRef) -> Result<MoRef, CallError> {
        self.start_task("Destroy_Task", machine, |_| {}).await
    }

    /// Reads the state of a task.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn task_state(&self, task: &MoRef) -> Result<TaskState, CallError> {
        let spec = FilterSpec::of_objects("Task", &["info"], vec![task.clone()]);
        let read = match self.retrieve(&spec).await {
            Ok(read) => read,
            Err(err) if err.says_gone(task) => return Ok(TaskState::Forgotten),
            Err(err) => return Err(err),
        };
        let Some(info) = read.iter().find_map(|it| it.properties.get("info")) else {
            return Ok(TaskState::Forgotten);
        };
        Ok(match info.text_of("state") {
            Some("success") => TaskState::Done(info.child("result").and_then(MoRef::read)),
            Some("error") => {
                let error = info.child("error");
                let message = error.and_then(|it| it.text_of("localizedMessage"));
                let fault = error.map(|it| it.child("fault").unwrap_or(it));
                let fault = fault.ok_or_else(|| {
                    self.malformed("RetrievePropertiesEx", "a failed task without error")
                })?;
                TaskState::Failed(Fault::read(fault, message.unwrap_or_default()))
            }
            Some("queued" | "running") => TaskState::Running,
            _ => return Err(self.malformed("RetrievePropertiesEx", "a task without state")),
        })
    }

    async fn start_task(
        &self,
        operation: &'static str,
        object: &MoRef,
        arguments: impl Fn(&mut XmlWriter),
    ) -> Result<MoRef, CallError> {
        let deadline = self.inner.settings.call_deadline;
        let answer = self
            .soap(operation, Scope::Any, deadline, |_, out| {
                out.reference("_this", object);
                arguments(out);
            })
            .await?;
        let task = answer.child("returnval").and_then(MoRef::read);
        task.ok_or_else(|| self.malformed(operation, "no task returned"))
    }
}

impl CloneSpec {
    /// Writes the arguments of `CloneVM_Task`.
    fn write(&self, out: &mut XmlWriter) {
        let move_type = match self.linked_to {
            Some(_) => "createNewChildDiskBacking",
            None => "moveAllDiskBackingsAndConsolidate",
        };
        out.reference("folder", &self.folder);
        out.text("name", &self.name);
        out.nest("spec", "", |out| {
            out.nest("location", "", |out| {
                if let Some(datastore) = &self.datastore {
                    out.reference("datastore", datastore);
                }
                out.text("diskMoveType", move_type);
                out.reference("pool", &self.pool);
            });
            out.text("template", "false");
            self.config.write("config", out);
            out.text("powerOn", "false");
            if let Some(snapshot) = &self.linked_to {
                out.reference("snapshot", snapshot);
            }
        });
    }
}

impl MachineConfig {
    /// Writes a `VirtualMachineConfigSpec`, in the order of its schema.
    fn write(&self, name: &str, out: &mut XmlWriter) {
        out.nest(name, "", |out| {
            for (name, uuid) in [("uuid", &self.uuid), ("instanceUuid", &self.instance_uuid)] {
                if let Some(uuid) = uuid {
                    out.text(name, uuid);
                }
            }
            if self.is_node {
                out.nest("flags", "", |out| {
                    out.text("diskUuidEnabled", "true");
                });
            }
            if let Some(cpus) = self.cpus {
                out.text("numCPUs", &cpus.to_string());
            }
            if let Some(memory) = self.memory_mib {
                out.text("memoryMB", &memory.to_string());
            }
            for change in &self.devices {
                out.nest("deviceChange", "", |out| change.write(out));
            }
            for (key, value) in &self.extra {
                out.nest("extraConfig", "", |out| {
                    out.text("key", key);
                    out.xsi_text("value", "xsd:string", value);
                });
            }
            if self.is_node {
                out.text("vAppConfigRemoved", "true");
            }
        });
    }
}

impl DeviceChange {
    /// Writes the content of a `VirtualDeviceConfigSpec`.
    fn write(&self, out: &mut XmlWriter) {
        match self {
            Self::Remove { kind, key } => {
                out.text("operation", "remove");
                out.nest_xsi("device", kind, |out| {
                    out.text("key", &key.to_string());
                });
            }
            Self::AddCard { key, network } => {
                out.text("operation", "add");
                out.nest_xsi("device", "VirtualVmxnet3", |out| {
                    out.text("key", &key.to_string());
                    network.write(out);
                    out.nest("connectable", "", |out| {
                        out.text("startConnected", "true");
                        out.text("allowGuestControl", "true");
                        out.text("connected", "true");
                    });
                    out.text("addressType", "generated");
                });
            }
            Self::Grow { key, controller, unit, file, mode, kib } => {
                out.text("operation", "edit");
                out.nest_xsi("device", "VirtualDisk", |out| {
                    out.text("key", &key.to_string());
                    out.nest_xsi("backing", "VirtualDiskFlatVer2BackingInfo", |out| {
                        out.text("fileName", file);
                        out.text("diskMode", mode);
                    });
                    out.text("controllerKey", &controller.to_string());
                    out.text("unitNumber", &unit.to_string());
                    out.text("capacityInKB", &kib.to_string());
                });
            }
        }
    }
}

impl CardNetwork {
    fn write(&self, out: &mut XmlWriter) {
        match self {
            Self::Standard { network, name } => {
                out.nest_xsi("backing", "VirtualEthernetCardNetworkBackingInfo", |out| {
                    out.text("deviceName", name);
                    out.reference("network", network);
                });
            }
            Self::Distributed { portgroup, switch } => {
                let kind = "VirtualEthernetCardDistributedVirtualPortBackingInfo";
                out.nest_xsi("backing", kind, |out| {
                    out.nest("port", "", |out| {
                        out.text("switchUuid", switch);
                        out.text("portgroupKey", portgroup);
                    });
                });
            }
        }
    }
}
