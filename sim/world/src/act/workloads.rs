//! Execution of the scheduler, the controllers of workloads and the pods of the workload cluster.
//!
//! A change of an object that concerns them schedules one pass, which settles everything that
//! changed until then. A pass that changes nothing schedules no further one.

use super::Execution;
use crate::control_plane::ControlPlane;
use crate::event::Event;
use crate::objects::{self, GroupResource, Key};
use crate::reactions::{Completion, Held, Reaction, Step};
use crate::workloads::garbage::lost;
use crate::workloads::{self, STAGES};

impl Execution<'_> {
    /// Switches the scheduler and the controllers on or off.
    pub(super) fn set_workloads(&mut self, run: bool) {
        if self.state.workloads.run != run {
            self.emit(Event::WorkloadsSet(run));
        }
        if run {
            self.schedule_workloads();
        }
    }

    /// True if the scheduler and the controllers run and have to look at this change.
    pub(super) fn concerns_workloads(&self, event: &objects::Event) -> bool {
        self.state.workloads.run && workloads::concerns(&event.key.resource)
    }

    /// Schedules a pass, unless one is in the queue. A pass never runs within the change that
    /// caused it, even if the step ends immediately.
    pub(super) fn schedule_workloads(&mut self) {
        if self.state.workloads.is_due {
            return;
        }
        match self.state.timing.of(Step::Workloads) {
            Completion::Immediately => self.schedule_at(self.now, Reaction::Workloads),
            Completion::After(delay) => self.schedule_at(self.now + delay, Reaction::Workloads),
            Completion::WhenTold => {
                let id = self.state.last_timer + 1;
                let held = Some(Held { step: Step::Workloads, machine: None });
                self.emit(Event::Scheduled { id, at: None, held, reaction: Reaction::Workloads });
            }
        }
    }

    /// Lets each component act once, and then schedules the next steps of the pods.
    pub(super) fn settle_workloads(&mut self) {
        if !self.state.workloads.run {
            return;
        }
        let now = self.now.timestamp(self.state.epoch);
        for stage in STAGES {
            self.send_all(stage(&self.state.cluster, now));
        }
        self.schedule_pods();
        self.schedule_missing_nodes();
    }

    fn send_all(&mut self, commands: Vec<objects::Command>) {
        for command in commands {
            // The store refuses a request if a client has sent a template that makes no valid pod,
            // or if an earlier request has changed the object. The next pass tries again.
            let _ = self.objects(ControlPlane::Workload, command);
        }
    }

    /// Schedules a look at each missing Node that has pods.
    fn schedule_missing_nodes(&mut self) {
        let is_new = |node: &&str| !self.state.workloads.missing_nodes.contains(*node);
        let missing = lost::missing_nodes(&self.state.cluster);
        let new: Vec<String> = missing.into_iter().filter(is_new).map(str::to_owned).collect();
        for node in new {
            self.schedule_at(self.now + lost::QUARANTINE, Reaction::NodeMissing { node });
        }
    }

    /// Removes the pods of a Node that is still missing.
    pub(super) fn node_missing(&mut self, node: &str) {
        if self.state.workloads.run {
            let now = self.now.timestamp(self.state.epoch);
            self.send_all(lost::collect(&self.state.cluster, node, now));
        }
    }

    /// Schedules the next step of each pod on a Node with a running kubelet.
    fn schedule_pods(&mut self) {
        let pods = GroupResource::core("pods");
        let mut steps = Vec::new();
        for pod in self.state.cluster.all(&pods) {
            let text =
                |pointer| pod.pointer(pointer).and_then(|it| it.as_str()).unwrap_or_default();
            let Some(step) = workloads::due(pod) else { continue };
            let uid = text("/metadata/uid").to_owned();
            let is_pending = self.state.workloads.pods.get(&uid) == Some(&step);
            if is_pending || !self.kubelet_runs(text("/spec/nodeName")) {
                continue;
            }
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            steps.push((format!("{namespace}/{name}"), name.to_owned(), uid, step));
        }
        for (path, name, uid, step) in steps {
            self.after(step, self.now, Some(&name), Reaction::Pod { path, uid, step });
        }
    }

    fn kubelet_runs(&self, node: &str) -> bool {
        self.state.kubelets.get(node).is_some_and(|kubelet| kubelet.running)
    }

    /// Completes a step of a pod, unless the pod has changed so that another step is due, or its
    /// kubelet has stopped.
    pub(super) fn pod_step(&mut self, path: &str, uid: &str, step: Step) {
        let Some((namespace, name)) = path.split_once('/') else { return };
        let Some(pod) = self.state.cluster.get(&Key::new("pods", namespace, name)) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let is_due = pod["metadata"]["uid"] == uid && workloads::due(pod) == Some(step);
        if !self.state.workloads.run || !is_due || !self.kubelet_runs(node) {
            return;
        }
        let now = self.now.timestamp(self.state.epoch);
        let command = match step {
            Step::PodStart => workloads::start(&self.state.cluster, pod, now),
            Step::PodComplete => workloads::complete(pod, now),
            _ => workloads::stop(pod),
        };
        // The store refuses the report only if a client has made the status of the pod invalid.
        let _ = self.objects(ControlPlane::Workload, command);
    }
}
