//! One play of a check of a reconciler: its management cluster, templates, and waiting.

use std::sync::Mutex;

use serde_json::{Value, json};
use sim::ledger::Record;
use tokio::time::{Instant, sleep};

use super::Outcome;
use super::expected::difference;
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{
    Configuration, Expected, Management, NotStarted, ObjectRef, Running, Sample, Subject, merge,
};

/// Name of the template that shows that the reconciler works.
const CONTROL: &str = "control";

/// One play of a check.
pub(crate) struct Trial<'a> {
    pub(super) subject: &'a Subject,
    pub(super) management: Management,
    /// Acts of the check, for the report.
    acts: Mutex<Vec<String>>,
}

/// Ends a check with a failure unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::judge::verdict::Verdict::fail(format!($($text)+)));
        }
    };
}
pub(super) use ensure;

/// Turns an error of the lab into the verdict that the harness failed.
pub(super) fn harness(why: impl ToString) -> Verdict {
    Verdict::harness_error(why.to_string())
}

impl<'a> Trial<'a> {
    pub(super) fn new(subject: &'a Subject, management: Management) -> Self {
        Self { subject, management, acts: Mutex::default() }
    }

    /// Returns the acts of the check and the last calls of the reconciler, as lines.
    pub(super) fn transcript(&self, n_calls: usize) -> Vec<String> {
        let mut lines = self.acts.lock().expect("no holder panics").clone();
        let calls = self.management.calls();
        let first = calls.len().saturating_sub(n_calls);
        lines.push(format!("the last {} of {} calls:", calls.len() - first, calls.len()));
        lines.extend(calls[first..].iter().map(|it| format!("  {it}")));
        lines
    }

    fn note(&self, act: String) {
        self.acts.lock().expect("no holder panics").push(act);
    }

    /// Starts the reconciler.
    pub(super) async fn start(
        &self,
        configuration: Configuration,
    ) -> Result<Box<dyn Running>, Verdict> {
        self.note(format!("start the reconciler: {configuration:?}"));
        let started = self.subject.reconciler.start(&self.management, &configuration).await;
        started.map_err(|err| match err {
            NotStarted::NotSupported(why) => Verdict::skipped(why),
            NotStarted::Failed(_) => Verdict::harness_error(err.to_string()),
        })
    }

    /// Starts the reconciler in its usual configuration.
    pub(super) async fn start_usual(&self) -> Result<Box<dyn Running>, Verdict> {
        self.start(Configuration::Defaults).await
    }

    /// Stops the reconciler. It must still have been running.
    pub(super) async fn stop(&self, mut running: Box<dyn Running>) -> Outcome {
        if let Some(how) = running.end() {
            return Err(Verdict::fail(format!("the reconciler ended during the check: {how}")));
        }
        self.note("stop the reconciler".to_owned());
        running.stop().await;
        Ok(())
    }

    /// Creates an object.
    pub(super) async fn create(&self, content: &Value) -> Result<ObjectRef, Verdict> {
        let kind = content["kind"].as_str().unwrap_or_default();
        let name = content["metadata"]["name"].as_str().unwrap_or_default();
        self.note(format!("create {kind} {name}"));
        self.management.create(content).await.map_err(harness)
    }

    /// Creates an object unless it exists.
    pub(super) async fn ensure_exists(&self, content: &Value) -> Outcome {
        let object = self.management.object(content);
        match self.management.api.get(&object.path()).await {
            Ok(_) => Ok(()),
            Err(err) if err.is_not_found() => self.create(content).await.map(drop),
            Err(err) => Err(harness(err)),
        }
    }

    /// Creates a template with this `spec`.
    pub(super) async fn create_template(
        &self,
        name: &str,
        spec: &Value,
    ) -> Result<ObjectRef, Verdict> {
        self.create_template_with(name, spec, json!({})).await
    }

