//! Templates for vCenter: the annotations of the groups that use them.

use serde_json::{Map, Value, json};

use super::Outcome;
use super::expected::is_same_amount;
use super::trial::{Trial, ensure};
use super::vsphere::annotate;
use crate::judge::verdict::Verdict;
use crate::lab::capacity::ObjectRef;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";

impl Trial<'_> {
    async fn create_vcenter_template(&self, name: &str, spec: Value) -> Outcome {
        let template = json!({
            "apiVersion": format!("{GROUP}/v1beta1"), "kind": "VSphereMachineTemplate",
            "metadata": {"name": name}, "spec": {"template": {"spec": spec}},
        });
        self.create(&template).await.map(drop)
    }

    /// Creates a group of this kind that uses a template.
    async fn create_group(
        &self,
        kind: &str,
        name: &str,
        template: &str,
        metadata: Value,
    ) -> Result<ObjectRef, Verdict> {
        let reference =
            json!({"apiGroup": GROUP, "kind": "VSphereMachineTemplate", "name": template});
        let mut group = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata,
            "spec": {"replicas": 0, "template": {"spec": {"infrastructureRef": reference}}},
        });
        group["metadata"]["name"] = name.into();
        self.create(&group).await
    }

    /// Waits until a group has these amounts in its annotations.
    async fn until_amounts(&self, group: &ObjectRef, expected: &[(&str, &str)]) -> Outcome {
        self.until(group, |it| amounts_differ(it, expected)).await.map(drop)
    }
}

fn max_size() -> Value {
    json!({"annotations": {MAX_SIZE: "3"}})
}

/// Returns the capacity annotations of an object, without their prefix.
fn annotations(object: &Value) -> Map<String, Value> {
    let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let own =
        all.filter_map(|(key, it)| Some((key.strip_prefix(CAPACITY)?.to_owned(), it.clone())));
    own.collect()
}

/// Returns how the amounts in the annotations differ from the expected ones. Other annotations do
/// not count.
fn amounts_differ(object: &Value, expected: &[(&str, &str)]) -> Option<String> {
    let found = annotations(object);
    let names = ["cpu", "memory", "ephemeral-disk"];
    let is_right = names.iter().all(|name| {
        let expected = expected.iter().find(|(key, _)| key == name).map(|(_, amount)| *amount);
        match (found.get(*name).and_then(Value::as_str), expected) {
            (Some(found), Some(expected)) => is_same_amount(found, expected),
            (None, None) => true,
            _ => false,
        }
    });
    let found = Value::Object(found);
    (!is_right).then(|| format!("the annotations are {found}, not {expected:?}"))
}

/// CAPZ-028: annotations say what a clone of the template gets.
pub(super) async fn annotations_say_what_a_clone_gets(trial: &Trial<'_>) -> Outcome {
    let full = "fullClone";
    let smallest = [("cpu", "2"), ("memory", "2048Mi")];
    let usual = [("cpu", "4"), ("memory", "8Gi")];
    let disk = [("cpu", "4"), ("memory", "8Gi"), ("ephemeral-disk", "40Gi")];
    let mut groups = Vec::new();
    for (name, spec, expected) in [
        ("nothing", json!({}), &smallest[..]),
        ("zero", json!({"numCPUs": 0, "memoryMiB": 0, "diskGiB": 0, "cloneMode": full}), &smallest),
        ("one", json!({"numCPUs": 1}), &smallest),
        ("usual", json!({"numCPUs": 4, "memoryMiB": 8192, "cloneMode": full}), &usual),
        ("linked", json!({"numCPUs": 4, "memoryMiB": 8192, "diskGiB": 40}), &usual),
        ("disk", json!({"numCPUs": 4, "memoryMiB": 8192, "diskGiB": 40, "cloneMode": full}), &disk),
    ] {
        trial.create_vcenter_template(name, spec).await?;
        let group = trial.create_group("MachineDeployment", name, name, max_size()).await?;
        groups.push((group, expected));
    }
    let running = trial.start_usual().await?;
    for (group, expected) in &groups {
        trial.until_amounts(group, expected).await?;
    }
    trial.be_quiet().await;
    for (group, expected) in &groups {
        let wrong = amounts_differ(&trial.get(group).await?, expected);
        ensure!(wrong.is_none(), "{}: later, {}", group.name, wrong.unwrap_or_default());
    }
    trial.stop(running).await
}

/// CAPZ-029: only groups with a maximum are annotated, and values of users stay.
pub(super) async fn groups_with_a_maximum_are_annotated(trial: &Trial<'_>) -> Outcome {
    let kind = "MachineDeployment";
    trial.create_vcenter_template("small", json!({"numCPUs": 4, "memoryMiB": 8192})).await?;
    let big = json!({"numCPUs": 16, "memoryMiB": 32768, "diskGiB": 40, "cloneMode": "fullClone"});
    trial.create_vcenter_template("big", big).await?;
    let group = trial.create_group(kind, "workers", "small", json!({})).await?;
    let control = trial.create_group(kind, "control", "small", max_size()).await?;
    let before = trial.get(&group).await?;
    let running = trial.start_usual().await?;
    trial.until_amounts(&control, &[("cpu", "4"), ("memory", "8Gi")]).await?;
    trial.stays_unwritten(&group, &before).await?;

    trial.patch(&group.path(), annotate(MAX_SIZE, "3")).await?;
    trial.until_amounts(&group, &[("cpu", "4"), ("memory", "8Gi")]).await?;
    trial.patch(&group.path(), annotate(&format!("{CAPACITY}cpu"), "32")).await?;
    let reference = json!({"infrastructureRef": {"name": "big"}});
    trial.patch(&group.path(), json!({"spec": {"template": {"spec": reference}}})).await?;
    let followed = [("cpu", "32"), ("memory", "32Gi"), ("ephemeral-disk", "40Gi")];
    trial.until_amounts(&group, &followed).await?;
    trial.be_quiet().await;
    let wrong = amounts_differ(&trial.get(&group).await?, &followed);
    ensure!(wrong.is_none(), "{}", wrong.unwrap_or_default());

    trial.patch(&group.path(), annotate(MAX_SIZE, Value::Null)).await?;
    let only_the_users = |object: &Value| {
        let left = annotations(object);
        let is_right = left.len() == 1 && left.get("cpu").is_some_and(|it| it == "32");
        (!is_right).then(|| format!("without a maximum the annotations are {left:?}"))
    };
    trial.until(&group, only_the_users).await?;
    trial.be_quiet().await;
    let wrong = only_the_users(&trial.get(&group).await?);
    ensure!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    trial.stop(running).await
}

/// CAPZ-030: a MachineSet of a MachineDeployment is never annotated.
pub(super) async fn owned_sets_are_not_annotated(trial: &Trial<'_>) -> Outcome {
    trial.create_vcenter_template("small", json!({"numCPUs": 4, "memoryMiB": 8192})).await?;
    let mut metadata = max_size();
    metadata["ownerReferences"] = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "workers",
        "uid": "42290000-0000-4000-8000-000000000009", "controller": true,
    }]);
    let owned = trial.create_group("MachineSet", "owned", "small", metadata).await?;
    let free = trial.create_group("MachineSet", "free", "small", max_size()).await?;
    let before = trial.get(&owned).await?;
    let running = trial.start_usual().await?;
    trial.until_amounts(&free, &[("cpu", "4"), ("memory", "8Gi")]).await?;
    trial.stays_unwritten(&owned, &before).await?;
    trial.stop(running).await
}
