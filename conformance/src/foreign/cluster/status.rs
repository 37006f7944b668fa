//! Interprets the status of a pod with one container.

use serde_json::Value;

/// Reasons of a waiting container that does not start without a correction, each with the remedy.
const HOPELESS: [(&str, &str); 7] = [
    ("ErrImagePull", IMAGE),
    ("ImagePullBackOff", IMAGE),
    ("ErrImageNeverPull", IMAGE),
    ("InvalidImageName", IMAGE),
    ("CreateContainerConfigError", "correct spec.run.cluster.user, or the image"),
    ("CreateContainerError", "correct spec.run.cluster.entrypoint, or the image"),
    ("RunContainerError", "correct spec.run.cluster.entrypoint, or the image"),
];
const IMAGE: &str = "push the image of spec.run.cluster.image to a registry that the nodes reach, or load it into them (kind load docker-image)";
/// Reasons of an ended container whose program never ran.
const NEVER_RAN: [&str; 2] = ["StartError", "ContainerCannotRun"];

/// State of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    /// The pod does not run yet: the reason, or the phase if the status has no reason.
    Waits(String),
    /// The pod cannot run without a correction, or it has ended although the status has no ended
    /// container: reason and remedy.
    Cannot(String),
    /// The pod runs.
    Runs,
    /// The container of the pod has ended with this exit code; -1 if the status lacks the code.
    Ended(i32),
}

impl PodState {
    /// Returns the state of the pod with this `status`.
    pub(super) fn from_status(status: &Value) -> Self {
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let state = &status["containerStatuses"][0]["state"];
        let phase = text(status, "phase");
        let cannot = |it: &Value, remedy: &str| {
            Self::Cannot(format!("{}: {}; {remedy}", text(it, "reason"), text(it, "message")))
        };
        if let Some(ended) = state.get("terminated") {
            if NEVER_RAN.contains(&text(ended, "reason").as_str()) {
                return cannot(ended, "correct spec.run.cluster.entrypoint, or the image");
            }
            let code = ended["exitCode"].as_i64().and_then(|it| i32::try_from(it).ok());
            return Self::Ended(code.unwrap_or(-1));
        }
        if phase == "Failed" || phase == "Succeeded" {
            return cannot(status, "look at the nodes of the cluster");
        }
        if state.get("running").is_some() {
            return Self::Runs;
        }
        let waiting = &state["waiting"];
        let reason = text(waiting, "reason");
        if let Some((_, remedy)) = HOPELESS.iter().find(|(it, _)| *it == reason) {
            return cannot(waiting, remedy);
        }
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        match conditions.iter().find(|it| it["reason"] == "Unschedulable") {
            Some(condition) => {
                cannot(condition, "provide a node that accepts a pod without resource requests")
            }
            None if reason.is_empty() => Self::Waits(phase),
            None => Self::Waits(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_cannot_run_is_distinguished_from_a_pod_that_still_waits() {
        let waiting = |reason: &str| {
            let waiting = json!({"reason": reason, "message": "why"});
            json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]})
        };
        let ended = |reason: &str, code: i32| {
            let ended = json!({"reason": reason, "exitCode": code, "message": "why"});
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]})
        };
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        let running =
            json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]});
        for (name, status, want) in [
            ("new", json!({"phase": "Pending"}), Ok(PodState::Waits("Pending".to_owned()))),
            (
                "being made",
                waiting("ContainerCreating"),
                Ok(PodState::Waits("ContainerCreating".to_owned())),
            ),
            ("no image", waiting("ErrImagePull"), Err("ErrImagePull: why; push the image")),
            (
                "the user is a name",
                waiting("CreateContainerConfigError"),
                Err("; correct spec.run.cluster.user"),
            ),
            (
                "no node",
                json!({"phase": "Pending", "conditions": [condition]}),
                Err("Unschedulable: 0/3 nodes; provide"),
            ),
            (
                "no program",
                ended("StartError", 128),
                Err("StartError: why; correct spec.run.cluster.entrypoint"),
            ),
            (
                "evicted",
                json!({"phase": "Failed", "reason": "Evicted", "message": "why"}),
                Err("Evicted: why; look"),
            ),
            ("running", running, Ok(PodState::Runs)),
            ("ended by its deadline", ended("Error", 143), Ok(PodState::Ended(143))),
            ("done", ended("Completed", 0), Ok(PodState::Ended(0))),
        ] {
            match (PodState::from_status(&status), want) {
                (PodState::Cannot(why), Err(wanted)) => {
                    assert!(why.contains(wanted), "{name}: {why}")
                }
                (seen, want) => assert_eq!(Ok(seen), want, "{name}"),
            }
        }
    }
}
