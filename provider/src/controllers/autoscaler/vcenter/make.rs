//! Makes machines: clones the template, sizes the disk, attaches the tag and powers on.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use provider_vcenter::{CardNetwork, CloneSpec, DeviceChange, MachineConfig};
use serde_json::json;
use uuid::Uuid;

use super::{
    super::{
        group::{BootstrapFormat, CloneShape, Group, GroupId, Shape},
        plan::{Cause, MachineChange},
    },
    VcenterMachines,
    failure::{Shows, Trouble},
    journal::{Intent, IntentState, Journal},
    machine::{DISKS, Detail, Disk, MARK},
    source::{Source, Unresolved, folder_path},
};

/// KiB of a GiB.
const KIB: i64 = 1 << 20;

/// Group and source of a machine that is to be made.
struct Plan {
    intent: Intent,
    group: Arc<Group>,
    source: Source,
}

impl Plan {
    fn shape(&self) -> &CloneShape {
        match &self.group.shape {
            Shape::Clone(shape) => shape,
            Shape::VirtualMachine(_) | Shape::ClusterApi { .. } => {
                unreachable!("the file of this backend has no group of another kind")
            }
        }
    }
}

impl VcenterMachines {
    /// Makes a machine, from where it stands. Ends early if the machine is to be deleted meanwhile.
    pub(super) async fn make(&self, instance: Uuid) -> Result<(), Trouble> {
        let _permit = self.0.making.acquire().await;
        // After an error nothing is known about the machine, so that it may exist.
        let found = self.look(instance).await?;
        let cause = self.cause(instance);
        let plan = match self.plan(instance) {
            Ok(Some(plan)) => plan,
            Ok(None) => return Ok(()),
            Err(trouble) => return self.not_started(instance, found.is_some(), trouble),
        };
        let Some(was_started) = self.start(instance) else { return Ok(()) };
        let machine = match found {
            Some(machine) => machine,
            None => {
                // An earlier request may be cloning the machine. This attempt has sent none yet.
                let spec = match self.clone_spec(&plan).await {
                    Ok(spec) => spec,
                    Err(trouble) => return self.not_started(instance, was_started, trouble),
                };
                match self.clone_for(&plan, &spec).await {
                    Ok(machine) => machine,
                    Err(trouble) => return self.not_started(instance, false, trouble),
                }
            }
        };
        if !self.identify(&plan.intent, &machine).await? {
            return Ok(());
        }
        self.prepare(&plan, &machine).await?;
        if self.intent(instance, IntentState::Wanted).is_none() {
            return Ok(());
        }
        if !machine.seen.is_on {
            self.require_token(&plan.intent, plan.shape()).await?;
            let task = self.0.vcenter.power_on(&machine.seen.object).await;
            let task = task.map_err(|err| Trouble::of_call(&err))?;
            self.finish(&task).await?;
        }
        self.complete(instance, &machine, cause).await
    }

    /// Does what a machine needs before it is powered on.
    async fn prepare(&self, plan: &Plan, machine: &Detail) -> Result<(), Trouble> {
        let disks = machine.disks.as_deref().ok_or_else(|| {
            let text = format!("the disks of {} cannot be read", machine.seen.object);
            Trouble::other("VM_CREATE_FAILED", &text, Shows::AfterGrace)
        })?;
        if !machine.seen.is_on {
            self.size_disk(plan, machine, disks).await?;
        }
        if let Some(tag) = &plan.source.tag {
            let attached = self.0.vcenter.attach_tag(tag, &machine.seen.object).await;
            attached.map_err(|err| Trouble::of_call(&err))?;
        }
        Ok(())
    }

    /// Marks the machine as started, and returns whether it was; `None` if it is not to be made any
    /// more.
    fn start(&self, instance: Uuid) -> Option<bool> {
        let mut state = self.state();
        let is_wanted =
            state.journal.find(instance).is_some_and(|it| it.state == IntentState::Wanted);
        let work = state.work(instance);
        let may_start = is_wanted && !work.is_given_up;
        let was_started = work.is_started;
        work.is_started |= may_start;
        may_start.then_some(was_started)
    }

    /// Returns the failure of an attempt after which the machine does not exist, unless `exists`.
    fn not_started(&self, instance: Uuid, exists: bool, trouble: Trouble) -> Result<(), Trouble> {
        // A lost answer may hide a clone that runs.
        if trouble.shows != Shows::Never && !trouble.is_running {
            self.state().work(instance).is_started = exists;
        }
        Err(trouble)
    }

