//! The controller of Jobs: pods until as many have succeeded as wanted.
//!
//! Jobs with `completionMode: Indexed` get no pods, because their pods differ.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::owned::{is_active, owned, pod, reference, sort_by_value};
use super::{
    count, has_condition, is_terminating, key_of, number, seconds, set_condition, status_update,
    text,
};
use crate::objects::{Command, GroupResource, Store};

/// Returns the creations and deletions of pods, and the statuses of the Jobs.
pub(super) fn settle(store: &Store, now: Timestamp) -> Vec<Command> {
    let jobs = GroupResource::of("batch", "jobs");
    let all = store.all(&jobs).map(Arc::as_ref);
    all.filter(|job| !is_over(job) && text(job, "/spec/completionMode") != "Indexed")
        .flat_map(|job| settle_one(store, &jobs, job, now))
        .collect()
}

fn is_over(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

fn settle_one(store: &Store, jobs: &GroupResource, job: &Value, now: Timestamp) -> Vec<Command> {
    let resource = GroupResource::core("pods");
    let pods: Vec<&Value> = owned(store, &resource, job);
    let mut active: Vec<&Value> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
    let ended = |phase: &str| pods.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
    // The counts never fall, also if a client removes pods that have ended.
    let before = |field: &str| size(number(&job["status"], field)).unwrap_or_default();
    let n_succeeded = ended("Succeeded").max(before("/succeeded"));
    let n_failed = ended("Failed").max(before("/failed"));
    let completions = size(number(job, "/spec/completions"));
    let limit = size(number(job, "/spec/backoffLimit")).unwrap_or(6);
    let end = match completions {
        _ if n_failed > limit => Some(End::Failed),
        Some(wanted) if n_succeeded >= wanted => Some(End::Complete),
        None if n_succeeded > 0 && active.is_empty() => Some(End::Complete),
        _ => None,
    };
    let is_stopped = end.is_some() || job["spec"]["suspend"] == true || is_terminating(job);
    let parallelism = size(number(job, "/spec/parallelism")).unwrap_or(1);
    let wanted = match completions {
        _ if is_stopped => 0,
        Some(completions) => parallelism.min(completions.saturating_sub(n_succeeded)),
        None if n_succeeded > 0 => active.len().min(parallelism),
        None => parallelism,
    };
    let status = status(job, &active, (n_succeeded, n_failed), end, now);
    let mut commands: Vec<Command> = status_update(jobs, job, status).into_iter().collect();
    if active.len() > wanted {
        sort_by_value(&mut active);
        let surplus = active.len() - wanted;
        let deletion = |pod: &&Value| Command::delete(key_of("pods", pod));
        commands.extend(active.iter().take(surplus).map(deletion));
    }
    let missing = active.len()..wanted;
    commands
        .extend(missing.map(|_| {
            pod(job, &job["spec"]["template"], reference(job, "batch/v1", "Job"), |_| {})
        }));
    commands
}

fn size(n: Option<i64>) -> Option<usize> {
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
    (n_succeeded, n_failed): (usize, usize),
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
    for (kind, reason, message) in end.map(End::conditions).into_iter().flatten() {
        set(kind, true, reason, message);
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), conditions.into());
    }
    if !is_suspended {
        let start = job["status"].get("startTime").cloned().unwrap_or_else(|| now.clone());
        status.insert("startTime".into(), start);
    }
    if end == Some(End::Complete) {
        status.insert("completionTime".into(), now.clone());
    }
    count(&mut status, "active", if end.is_some() { 0 } else { active.len() });
    count(&mut status, "succeeded", n_succeeded);
    count(&mut status, "failed", n_failed);
    status.insert("terminating".into(), 0.into());
    status.insert("uncountedTerminatedPods".into(), json!({}));
    let n_ready = active.iter().filter(|pod| has_condition(pod, "Ready")).count();
    status.insert("ready".into(), if end.is_some() { 0 } else { n_ready }.into());
    status.into()
}