    /// Creates a template with this `spec` and this further metadata.
    pub(super) async fn create_template_with(
        &self,
        name: &str,
        spec: &Value,
        metadata: Value,
    ) -> Result<ObjectRef, Verdict> {
        let kind = &self.subject.kind;
        let mut template = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": {"name": name}, "spec": spec,
        });
        merge(&mut template["metadata"], &metadata);
        self.create(&template).await
    }

    /// Returns the first sample.
    pub(super) fn sample(&self) -> &'a Sample {
        &self.subject.kind.samples[0]
    }

    /// Creates the objects of a sample.
    pub(super) async fn create_objects(&self, sample: &Sample) -> Outcome {
        for object in &sample.objects {
            self.ensure_exists(object).await?;
        }
        Ok(())
    }

    /// Creates the objects and a template of the first sample.
    pub(super) async fn create_sample(&self, name: &str) -> Result<ObjectRef, Verdict> {
        self.create_objects(self.sample()).await?;
        self.create_template(name, &self.sample().spec).await
    }

    /// Applies a merge patch to an object.
    pub(super) async fn patch(&self, path: &str, patch: Value) -> Result<Value, Verdict> {
        self.note(format!("patch {path}: {patch}"));
        self.management.api.patch(path, &patch).await.map_err(harness)
    }

    /// Replaces an object that was read in some version.
    pub(super) async fn replace(&self, path: &str, object: &Value) -> Outcome {
        self.note(format!("replace {path}"));
        match self.management.api.replace(path, object).await {
            Ok(_) => Ok(()),
            // The reconciler has written meanwhile, or the schemas of the versions do not agree.
            Err(err) => Err(Verdict::inconclusive(format!("the API server refuses {err}"))),
        }
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, object: &ObjectRef) -> Outcome {
        self.note(format!("delete {}", object.path()));
        self.management.api.delete(&object.path()).await.map_err(harness)
    }

    /// Returns an object.
    pub(super) async fn get(&self, object: &ObjectRef) -> Result<Value, Verdict> {
        self.management.api.get(&object.path()).await.map_err(harness)
    }

    /// Waits until the status of a template is the expected one.
    pub(super) async fn until_status(&self, template: &ObjectRef, expected: &Expected) -> Outcome {
        self.until(template, |object| difference(&object["status"], expected)).await.map(drop)
    }

    /// Waits until an object has nothing that `wrong` names, and returns it.
    pub(super) async fn until(
        &self,
        object: &ObjectRef,
        wrong: impl Fn(&Value) -> Option<String>,
    ) -> Result<Value, Verdict> {
        let pace = self.subject.pace;
        let end = Instant::now() + pace.within;
        loop {
            let read = self.get(object).await?;
            let Some(wrong) = wrong(&read) else { return Ok(read) };
            if Instant::now() >= end {
                let limit = pace.within.as_secs();
                return Err(Verdict::fail(format!("{}: {wrong} within {limit} s", object.name)));
            }
            sleep(pace.look).await;
        }
    }

    /// Waits until the reconciler has read a template: alone, in a list, or by a watch. The template
    /// must have existed before the reconciler started.
    pub(super) async fn until_seen(&self, template: &ObjectRef) -> Outcome {
        let pace = self.subject.pace;
        let end = Instant::now() + pace.within;
        while !self.management.has_read(template) {
            let (limit, name) = (pace.within.as_secs(), &template.resource);
            ensure!(Instant::now() < end, "the reconciler reads no {name} within {limit} s");
            sleep(pace.look).await;
        }
        Ok(())
    }

    /// Verifies that the write that was held up has not ended yet, so that the act of the check
    /// before this call fell into it.
    pub(super) fn is_still_held(&self, template: &ObjectRef) -> Outcome {
        match self.management.held_write(template) {
            Some(write) if write.ended.is_none() => Ok(()),
            Some(write) => Err(Verdict::inconclusive(format!(
                "the write ended before the act of the check, which proves nothing: {write}"
            ))),
            None => Err(Verdict::inconclusive(format!(
                "the write that was held up does not name {}",
                template.name
            ))),
        }
    }

    /// Waits until the first write of the reconciler is held up.
    pub(super) async fn until_held(&self) -> Outcome {
        let pace = self.subject.pace;
        let end = Instant::now() + pace.within;
        while self.management.n_fired() == 0 {
            let limit = pace.within.as_secs();
            ensure!(Instant::now() < end, "the reconciler writes nothing within {limit} s");
            sleep(pace.look).await;
        }
        Ok(())
    }

    /// Lets the time pass for which a check looks whether nothing happens.
    pub(super) async fn be_quiet(&self) {
        sleep(self.subject.pace.quiet).await;
    }

    /// Creates the template `control` of the first sample with its objects, and waits until it is
    /// written, which shows that the reconciler works.
    pub(super) async fn control(&self) -> Outcome {
        let control = self.create_sample(CONTROL).await?;
        self.until_status(&control, &self.sample().status).await
    }

    /// Lets time pass, and verifies that the reconciler has not written to an object since it had
    /// this state, and had not before.
    pub(super) async fn stays_unwritten(&self, object: &ObjectRef, before: &Value) -> Outcome {
        self.be_quiet().await;
        let after = self.get(object).await?;
        let writes = self.management.writes(object);
        self.no_write(object, &writes)?;
        let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
        let name = &object.name;
        ensure!(version(&after) == version(before), "{name} changed: {before} became {after}");
        Ok(())
    }

    /// Verifies that these are no writes.
    pub(super) fn no_write(&self, object: &ObjectRef, writes: &[Record]) -> Outcome {
        let (n, name) = (writes.len(), &object.name);
        let last = writes.last().map(ToString::to_string).unwrap_or_default();
        ensure!(n == 0, "the reconciler wrote to {name} {n} times, where it must not: {last}");
        Ok(())
    }
}
