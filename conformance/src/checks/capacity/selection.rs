//! Templates that a reconciler writes, and the changes after which it does.

use serde_json::json;

use super::Outcome;
use super::trial::{Trial, ensure, harness};
use super::vsphere::{PAUSED, annotate, class, small, spec};
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{Configuration, Management};

/// Most requests per second of a reconciler that waits for an object.
const MOST_PER_SECOND: u64 = 10;
/// Operations by which a reconciler reads images.
const READS_OF_IMAGES: [&str; 6] = [
    "get clustervirtualmachineimages",
    "list clustervirtualmachineimages",
    "watch clustervirtualmachineimages",
    "get virtualmachineimages",
    "list virtualmachineimages",
    "watch virtualmachineimages",
];

/// CAPZ-002: a template without a class is not written.
pub(super) async fn without_class_nothing_is_written(trial: &Trial<'_>) -> Outcome {
    let template = trial.create_template("workers", &spec("", "vmi-1")).await?;
    let before = trial.get(&template).await?;
    let running = trial.start_usual().await?;
    trial.control().await?;
    trial.stays_unwritten(&template, &before).await?;
    trial.stop(running).await
}

/// CAPZ-003: a template waits for its inputs, without a hot loop.
pub(super) async fn missing_inputs_are_awaited(trial: &Trial<'_>) -> Outcome {
    let sample = trial.sample();
    if sample.objects.is_empty() {
        return Err(Verdict::skipped("the first sample needs no other object"));
    }
    let template = trial.create_template("workers", &sample.spec).await?;
    let before = trial.get(&template).await?;
    let running = trial.start_usual().await?;
    trial.until_seen(&template).await?;
    trial.be_quiet().await;
    let n_before = trial.management.calls().len();
    trial.stays_unwritten(&template, &before).await?;
    let n_calls = trial.management.calls().len() - n_before;
    let seconds = trial.subject.pace.quiet.as_secs().max(1);
    ensure!(
        u64::try_from(n_calls).is_ok_and(|n| n <= MOST_PER_SECOND * seconds),
        "{n_calls} requests in {seconds} s while an object is missing"
    );
    trial.create_objects(sample).await?;
    trial.until_status(&template, &sample.status).await?;
    trial.stop(running).await
}

/// CAPZ-004: a class of another namespace does not count.
pub(super) async fn class_of_another_namespace_does_not_count(trial: &Trial<'_>) -> Outcome {
    let mut other = class("elsewhere", json!({"cpus": 4, "memory": "8Gi"}));
    let own = other.clone();
    other["metadata"]["namespace"] = Management::OTHER.into();
    trial.create(&other).await?;
    let template = trial.create_template("workers", &spec("elsewhere", "")).await?;
    let before = trial.get(&template).await?;
    let running = trial.start_usual().await?;
    trial.control().await?;
    trial.stays_unwritten(&template, &before).await?;
    trial.create(&own).await?;
    trial.until_status(&template, &small(&[])).await?;
    trial.stop(running).await
}

/// CAPZ-006: a change of the inputs updates exactly the templates that depend on them.
pub(super) async fn change_updates_dependent_templates(trial: &Trial<'_>) -> Outcome {
    let kind = &trial.subject.kind;
    let Some(change) = &kind.change else {
        return Err(Verdict::skipped("the manifest names no change"));
    };
    let sample = trial.sample();
    let one = trial.create_sample("one").await?;
    let two = trial.create_sample("two").await?;
    let other = kind.samples.get(1);
    let mut third = None;
    if let Some(other) = other {
        trial.create_objects(other).await?;
        third = Some((trial.create_template("three", &other.spec).await?, other));
    }
    let running = trial.start_usual().await?;
    for template in [&one, &two] {
        trial.until_status(template, &sample.status).await?;
    }
    let mut unchanged = Vec::new();
    if let Some((three, other)) = third {
        trial.until_status(&three, &other.status).await?;
        unchanged.push((trial.get(&three).await?, three));
    }
    if let Some(patch) = &change.object {
        let object = trial.management.object(patch);
        trial.patch(&object.path(), patch.clone()).await?;
        trial.until_status(&two, &change.status).await?;
    } else {
        unchanged.push((trial.get(&two).await?, two));
    }
    if let Some(spec) = &change.spec {
        trial.patch(&one.path(), json!({"spec": spec})).await?;
    }
    trial.until_status(&one, &change.status).await?;
    trial.be_quiet().await;
    let has_independent = !unchanged.is_empty();
    for (before, template) in unchanged {
        let (version, name) = ("/metadata/resourceVersion", &template.name);
        let after = trial.get(&template).await?;
        ensure!(
            before.pointer(version) == after.pointer(version),
            "{name} does not depend on the change, and was changed: {before} became {after}"
        );
    }
    trial.stop(running).await?;
    if has_independent {
        return Ok(());
    }
    let why =
        "the manifest has one sample, so no template was judged that the change must not touch";
    Err(Verdict::Partial(why.to_owned().into()))
}

/// CAPZ-012: an image that cannot be read does not hold the capacity back.
pub(super) async fn unreadable_image_leaves_the_capacity(trial: &Trial<'_>) -> Outcome {
    let template = trial.create_sample("workers").await?;
    let fault = trial.management.refuse(&READS_OF_IMAGES, 500).map_err(harness)?;
    let running = trial.start_usual().await?;
    trial.until_status(&template, &small(&[])).await?;
    if trial.management.n_fired() == 0 {
        return Err(Verdict::inconclusive("the reconciler has not read any image"));
    }
    drop(fault);
    trial.until_status(&template, &trial.sample().status).await?;
    trial.stop(running).await
}

/// CAPZ-013: a paused template is written after the pause.
pub(super) async fn paused_template_waits(trial: &Trial<'_>) -> Outcome {
    let sample = trial.sample();
    trial.create_objects(sample).await?;
    let paused = json!({"annotations": {PAUSED: ""}});
    let template = trial.create_template_with("workers", &sample.spec, paused).await?;
    let before = trial.get(&template).await?;
    let running = trial.start_usual().await?;
    trial.control().await?;
    trial.stays_unwritten(&template, &before).await?;
    trial.patch(&template.path(), annotate(PAUSED, serde_json::Value::Null)).await?;
    trial.until_status(&template, &sample.status).await?;
    trial.stop(running).await
}

/// CAPZ-014: a watch filter selects templates, and not classes.
pub(super) async fn watch_filter_selects_templates(trial: &Trial<'_>) -> Outcome {
    let sample = trial.sample();
    trial.create_objects(sample).await?;
    let labels = |value: &str| json!({"labels": {"cluster.x-k8s.io/watch-filter": value}});
    let chosen = trial.create_template_with("chosen", &sample.spec, labels("a")).await?;
    let other = trial.create_template_with("other", &sample.spec, labels("b")).await?;
    let plain = trial.create_template("plain", &sample.spec).await?;
    let before = [(trial.get(&other).await?, other), (trial.get(&plain).await?, plain)];
    let running = trial.start(Configuration::WatchFilter("a".to_owned())).await?;
    trial.until_status(&chosen, &sample.status).await?;
    let class = trial.management.object(&sample.objects[0]);
    trial.patch(&class.path(), json!({"spec": {"hardware": {"cpus": 6}}})).await?;
    let mut changed = sample.status.clone();
    changed.capacity.insert("cpu".to_owned(), "6".to_owned());
    trial.until_status(&chosen, &changed).await?;
    for (before, template) in &before {
        trial.stays_unwritten(template, before).await?;
    }
    trial.stop(running).await
}
