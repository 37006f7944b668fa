//! The table row of a pod, with its readiness, status and restarts.
//!
//! After `printers.go: printPod`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::cells::{age, list, or, text};

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let seen = Seen::of(pod);
    let n_restarts = seen.n_restarts;
    let restarts = match seen.last_restart {
        Some(last) if n_restarts != 0 => format!("{n_restarts} ({} ago)", since(last, now)),
        _ => n_restarts.to_string(),
    };
    let none = |text: &str| Value::from(or(text, "<none>"));
    vec![
        text(pod, "/metadata/name").into(),
        format!("{}/{}", seen.n_ready, seen.n_containers).into(),
        seen.reason.into(),
        restarts.into(),
        age(pod, now).into(),
        none(text(pod, "/status/podIPs/0/ip")),
        none(text(pod, "/spec/nodeName")),
        none(text(pod, "/status/nominatedNodeName")),
        readiness_gates(pod).into(),
    ]
}

/// Conditions in the row of a pod that has completed or failed; `None` for other pods.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let is_true = |gate: &&Value| has_condition(pod, text(gate, "/conditionType"));
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

/// True if the pod has a condition of this type and the first one of them is true.
fn has_condition(pod: &Value, kind: &str) -> bool {
    let found = list(pod, "/status/conditions").iter().find(|it| it["type"] == kind);
    found.is_some_and(|it| it["status"] == "True")
}

/// Summary of the containers of a pod.
struct Seen<'a> {
    n_containers: usize,
    n_ready: usize,
    n_restarts: i64,
    last_restart: Option<&'a Value>,
    reason: String,
}

impl<'a> Seen<'a> {
    fn of(pod: &'a Value) -> Self {
        let sidecars: Vec<&str> = list(pod, "/spec/initContainers")
            .iter()
            .filter(|it| it["restartPolicy"] == "Always")
            .map(|it| text(it, "/name"))
            .collect();
        let phase = text(pod, "/status/phase");
        let mut seen = Self {
            n_containers: list(pod, "/spec/containers").len() + sidecars.len(),
            n_ready: 0,
            n_restarts: 0,
            last_restart: None,
            reason: or(text(pod, "/status/reason"), phase).to_owned(),
        };
        let is_gated =
            |it: &Value| it["type"] == "PodScheduled" && it["reason"] == "SchedulingGated";
        if list(pod, "/status/conditions").iter().any(is_gated) {
            seen.reason = "SchedulingGated".into();
        }
        let sidecar_restarts = seen.look_at_init_containers(pod, &sidecars);
        let is_initializing = sidecar_restarts.is_none();
        if !is_initializing || has_condition(pod, "Initialized") {
            let (n_restarts, last) = sidecar_restarts.unwrap_or_default();
            (seen.n_restarts, seen.last_restart) = (n_restarts, last);
            seen.look_at_containers(pod);
        }
        let is_terminating = pod["metadata"]["deletionTimestamp"].is_string();
        if is_terminating && text(pod, "/status/reason") == "NodeLost" {
            seen.reason = "Unknown".into();
        } else if is_terminating && !matches!(phase, "Failed" | "Succeeded") {
            seen.reason = "Terminating".into();
        }
        seen
    }

    fn restarted(&mut self, status: &'a Value) {
        self.n_restarts += status["restartCount"].as_i64().unwrap_or_default();
        later(&mut self.last_restart, ended(status));
    }

    /// Adds the statuses of the init containers to this summary. Returns the number of restarts of
    /// the sidecars, whose names are `sidecars`, and the time of their last restart if known;
    /// `None` while the pod is initializing.
    fn look_at_init_containers(
        &mut self,
        pod: &'a Value,
        sidecars: &[&str],
    ) -> Option<(i64, Option<&'a Value>)> {
        let n_init = list(pod, "/spec/initContainers").len();
        let (mut n_restarts, mut last) = (0, None);
        for (n, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.restarted(status);
            let is_sidecar = sidecars.contains(&text(status, "/name"));
            if is_sidecar {
                n_restarts += status["restartCount"].as_i64().unwrap_or_default();
                later(&mut last, ended(status));
            }
            let waiting = text(status, "/state/waiting/reason");
            let terminated = status.pointer("/state/terminated").filter(|it| it.is_object());
            match terminated {
                Some(it) if it["exitCode"].as_i64().unwrap_or_default() == 0 => continue,
                _ if is_sidecar && status["started"] == true => {
                    self.n_ready += usize::from(status["ready"] == true);
                    continue;
                }
                Some(it) => self.reason = format!("Init:{}", exit_reason(it)),
                None if !matches!(waiting, "" | "PodInitializing") => {
                    self.reason = format!("Init:{waiting}");
                }
                None => self.reason = format!("Init:{n}/{n_init}"),
            }
            return None;
        }
        Some((n_restarts, last))
    }

    fn look_at_containers(&mut self, pod: &'a Value) {
        let mut has_running = false;
        let mut error = None;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarted(status);
            let waiting = text(status, "/state/waiting/reason");
            let terminated = status.pointer("/state/terminated").filter(|it| it.is_object());
            let is_running = status.pointer("/state/running").is_some_and(Value::is_object);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(it) = terminated {
                self.reason = exit_reason(it);
                if it["exitCode"].as_i64().unwrap_or_default() != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status["ready"] == true && is_running {
                has_running = true;
                self.n_ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        // The first container has completed, so the other containers decide.
        if has_running && has_condition(pod, "Ready") {
            self.reason = "Running".into();
        } else if let Some(error) = error {
            self.reason = error;
        } else if has_running {
            self.reason = "NotReady".into();
        }
    }
}

fn exit_reason(terminated: &Value) -> String {
    let number = |field: &str| terminated[field].as_i64().unwrap_or_default();
    match (text(terminated, "/reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// End of the container's previous run, if the status has one.
fn ended(status: &Value) -> Option<&Value> {
    status.pointer("/lastState/terminated/finishedAt").filter(|it| it.is_string())
}

/// Sets `last` to `other` if `other` is later. Compares the instants as text, because RFC 3339 in
/// UTC sorts as text.
fn later<'a>(last: &mut Option<&'a Value>, other: Option<&'a Value>) {
    if other.and_then(Value::as_str) > last.and_then(Value::as_str) {
        *last = other;
    }
}
