//! Execution of kubelets' work: registration, lease renewals and status reports. Also the reactions
//! of the workload cluster's control plane to kubelets that stop and to deleted Nodes.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Execution;
use crate::control_plane::ControlPlane;
use crate::event::{Event, Fault};
use crate::kubelet::{
    self, BEATS_PER_STATUS, GRACE_PERIOD, collect_lease, mark_silent, settle_taints,
};
use crate::objects;
use crate::reactions::{Kubelet, Reaction};
use crate::vcenter::{MoRef, Power, VcFault};

impl Execution<'_> {
    /// Adds a stopped kubelet to a machine, in place of any other kubelet with the same Node name.
    /// The kubelet starts when the machine's guest next boots.
    pub(super) fn add_kubelet(&mut self, vcenter: &str, machine: MoRef) {
        let Ok(facts) = self.facts(vcenter, machine, None) else { return };
        let node = facts.name.clone();
        // The run number of a stopped kubelet of this name stays, so that its pending `NodeSilent`
        // still takes effect.
        let run = self.state.kubelets.get(&node).map_or(0, |it| it.run + u32::from(it.running));
        let kubelet = Kubelet {
            vcenter: vcenter.to_owned(),
            machine,
            running: false,
            run,
            beats: 0,
            config: facts,
        };
        self.emit(Event::KubeletSet { node, kubelet: Some(kubelet) });
    }

    /// Starts the kubelet of a powered-on machine now, and adds one if the machine has none.
    /// Refuses a machine that is not powered on.
    pub(super) fn start_kubelet(&mut self, vcenter: &str, machine: MoRef) -> Result<(), VcFault> {
        let existing = self.machine(vcenter, machine)?.power;
        if existing != Power::PoweredOn {
            let requested = Some(Power::PoweredOn);
            return Err(VcFault::InvalidPowerState { requested, existing });
        }
        if self.kubelet_of(vcenter, machine).is_none() {
            self.add_kubelet(vcenter, machine);
        }
        self.run_kubelet(vcenter, machine);
        Ok(())
    }

    /// Stops the kubelet of a machine for the command `node.heartbeatStop`; fails if the machine
    /// has none.
    pub(super) fn stop_kubelet_by_command(
        &mut self,
        vcenter: &str,
        machine: MoRef,
    ) -> Result<(), VcFault> {
        if self.kubelet_of(vcenter, machine).is_none() {
            let name = self.name_of(vcenter, machine);
            return Err(VcFault::NoSuchName { kind: "kubelet".into(), name });
        }
        self.stop_kubelet(vcenter, machine);
        Ok(())
    }

    /// Starts the machine's kubelet, if it has one: the kubelet registers its Node or makes it
    /// Ready again.
    pub(super) fn run_kubelet(&mut self, vcenter: &str, machine: MoRef) {
        let Some((node, mut kubelet)) = self.kubelet_of(vcenter, machine) else { return };
        let Ok(facts) = self.facts(vcenter, machine, Some(&kubelet.config)) else { return };
        kubelet.running = true;
        kubelet.run += 1;
        kubelet.beats = 0;
        kubelet.config = facts.clone();
        let run = kubelet.run;
        self.emit(Event::KubeletSet { node: node.clone(), kubelet: Some(kubelet) });
        let now = self.now.timestamp(self.state.epoch);
        let known = self.state.cluster.get(&objects::Key::node(&node)).is_some();
        if known {
            let ready = kubelet::become_ready(&self.state.cluster, &facts, now);
            self.write(ready);
            let settled = settle_taints(&self.state.cluster, &node, Some("True"), now);
            self.write(settled);
        } else {
            self.write(Some(kubelet::register(&facts, now)));
            // Admission taints every new Node as not ready. This Node registers as ready, so the
            // control plane removes the taint at once.
            let settled = settle_taints(&self.state.cluster, &node, None, now);
            self.write(settled);
        }
        self.beat(&node, run);
    }

    /// Stops the machine's kubelet, if it has one. After the grace period the control plane sets
    /// the conditions of the Node to Unknown and taints the Node.
    pub(super) fn stop_kubelet(&mut self, vcenter: &str, machine: MoRef) {
        let Some((node, mut kubelet)) = self.kubelet_of(vcenter, machine) else { return };
        if !kubelet.running {
            return;
        }
        kubelet.running = false;
        kubelet.run += 1;
        let run = kubelet.run;
        self.emit(Event::KubeletSet { node: node.clone(), kubelet: Some(kubelet) });
        self.schedule_at(self.now + GRACE_PERIOD, Reaction::NodeSilent { node, run });
    }

    /// Restores the workload cluster from its backup; fails if no backup exists. A Node whose
    /// kubelet has stopped since the backup is Ready again until the grace period has passed.
    pub(super) fn restore_cluster(&mut self) -> Result<(), Fault> {
        if self.state.cluster_backup.is_none() {
            let why = "the workload cluster has no backup; take one with cluster.backUp";
            return Err(Fault::Cluster(objects::Status::bad_request(why)));
        }
        self.emit(Event::ClusterRestored);
        let stopped = self.state.kubelets.iter().filter(|(_, kubelet)| !kubelet.running);
        let silent: Vec<Reaction> = stopped
            .map(|(node, kubelet)| Reaction::NodeSilent { node: node.clone(), run: kubelet.run })
            .collect();
        for reaction in silent {
            self.schedule_at(self.now + GRACE_PERIOD, reaction);
        }
        Ok(())
    }

    /// Updates the kubelet of a machine whose id changes from `from` to `to`.
    pub(super) fn move_kubelet(&mut self, vcenter: &str, from: MoRef, to: MoRef) {
        if let Some((node, mut kubelet)) = self.kubelet_of(vcenter, from) {
            kubelet.machine = to;
            self.emit(Event::KubeletSet { node, kubelet: Some(kubelet) });
        }
    }

    /// Reports the status of a kubelet if a report is due, then renews its lease and schedules the
    /// next heartbeat. If its Node was deleted, deletes the lease instead and schedules nothing.
    /// While heartbeats are off, does not touch the lease and schedules nothing. Does nothing at
    /// all if the kubelet has stopped or restarted since the heartbeat was scheduled.
    pub(super) fn heartbeat(&mut self, node: &str, run: u32) {
        let runs = |kubelet: &&Kubelet| kubelet.running && kubelet.run == run;
        let Some(kubelet) = self.state.kubelets.get(node).filter(runs) else { return };
        let status_is_due = (kubelet.beats + 1).is_multiple_of(BEATS_PER_STATUS);
        self.emit(Event::KubeletBeat { node: node.to_owned() });
        if status_is_due {
            let now = self.now.timestamp(self.state.epoch);
            let command = kubelet::heartbeat(&self.state.cluster, node, now);
            self.write(command);
        }
        self.beat(node, run);
    }

    fn beat(&mut self, node: &str, run: u32) {
        let Some(every) = self.state.heartbeats else { return };
        let now = self.now.timestamp(self.state.epoch);
        let registered = self.state.cluster.get(&objects::Key::node(node)).is_some();
        let command = if registered {
            Some(kubelet::renew_lease(&self.state.cluster, node, now))
        } else {
            // A kubelet whose Node was deleted sends nothing until it starts again.
            collect_lease(&self.state.cluster, node)
        };
        self.write(command);
        if registered {
            self.schedule_at(self.now + every, Reaction::Heartbeat { node: node.to_owned(), run });
        }
    }

    /// Sets the conditions of a Node to Unknown and taints it, unless its kubelet has started again
    /// within the grace period.
    pub(super) fn node_silent(&mut self, node: &str, run: u32) {
        let silent = |kubelet: &&Kubelet| !kubelet.running && kubelet.run == run;
        if self.state.kubelets.get(node).filter(silent).is_none() {
            return;
        }
        let now = self.now.timestamp(self.state.epoch);
        let unknown = mark_silent(&self.state.cluster, node, now);
        self.write(unknown);
        let settled = settle_taints(&self.state.cluster, node, Some("Unknown"), now);
        self.write(settled);
    }

    /// Removes the lease of a deleted Node, as the garbage collector does, if the Node's kubelet
    /// does not run. If the kubelet runs, its next heartbeat removes the lease.
    pub(super) fn collect_lease_of(&mut self, node: &str) {
        if self.state.kubelets.get(node).is_none_or(|kubelet| !kubelet.running) {
            let collected = collect_lease(&self.state.cluster, node);
            self.write(collected);
        }
    }

    pub(super) fn set_heartbeats(&mut self, every: Option<Duration>) {
        let were_off = self.state.heartbeats.is_none();
        self.emit(Event::HeartbeatsSet(every));
        if were_off && every.is_some() {
            let running: Vec<(String, u32)> = self
                .state
                .kubelets
                .iter()
                .filter(|(_, kubelet)| kubelet.running)
                .map(|(node, kubelet)| (node.clone(), kubelet.run))
                .collect();
            for (node, run) in running {
                self.beat(&node, run);
            }
        }
    }

    fn write(&mut self, command: Option<objects::Command>) {
        // The store refuses a kubelet's write only after a client has changed the Node. The kubelet
        // tries again with its next report.
        if let Some(command) = command {
            let _ = self.objects(ControlPlane::Workload, command);
        }
    }

    pub(super) fn kubelet_of(&self, vcenter: &str, machine: MoRef) -> Option<(String, Kubelet)> {
        let node = self.state.kubelets_on.get(vcenter)?.get(&machine)?;
        Some((node.clone(), self.state.kubelets.get(node)?.clone()))
    }

    /// The present facts about a kubelet's machine. Takes the node name and the flags from
    /// `before`. Without `before`, the name is the machine's host name in lower case, and the flags
    /// are the defaults.
    fn facts(
        &self,
        vcenter: &str,
        machine: MoRef,
        before: Option<&kubelet::Machine>,
    ) -> Result<kubelet::Machine, VcFault> {
        let machine = self.machine(vcenter, machine)?;
        let uuid = machine.system_uuid().map(|uuid| uuid.to_string()).unwrap_or_default();
        let name =
            before.map_or_else(|| machine.plan.host_name.to_lowercase(), |it| it.name.clone());
        let flags = before.cloned().unwrap_or_else(|| kubelet::Machine::new(&name, &uuid));
        Ok(kubelet::Machine {
            name,
            system_uuid: uuid,
            cpus: machine.config.cpus,
            memory_mib: u64::from(machine.config.memory_mib),
            ..flags
        })
    }
}
