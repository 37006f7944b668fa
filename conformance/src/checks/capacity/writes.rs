//! Writes of a reconciler: when, and what they touch.

use serde_json::{Value, json};

use super::Outcome;
use super::expected::{difference, keeps_contract};
use super::trial::{Trial, ensure, harness};
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{ObjectRef, merge};

const VERSION: &str = "/metadata/resourceVersion";
/// Most requests about a template after its deletion.
const MOST_AFTER_DELETION: usize = 3;
/// Type of the condition that the check sets.
const CONDITION: &str = "SetByConformance";
const LABEL: &str = "set-by";

/// CAPZ-015: what is published is not written again, also not after a restart, and not because the
/// same amount has another notation.
pub(super) async fn nothing_is_written_again(trial: &Trial<'_>) -> Outcome {
    let template = trial.create_sample("workers").await?;
    let running = trial.start_usual().await?;
    trial.until_status(&template, &trial.sample().status).await?;
    // A first publication may take several writes.
    trial.be_quiet().await;
    let n_first = trial.management.writes(&template).len();
    let published = trial.get(&template).await?;
    trial.be_quiet().await;
    let after = trial.get(&template).await?;
    ensure!(
        published.pointer(VERSION) == after.pointer(VERSION),
        "the template has changed: {published} became {after}"
    );
    if trial.subject.is_vsphere {
        let class = json!({"spec": {"hardware": {"memory": "8192Mi"}}});
        let object = trial.management.object(&trial.sample().objects[0]);
        trial.patch(&object.path(), class).await?;
    }
    // The change of the label is an event, after which the reconciler looks at the template.
    let labels = json!({"metadata": {"labels": {LABEL: "conformance"}}});
    let mut before = trial.patch(&template.path(), labels).await?;
    if trial.subject.is_vsphere {
        // Another controller has published the same amount in its own notation.
        let status = json!({"status": {"capacity": {"memory": "8388608Ki"}}});
        before = trial.patch(&template.status(), status).await?;
    }
    trial.be_quiet().await;
    trial.stop(running).await?;
    let running = trial.start_usual().await?;
    trial.control().await?;
    trial.be_quiet().await;
    let after = trial.get(&template).await?;
    ensure!(
        before.pointer(VERSION) == after.pointer(VERSION),
        "the template has changed: {before} became {after}"
    );
    let n_more = trial.management.writes(&template).len() - n_first;
    ensure!(n_more == 0, "the reconciler wrote {n_more} times although nothing had changed");
    trial.stop(running).await
}