    /// Returns what is needed to make the machine; `None` if it is not to be made any more.
    fn plan(&self, instance: Uuid) -> Result<Option<Plan>, Trouble> {
        let state = self.state();
        let intent = state.journal.find(instance).filter(|it| it.state == IntentState::Wanted);
        let Some(intent) = intent.cloned() else { return Ok(None) };
        let Some(group) = state.groups.get(&intent.group).cloned() else { return Ok(None) };
        match state.sources.get(&intent.group) {
            Some(Ok(source)) => Ok(Some(Plan { intent, group, source: source.clone() })),
            Some(Err(Unresolved::Wrong(failure))) => {
                Err(Trouble { failure: failure.clone(), shows: Shows::AtOnce, is_running: false })
            }
            Some(Err(Unresolved::Call(why))) => {
                Err(Trouble::other("VM_CREATE_FAILED", why, Shows::Never))
            }
            None => Err(Trouble::other("VM_CREATE_FAILED", "not read yet", Shows::Never)),
        }
    }

    /// Clones the template, and reads the clone.
    async fn clone_for(&self, plan: &Plan, spec: &CloneSpec) -> Result<Detail, Trouble> {
        let task = self.0.vcenter.clone_machine(&plan.source.template, spec).await;
        let ended = match task {
            Ok(task) => self.finish(&task).await,
            Err(err) => Err(Trouble::of_call(&err)),
        };
        match ended {
            Ok(Some(object)) => {
                self.has_offered_token(plan.intent.instance);
                let read = self.read(&object).await?;
                read.ok_or_else(|| {
                    Trouble::other("VM_CREATE_FAILED", "the clone is gone", Shows::AfterGrace)
                })
            }
            Ok(None) => {
                let text = "the task of the clone has no result";
                Err(Trouble::other("VM_CREATE_FAILED", text, Shows::AfterGrace))
            }
            Err(trouble) if trouble.is_name_taken() => self.after_conflict(plan, trouble).await,
            Err(trouble) => Err(trouble),
        }
    }

    /// Finds out whose machine has the name: that of an earlier request for this machine, or another
    /// one.
    async fn after_conflict(&self, plan: &Plan, trouble: Trouble) -> Result<Detail, Trouble> {
        if let Some(machine) = self.look(plan.intent.instance).await? {
            return Ok(machine);
        }
        let path = format!("{}/{}", folder_path(plan.shape()), plan.intent.name);
        let found = self.0.vcenter.find_by_inventory_path(&path).await;
        let Some(object) = found.map_err(|err| Trouble::of_call(&err))? else {
            return Err(trouble);
        };
        let read = if object.kind() == "VirtualMachine" { self.read(&object).await? } else { None };
        // A clone has no UUID while it is being made.
        let is_foreign = read.is_none_or(|it| it.seen.instance.is_some());
        let shows = if is_foreign { Shows::AtOnce } else { trouble.shows };
        Err(Trouble { shows, ..trouble })
    }

    async fn clone_spec(&self, plan: &Plan) -> Result<CloneSpec, Trouble> {
        let Plan { intent, source, .. } = plan;
        let shape = plan.shape();
        let disks: Vec<String> = source.disks.iter().map(ToString::to_string).collect();
        let mut extra = vec![(MARK.to_owned(), intent.mark()), (DISKS.to_owned(), disks.join(","))];
        extra.extend(self.bootstrap(plan).await?);
        Ok(CloneSpec {
            name: intent.name.clone(),
            folder: source.folder.clone(),
            pool: source.pool.clone(),
            datastore: source.datastore.clone(),
            linked_to: source.snapshot.clone(),
            config: MachineConfig {
                uuid: Some(intent.bios.to_string()),
                instance_uuid: Some(intent.instance.to_string()),
                cpus: shape.cpus(),
                memory_mib: shape.memory_mib(),
                is_node: true,
                extra,
                devices: card_changes(source),
            },
        })
    }

    /// Returns the keys of `extraConfig` that make the machine join the cluster.
    async fn bootstrap(&self, plan: &Plan) -> Result<Vec<(String, String)>, Trouble> {
        let data = self.user_data(&plan.intent, plan.shape()).await?;
        let encoded = STANDARD.encode(data);
        let entry = |key: &str, value: String| (format!("guestinfo.{key}"), value);
        Ok(match plan.shape().bootstrap.format {
            BootstrapFormat::CloudInit => {
                let metadata = json!({
                    "instance-id": plan.intent.instance.to_string(),
                    "local-hostname": plan.intent.name,
                    "hostname": plan.intent.name,
                });
                vec![
                    entry("metadata", STANDARD.encode(metadata.to_string())),
                    entry("metadata.encoding", "base64".to_owned()),
                    entry("userdata", encoded),
                    entry("userdata.encoding", "base64".to_owned()),
                ]
            }
            BootstrapFormat::Ignition => vec![
                entry("ignition.config.data", encoded),
                entry("ignition.config.data.encoding", "base64".to_owned()),
                entry("hostname", plan.intent.name.clone()),
            ],
        })
    }

