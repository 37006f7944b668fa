//! Execution of commands and reactions: [`Execution`] decides, then emits events, which change the
//! state at once.
//!
//! A function must make all checks that can refuse the command before it emits its first event, so
//! that a refused command changes nothing. The exception is a login with a wrong password, which
//! counts towards the lock-out.

mod expiry;
mod guests;
mod hosts;
mod kubelets;
mod logins;
mod machines;
mod names;
mod services;
mod tasks;
mod vapi;
mod vmoperator;
mod workloads;

pub(crate) use guests::booted_guest;

use crate::command::{Command, VcRequest};
use crate::control_plane::ControlPlane;
use crate::event::{Event, Fault, Outcome};
use crate::reactions::{Completion, Held, Reaction, Step};
use crate::state::State;
use crate::vcenter::{Change, MoRef, VCenter, VcEvent, VcFault};
use crate::{Time, objects};

/// The execution of one command or reaction at one point in time. Collects the events.
pub(crate) struct Execution<'a> {
    state: &'a mut State,
    now: Time,
    events: Vec<Event>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(state: &'a mut State, now: Time) -> Self {
        state.pass(now);
        Self { state, now, events: Vec::new() }
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// Carries out a command from a client, a test or the admin port. A refused command emits no
    /// event, except for a login with a wrong password.
    pub(crate) fn execute(&mut self, command: Command) -> Result<Outcome, Fault> {
        match command {
            Command::Cluster(command) => {
                return self.objects(ControlPlane::Workload, command).map(Outcome::Object);
            }
            Command::Supervisor(command) => {
                return self.objects(ControlPlane::Supervisor, command).map(Outcome::Object);
            }
            Command::Request { vcenter, request } => return Ok(self.request(&vcenter, request)?),
            Command::CreateMachine { vcenter, spec, cluster, power_on, kubelet } => {
                let made = self.create_machine(vcenter, spec, cluster, power_on, kubelet)?;
                return Ok(Outcome::Reference(made));
            }
            Command::DeleteMachine(it) => self.on_machine(&it, Self::destroy)?,
            Command::PowerOn(it) => self.on_machine(&it, Self::power_on)?,
            Command::PowerOff(it) => self.on_machine(&it, Self::power_off)?,
            Command::Suspend(it) => self.on_machine(&it, Self::suspend)?,
            Command::Reset(it) => self.on_machine(&it, Self::reset)?,
            Command::Inaccessible(it) => self.on_machine(&it, Self::lose_storage)?,
            Command::Orphan(it) => self.on_machine(&it, Self::orphan)?,
            Command::Connect(it) => self.on_machine(&it, Self::connect)?,
            Command::Reregister(it) => self.on_machine(&it, Self::reregister)?,
            Command::ReassignIds { machines } => self.reassign_ids(&machines)?,
            Command::StopTools(it) => self.on_machine(&it, Self::stop_tools)?,
            Command::StartTools(it) => self.on_machine(&it, Self::start_tools)?,
            Command::ClearAddresses(it) => self.on_machine(&it, Self::clear_addresses)?,
            Command::ReorderAddresses(it) => self.on_machine(&it, Self::reorder_addresses)?,
            Command::StartKubelet(it) => self.on_machine(&it, Self::start_kubelet)?,
            Command::StopKubelet(it) => self.on_machine(&it, Self::stop_kubelet_by_command)?,
            Command::Rename { machine, to } => {
                self.on_machine(&machine, |act, vc, id| act.rename(vc, id, &to))?;
            }
            Command::VMotion { machine, host } => {
                self.on_machine(&machine, |act, vc, id| act.vmotion(vc, id, &host))?;
            }
            Command::SetVApp { machine, vapp } => {
                self.on_machine(&machine, |act, vc, id| act.set_vapp(vc, id, vapp.as_deref()))?;
            }
            Command::Replace { machine, uuid } => {
                self.on_machine(&machine, |act, vc, id| act.replace(vc, id, uuid))?;
            }
            Command::SetUuid { machine, uuid } => {
                self.on_machine(&machine, |act, vc, id| act.set_uuid(vc, id, uuid))?;
            }
            Command::Reconfigure { machine, spec } => {
                self.on_machine(&machine, |act, vc, id| act.reconfigure(vc, id, &spec))?;
            }
            Command::SetAddresses { machine, addresses } => {
                self.on_machine(&machine, |act, vc, id| act.set_addresses(vc, id, &addresses))?;
            }
            Command::AddInternalInterface { machine, addresses } => {
                self.on_machine(&machine, |act, vc, id| act.add_internal(vc, id, &addresses))?;
            }
            Command::SetNetworkName { machine, name } => {
                self.on_machine(&machine, |act, vc, id| act.set_network_name(vc, id, &name))?;
            }
            Command::SetHostName { machine, host_name } => {
                self.on_machine(&machine, |act, vc, id| act.set_host_name(vc, id, &host_name))?;
            }
            Command::DisconnectHost(it) => self.on_host(&it, Self::disconnect_host)?,
            Command::ReconnectHost(it) => self.on_host(&it, Self::reconnect_host)?,
            Command::FailHost(it) => self.on_host(&it, Self::fail_host)?,
            Command::RevokePrivilege(grant) => self.revoke(&grant)?,
            Command::GrantPrivilege(grant) => self.grant(&grant)?,
            Command::RotatePassword { vcenter, user, password } => {
                self.rotate_password(vcenter, &user, password)?;
            }
            Command::ExpireSessions { vcenter, family } => self.expire_sessions(vcenter, family)?,
            Command::SetLoginRules { vcenter, rules } => self.set_login_rules(vcenter, rules)?,
            Command::SwapCertificate { vcenter } => self.swap_certificate(vcenter)?,
            Command::StopVCenter { vcenter } => self.stop_vcenter(vcenter)?,
            Command::StartVCenter { vcenter } => self.start_vcenter(vcenter)?,
            Command::SetInstanceUuid { vcenter, uuid } => self.set_instance_uuid(vcenter, uuid)?,
            Command::UpgradeVCenter { vcenter, version, build } => {
                self.upgrade_vcenter(vcenter, version, build)?;
            }
            Command::AttachTag(name) => self.attach_by_name(&name)?,
            Command::DetachTag(name) => self.detach_by_name(&name)?,
            Command::CreateLibrary { vcenter, name } => self.create_library(vcenter, name)?,
            Command::AddLibraryItem { item, kind, template } => {
                self.add_library_item(item, kind, template.as_deref())?;
            }
            Command::SetLibraryTemplate { item, template } => {
                self.set_library_template(&item, template.as_deref())?;
            }
            Command::SetHeartbeats { every } => self.set_heartbeats(every),
            Command::SetWorkloads { run } => self.set_workloads(run),
            Command::SetTiming { step, completion } => {
                self.emit(Event::TimingSet { step, completion });
            }
            Command::SetVmOperator(change) => self.set_operator(change)?,
            Command::SetQuota(quota) => self.set_quota(quota)?,
            Command::CompactCluster { plane, keep } => {
                self.emit(Event::ClusterCompacted { plane, keep });
            }
            Command::EndWatches { plane } => self.emit(Event::WatchesEnded { plane }),
            Command::BackUpCluster => self.emit(Event::ClusterBackedUp),
            Command::RestoreCluster => self.restore_cluster()?,
            Command::Tell { step, machine } => self.tell(step, machine.as_deref()),
        }
        Ok(Outcome::Done)
    }

    /// Ends the sessions that have reached the idle timeout. If none has, carries out the earliest
    /// reaction of the queue instead.
    pub(crate) fn react(&mut self) {
        if self.end_idle_sessions() {
            return;
        }
        let Some((at, id)) = self.state.timers.keys().next().copied() else { return };
        let Some(reaction) = self.state.timers.get(&(at, id)).cloned() else { return };
        self.emit(Event::Unscheduled { id, at: Some(at) });
        self.happen(reaction);
    }

    fn happen(&mut self, reaction: Reaction) {
        match reaction {
            Reaction::TaskDue { vcenter, task } => self.run_task(&vcenter, task),
            Reaction::TaskForgotten { vcenter, task } => {
                self.emit_vc(&vcenter, VcEvent::TaskForgotten(task));
            }
            Reaction::Guest { vcenter, machine, boot, step } => {
                self.guest_step(&vcenter, machine, boot, step);
            }
            Reaction::GuestPower { vcenter, machine, boot, request } => {
                self.guest_powers(&vcenter, machine, boot, request);
            }
            Reaction::HaRestart { vcenter, host } => self.ha_restart(&vcenter, host),
            Reaction::ServiceReady { vcenter } => self.service_ready(&vcenter),
            Reaction::Heartbeat { node, run } => self.heartbeat(&node, run),
            Reaction::NodeSilent { node, run } => self.node_silent(&node, run),
            Reaction::VirtualMachine { path, step } => self.run_step(&path, step),
            Reaction::Workloads => self.settle_workloads(),
            Reaction::Pod { path, uid, step } => self.pod_step(&path, &uid, step),
            Reaction::NodeMissing { node } => self.node_missing(&node),
            Reaction::EventExpires { plane, key, revision } => {
                self.expire(plane, &key, revision);
            }
        }
    }

    fn request(&mut self, vcenter: &str, request: VcRequest) -> Result<Outcome, VcFault> {
        self.vcenter(vcenter)?;
        match request {
            VcRequest::OpenSession { user_agent } => self.open_session(vcenter, user_agent),
            VcRequest::Login { family, token, user, password, user_agent } => {
                self.login(vcenter, family, token, &user, &password, user_agent)
            }
            VcRequest::CloneSession { token, user } => self.clone_session(vcenter, token, user),
            VcRequest::EndSession { token, reason } => {
                self.end_session(vcenter, token, reason);
                Ok(Outcome::Done)
            }
            VcRequest::CallBegan { token } => self.call_began(vcenter, token),
            VcRequest::CallEnded { token } => self.call_ended(vcenter, token),
            VcRequest::StartTask { user, entity, work } => {
                self.start_task(vcenter, user, entity, work)
            }
            VcRequest::Guest { machine, request } => {
                self.ask_guest(vcenter, machine, request)?;
                Ok(Outcome::Done)
            }
            VcRequest::Deploy { item, work } => self.deploy(vcenter, &item, &work),
            tagging => self.tagging(vcenter, tagging),
        }
    }

    /// Carries out a request to an API server, and the reactions of the world to the changed
    /// objects. The error is the `Status` of the API server.
    fn objects(
        &mut self,
        plane: ControlPlane,
        command: objects::Command,
    ) -> Result<objects::Reply, Fault> {
        let now = self.now.timestamp(self.state.epoch);
        let decision = self.state.objects(plane).decide(now, command).map_err(Fault::Cluster)?;
        for event in decision.events {
            let written = expiry::expires(&event.key.resource).then(|| event.clone());
            let seen = (plane == ControlPlane::Supervisor).then(|| event.clone());
            let is_workload = plane == ControlPlane::Workload && event.op == objects::Op::Deleted;
            let deleted_node = (is_workload
                && event.key.resource == objects::GroupResource::core("nodes"))
            .then(|| event.key.name.clone());
            let concerns = plane == ControlPlane::Workload && self.concerns_workloads(&event);
            self.emit_object(plane, event);
            if concerns {
                self.schedule_workloads();
            }
            if let Some(node) = deleted_node {
                self.collect_lease_of(&node);
            }
            if let Some(written) = written {
                self.lease(plane, &written);
            }
            if let Some(seen) = seen {
                self.supervisor_written(&seen);
            }
        }
        Ok(decision.reply)
    }

    // Helpers of the functions above and of the submodules.

    fn emit(&mut self, event: Event) {
        self.state.fold(&event);
        self.events.push(event);
    }

    fn emit_object(&mut self, plane: ControlPlane, event: objects::Event) {
        self.emit(match plane {
            ControlPlane::Workload => Event::Cluster(event),
            ControlPlane::Supervisor => Event::Supervisor(event),
        });
    }

    fn emit_vc(&mut self, vcenter: &str, event: VcEvent) {
        self.emit(Event::VCenter { vcenter: vcenter.to_owned(), event });
    }

    fn change(&mut self, vcenter: &str, id: MoRef, change: Change) {
        self.emit_vc(vcenter, VcEvent::Object { id, change });
        self.machine_changed(vcenter, id);
    }

    /// Lets `reaction` happen at the end of `step`. Depending on the timing, carries it out at
    /// once, schedules it for a duration after `since`, or holds it until the command `tell`
    /// selects it by `step` and `machine`.
    fn after(&mut self, step: Step, since: Time, machine: Option<&str>, reaction: Reaction) {
        let id = self.state.last_timer + 1;
        match self.state.timing.of(step) {
            Completion::Immediately => self.happen(reaction),
            Completion::After(delay) => {
                let at = Some((since + delay).max(self.now));
                self.emit(Event::Scheduled { id, at, held: None, reaction });
            }
            Completion::WhenTold => {
                let held = Some(Held { step, machine: machine.map(str::to_owned) });
                self.emit(Event::Scheduled { id, at: None, held, reaction });
            }
        }
    }

    fn schedule_at(&mut self, at: Time, reaction: Reaction) {
        let id = self.state.last_timer + 1;
        self.emit(Event::Scheduled { id, at: Some(at), held: None, reaction });
    }

    fn tell(&mut self, step: Option<Step>, machine: Option<&str>) {
        let told: Vec<(u64, Reaction)> = self
            .state
            .held
            .iter()
            .filter(|(_, (held, _))| step.is_none_or(|step| held.step == step))
            .filter(|(_, (held, _))| machine.is_none() || held.machine.as_deref() == machine)
            .map(|(id, (_, reaction))| (*id, reaction.clone()))
            .collect();
        for (id, reaction) in told {
            self.emit(Event::Unscheduled { id, at: None });
            self.happen(reaction);
        }
    }

    fn vcenter(&self, name: &str) -> Result<&VCenter, VcFault> {
        self.state.vcenters.get(name).ok_or_else(|| VcFault::NoSuchVCenter(name.to_owned()))
    }
}
