//! Scheduling and execution of VM Operator's steps: after every change that concerns a
//! VirtualMachine, VM Operator reconciles this object, one step at a time.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Execution;
use super::guests::cloud_init::{ENCODING, USER_DATA};
use crate::control_plane::ControlPlane;
use crate::event::{Event, Fault};
use crate::objects::{self, GroupResource, Key, Op, PatchKind, Quota, quantity_nanos};
use crate::reactions::{Reaction, Step};
use crate::supervisor::OperatorChange;
use crate::supervisor::vmoperator::{
    self, FINALIZER, FIRST_BOOT_DONE, GROUP, MachineInVCenter, Missing, Prerequisites, ZONE_LABEL,
};
use crate::vcenter::{Change, Kind, MachineSpec, MoRef, Power, VcFault};

/// Delay after which VM Operator retries a step that vCenter or the Supervisor's API server
/// refused.
const RETRY: std::time::Duration = std::time::Duration::from_secs(10);
/// Label that Cluster API sets on a VirtualMachine whose machine runs a kubelet of the workload
/// cluster.
const ROLE_LABEL: &str = "capv.vmware.com/cluster.role";

impl Execution<'_> {
    /// Reconciles the VirtualMachines that depend on an object that was written or deleted in the
    /// Supervisor. Cancels the pending step of a deleted VirtualMachine.
    pub(super) fn supervisor_written(&mut self, event: &objects::Event) {
        if event.key.resource == vmoperator::machines() {
            match event.op {
                Op::Deleted => self.unschedule(&event.key.path()),
                Op::Added | Op::Modified => self.reconcile(&event.key.path()),
            }
        } else if event.key.resource == vmoperator::zones() {
            // The clusters of the zones decide in which zone each machine is.
            self.reconcile_all();
        } else if event.key.resource.group == GROUP
            || event.key.resource == GroupResource::core("secrets")
        {
            // A VirtualMachine without a machine may wait for this object.
            let waiting: Vec<String> = self
                .state
                .supervisor
                .objects
                .all(&vmoperator::machines())
                .filter(|object| object["status"]["uniqueID"].is_null())
                .map(|object| path_of(object))
                .collect();
            waiting.iter().for_each(|path| self.reconcile(path));
        }
    }

    /// Stores the VirtualMachine `object` of an existing machine together with its status. Makes
    /// only one write, because a topology may have thousands of machines.
    pub(crate) fn adopt(&mut self, object: Value, machine: MoRef) {
        let namespace = key_of(&object).namespace;
        let create = objects::Command::create(vmoperator::machines(), namespace, object);
        let now = self.now.timestamp(self.state.epoch);
        let store = self.state.objects(ControlPlane::Supervisor);
        let Ok(decision) = store.decide(now, create) else { return };
        for mut event in decision.events {
            let made = Arc::make_mut(&mut event.object);
            made["status"] = json!({"uniqueID": machine.to_string()});
            let status = self.wanted(made);
            made["status"] = status;
            self.emit_object(ControlPlane::Supervisor, event.clone());
            self.supervisor_written(&event);
        }
    }

    /// Reconciles the VirtualMachine of a machine that changed in vCenter. Does nothing if no
    /// VirtualMachine belongs to the machine.
    pub(super) fn machine_changed(&mut self, vcenter: &str, id: MoRef) {
        let supervisor = &self.state.supervisor;
        if vcenter != supervisor.vcenter {
            return;
        }
        let known = supervisor.object_of(&id.to_string());
        // A machine that was registered again has another id, and the same instance UUID.
        let again = || {
            let machine = self.vcenter(vcenter).ok()?.inventory.machine(id)?;
            supervisor.object_of_instance(&machine.config.instance_uuid.to_string())
        };
        if let Some(path) = known.or_else(again).map(str::to_owned) {
            self.reconcile(&path);
        }
    }

    /// Changes the settings of VM Operator. If a setting changes, decides anew for every object
    /// which step is pending: none while VM Operator does not reconcile. Fails in a world without a
    /// Supervisor.
    pub(super) fn set_operator(&mut self, change: OperatorChange) -> Result<(), Fault> {
        self.require_supervisor()?;
        let before = self.state.supervisor.operator;
        let operator = change.applied_to(before);
        if operator != before {
            self.emit(Event::OperatorSet(operator));
            self.reconcile_all();
        }
        Ok(())
    }

    pub(super) fn set_quota(&mut self, quota: Quota) -> Result<(), Fault> {
        self.require_supervisor()?;
        if let Some(wrong) = quota.unknown() {
            return Err(Fault::Supervisor(format!(
                "`{wrong}` is not a count of objects: \
                 write for example count/virtualmachines.vmoperator.vmware.com"
            )));
        }
        self.emit(Event::QuotaSet(quota));
        Ok(())
    }

    fn require_supervisor(&self) -> Result<(), Fault> {
        if self.state.supervisor.exists() {
            return Ok(());
        }
        Err(Fault::Supervisor("this world has no Supervisor".to_owned()))
    }

    fn reconcile_all(&mut self) {
        let machines = vmoperator::machines();
        let all = self.state.supervisor.objects.all(&machines);
        let paths: Vec<String> = all.map(|object| path_of(object)).collect();
        paths.iter().for_each(|path| self.reconcile(path));
    }

    /// Schedules the next step for an object, and cancels a different pending step. Does nothing if
    /// the next step is pending already.
    fn reconcile(&mut self, path: &str) {
        let next = self.next_step(path);
        let pending = self.state.supervisor.pending(path);
        if pending.map(|it| it.step) == next {
            return;
        }
        self.unschedule(path);
        if let Some(step) = next {
            let name = path.rsplit('/').next();
            let reaction = Reaction::VirtualMachine { path: path.to_owned(), step };
            self.after(step, self.now, name, reaction);
        }
    }

    fn unschedule(&mut self, path: &str) {
        if let Some(pending) = self.state.supervisor.pending(path) {
            self.emit(Event::Unscheduled { id: pending.id, at: pending.at });
        }
    }

    /// The next step for the object at `path`; `None` if no step is due, and while VM Operator does
    /// not reconcile.
    pub(crate) fn next_step(&self, path: &str) -> Option<Step> {
        if !self.state.supervisor.operator.reconciles {
            return None;
        }
        let object = self.virtual_machine(path)?;
        let tells_zones = self.state.supervisor.operator.tells_zones;
        vmoperator::next(object, self.machine_in_vcenter(object), &self.wanted(object), tells_zones)
    }

    /// Carries out a step for the object at `path` if it is still the next one, and schedules the
    /// step after it. Otherwise schedules the present next step. Repeats a refused step after
    /// [`RETRY`].
    pub(super) fn run_step(&mut self, path: &str, step: Step) {
        if self.next_step(path) != Some(step) {
            self.reconcile(path);
            return;
        }
        let Some(object) = self.virtual_machine(path).cloned() else { return };
        let done = match step {
            Step::VmAccepted => self.accept(&object),
            Step::VmCreated => self.make(&object),
            Step::VmPower => self.settle_power(&object),
            Step::VmDeleted => self.remove(&object),
            Step::VmPrerequisites => self.place(&object),
            _ => self.report(&object, self.wanted(&object)),
        };
        match done {
            Ok(()) if self.next_step(path) == Some(step) => {
                // The step may have caused another step that takes no time and makes the same step
                // due again.
                let is_pending = self.state.supervisor.pending(path).is_some();
                debug_assert!(is_pending, "{step:?} of {path} is due again, unscheduled: {object}");
            }
            Ok(()) => self.reconcile(path),
            // A refused step may succeed later.
            Err(Refusal) if self.next_step(path) == Some(step) => {
                self.unschedule(path);
                let reaction = Reaction::VirtualMachine { path: path.to_owned(), step };
                self.schedule_at(self.now + RETRY, reaction);
            }
            // A part of the step succeeded, so that another step is due now.
            Err(Refusal) => self.reconcile(path),
        }
    }

    fn accept(&mut self, object: &Value) -> Result<(), Refusal> {
        let mut finalizers =
            object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.push(FINALIZER.into());
        self.edit(object, json!({"metadata": {"finalizers": finalizers}}))
    }

    /// Writes into the status whether the prerequisites are met. If all are met and VM Operator
    /// reports zones, also writes the zone in which VM Operator will create the machine.
    fn place(&mut self, object: &Value) -> Result<(), Refusal> {
        let mut status = self.wanted(object);
        if self.state.supervisor.operator.tells_zones
            && self.prerequisites(object).are_met()
            && let Some(placement) = self.placement(zone_label(object))
        {
            status["zone"] = placement.zone.into();
        }
        self.report(object, status)
    }

    /// Writes a status, and copies its zone to the zone label if VM Operator reports zones.
    fn report(&mut self, object: &Value, status: Value) -> Result<(), Refusal> {
        let tells_zones = self.state.supervisor.operator.tells_zones;
        let zone = status["zone"].as_str().filter(|_| tells_zones).map(str::to_owned);
        let mut told = object.clone();
        told["status"] = status;
        self.write_supervisor(objects::Command::update(key_of(object), told).on_status())?;
        match zone.filter(|zone| zone_label(object) != zone) {
            Some(zone) => self.edit(object, json!({"metadata": {"labels": {ZONE_LABEL: zone}}})),
            None => Ok(()),
        }
    }

    /// Creates the machine and writes its id into the status. Later steps write the other fields of
    /// the status.
    fn make(&mut self, object: &Value) -> Result<(), Refusal> {
        let vcenter = self.state.supervisor.vcenter.clone();
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (cpus, memory_mib) = self.hardware(object);
        let spec = MachineSpec {
            cpus,
            memory_mib,
            name: text("/metadata/name").map(str::to_owned),
            uuid: text("/spec/biosUUID").and_then(|uuid| uuid.parse().ok()),
            host_name: text("/spec/network/hostName").map(str::to_owned),
            ..MachineSpec::default()
        };
        let cluster = self.placement(zone_label(object)).map(|placement| placement.cluster);
        let runs_kubelet = object["metadata"]["labels"][ROLE_LABEL].is_string();
        let id = self.create_machine(Some(vcenter.clone()), spec, cluster, false, runs_kubelet)?;
        if let Some(uuid) = text("/spec/instanceUUID").and_then(|uuid| uuid.parse::<Uuid>().ok()) {
            let mut config = self.machine(&vcenter, id)?.config.clone();
            config.instance_uuid = uuid;
            self.change(&vcenter, id, Change::Config(Box::new(config)));
        }
        if let Some(data) = self.user_data(object) {
            let mut config = self.machine(&vcenter, id)?.config.clone();
            config.extra.insert(USER_DATA.to_owned(), data);
            config.extra.insert(ENCODING.to_owned(), "base64".to_owned());
            self.change(&vcenter, id, Change::Config(Box::new(config)));
        }
        let mut told = object.clone();
        told["status"]["uniqueID"] = id.to_string().into();
        self.write_supervisor(objects::Command::update(key_of(object), told).on_status())
    }

    /// Returns the processors and the memory in MiB that the class of a VirtualMachine has, as far as it
    /// names them.
    fn hardware(&self, object: &Value) -> (Option<u32>, Option<u32>) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let names = (text("/metadata/namespace"), text("/spec/className"));
        let (Some(namespace), Some(class)) = names else { return (None, None) };
        let classes = GroupResource::of(GROUP, "virtualmachineclasses");
        let class = self.state.supervisor.objects.get(&Key::new(classes, namespace, class));
        let Some(hardware) = class.map(|it| &it["spec"]["hardware"]) else { return (None, None) };
        // A quantity is a text or a whole number.
        let memory = match &hardware["memory"] {
            Value::String(text) => quantity_nanos(text),
            other => other.as_i64().map(|bytes| i128::from(bytes) * 1_000_000_000),
        };
        let mib = memory.map(|nanos| nanos / (1_000_000_000 * (1 << 20)));
        let (cpus, mib) = (hardware["cpus"].as_u64(), mib.and_then(|it| u32::try_from(it).ok()));
        (cpus.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0), mib.filter(|it| *it > 0))
    }

    /// Returns the cloud-init data of a VirtualMachine in Base64; `None` if it names no Secret with
    /// such data.
    fn user_data(&self, object: &Value) -> Option<String> {
        let reference = &object["spec"]["bootstrap"]["cloudInit"]["rawCloudConfig"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let namespace = object["metadata"]["namespace"].as_str()?;
        let name = text(&reference["name"])?;
        let secret = Key::new(GroupResource::core("secrets"), namespace, name);
        let secret = self.state.supervisor.objects.get(&secret)?;
        text(&secret["data"][text(&reference["key"])?])
    }

    fn settle_power(&mut self, object: &Value) -> Result<(), Refusal> {
        let Some(found) = self.machine_in_vcenter(object) else { return Ok(()) };
        let (vcenter, id) = (self.state.supervisor.vcenter.clone(), found.id);
        match vmoperator::wanted_power(object) {
            Some(Power::PoweredOn) => {
                self.power_on(&vcenter, id)?;
                if object["metadata"]["annotations"][FIRST_BOOT_DONE].is_null() {
                    self.edit(object, json!({"metadata": {"annotations": {FIRST_BOOT_DONE: ""}}}))?;
                }
            }
            Some(Power::PoweredOff) => self.power_off(&vcenter, id)?,
            Some(Power::Suspended) => self.suspend(&vcenter, id)?,
            None => {}
        }
        Ok(())
    }

    /// Destroys the machine, then removes the finalizer from the object. Fails while vCenter cannot
    /// operate on the machine, for example because its host does not answer.
    fn remove(&mut self, object: &Value) -> Result<(), Refusal> {
        if let Some(found) = self.machine_in_vcenter(object) {
            let (vcenter, id) = (self.state.supervisor.vcenter.clone(), found.id);
            self.manageable(&vcenter, id)?;
            self.destroy(&vcenter, id)?;
        }
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        let rest: Vec<Value> = finalizers.filter(|it| *it != FINALIZER).cloned().collect();
        self.edit(object, json!({"metadata": {"finalizers": rest}}))
    }

    fn edit(&mut self, object: &Value, patch: Value) -> Result<(), Refusal> {
        self.write_supervisor(objects::Command::patch(key_of(object), PatchKind::Merge, patch))
    }

    /// Writes an object in the Supervisor. The API server refuses every write to an object that no
    /// longer exists. It refuses an update of the status if a client has changed the object since
    /// VM Operator read it, and any other write while VM Operator's webhooks do not answer.
    fn write_supervisor(&mut self, command: objects::Command) -> Result<(), Refusal> {
        self.objects(ControlPlane::Supervisor, command).map(drop).map_err(|_| Refusal)
    }

    fn virtual_machine(&self, path: &str) -> Option<&Value> {
        let (namespace, name) = path.split_once('/')?;
        let key = Key::new(vmoperator::machines(), namespace, name);
        self.state.supervisor.objects.get(&key).map(|object| &**object)
    }

    /// Returns the machine of a VirtualMachine; `None` if vCenter does not have it. Finds the
    /// machine by the id in the status. If no machine has this id, finds it by the instance UUID,
    /// because vCenter may have registered the machine again, and ignores machines of other
    /// VirtualMachines.
    fn machine_in_vcenter<'a>(&'a self, object: &Value) -> Option<MachineInVCenter<'a>> {
        let vcenter = self.state.vcenters.get(&self.state.supervisor.vcenter)?;
        let status = &object["status"];
        let by_id = || {
            let id = MoRef::parse(status["uniqueID"].as_str()?)?;
            vcenter.inventory.machine(id).map(|_| id)
        };
        let by_uuid = || {
            let uuid = status["instanceUUID"].as_str()?.parse().ok()?;
            let owner = |id: &MoRef| self.state.supervisor.object_of(&id.to_string());
            let is_free = |id: &MoRef| owner(id).is_none_or(|path| path == path_of(object));
            vcenter.inventory.by_instance_uuid(uuid).find(is_free)
        };
        let id = by_id().or_else(by_uuid)?;
        let machine = vcenter.inventory.machine(id)?;
        let zone = self.zone_of(machine.host).unwrap_or_default();
        Some(MachineInVCenter { vcenter, id, machine, zone })
    }

    fn wanted(&self, object: &Value) -> Value {
        let now = self.now.timestamp(self.state.epoch);
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let operator = &self.state.supervisor.operator;
        // VM Operator does not check prerequisites after it has created the machine.
        let prerequisites = match object["status"]["uniqueID"].is_string() {
            true => Prerequisites { all: Vec::new() },
            false => self.prerequisites(object),
        };
        vmoperator::status(object, self.machine_in_vcenter(object), &prerequisites, operator, &now)
    }

    /// Checks whether the class, image, resource policy and bootstrap Secret that a VirtualMachine
    /// names exist, and whether the zone in its zone label, if any, has a cluster.
    fn prerequisites(&self, object: &Value) -> Prerequisites {
        let spec = &object["spec"];
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let has = |resource: GroupResource, namespace: &str, name: &str| {
            let key = Key::new(resource, namespace, name);
            self.state.supervisor.objects.get(&key).is_some()
        };
        let mut all = Vec::new();
        let mut look = |condition, field: &Value, what: &str, is_there: &dyn Fn(&str) -> bool| {
            let Some(name) = field.as_str().filter(|name| !name.is_empty()) else { return };
            let missing =
                || Missing { reason: "NotFound", message: format!("{what} \"{name}\" not found") };
            all.push((condition, if is_there(name) { Ok(()) } else { Err(missing()) }));
        };
        let kind = |resource: &'static str| GroupResource::of(GROUP, resource);
        look(
            "VirtualMachineClassReady",
            &spec["className"],
            "virtualmachineclasses.vmoperator.vmware.com",
            &|name| has(kind("virtualmachineclasses"), namespace, name),
        );
        let is_of_cluster = spec["image"]["kind"] == "ClusterVirtualMachineImage";
        look(
            "VirtualMachineImageReady",
            &spec["image"]["name"],
            "virtualmachineimages.vmoperator.vmware.com",
            &|name| {
                (!is_of_cluster && has(kind("virtualmachineimages"), namespace, name))
                    || has(kind("clustervirtualmachineimages"), "", name)
            },
        );
        look(
            "VirtualMachineConditionVMSetResourcePolicyReady",
            &spec["reserved"]["resourcePolicyName"],
            "virtualmachinesetresourcepolicies.vmoperator.vmware.com",
            &|name| has(kind("virtualmachinesetresourcepolicies"), namespace, name),
        );
        look(
            "VirtualMachineBootstrapReady",
            &spec["bootstrap"]["cloudInit"]["rawCloudConfig"]["name"],
            "secrets",
            &|name| has(GroupResource::core("secrets"), namespace, name),
        );
        let zone = zone_label(object);
        let placed = match self.candidates(zone).next() {
            None if !zone.is_empty() => Err(Missing {
                reason: "NotReady",
                message: format!("zone \"{zone}\" has no placement candidates"),
            }),
            _ => Ok(()),
        };
        all.push(("VirtualMachineConditionPlacementReady", placed));
        Prerequisites { all }
    }

    /// The name of the AvailabilityZone that contains the cluster of a host; `None` if no zone
    /// contains it.
    fn zone_of(&self, host: MoRef) -> Option<&str> {
        let vcenter = self.state.vcenters.get(&self.state.supervisor.vcenter)?;
        let compute = vcenter.inventory.get(host)?.parent?.to_string();
        let zone = self.zones().find(|zone| {
            let clusters = zone["spec"]["clusterComputeResourceMoIDs"].as_array();
            clusters.into_iter().flatten().any(|id| id == compute.as_str())
        })?;
        zone["metadata"]["name"].as_str()
    }

    /// The place for a new machine: the cluster with the fewest machines in `zone`, or in all zones
    /// if `zone` is empty. `None` if no zone matches or the zones have no cluster.
    fn placement(&self, zone: &str) -> Option<Placement> {
        let inventory = &self.state.vcenters.get(&self.state.supervisor.vcenter)?.inventory;
        let n_machines = |(_, cluster): &(String, MoRef)| {
            let parent = |host: MoRef| inventory.get(host).and_then(|it| it.parent);
            inventory.machines().filter(|(_, _, it)| parent(it.host) == Some(*cluster)).count()
        };
        let (zone, cluster) = self.candidates(zone).min_by_key(n_machines)?;
        Some(Placement { zone, cluster: inventory.get(cluster)?.name.clone() })
    }

    /// The clusters of `zone`, or of every zone if `zone` is empty, each with its zone's name.
    fn candidates(&self, zone: &str) -> impl Iterator<Item = (String, MoRef)> {
        let inventory =
            self.state.vcenters.get(&self.state.supervisor.vcenter).map(|it| &it.inventory);
        let name =
            |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let zones = self.zones().filter(move |it| zone.is_empty() || name(it) == zone);
        let clusters = zones.flat_map(move |it| {
            let ids = it["spec"]["clusterComputeResourceMoIDs"].as_array().into_iter().flatten();
            ids.filter_map(|id| MoRef::parse(id.as_str()?)).map(move |id| (name(it), id))
        });
        let is_there = move |id: MoRef| {
            id.kind == Kind::Cluster && inventory.is_some_and(|it| it.get(id).is_some())
        };
        clusters.filter(move |(_, id)| is_there(*id))
    }

    fn zones(&self) -> impl Iterator<Item = &Value> {
        let zones = vmoperator::zones();
        let all: Vec<&Value> = self.state.supervisor.objects.all(&zones).map(|it| &**it).collect();
        all.into_iter()
    }
}

/// The error that vCenter or the Supervisor's API server has refused a step of VM Operator.
struct Refusal;

impl From<VcFault> for Refusal {
    fn from(_: VcFault) -> Self {
        Self
    }
}

/// The place for a new machine.
struct Placement {
    /// Name of the AvailabilityZone.
    zone: String,
    /// Inventory name of the cluster in vCenter.
    cluster: String,
}

/// The zone in the object's zone label; empty if it has none and so accepts any zone.
fn zone_label(object: &Value) -> &str {
    object["metadata"]["labels"][ZONE_LABEL].as_str().unwrap_or_default()
}

fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Key::new(vmoperator::machines(), text("namespace"), text("name"))
}

fn path_of(object: &Value) -> String {
    key_of(object).path()
}
