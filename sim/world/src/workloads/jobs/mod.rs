//! The controller of Jobs: pods until as many have succeeded as wanted.
//!
//! Jobs with `completionMode: Indexed` get no pods, because their pods differ.

mod tracking;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use self::tracking::Tally;
use super::owned::{is_active, owned, pod, reference, sort_by_value};
use super::{
    count, has_condition, is_terminating, key_of, list, number, seconds, set_condition,
    status_update, text,
};
use crate::objects::{Command, GroupResource, Store};

/// Returns the creations and deletions of pods, the removals of their finalizers, and the statuses
/// of the Jobs.
pub(super) fn settle(store: &Store, now: Timestamp) -> Vec<Command> {
    let jobs = GroupResource::of("batch", "jobs");
    let all = store.all(&jobs).map(Arc::as_ref);
    all.filter(|job| !is_over(job) && text(job, "/spec/completionMode") != "Indexed")
        .flat_map(|job| settle_one(store, &jobs, job, now))
        .chain(tracking::release_others(store))
        .collect()
}

pub(super) fn is_over(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

fn settle_one(store: &Store, jobs: &GroupResource, job: &Value, now: Timestamp) -> Vec<Command> {
    let resource = GroupResource::core("pods");
    let pods: Vec<&Value> = owned(store, &resource, job);
    let mut active: Vec<&Value> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
    let tally = Tally::of(job, &pods);
    let completions = size(number(job, "/spec/completions"));
    let limit = size(number(job, "/spec/backoffLimit")).unwrap_or(6);
    let end = match completions {
        _ if tally.n_failed() > limit => Some(End::Failed),
        Some(wanted) if tally.n_succeeded() >= wanted => Some(End::Complete),
        None if tally.n_succeeded() > 0 && active.is_empty() => Some(End::Complete),
        _ => None,
    };
    let is_stopped = end.is_some() || job["spec"]["suspend"] == true || is_terminating(job);
    let parallelism = size(number(job, "/spec/parallelism")).unwrap_or(1);
    let wanted = match completions {
        _ if is_stopped => 0,
        Some(completions) => parallelism.min(completions.saturating_sub(tally.n_succeeded())),
        None if tally.n_succeeded() > 0 => active.len().min(parallelism),
        None => parallelism,
    };
    let status = status(job, &active, &tally, end, now);
    let mut commands: Vec<Command> = status_update(jobs, job, status).into_iter().collect();
    commands.extend(pods.iter().filter_map(|pod| tracking::counted(job, pod)));
    if active.len() > wanted {
        sort_by_value(&mut active);
        let surplus = active.len() - wanted;
        for pod in active.iter().take(surplus) {
            // The pods that a failed Job stops have failed. Any other pod that a Job stops does not
            // count.
            commands.extend((end != Some(End::Failed)).then(|| tracking::released(pod)));
            commands.push(Command::delete(key_of("pods", pod)));
        }
    }
    let missing = active.len()..wanted;
    commands.extend(missing.map(|_| new_pod(job)));
    commands
}

fn new_pod(job: &Value) -> Command {
    pod(job, &job["spec"]["template"], reference(job, "batch/v1", "Job"), |pod| {
        let mut finalizers = list(pod, "/metadata/finalizers").to_vec();
        if !finalizers.iter().any(|it| it == tracking::FINALIZER) {
            finalizers.push(tracking::FINALIZER.into());
        }
        pod["metadata"]["finalizers"] = finalizers.into();
    })
}

pub(super) fn size(n: Option<i64>) -> Option<usize> {
    n.and_then(|it| usize::try_from(it).ok())
}

/// The end of a Job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Failed,
}

impl End {
    /// Type, reason and message of the conditions, in their order.
    fn conditions(self) -> [(&'static str, &'static str, &'static str); 2] {
        const REACHED: (&str, &str) =
            ("CompletionsReached", "Reached expected number of succeeded pods");
        const EXCEEDED: (&str, &str) =
            ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        let (first, last, (reason, message)) = match self {
            Self::Complete => ("SuccessCriteriaMet", "Complete", REACHED),
            Self::Failed => ("FailureTarget", "Failed", EXCEEDED),
        };
        [(first, reason, message), (last, reason, message)]
    }
}

fn status(
    job: &Value,
    active: &[&Value],
    tally: &Tally,
    end: Option<End>,
    now: Timestamp,
) -> Value {
    let now = seconds(now);
    let mut status = Map::new();
    let mut conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut set = |kind: &str, is_so: bool, reason: &str, message: &str| {
        set_condition(
            &mut conditions,
            json!({
                "type": kind, "status": if is_so { "True" } else { "False" }, "lastProbeTime": now,
                "lastTransitionTime": now, "reason": reason, "message": message,
            }),
        );
    };
    let is_suspended = job["spec"]["suspend"] == true;
    if is_suspended {
        set("Suspended", true, "JobSuspended", "Job suspended");
    } else if has_condition(job, "Suspended") {
        set("Suspended", false, "JobResumed", "Job resumed");
    }
    // The Job is over when every pod is counted.
    let n_conditions = if tally.is_counted() { 2 } else { 1 };
    let conditions_of_end = end.map(End::conditions).into_iter().flatten().take(n_conditions);
    for (kind, reason, message) in conditions_of_end {
        set(kind, true, reason, message);
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), conditions.into());
    }
    if !is_suspended {
        let start = job["status"].get("startTime").cloned().unwrap_or_else(|| now.clone());
        status.insert("startTime".into(), start);
    }
    if end == Some(End::Complete) && tally.is_counted() {
        status.insert("completionTime".into(), now.clone());
    }
    count(&mut status, "active", if end.is_some() { 0 } else { active.len() });
    tally.write(&mut status);
    status.insert("terminating".into(), 0.into());
    let n_ready = active.iter().filter(|pod| has_condition(pod, "Ready")).count();
    status.insert("ready".into(), if end.is_some() { 0 } else { n_ready }.into());
    status.into()
}