    /// Checks that the machine is that of the intent. Takes over the UUIDs that vCenter gave a clone
    /// instead of the requested ones, and returns false then: the next attempt uses them.
    async fn identify(&self, intent: &Intent, machine: &Detail) -> Result<bool, Trouble> {
        let Err(why) = machine.is_of(intent) else { return Ok(true) };
        let is_marked = machine.mark.as_deref() == Some(&*intent.mark());
        let conflict = |text: &str| Trouble::other("NAME_CONFLICT", text, Shows::AtOnce);
        let (Some(bios), Some(instance), true) =
            (machine.seen.bios, machine.seen.instance, is_marked && intent.requested.is_none())
        else {
            return Err(conflict(&format!(
                "{} is not the requested machine: {why}",
                machine.seen.object
            )));
        };
        tracing::warn!(machine = %intent.name, requested = %intent.bios, actual = %bios, "vCenter gave the machine other UUIDs than the requested ones; its provider ID has changed");
        let (requested, old) = ((intent.bios, intent.instance), intent.instance);
        let moved = |journal: &mut Journal| {
            if let Some(it) = journal.find_mut(old) {
                (it.bios, it.instance, it.requested) = (bios, instance, Some(requested));
            }
        };
        if !self.note(moved).await {
            return Err(Trouble::other("VM_CREATE_FAILED", "the journal failed", Shows::Never));
        }
        let mut state = self.state();
        let mut work = state.work.remove(&old).unwrap_or_default();
        work.is_busy = false;
        state.work.insert(instance, work);
        Ok(false)
    }

    /// Makes the first disk as large as the group says. vCenter cannot make it smaller.
    async fn size_disk(
        &self,
        plan: &Plan,
        machine: &Detail,
        disks: &[Disk],
    ) -> Result<(), Trouble> {
        let Some(size) = plan.shape().disk_gib else { return Ok(()) };
        let kib = i64::from(size) * KIB;
        let Some(disk) = disks.first().filter(|it| it.kib < kib) else { return Ok(()) };
        let grow = DeviceChange::Grow {
            key: disk.key,
            controller: disk.controller,
            unit: disk.unit,
            file: disk.file.clone(),
            mode: disk.mode.clone(),
            kib,
        };
        let config = MachineConfig { devices: vec![grow], ..MachineConfig::default() };
        let task = self.0.vcenter.reconfigure(&machine.seen.object, &config).await;
        let task = task.map_err(|err| Trouble::of_call(&err))?;
        self.finish(&task).await.map(drop)
    }

    /// Notes that a machine has been powered on. If the note fails, a later attempt makes it again.
    async fn complete(
        &self,
        instance: Uuid,
        machine: &Detail,
        cause: Option<Cause>,
    ) -> Result<(), Trouble> {
        let disks: Vec<(i32, Uuid)> = machine
            .disks
            .iter()
            .flatten()
            .filter(|it| machine.marked_disks.contains(&it.key) && !it.is_volume)
            .filter_map(|it| Some((it.key, it.uuid?)))
            .collect();
        let made = |journal: &mut Journal| {
            if let Some(it) =
                journal.find_mut(instance).filter(|it| it.state == IntentState::Wanted)
            {
                it.state = IntentState::Made;
                it.held_until = None;
                it.disks = disks.into_iter().collect();
                it.object = Some(machine.seen.object.id().to_owned());
            }
        };
        if !self.note(made).await {
            return Err(Trouble::other("VM_CREATE_FAILED", "the journal failed", Shows::Never));
        }
        let mut state = self.state();
        state.work(instance).made_at = Some(tokio::time::Instant::now());
        let Some(intent) = state.journal.find(instance) else { return Ok(()) };
        let cause = self.report(intent, cause, &MachineChange::Created);
        tracing::info!(group = %intent.group, machine = %intent.name, provider_id = %intent.provider_id(), object = %machine.seen.object, %cause, "created a machine");
        self.0.metrics.machine_created(GroupId::of_clones(&intent.group).as_str());
        Ok(())
    }
}

/// Returns the changes that give a clone the networks of the group instead of the cards of the
/// template; none if the group names no network.
fn card_changes(source: &Source) -> Vec<DeviceChange> {
    if source.networks.is_empty() {
        return Vec::new();
    }
    let remove =
        |(kind, key): &(String, i32)| DeviceChange::Remove { kind: kind.clone(), key: *key };
    let add = |(key, network): (i32, &CardNetwork)| DeviceChange::AddCard {
        key,
        network: network.clone(),
    };
    let keys = (1..).map(|n: i32| -n);
    source.cards.iter().map(remove).chain(keys.zip(&source.networks).map(add)).collect()
}
