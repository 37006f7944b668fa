//! The pods of a Job that have ended: each counts once, also if the pod is removed afterwards.
//!
//! Follows `kubernetes: pkg/controller/job/job_controller.go`. A finalizer keeps a pod until its Job
//! has counted it. First the Job lists the uid in `status.uncountedTerminatedPods`, then the pod
//! loses its finalizer, and last the Job moves the uid from the list into its count.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::owned::without_finalizer;
use super::super::{is_terminating, list, namespace, number, text, uid};
use super::{is_over, size};
use crate::objects::{Command, GroupResource, Key, Store};

/// Finalizer of the pods of Jobs.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

const SUCCEEDED: &str = "succeeded";
const FAILED: &str = "failed";

/// The ended pods of a Job.
pub(super) struct Tally {
    succeeded: Count,
    failed: Count,
}

/// The pods of a Job that have ended with the same result.
struct Count {
    n_counted: usize,
    /// Uids of the pods that `n_counted` does not contain yet.
    uncounted: Vec<String>,
}

impl Tally {
    /// Counts the pods of a Job on from its status.
    pub(super) fn of(job: &Value, pods: &[&Value]) -> Self {
        let count = |result: &str| {
            let has_finalizer = |it: &str| pods.iter().any(|pod| uid(pod) == it && is_tracked(pod));
            let (held, freed): (Vec<&str>, Vec<&str>) =
                listed(job, result).partition(|it| has_finalizer(it));
            let counted = size(number(&job["status"], &format!("/{result}"))).unwrap_or_default();
            let is_new = |pod: &&&Value| {
                is_tracked(pod) && result_of(pod) == Some(result) && !is_listed(job, pod)
            };
            let new = pods.iter().filter(is_new).map(|pod| uid(pod));
            let uncounted = held.into_iter().chain(new).map(str::to_owned).collect();
            Count { n_counted: counted + freed.len(), uncounted }
        };
        Self { succeeded: count(SUCCEEDED), failed: count(FAILED) }
    }

    pub(super) fn n_succeeded(&self) -> usize {
        self.succeeded.n_counted + self.succeeded.uncounted.len()
    }

    pub(super) fn n_failed(&self) -> usize {
        self.failed.n_counted + self.failed.uncounted.len()
    }

    /// True if every ended pod is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.succeeded.uncounted.is_empty() && self.failed.uncounted.is_empty()
    }

    /// Adds the counts and the lists to the status of the Job.
    pub(super) fn write(&self, status: &mut Map<String, Value>) {
        let mut lists = Map::new();
        for (result, count) in [(SUCCEEDED, &self.succeeded), (FAILED, &self.failed)] {
            super::super::count(status, result, count.n_counted);
            if !count.uncounted.is_empty() {
                lists.insert(result.into(), json!(count.uncounted));
            }
        }
        status.insert("uncountedTerminatedPods".into(), lists.into());
    }
}

/// Returns the request that removes the finalizer of a pod that the status of its Job lists; `None`
/// if the status does not.
pub(super) fn counted(job: &Value, pod: &Value) -> Option<Command> {
    (is_tracked(pod) && is_listed(job, pod)).then(|| released(pod))
}

/// Returns the request that removes the finalizer of a pod that the Job does not count.
pub(super) fn released(pod: &Value) -> Command {
    without_finalizer("pods", pod, FINALIZER)
}

/// Returns the requests that remove the finalizers of the pods that no running Job will count.
pub(super) fn release_others(store: &Store) -> Vec<Command> {
    let pods = GroupResource::core("pods");
    let others = store.all(&pods).map(Arc::as_ref).filter(|pod| is_tracked(pod));
    others.filter(|pod| !has_running_job(store, pod)).map(released).collect()
}

/// True if the controller of the pod is a Job that has not ended, or of a kind that is not Job.
fn has_running_job(store: &Store, pod: &Value) -> bool {
    let owners = list(pod, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|it| it["controller"] == true) else { return false };
    let key = Key::new(GroupResource::of("batch", "jobs"), namespace(pod), text(owner, "/name"));
    let job = store.get(&key).filter(|job| owner["uid"] == uid(job));
    owner["kind"] != "Job" || job.is_some_and(|job| !is_over(job))
}

fn is_tracked(pod: &Value) -> bool {
    list(pod, "/metadata/finalizers").iter().any(|it| it == FINALIZER)
}

/// The result of a pod that has ended. A pod that is deleted before it succeeds has failed.
fn result_of(pod: &Value) -> Option<&'static str> {
    match text(pod, "/status/phase") {
        "Succeeded" => Some(SUCCEEDED),
        "Failed" => Some(FAILED),
        _ => is_terminating(pod).then_some(FAILED),
    }
}

/// Uids of the pods that the status of the Job lists with this result.
fn listed<'a>(job: &'a Value, result: &str) -> impl Iterator<Item = &'a str> {
    let list = list(job, &format!("/status/uncountedTerminatedPods/{result}"));
    list.iter().filter_map(Value::as_str)
}

fn is_listed(job: &Value, pod: &Value) -> bool {
    listed(job, SUCCEEDED).chain(listed(job, FAILED)).any(|it| it == uid(pod))
}