fn condition() -> Value {
    json!({
        "type": CONDITION, "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    })
}

/// Sets a condition in the status of a template. Returns false if the kind has no conditions.
async fn set_condition(trial: &Trial<'_>, template: &ObjectRef) -> Result<bool, Verdict> {
    let patch = json!({"status": {"conditions": [condition()]}});
    let patched = trial.patch(&template.status(), patch).await?;
    Ok(has_condition(&patched))
}

fn has_condition(template: &Value) -> bool {
    let conditions = template["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == CONDITION)
}

/// CAPZ-016: a write changes only the published keys of the status.
pub(super) async fn only_own_keys_are_written(trial: &Trial<'_>) -> Outcome {
    let sample = trial.sample();
    trial.create_objects(sample).await?;
    let metadata = json!({"labels": {LABEL: "person"}, "annotations": {"note": "mine"}});
    let template = trial.create_template_with("workers", &sample.spec, metadata).await?;
    let mut expected = sample.status.clone();
    if trial.subject.is_vsphere {
        let capacity = json!({"cpu": "2", "ephemeral-storage": "20Gi"});
        trial.patch(&template.status(), json!({"status": {"capacity": capacity}})).await?;
        expected.capacity.insert("ephemeral-storage".to_owned(), "20Gi".to_owned());
    }
    let has_conditions = set_condition(trial, &template).await?;
    let before = trial.get(&template).await?;
    let running = trial.start_usual().await?;
    trial.until_status(&template, &expected).await?;
    trial.be_quiet().await;
    let after = trial.get(&template).await?;
    let wrong = difference(&after["status"], &expected);
    ensure!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    let (was, is) = (without_status(&before), without_status(&after));
    ensure!(was == is, "beside the status, {was} became {is}");
    ensure!(!has_conditions || has_condition(&after), "the condition of another writer is gone");
    trial.stop(running).await?;
    if has_conditions {
        return Ok(());
    }
    let why = "the kind has no status.conditions, so spec and metadata were judged only";
    Err(Verdict::Partial(why.to_owned().into()))
}

/// Returns the object without status and without what every write changes.
fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    object["status"] = Value::Null;
    object["metadata"]["resourceVersion"] = Value::Null;
    object["metadata"]["managedFields"] = Value::Null;
    object
}

/// CAPZ-017: a change that another writer makes during a write survives.
pub(super) async fn concurrent_change_survives(trial: &Trial<'_>) -> Outcome {
    let sample = trial.sample();
    let template = trial.create_sample("workers").await?;
    let hold = trial.subject.pace.hold;
    let _fault = trial.management.hold_first_write(&template, hold).map_err(harness)?;
    let running = trial.start_usual().await?;
    trial.until_held().await?;
    let has_conditions = set_condition(trial, &template).await?;
    if !has_conditions {
        let labels = json!({"metadata": {"labels": {LABEL: "conformance"}}});
        trial.patch(&template.path(), labels).await?;
    }
    trial.is_still_held(&template)?;
    let keeps_both = |object: &Value| {
        let survives = if has_conditions {
            has_condition(object)
        } else {
            object["metadata"]["labels"][LABEL] == "conformance"
        };
        let lost = (!survives).then(|| "the change of another writer is gone".to_owned());
        lost.or_else(|| difference(&object["status"], &sample.status))
    };
    trial.until(&template, keeps_both).await?;
    trial.be_quiet().await;
    let wrong = keeps_both(&trial.get(&template).await?);
    ensure!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    trial.stop(running).await?;
    if has_conditions {
        return Ok(());
    }
    // A write of the status cannot lose a label.
    let why = "the kind has no status.conditions, so the change was one of the metadata only";
    Err(Verdict::Partial(why.to_owned().into()))
}

/// CAPZ-018: a client of another version does not remove the node information for good.
pub(super) async fn other_versions_keep_node_info(trial: &Trial<'_>) -> Outcome {
    let kind = &trial.subject.kind;
    if trial.sample().status.node_info.is_empty() {
        return Err(Verdict::skipped("the first sample has no nodeInfo"));
    }
    let (group, own) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
    let definition = kind.definitions.of_kind(group, &kind.kind);
    let versions = definition.and_then(|it| it["spec"]["versions"].as_array()).into_iter();
    let served = versions.flatten().filter(|it| it["served"] == true);
    let others: Vec<&str> =
        served.filter_map(|it| it["name"].as_str()).filter(|it| *it != own).collect();
    if definition.is_some_and(|it| it["spec"]["conversion"]["strategy"] == "Webhook") {
        return Err(Verdict::skipped("the sim does not run the conversion webhook of the kind"));
    }
    if others.is_empty() {
        return Err(Verdict::skipped(format!("{} is served in one version only", kind.kind)));
    }
    let template = trial.create_sample("workers").await?;
    let running = trial.start_usual().await?;
    trial.until_status(&template, &trial.sample().status).await?;
    for version in others {
        let older = template.in_version(own, version);
        let mut read = trial.get(&older).await?;
        let is_shown = read["status"]["capacity"].is_object();
        ensure!(is_shown, "{version} of the template shows no capacity");
        // Both writes change something, because an API server may leave out one that does not.
        read["status"]["conditions"] = json!([condition()]);
        trial.replace(&older.status(), &read).await?;
        trial.until_status(&template, &trial.sample().status).await?;
        let mut read = trial.get(&older).await?;
        merge(&mut read, &json!({"metadata": {"labels": {LABEL: version}}}));
        trial.replace(&older.path(), &read).await?;
        trial.until_status(&template, &trial.sample().status).await?;
    }
    trial.stop(running).await
}

/// CAPZ-019: the published status passes the schema of the kind and the contract.
pub(super) async fn status_passes_schema_and_contract(trial: &Trial<'_>) -> Outcome {
    let mut templates = Vec::new();
    for (n, sample) in trial.subject.kind.samples.iter().enumerate() {
        trial.create_objects(sample).await?;
        templates.push(trial.create_template(&format!("workers-{n}"), &sample.spec).await?);
    }
    if trial.subject.is_vsphere {
        templates.push(trial.template_of_image("unknown", "x86", "macos").await?);
        templates.push(trial.template_of_image("half", "arm64", "macos").await?);
    }
    let running = trial.start_usual().await?;
    for template in &templates {
        let has_status = |it: &Value| {
            let is_missing = !it["status"]["capacity"].is_object();
            is_missing.then(|| "no capacity is published".to_owned())
        };
        let read = trial.until(template, has_status).await?;
        keeps_contract(&read["status"])?;
    }
    trial.be_quiet().await;
    let mut n_written = 0;
    for template in &templates {
        keeps_contract(&trial.get(template).await?["status"])?;
        let writes = trial.management.writes(template);
        let status = |it: &sim::ledger::Record| it.ended.as_ref().and_then(|it| it.status);
        let refused = writes.iter().find(|it| matches!(status(it), Some(400 | 422)));
        ensure!(
            refused.is_none(),
            "the API server refuses a write as invalid: {}",
            refused.map(ToString::to_string).unwrap_or_default()
        );
        n_written += writes.iter().filter(|it| status(it) == Some(200)).count();
    }
    ensure!(n_written > 0, "no write of the reconciler was accepted");
    trial.stop(running).await
}

/// CAPZ-032: the deletion of a template during a write causes no loop of errors.
pub(super) async fn deletion_during_a_write_ends_the_work(trial: &Trial<'_>) -> Outcome {
    let sample = trial.sample();
    let template = trial.create_sample("workers").await?;
    let hold = trial.subject.pace.hold;
    let _fault = trial.management.hold_first_write(&template, hold).map_err(harness)?;
    let running = trial.start_usual().await?;
    trial.until_held().await?;
    trial.delete(&template).await?;
    trial.is_still_held(&template)?;
    let n_before = n_about(trial, &template);
    tokio::time::sleep(hold).await;
    trial.be_quiet().await;
    let n_after = n_about(trial, &template) - n_before;
    ensure!(
        n_after <= MOST_AFTER_DELETION,
        "{n_after} requests name the template after its deletion"
    );
    let next = trial.create_template("next", &sample.spec).await?;
    trial.until_status(&next, &sample.status).await?;
    trial.stop(running).await
}

/// Returns the number of the reconciler's requests that name an object.
fn n_about(trial: &Trial<'_>, object: &ObjectRef) -> usize {
    let calls = trial.management.calls();
    calls.iter().filter(|it| it.target.name.as_ref() == Some(&object.name)).count()
}
