//! The table rows of workloads, claims, volumes and devices.
//!
//! After `printers.go`, the functions `printDeployment`, `printJob` and so on.

use jiff::Timestamp;
use kube_sim_store::LabelSelector;
use serde_json::{Value, json};

use super::age::{between, since};
use super::cells::{age, list, or, text};

/// The cells of an object of this resource; `None` for a resource that has its cells elsewhere.
pub(super) fn cells(resource: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = Value::from(text(object, "/metadata/name"));
    let age = Value::from(age(object, now));
    let status = |field: &str| object["status"][field].as_i64().unwrap_or_default();
    let desired = object["spec"]["replicas"].as_i64().unwrap_or_default();
    let template = |wide: Vec<Value>| {
        let (names, images) = containers(&object["spec"]["template"]);
        let mut cells = vec![names.into(), images.into()];
        cells.extend(wide);
        cells
    };
    let selector = || vec![format_selector(&object["spec"]["selector"]).into()];
    Some(match resource {
        "deployments.apps" => {
            let ready = format!("{}/{desired}", status("readyReplicas"));
            let selector = LabelSelector::from_object(&object["spec"]["selector"]);
            let selector = selector.map(|it| it.text()).unwrap_or_default();
            let mut cells = vec![name, ready.into(), status("updatedReplicas").into()];
            cells.extend([status("availableReplicas").into(), age]);
            cells.extend(template(vec![selector.into()]));
            cells
        }
        "replicasets.apps" | "replicationcontrollers" => {
            let (replicas, ready) = (status("replicas"), status("readyReplicas"));
            let mut cells = vec![name, desired.into(), replicas.into(), ready.into(), age];
            cells.extend(template(match resource {
                "replicasets.apps" => selector(),
                _ => vec![format_labels(&object["spec"]["selector"]).into()],
            }));
            cells
        }
        "daemonsets.apps" => {
            const COUNTS: [&str; 5] = [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ];
            let mut cells = vec![name];
            cells.extend(COUNTS.map(|field| status(field).into()));
            let nodes = &object["spec"]["template"]["spec"]["nodeSelector"];
            cells.extend([format_labels(nodes).into(), age]);
            cells.extend(template(selector()));
            cells
        }
        "statefulsets.apps" => {
            let mut cells =
                vec![name, format!("{}/{desired}", status("readyReplicas")).into(), age];
            cells.extend(template(Vec::new()));
            cells
        }
        "jobs.batch" => {
            let mut cells = vec![name, job_status(object).into(), completions(object).into()];
            cells.extend([job_duration(object, now).into(), age]);
            cells.extend(template(selector()));
            cells
        }
        "podtemplates" => {
            let (names, images) = containers(&object["template"]);
            let labels = format_labels(&object["template"]["metadata"]["labels"]);
            vec![name, names.into(), images.into(), labels.into()]
        }
        "poddisruptionbudgets.policy" => {
            let amount = |field: &str| match &object["spec"][field] {
                Value::Null => json!("N/A"),
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            };
            let (least, most) = (amount("minAvailable"), amount("maxUnavailable"));
            vec![name, least, most, status("disruptionsAllowed").into(), age]
        }
        _ => return None,
    })
}

/// Names and images of the containers of a pod template, each separated by commas.
fn containers(template: &Value) -> (String, String) {
    let all = list(template, "/spec/containers");
    let joined = |field| all.iter().map(|it| text(it, field)).collect::<Vec<_>>().join(",");
    (joined("/name"), joined("/image"))
}

/// After `apimachinery: pkg/apis/meta/v1/helpers.go`, `FormatLabelSelector`.
fn format_selector(selector: &Value) -> String {
    let found = LabelSelector::from_object(selector).map(|it| it.text()).unwrap_or_default();
    or(&found, "<none>").to_owned()
}

fn format_labels(labels: &Value) -> String {
    or(&LabelSelector::from_labels(labels).text(), "<none>").to_owned()
}

fn completions(job: &Value) -> String {
    let n_succeeded = job["status"]["succeeded"].as_i64().unwrap_or_default();
    match (job["spec"]["completions"].as_i64(), job["spec"]["parallelism"].as_i64()) {
        (Some(n), _) => format!("{n_succeeded}/{n}"),
        (None, Some(n)) if n > 1 => format!("{n_succeeded}/1 of {n}"),
        (None, _) => format!("{n_succeeded}/1"),
    }
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        let is_it = |it: &Value| it["type"] == kind && it["status"] == "True";
        list(job, "/status/conditions").iter().any(is_it)
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if job["metadata"]["deletionTimestamp"].is_string() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let (start, end) = (&job["status"]["startTime"], &job["status"]["completionTime"]);
    match (start, end) {
        (Value::String(_), Value::String(_)) => between(start, end),
        (Value::String(_), _) => since(start, now),
        _ => String::new(),
    }
}
